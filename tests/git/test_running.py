"""A git that is at work is seen, and nothing else is taken for one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gitbaton.git.running import git_runs_in

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes cannot be seen there")


@contextmanager
def at_work(command: list[str], place: Path) -> Iterator[None]:
    process = subprocess.Popen(command, cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"HEAD\n")
    process.stdin.flush()
    process.stdout.readline()  # it has begun
    yield
    process.communicate()
    assert process.returncode == 0


def test_a_git_at_work_is_seen(repo_dir: Path, tmp_path: Path) -> None:
    below = repo_dir / "below"
    below.mkdir()
    assert not git_runs_in(repo_dir)
    with at_work(["git", "cat-file", "--batch-check"], below):
        assert git_runs_in(tmp_path / "elsewhere", repo_dir)
        assert not git_runs_in(tmp_path / "elsewhere")
    with at_work(["cat"], repo_dir):
        assert not git_runs_in(repo_dir)
