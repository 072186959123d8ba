"""A long history is read by a process of its own, while this one computes merges again.

Either takes about as long as the other, and Python would do one after the other on one processor.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from gitbaton.evidence import chain
from gitbaton.evidence.chain import Chain
from gitbaton.git.repo import Repository

LONG = 500
"""State commits from which on it pays to start a process."""


@contextmanager
def reading(repo: Repository, run: str, tip: str, length: int) -> Iterator[Callable[[], Chain]]:
    """What gives the judged chain that ends at ``tip``, which is said to have so many commits."""
    here = partial(chain.read, repo, run, tip)
    if length < LONG or (os.cpu_count() or 1) < 2:
        yield here
        return
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    # Not forked: libgit2 would not survive that.
    pool = ProcessPoolExecutor(1, get_context("spawn"))
    try:
        asked = pool.submit(_read, repo.git_dir, repo.worktree, repo.common_dir, run, tip)

        def told() -> Chain:
            try:
                return asked.result()
            except BrokenProcessPool:
                return here()

        yield told
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _read(git_dir: Path, worktree: Path | None, common_dir: Path, run: str, tip: str) -> Chain:
    return chain.read(Repository(git_dir, worktree, common_dir), run, tip)
