"""Linked worktrees: made as git makes them, removed whatever state they are in."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gitbaton.errors import Refused, RepositoryError
from gitbaton.git import checkout, refs, worktree
from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository

from .shell import commit, git, write

BRANCH = "refs/heads/baton-attempt/r/t-a1"


@pytest.fixture
def head(repo_dir: Path) -> str:
    return commit(repo_dir, {"d/f": "1\n", "sp ace": "2\n"})


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return tmp_path / "trees" / "it's 1.1$x"


def listed(repo_dir: Path) -> str:
    return git(repo_dir, "worktree", "list", "--porcelain", code=None)


def test_one_on_a_branch(repo_dir: Path, repo: Repository, head: str, top: Path) -> None:
    worktree.add(repo, top, BRANCH, head)
    assert git(top, "status", "--porcelain", "--branch") == "## baton-attempt/r/t-a1"
    assert git(top, "rev-parse", "HEAD") == head
    assert f"worktree {top}\nHEAD {head}\nbranch {BRANCH}" in listed(repo_dir)
    assert "locked" not in listed(repo_dir)
    git(repo_dir, "worktree", "prune", "--expire=now")
    git(repo_dir, "fsck", "--strict")
    new = commit(top, {"d/f": "2\n"})
    assert refs.read(repo, BRANCH) == new
    (info,) = worktree.registered(repo).values()
    assert (info.path, info.head, info.branch, info.locked) == (top, new, BRANCH, None)
    git(repo_dir, "worktree", "remove", str(top))
    assert worktree.registered(repo) == {}


def test_one_without_a_branch(repo_dir: Path, repo: Repository, head: str, top: Path) -> None:
    worktree.add_detached(repo, top, head)
    (info,) = worktree.registered(repo).values()
    assert (info.head, info.branch) == (head, None)
    assert checkout.head_ref(top) is None
    assert git(top, "status", "--porcelain") == ""


def test_two_of_one_name(repo: Repository, head: str, tmp_path: Path) -> None:
    for parent in "ab":
        worktree.add_detached(repo, tmp_path / parent / "same", head)
    assert len({info.git_dir for info in worktree.registered(repo).values()}) == 2


def test_the_branch_may_exist_where_it_should(
    repo_dir: Path, repo: Repository, head: str, top: Path, tmp_path: Path
) -> None:
    refs.cas(repo, BRANCH, None, head, "x")
    worktree.add(repo, top, BRANCH, head)
    with pytest.raises(Refused) as caught:
        worktree.add(repo, tmp_path / "other", BRANCH, head)
    assert caught.value.code == "branch-checked-out"
    with pytest.raises(Refused) as caught:
        worktree.add(
            repo, tmp_path / "other", "refs/heads/main", git(repo_dir, "rev-parse", "HEAD^")
        )
    assert caught.value.code == "branch-exists"
    with pytest.raises(Refused) as caught:
        worktree.add(repo, top, "refs/heads/new", head)
    assert caught.value.code == "directory-exists"
    assert refs.read(repo, "refs/heads/new") is None


def test_a_failing_checkout_leaves_nothing(repo: Repository, head: str, top: Path) -> None:
    with pytest.raises(RepositoryError):
        worktree.add_detached(repo, top, "1" * 40)
    assert not top.exists()
    assert worktree.registered(repo) == {}
    assert os.listdir(repo.common_dir / "worktrees") == []


def test_filters_and_attributes_apply(repo_dir: Path, repo: Repository, top: Path) -> None:
    git(repo_dir, "config", "filter.up.smudge", "tr a-z A-Z")
    git(repo_dir, "config", "filter.up.clean", "tr A-Z a-z")
    head = commit(
        repo_dir,
        {
            ".gitattributes": "*.up filter=up\n*.crlf text eol=crlf\n",
            "a.up": "low\n",
            "b.crlf": "x\n",
        },
    )
    worktree.add_detached(repo, top, head)
    assert (top / "a.up").read_text() == "LOW\n"
    assert (top / "b.crlf").read_bytes() == b"x\r\n"
    assert checkout.status(top, fresh_index=True).clean


def test_a_sparse_checkout_is_inherited(
    repo_dir: Path, repo: Repository, head: str, top: Path
) -> None:
    commit(repo_dir, {"big/x": "1", "small/y": "1"})
    git(repo_dir, "sparse-checkout", "set", "small")
    worktree.add(open_repository(repo_dir), top, BRANCH, git(repo_dir, "rev-parse", "HEAD"))
    assert sorted(os.listdir(top)) == [".git", "README", "small", "sp ace"]
    assert git(top, "status", "--porcelain") == ""
    assert checkout.status(top, fresh_index=True).clean
    (top / "small" / "y").unlink()
    assert checkout.status(top, fresh_index=True).entries == [(" D", "small/y")]


def test_sparseness_comes_from_the_main_worktree_only(
    repo_dir: Path, repo: Repository, head: str, top: Path, tmp_path: Path
) -> None:
    tip = commit(repo_dir, {"big/x": "1", "small/y": "1"})
    worktree.add(repo, top, BRANCH, tip)
    git(top, "sparse-checkout", "set", "small")
    worktree.add(open_repository(top), tmp_path / "two", "refs/heads/two", tip)
    assert (tmp_path / "two" / "big" / "x").exists()
    git(repo_dir, "sparse-checkout", "set", "small")
    worktree.add_detached(open_repository(repo_dir), tmp_path / "three", tip)
    assert (tmp_path / "three" / "big" / "x").exists()


def test_from_bare_and_linked(repo_dir: Path, head: str, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repo_dir), "bare")
    bare = open_repository(tmp_path / "bare")
    worktree.add(bare, tmp_path / "one", "refs/heads/one", head)
    linked = open_repository(tmp_path / "one")
    worktree.add(linked, tmp_path / "two", "refs/heads/two", head)
    assert git(tmp_path / "two", "status", "--porcelain") == ""
    assert worktree.checked_out_at(linked, "refs/heads/main") is None
    assert worktree.checked_out_at(bare, "refs/heads/two") == tmp_path / "two"


def test_where_a_branch_is_checked_out(
    repo_dir: Path, repo: Repository, head: str, top: Path
) -> None:
    worktree.add(repo, top, BRANCH, head)
    assert worktree.checked_out_at(repo, "refs/heads/main") == repo_dir
    assert worktree.checked_out_at(repo, BRANCH) == top
    assert worktree.checked_out_at(repo, "refs/heads/none") is None
    shutil.rmtree(top)
    assert worktree.checked_out_at(repo, BRANCH) is None


def test_removal_refuses_to_lose_work(
    repo_dir: Path, repo: Repository, head: str, top: Path
) -> None:
    worktree.add(repo, top, BRANCH, head)
    write(top, {"new": "x"})
    with pytest.raises(Refused) as caught:
        worktree.remove(repo, top, force=False)
    assert caught.value.code == "worktree-dirty"
    assert "new" in caught.value.message
    (top / "new").unlink()
    git(repo_dir, "worktree", "lock", "--reason", "mine", str(top))
    with pytest.raises(Refused) as caught:
        worktree.remove(repo, top, force=False)
    assert caught.value.code == "worktree-locked"
    git(repo_dir, "worktree", "unlock", str(top))
    worktree.remove(repo, top, force=False)
    assert not top.exists()
    assert worktree.registered(repo) == {}
    assert refs.read(repo, BRANCH) == head
    worktree.remove(repo, top, force=False)


def test_removal_spares_what_is_no_worktree(
    repo_dir: Path, repo: Repository, tmp_path: Path
) -> None:
    write(tmp_path, {"mine/file": "x"})
    with pytest.raises(Refused):
        worktree.remove(repo, tmp_path / "mine", force=True)
    git(tmp_path, "init", "-q", "other")
    write(tmp_path, {"other/file": "x"})
    with pytest.raises(Refused):
        worktree.remove(repo, tmp_path / "other", force=False)
    with pytest.raises(Refused):
        worktree.remove(repo, repo_dir, force=True)
    assert (tmp_path / "mine" / "file").exists()
    assert (tmp_path / "other" / "file").exists()


def _of_another(path: Path, repo_dir: Path, head: str) -> None:
    git(repo_dir.parent, "clone", "-q", str(repo_dir), "another")
    git(repo_dir.parent / "another", "worktree", "add", "-q", "--detach", str(path), head)


def _of_one_that_is_gone(path: Path, repo_dir: Path, head: str) -> None:
    _of_another(path, repo_dir, head)
    shutil.rmtree(repo_dir.parent / "another")


def _of_a_former_one(path: Path, repo_dir: Path, head: str) -> None:
    """As after the repository was cloned anew: the worktree leads to it, but it knows nothing."""
    git(repo_dir, "worktree", "add", "-q", "--detach", str(path), head)
    shutil.rmtree(repo_dir / ".git" / "worktrees")


def _link_to_a_folder(path: Path, repo_dir: Path, head: str) -> None:
    write(path.parent, {"precious/f": "x", "precious/d/f": "x"})
    path.symlink_to("precious")


def _link_to_a_worktree(path: Path, repo_dir: Path, head: str) -> None:
    git(repo_dir, "worktree", "add", "-q", "--detach", str(path.parent / "mine"), head)
    path.symlink_to("mine")


@pytest.mark.parametrize(
    "put",
    [_of_another, _of_one_that_is_gone, _of_a_former_one, _link_to_a_folder, _link_to_a_worktree],
)
def test_only_what_is_ours_is_ever_removed(
    put: Callable[[Path, Path, str], None], repo_dir: Path, repo: Repository, head: str, top: Path
) -> None:
    top.parent.mkdir()
    put(top, repo_dir, head)
    assert not worktree.is_ours(repo, top)
    with pytest.raises(Refused) as caught:
        worktree.remove(repo, top, force=True)
    assert caught.value.code == "not-a-worktree"
    with pytest.raises(Refused) as caught:
        worktree.require_available(repo, top)
    assert caught.value.code == "directory-exists"
    with pytest.raises(Refused) as caught:
        worktree.add_detached(repo, top, head)
    assert caught.value.code == "directory-exists"
    assert (top / "d" / "f").exists()


def test_read_only_directories_do_not_stop_a_removal(
    repo: Repository, head: str, top: Path
) -> None:
    worktree.add_detached(repo, top, head)
    write(top, {"cache/deep/file": "x"})
    (top / "cache" / "deep").chmod(0o555)
    (top / "cache").chmod(0o555)
    worktree.remove(repo, top, force=True)
    assert not top.exists()


def test_a_directory_deleted_by_hand_is_healed(repo: Repository, head: str, top: Path) -> None:
    worktree.add(repo, top, BRANCH, head)
    shutil.rmtree(top)
    worktree.add(repo, top, BRANCH, head)
    assert git(top, "status", "--porcelain") == ""
    assert len(worktree.registered(repo)) == 1
    shutil.rmtree(top)
    worktree.remove(repo, top, force=False)
    assert worktree.registered(repo) == {}


@pytest.mark.parametrize("left", range(1, 6))
def test_half_made_ones_do_not_stop_the_next(
    repo: Repository, head: str, top: Path, left: int
) -> None:
    """What `git worktree add` has written when it is killed, step by step."""
    record = repo.common_dir / "worktrees" / "it-s-1.1-x"
    steps = (
        lambda: record.mkdir(parents=True),
        lambda: (record / "locked").write_text("initializing"),
        lambda: (record / "gitdir").write_text(""),
        lambda: (record / "gitdir").write_text(f"{top}/.git\n"),
        lambda: write(top, {"part": "x"}),
    )
    for step in steps[:left]:
        step()
    worktree.remove(repo, top, force=True)
    assert not top.exists()
    worktree.add(repo, top, BRANCH, head)
    assert git(top, "status", "--porcelain") == ""
    assert len(worktree.registered(repo)) == 1


KILLED = """
import sys
from pathlib import Path
from gitbaton.git import worktree
from gitbaton.git.opening import open_repository
worktree.add(open_repository(Path(sys.argv[1])), Path(sys.argv[2]), sys.argv[3], sys.argv[4])
"""


def test_a_lock_left_on_a_branch_just_made_keeps_no_worker_from_committing(
    repo: Repository, head: str, tmp_path: Path
) -> None:
    refs.cas(repo, "refs/heads/work", None, head, "made")
    lock = repo.common_dir / "refs" / "heads" / "work.lock"
    lock.touch()
    worktree.add(repo, tmp_path / "work", "refs/heads/work", head)
    assert not lock.exists()


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("call", ["mkdir", "rename", "write", "unlink", "fsync", "link"])
def test_killed_while_making_one(
    repo_dir: Path,
    repo: Repository,
    head: str,
    top: Path,
    call: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """kill -9 of us or of our git at the n-th call: the next try finds nothing in its way."""
    monkeypatch.setattr(refs, "QUIET", 0.2)
    for number in (1, 2, 3, 5, 8):
        inject = f"inject={call}:signal=KILL:when={number}"
        command = [sys.executable, "-c", KILLED, str(repo_dir), str(top), BRANCH, head]
        done = subprocess.run(
            ["strace", "-f", "-o", os.devnull, "-e", f"trace={call}", "-e", inject, *command],
            capture_output=True,
            check=False,
        )
        worktree.remove(repo, top, force=True)
        worktree.add(repo, top, BRANCH, head)
        assert git(top, "status", "--porcelain") == ""
        assert len(worktree.registered(repo)) == 1
        worktree.remove(repo, top, force=True)
        assert worktree.registered(repo) == {}
        git(repo_dir, "worktree", "prune")
        assert not (repo.common_dir / "worktrees").exists()
        refs.cas(repo, BRANCH, head, None, "again", ours=True)
        if done.returncode not in (-signal.SIGKILL, 128 + signal.SIGKILL):
            break
