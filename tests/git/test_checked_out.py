"""A branch moves together with the worktree that has it checked out, and nothing is lost."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from gitbaton.errors import Busy, Conflict, Refused
from gitbaton.git import checked_out, refs
from gitbaton.git.repo import Repository

from .shell import commit, git, write


@pytest.fixture
def head(repo_dir: Path) -> str:
    return commit(repo_dir, {"f": "1\n", "d/g": "2\n", ".gitignore": "*.o\nnode_modules/\n"})


@pytest.fixture
def new(repo_dir: Path, head: str) -> str:
    """A commit two ahead of main's, which stays checked out at ``head``."""
    git(repo_dir, "checkout", "-q", "--detach")
    (repo_dir / "d" / "g").unlink()
    (repo_dir / "README").chmod(0o755)
    tip = commit(repo_dir, {"f": "2\n", "d/g/h": "dir now\n", "sp ace\n": "3\n", "x.bin": "4\n"})
    git(repo_dir, "checkout", "-q", "main")
    return tip


def move(repo: Repository, repo_dir: Path, old: str, new: str) -> None:
    checked_out.move(repo, repo_dir, "refs/heads/main", old, new)


def test_a_checked_out_branch_moves_with_its_files(
    repo: Repository, repo_dir: Path, head: str, new: str
) -> None:
    write(repo_dir, {".gitignore": "mine\n", "untracked": "mine\n"})
    assert checked_out.dirty_paths(repo, repo_dir, head, new) == []
    move(repo, repo_dir, head, new)
    assert git(repo_dir, "rev-parse", "main") == new
    assert git(repo_dir, "status", "--porcelain") == " M .gitignore\n?? untracked"
    assert (repo_dir / "d" / "g" / "h").read_text() == "dir now\n"
    move(repo, repo_dir, head, new)
    os.utime(repo_dir / "f", (1, 1))
    move(repo, repo_dir, new, head)
    assert git(repo_dir, "status", "--porcelain") == " M .gitignore\n?? untracked"


@pytest.mark.parametrize(
    ("local", "staged", "flag"),
    [
        ({"f": "mine\n"}, False, None),
        ({"f": "mine\n"}, True, None),
        ({"f": "mine\n"}, False, "--assume-unchanged"),
        ({"f": "mine\n"}, False, "--skip-worktree"),
        ({"x.bin": "untracked\n"}, False, None),
        ({".git/info/exclude": "x.bin\n", "x.bin": "ignored\n"}, False, None),
    ],
)
def test_what_would_be_lost_is_named(
    repo: Repository,
    repo_dir: Path,
    head: str,
    new: str,
    local: Mapping[str, str],
    staged: bool,
    flag: str | None,
) -> None:
    if flag:
        git(repo_dir, "update-index", flag, "f")
    write(repo_dir, local)
    if staged:
        git(repo_dir, "add", "f")
        write(repo_dir, {"f": "1\n"})
    name = list(local)[-1]
    assert checked_out.dirty_paths(repo, repo_dir, head, new) == [name]
    with pytest.raises(Refused) as caught:
        move(repo, repo_dir, head, new)
    assert caught.value.code == "integration-checked-out"
    assert str(repo_dir) in caught.value.message
    assert caught.value.payload["paths"] == [name]
    assert refs.read(repo, "refs/heads/main") == head
    assert (repo_dir / name).read_text() == ("1\n" if staged else local[name])
    assert (repo_dir / "d" / "g").read_text() == "2\n"


def test_a_move_that_was_cut_off_is_finished(
    repo: Repository, repo_dir: Path, head: str, new: str
) -> None:
    """Some files are new, some old, the index is old and the ref as well."""
    (repo_dir / "d" / "g").unlink()
    write(repo_dir, {"f": "2\n", "x.bin": "4\n"})
    assert checked_out.dirty_paths(repo, repo_dir, head, new) == []
    move(repo, repo_dir, head, new)
    assert git(repo_dir, "rev-parse", "main") == new
    assert git(repo_dir, "status", "--porcelain") == ""
    assert sorted(os.listdir(repo_dir / "d" / "g")) == ["h"]


def test_a_cut_off_move_back_removes_directories(
    repo: Repository, repo_dir: Path, head: str, new: str
) -> None:
    move(repo, repo_dir, head, new)
    write(repo_dir, {"f": "1\n"})
    move(repo, repo_dir, new, head)
    assert git(repo_dir, "status", "--porcelain") == ""
    assert (repo_dir / "d" / "g").read_text() == "2\n"


def test_files_are_put_back_when_the_branch_has_moved(
    repo: Repository, repo_dir: Path, head: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = refs.cas

    def lose(*args: object, **options: object) -> None:
        git(repo_dir, "update-ref", "refs/heads/main", f"{head}^")
        real(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(refs, "cas", lose)
    with pytest.raises(Conflict):
        move(repo, repo_dir, head, new)
    assert git(repo_dir, "diff", "--name-only", head) == ""


def test_a_switched_worktree_and_a_held_index(
    repo: Repository, repo_dir: Path, head: str, new: str
) -> None:
    (repo_dir / ".git" / "index.lock").touch()
    with pytest.raises(Busy):
        move(repo, repo_dir, head, new)
    (repo_dir / ".git" / "index.lock").unlink()
    git(repo_dir, "checkout", "-q", "-b", "other")
    with pytest.raises(Conflict) as caught:
        move(repo, repo_dir, head, new)
    assert caught.value.code == "worktree-switched"
