"""Verification worktrees are clean, reused, healed, and never anybody else's directory."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from gitbaton.config import Settings
from gitbaton.errors import BatonError
from gitbaton.evidence.slots import remove_slots, verification_worktree
from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository

from .conftest import Work, git

NONE = Settings()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "it's a $repo.baton"


@pytest.fixture
def commits(path: Path) -> tuple[str, str]:
    first = git(path, "rev-parse", "HEAD")
    (path / "src" / "app.py").write_text("print('new')\n")
    (path / "added").write_text("added\n")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "second")
    return first, git(path, "rev-parse", "HEAD")


def use(repo: Repository, commit: str, settings: Settings = NONE, project: str = "") -> Path:
    with verification_worktree(repo, settings, commit, project_dir=project) as slot:
        top = slot.path.parent if project else slot.path
        assert git(top, "rev-parse", "HEAD") == commit
        assert git(top, "status", "--porcelain", "--untracked-files=no") == ""
        return slot.path


def test_a_slot_is_made_once_and_reused(
    repo: Repository, commits: tuple[str, str], root: Path
) -> None:
    first, second = commits
    slot = use(repo, first)
    assert slot == root / "verify-1"
    assert not (slot / "added").exists()
    assert use(repo, second) == slot
    assert (slot / "src" / "app.py").read_text() == "print('new')\n"
    assert use(repo, first, project="src") == slot / "src"
    assert [p.name for p in root.iterdir()] == ["verify-1"]


def test_leftovers_and_hidden_edits_are_gone(repo: Repository, commits: tuple[str, str]) -> None:
    with verification_worktree(repo, NONE, commits[0], project_dir="") as slot:
        (slot.path / "stray").write_text("stray")
        (slot.path / "ignored.tmp").write_text("stray")
        git(slot.path, "update-index", "--assume-unchanged", "check.sh")
        git(slot.path, "update-index", "--skip-worktree", "src/app.py")
        (slot.path / "check.sh").write_text("true\n")
        (slot.path / "src" / "app.py").write_text("print('new')\n")
    slot_path = use(repo, commits[0])
    assert sorted(p.name for p in slot_path.iterdir()) == [".git", ".gitignore", "check.sh", "src"]
    assert (slot_path / "check.sh").read_text() == "grep -q new src/app.py\n"
    assert (slot_path / "src" / "app.py").read_text() == "print('old')\n"


def test_users_at_one_time_get_slots_of_their_own(
    repo: Repository, commits: tuple[str, str]
) -> None:
    with ExitStack() as stack:
        paths = [
            stack.enter_context(
                verification_worktree(repo, NONE, commits[n % 2], project_dir="")
            ).path
            for n in range(3)
        ]
        assert [p.name for p in paths] == ["verify-1", "verify-2", "verify-3"]
        assert remove_slots(repo, NONE) == []
    assert use(repo, commits[0]).name == "verify-1"
    assert remove_slots(repo, NONE) == paths
    assert not paths[0].parent.exists()
    assert git(repo.common_dir, "worktree", "list").count("\n") == 0


@pytest.mark.parametrize("damage", ["deleted", "emptied", "gitfile", "admin", "index", "locked"])
def test_a_damaged_slot_is_healed(repo: Repository, commits: tuple[str, str], damage: str) -> None:
    slot = use(repo, commits[0])
    admin = repo.common_dir / "worktrees" / "verify-1"
    match damage:
        case "deleted":
            shutil.rmtree(slot)
        case "emptied":
            shutil.rmtree(slot)
            slot.mkdir()
        case "gitfile":
            (slot / ".git").unlink()
        case "admin":
            shutil.rmtree(admin)
        case "index":
            (admin / "index.lock").write_bytes(b"")
            (admin / "HEAD.lock").write_bytes(b"")
            (admin / "index").write_bytes(b"garbage")
        case "locked":
            (admin / "locked").write_text("initializing")
            (admin / "HEAD").write_text("0" * 40 + "\n")
    assert use(repo, commits[1]) == slot
    assert use(repo, commits[0]) == slot


def test_a_directory_of_somebody_else_is_left_alone(
    repo: Repository, path: Path, commits: tuple[str, str], root: Path
) -> None:
    root.mkdir()
    (root / "verify-1").mkdir()
    (root / "verify-1" / "precious").write_text("mine")
    git(path, "worktree", "add", "-q", "--detach", str(root / "verify-2"))
    assert use(repo, commits[0]) == root / "verify-3"
    assert remove_slots(repo, NONE) == [root / "verify-3"]
    assert (root / "verify-1" / "precious").read_text() == "mine"
    assert (root / "verify-2" / "check.sh").exists()


def test_a_copied_repository_spares_the_slots_of_the_original(
    repo: Repository, path: Path, commits: tuple[str, str], tmp_path: Path
) -> None:
    slot = use(repo, commits[0])
    shutil.copytree(path, tmp_path / "copy", symlinks=True)
    copy = open_repository(tmp_path / "copy")
    assert use(copy, commits[1]) == tmp_path / "copy.baton" / "verify-1"
    assert git(slot, "rev-parse", "HEAD") == commits[0]


def test_another_folder_for_worktrees_moves_the_pool(
    repo: Repository, commits: tuple[str, str], tmp_path: Path, root: Path
) -> None:
    use(repo, commits[0])
    elsewhere = Settings(worktree_dir=str(tmp_path / "elsewhere"))
    assert use(repo, commits[0], elsewhere) == tmp_path / "elsewhere" / "verify-1"
    assert not (root / "verify-1").exists()


def test_setup_runs_for_each_new_commit_and_is_kept(
    repo: Repository, path: Path, commits: tuple[str, str], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    (path / ".env").write_text("KEY=1\n")
    make = "mkdir -p deps new/sub; touch deps/x new/sub/y"
    settings = Settings(copy=(".env",), setup=(f"{make}; git rev-parse HEAD >> {log}",))
    for commit in (commits[0], commits[0], commits[1], commits[0]):
        slot = use(repo, commit, settings)
        assert (slot / ".env").read_text() == "KEY=1\n"
        assert (slot / "deps" / "x").exists()
        (slot / "new" / "sub" / "stray").touch()
    assert use(repo, commits[0], settings) == slot
    assert [p.name for p in (slot / "new" / "sub").iterdir()] == ["y"]
    assert log.read_text().split() == [commits[0], commits[1], commits[0]]
    shutil.rmtree(slot)
    assert (use(repo, commits[0], settings) / "deps" / "x").exists()


def test_a_file_that_a_later_commit_holds_is_the_commits(
    repo: Repository, path: Path, commits: tuple[str, str]
) -> None:
    (path / ".env").write_text("KEY=mine\n")
    settings = Settings(copy=(".env",))
    use(repo, commits[0], settings)
    git(path, "add", "-f", ".env")
    git(path, "commit", "-q", "-m", "holds .env")
    (path / ".env").write_text("KEY=changed\n")
    slot = use(repo, git(path, "rev-parse", "HEAD"), settings)
    assert (slot / ".env").read_text() == "KEY=mine\n"


def test_a_failed_setup_does_not_count_as_prepared(
    repo: Repository, commits: tuple[str, str], tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    settings = Settings(setup=(f"touch part.tmp; test -e '{flag}' && touch whole.tmp",))
    with pytest.raises(BatonError) as error:
        use(repo, commits[0], settings)
    assert error.value.code == "setup-failed"
    flag.touch()
    slot = use(repo, commits[0], settings)
    assert (slot / "whole.tmp").exists()
    assert slot.name == "verify-1"


def test_in_a_bare_repository(path: Path, commits: tuple[str, str], tmp_path: Path) -> None:
    git(path, "clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    bare = open_repository(tmp_path / "bare.git")
    assert use(bare, commits[0]) == tmp_path / "bare.baton" / "verify-1"


def test_an_orphan_keeps_its_slot(work: Work, commits: tuple[str, str]) -> None:
    with verification_worktree(work.repo, NONE, commits[0], project_dir="") as slot:
        # As a check does when its caller was killed: it holds the descriptor, and nobody unlocks.
        orphan = subprocess.Popen(["sleep", "60"], pass_fds=(slot.lock_fd,))
        with verification_worktree(work.repo, NONE, commits[0], project_dir="") as other:
            assert other.path != slot.path
    assert use(work.repo, commits[0]) != slot.path  # given up, and still written to
    orphan.kill()
    orphan.wait()
    assert use(work.repo, commits[0]) == slot.path


def test_a_slot_is_never_sparse(path: Path, repo: Repository, commits: tuple[str, str]) -> None:
    slot = use(repo, commits[1])
    git(slot, "sparse-checkout", "set", "--no-cone", "/*", "!/added")
    assert not (slot / "added").exists()
    assert (use(repo, commits[1]) / "added").exists()
    shutil.rmtree(slot)
    git(path, "sparse-checkout", "set", "--no-cone", "/*", "!/added")
    assert (use(open_repository(path), commits[1]) / "added").exists()


def test_a_slot_replaced_by_a_link_is_left_alone(
    repo: Repository, commits: tuple[str, str], tmp_path: Path
) -> None:
    slot = use(repo, commits[0])
    shutil.rmtree(slot)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    slot.symlink_to(tmp_path / "precious")
    assert use(repo, commits[0]) != slot
    remove_slots(repo, NONE)
    assert (tmp_path / "precious" / "file").exists()


def test_a_setup_must_leave_the_files_of_the_commit_alone(
    repo: Repository, commits: tuple[str, str]
) -> None:
    settings = Settings(setup=("echo more >> added; touch made.tmp",))
    with pytest.raises(BatonError) as error:
        use(repo, commits[1], settings)
    assert error.value.code == "setup-changed-files"
    assert "added" in error.value.message
