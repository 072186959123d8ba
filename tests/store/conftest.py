"""A sealed environment, a fresh repository, and a run in it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository
from gitbaton.store import runs, transact

from .sample import EVENT, FixedClock, state_of

Git = Callable[..., str]


@pytest.fixture(autouse=True)
def sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration and no identity but the test's own."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / "gitconfig"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A repository with one commit on ``trunk``."""
    where = tmp_path / "re po"
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(where)], check=True)
    for key, value in (("user.name", "Ann"), ("user.email", "ann@example.com")):
        subprocess.run(["git", "-C", str(where), "config", key, value], check=True)
    subprocess.run(
        ["git", "-C", str(where), "commit", "-q", "--allow-empty", "-m", "first"], check=True
    )
    return where


@pytest.fixture
def git(path: Path) -> Git:
    """``git -C path ...``; its output without the final newline."""

    def run(*args: str, stdin: str | None = None) -> str:
        done = subprocess.run(
            ["git", "-C", str(path), *args],
            check=True,
            input=stdin,
            stdout=subprocess.PIPE,
            text=True,
        )
        return done.stdout.rstrip("\n")

    return run


@pytest.fixture
def repo(path: Path) -> Repository:
    return open_repository(path)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def head(git: Git) -> str:
    return git("rev-parse", "trunk")


@pytest.fixture
def run(repo: Repository, head: str, clock: FixedClock) -> runs.Loaded:
    """The run ``add-login``, just created."""
    return transact.create(repo, state_of(head), EVENT, clock)
