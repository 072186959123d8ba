"""A long history is read by a process of its own, while this one judges the rest.

Either takes about as long as the other, and Python would do one after the other on one processor.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gitbaton.evidence import chain
from gitbaton.evidence.chain import Chain
from gitbaton.git.repo import Repository

LONG = 500
"""State commits from which on it pays to start a process."""


@contextmanager
def reading(repo: Repository, run: str, tip: str, length: int) -> Iterator[Callable[[], Chain]]:
    """What gives the judged chain that ends at ``tip``, which is said to have so many commits."""
    if length < LONG or (os.cpu_count() or 1) < 2 or not sys.executable:
        yield lambda: chain.read(repo, run, tip)
        return
    places = (repo.git_dir, repo.worktree or "", repo.common_dir)
    # Not forked: libgit2 would not survive that. With -P no code comes from the working directory,
    # which is what is being judged.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, *map(str, places), run, tip],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )

    def told() -> Chain:
        read, _ = process.communicate()
        if process.returncode:  # it was killed, or Python could not find all that is needed
            return chain.read(repo, run, tip)
        found: Chain = pickle.loads(read)
        return found

    with process:
        try:
            yield told
        finally:
            process.kill()


def _main(git_dir: str, worktree: str, common_dir: str, run: str, tip: str) -> None:
    repo = Repository(Path(git_dir), Path(worktree) if worktree else None, Path(common_dir))
    sys.stdout.buffer.write(pickle.dumps(chain.read(repo, run, tip)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
