"""What `init` reads and writes of the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitbaton.errors import Busy
from gitbaton.git import remote
from gitbaton.git.repo import Repository

from .shell import git

REFSPEC = "+refs/baton/*:refs/baton-remote/up.stream/*"


def test_refspecs_are_added_once(repo_dir: Path, repo: Repository) -> None:
    assert remote.remotes(repo) == {}
    git(repo_dir, "remote", "add", "up.stream", "file:///nowhere")
    repo.forget_config()
    assert remote.remotes(repo) == {"up.stream": "file:///nowhere"}
    assert remote.add_fetch_refspec(repo, "up.stream", REFSPEC)
    assert not remote.add_fetch_refspec(repo, "up.stream", REFSPEC)
    assert git(repo_dir, "config", "--get-all", "remote.up.stream.fetch").split("\n") == [
        "+refs/heads/*:refs/remotes/up.stream/*",
        REFSPEC,
    ]


def test_settings(repo_dir: Path, repo: Repository) -> None:
    values = ["one", "--two", 'it\'s "$odd" # ; \\', " in\tblanks\n "]
    for value in values:
        remote.config_add(repo, "baton.verify", value)
    shown = git(repo_dir, "config", "--null", "--get-all", "baton.verify").split("\0")
    assert shown[:-1] == values
    assert [value for value, _ in repo.config_all()["baton.verify"]] == values


def test_a_locked_configuration(repo_dir: Path, repo: Repository) -> None:
    (repo_dir / ".git" / "config.lock").touch()
    with pytest.raises(Busy):
        remote.config_add(repo, "baton.x", "1")
