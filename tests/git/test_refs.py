"""Compare-and-swap under processes that really compete, and listings that miss nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pygit2
import pytest

from gitbaton.errors import Busy, Conflict, Refused, RepositoryError
from gitbaton.git import ancestry, refs
from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository

from .shell import commit, git

RUN = "refs/baton/runs/a"

RACER = """
import sys
from pathlib import Path
from gitbaton.errors import BatonError
from gitbaton.git import refs
from gitbaton.git.opening import open_repository
path, target, rounds = sys.argv[1:]
repo = open_repository(Path(path))
won = []
sys.stdin.readline()
for n in range(int(rounds)):
    try:
        refs.cas(repo, f"refs/baton/runs/r{n}", None, target, "race")
        won.append(n)
    except BatonError as error:
        assert error.code in ("ref-moved", "ref-locked"), error.code
print(*won)
"""


def test_create_if_absent_has_one_winner_among_processes(repo_dir: Path) -> None:
    target, rounds = git(repo_dir, "rev-parse", "HEAD"), 60
    command = [sys.executable, "-c", RACER, str(repo_dir), target, str(rounds)]
    racers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    wins = [int(n) for racer in racers for n in racer.communicate()[0].split()]
    assert all(racer.returncode == 0 for racer in racers)
    assert sorted(wins) == list(range(rounds))


ADDER = """
import sys
from datetime import datetime, UTC
from pathlib import Path
from gitbaton.errors import BatonError
from gitbaton.git import objects, refs
from gitbaton.git.opening import open_repository
path, name, count = sys.argv[1:]
repo = open_repository(Path(path))
for n in range(int(count)):
    while True:
        tip = refs.read(repo, "refs/baton/runs/a")
        new = objects.create_commit(repo, objects.tree_of(repo, tip), [tip], f"{name} {n}",
                                    author=("x", "x@y"), when=datetime.now(UTC))
        try:
            refs.cas(repo, "refs/baton/runs/a", tip, new, "add")
            break
        except BatonError as error:
            assert error.code in ("ref-moved", "ref-locked"), error.code
"""


def test_no_update_is_lost_while_others_pack(repo_dir: Path, repo: Repository) -> None:
    first = git(repo_dir, "rev-parse", "HEAD")
    refs.cas(repo, RUN, None, first, "start")
    adders = [
        subprocess.Popen([sys.executable, "-c", ADDER, str(repo_dir), str(n), "20"])
        for n in range(3)
    ]
    while any(adder.poll() is None for adder in adders):
        git(repo_dir, "pack-refs", "--all", code=None)
        assert RUN in refs.list_refs(repo, "refs/baton/")
    assert all(adder.returncode == 0 for adder in adders)
    tip = refs.read(repo, RUN)
    assert tip is not None
    assert len(list(ancestry.first_parent_chain(repo, tip, first))) == 60


def test_the_value_is_compared(repo_dir: Path, repo: Repository) -> None:
    one = git(repo_dir, "rev-parse", "HEAD")
    two = commit(repo_dir, {"a": "1"})
    refs.cas(repo, RUN, None, one, "create")
    for old in (None, two):
        with pytest.raises(Conflict) as caught:
            refs.cas(repo, RUN, old, two, "x")
        assert caught.value.code == "ref-moved"
    refs.cas(repo, RUN, one, two, "move")
    assert refs.read(repo, RUN) == two
    with pytest.raises(Conflict):
        refs.cas(repo, RUN, one, None, "delete")
    refs.cas(repo, RUN, two, None, "delete")
    assert refs.read(repo, RUN) is None


def test_a_deleted_ref_does_not_come_back_from_the_packed_file(
    repo_dir: Path, repo: Repository
) -> None:
    one = git(repo_dir, "rev-parse", "HEAD")
    two = commit(repo_dir, {"a": "1"})
    refs.cas(repo, RUN, None, one, "create")
    git(repo_dir, "pack-refs", "--all")
    refs.cas(repo, RUN, one, two, "loose and packed")
    refs.cas(repo, RUN, two, None, "delete")
    assert refs.read(repo, RUN) is None
    assert git(repo_dir, "for-each-ref", "refs/baton") == ""
    assert refs.list_refs(repo, "refs/baton/") == {}


def test_a_target_that_does_not_exist(repo: Repository) -> None:
    with pytest.raises(RepositoryError) as caught:
        refs.cas(repo, RUN, None, "1" * 40, "x")
    assert caught.value.code == "missing-object"
    assert refs.read(repo, RUN) is None


def test_a_lock_left_behind_is_removed_from_our_refs(
    repo_dir: Path, repo: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    head = git(repo_dir, "rev-parse", "HEAD")
    lock = repo_dir / ".git" / f"{RUN}.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    refs.cas(repo, RUN, None, head, "create", ours=True)
    assert refs.read(repo, RUN) == head
    assert "removed a lock left behind" in capsys.readouterr().err


def test_a_lock_on_the_packed_refs_is_removed_for_a_deletion(
    repo_dir: Path, repo: Repository
) -> None:
    head = git(repo_dir, "rev-parse", "HEAD")
    refs.cas(repo, RUN, None, head, "create")
    git(repo_dir, "pack-refs", "--all")
    (repo_dir / ".git" / "packed-refs.lock").touch()
    refs.cas(repo, RUN, head, None, "delete", ours=True)
    assert refs.read(repo, RUN) is None
    assert git(repo_dir, "for-each-ref", "refs/baton") == ""


def test_packed_refs_that_a_killed_git_was_writing_are_removed_for_a_deletion(
    repo_dir: Path, repo: Repository
) -> None:
    """git never writes over them: no ref could be deleted again."""
    head = git(repo_dir, "rev-parse", "HEAD")
    refs.cas(repo, RUN, None, head, "create")
    git(repo_dir, "pack-refs", "--all")
    (repo_dir / ".git" / "packed-refs.new").write_text("# pack-refs with: peeled")
    assert refs.delete(repo, {RUN: head}, ours=True) == {}
    assert git(repo_dir, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert not list((repo_dir / ".git").glob("packed-refs.*"))


def test_packed_refs_that_are_being_written_stay(
    repo_dir: Path, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refs, "PATIENCE", 0.1)
    head = git(repo_dir, "rev-parse", "HEAD")
    refs.cas(repo, RUN, None, head, "create")
    written = [repo_dir / ".git" / f"packed-refs.{name}" for name in ("new", "lock")]
    for path in written:
        path.touch()
    with pytest.raises(Busy) as caught:
        refs.cas(repo, RUN, head, None, "delete")
    assert caught.value.code == "ref-locked"
    assert all(path.exists() for path in written)


def test_of_many_refs_those_are_deleted_that_can_be(
    repo_dir: Path, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refs, "PATIENCE", 0.1)
    head, other = git(repo_dir, "rev-parse", "HEAD"), commit(repo_dir, {"a": "1"})
    values = {f"{RUN}/{name}": head for name in ("1", "2", "locked", "moved", "gone")}
    for ref in values:
        refs.cas(repo, ref, None, head, "create")
    refs.cas(repo, f"{RUN}/moved", head, other, "move")
    refs.cas(repo, f"{RUN}/gone", head, None, "delete")
    (repo_dir / ".git" / f"{RUN}/locked.lock").touch()
    failed = refs.delete(repo, values, ours=False)
    assert {ref: error.code for ref, error in failed.items()} == {
        f"{RUN}/locked": "ref-locked",
        f"{RUN}/moved": "ref-moved",
    }
    assert set(refs.list_refs(repo, RUN)) == set(failed)


def test_a_lock_on_the_packed_refs_is_waited_for_once(
    repo_dir: Path, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not for each of thousands of refs."""
    monkeypatch.setattr(refs, "PATIENCE", 0.1)
    values = {f"{RUN}/{name}": git(repo_dir, "rev-parse", "HEAD") for name in range(3)}
    for ref, head in values.items():
        refs.cas(repo, ref, None, head, "create")
    (repo_dir / ".git" / "packed-refs.lock").touch()
    tried: list[str] = []
    cas = refs.cas

    def counted(repo: Repository, ref: str, *words: Any, **options: Any) -> None:
        tried.append(ref)
        cas(repo, ref, *words, **options)

    monkeypatch.setattr(refs, "cas", counted)
    failed = refs.delete(repo, values, ours=False)
    assert {error.code for error in failed.values()} == {"ref-locked"}
    assert set(failed) == set(values)
    assert len(tried) == 1


@pytest.mark.parametrize("packed", [False, True])
def test_nothing_is_deleted_while_git_packs_refs(
    repo_dir: Path, repo: Repository, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    """It would write what it has read before, so that the ref is there again."""
    monkeypatch.setattr(refs, "PATIENCE", 0.1)
    head = git(repo_dir, "rev-parse", "HEAD")
    refs.cas(repo, RUN, None, head, "create")
    if packed:
        git(repo_dir, "pack-refs", "--all")
    (repo_dir / ".git" / "packed-refs.lock").touch()
    with pytest.raises(Busy) as caught:
        refs.cas(repo, RUN, head, None, "delete")
    assert caught.value.code == "ref-locked"
    assert refs.read(repo, RUN) == head


def test_a_lock_on_a_ref_of_others_is_respected(
    repo_dir: Path, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refs, "PATIENCE", 0.1)
    head = git(repo_dir, "rev-parse", "HEAD")
    lock = repo_dir / ".git" / "refs" / "heads" / "main.lock"
    lock.touch()
    with pytest.raises(Busy) as caught:
        refs.cas(repo, "refs/heads/main", head, head, "x")
    assert caught.value.code == "ref-locked"
    assert lock.exists()


@pytest.mark.parametrize("verb", ["pack-refs", "update-ref"])
def test_a_lock_of_a_process_that_is_merely_slow_stays(
    repo_dir: Path, repo: Repository, verb: str
) -> None:
    lock = repo_dir / ".git" / f"{RUN}.lock"
    lock.parent.mkdir(parents=True)
    with lock.open("w"):
        assert not refs.remove_leftover_lock(repo, RUN, quiet_seconds=0.1)
    packer = subprocess.Popen(
        ["sh", "-c", "read line", "git", verb], cwd=repo_dir, stdin=subprocess.PIPE
    )
    assert not refs.remove_leftover_lock(repo, RUN, quiet_seconds=0.1)
    packer.communicate(b"\n")
    assert lock.exists()
    elsewhere = subprocess.Popen(
        ["sh", "-c", "read line", "git", verb], cwd=repo_dir.parent, stdin=subprocess.PIPE
    )
    assert refs.remove_leftover_lock(repo, RUN, quiet_seconds=0.1)
    elsewhere.communicate(b"\n")


def test_a_process_that_only_waits_for_a_lock_keeps_it_from_nobody(
    repo_dir: Path, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or two that wait would each take the other for the one that has it."""
    lock = repo_dir / ".git" / "packed-refs.lock"
    lock.touch()
    looked: list[Path] = []
    waiting: list[subprocess.Popen[bytes]] = []
    identity = refs._identity

    def look(path: Path) -> tuple[int, int] | None:
        looked.append(path)
        if len(looked) == 3:
            command = ["sh", "-c", "read line", "git", "update-ref"]
            waiting.append(subprocess.Popen(command, cwd=repo_dir, stdin=subprocess.PIPE))
        return identity(path)

    monkeypatch.setattr(refs, "_identity", look)
    assert refs.remove_leftover_lock(repo, str(lock), quiet_seconds=0.3)
    (waiter,) = waiting
    assert waiter.poll() is None
    waiter.communicate(b"\n")


def test_after_a_swap_that_failed_too_late_the_lock_of_another_stays(
    repo_dir: Path, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`git pack-refs` removes the directory before libgit2 syncs it, and locks the ref to prune it;
    who takes that lock away has the loose ref, then a newer one, removed."""
    first, second = git(repo_dir, "rev-parse", "HEAD"), commit(repo_dir, {"a": "2"})
    refs.cas(repo, RUN, None, first, "create")
    lock = repo_dir / ".git" / f"{RUN}.lock"
    swap = refs._swap

    def too_late(*words: Any) -> None:
        swap(*words)
        lock.touch()
        raise pygit2.GitError("failed to open directory for fsync")

    monkeypatch.setattr(refs, "_swap", too_late)
    refs.cas(repo, RUN, first, second, "move", ours=True)
    assert refs.read(repo, RUN) == second
    assert lock.exists()


def test_a_swap_that_failed_too_late_and_was_built_upon_took_place(
    repo_dir: Path, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = git(repo_dir, "rev-parse", "HEAD"), commit(repo_dir, {"a": "2"})
    third = commit(repo_dir, {"a": "3"})
    refs.cas(repo, RUN, None, first, "create")
    swap = refs._swap

    def too_late(*words: Any) -> None:
        swap(*words)
        git(repo_dir, "update-ref", RUN, third)
        raise pygit2.GitError("failed to open directory for fsync")

    monkeypatch.setattr(refs, "_swap", too_late)
    refs.cas(repo, RUN, first, second, "move")
    assert refs.read(repo, RUN) == third


def test_the_lock_that_is_the_ref_itself_goes(
    repo_dir: Path, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libgit2 links a new ref to its lock; that name stays if it cannot be removed."""
    head = git(repo_dir, "rev-parse", "HEAD")
    lock = repo_dir / ".git" / f"{RUN}.lock"
    swap = refs._swap

    def too_late(*words: Any) -> None:
        swap(*words)
        lock.hardlink_to(repo_dir / ".git" / RUN)
        raise OSError("cannot unlink")

    monkeypatch.setattr(refs, "_swap", too_late)
    refs.cas(repo, RUN, None, head, "create", ours=True)
    assert refs.read(repo, RUN) == head
    assert not lock.exists()


def test_a_lock_that_changes_is_alive(repo_dir: Path, repo: Repository) -> None:
    lock = repo_dir / ".git" / "index.lock"
    lock.touch()
    stop = threading.Event()

    def live() -> None:
        while not stop.wait(0.01):
            lock.write_text("x")

    thread = threading.Thread(target=live)
    thread.start()
    assert not refs.remove_leftover_lock(repo, str(lock), quiet_seconds=0.5)
    stop.set()
    thread.join()
    assert refs.remove_leftover_lock(repo, str(lock), quiet_seconds=0.1)
    assert not lock.exists()
    assert not refs.remove_leftover_lock(repo, "refs/heads/main")


@pytest.mark.parametrize("packed", [False, True])
def test_a_branch_in_the_way_is_named(repo_dir: Path, repo: Repository, packed: bool) -> None:
    head = git(repo_dir, "rev-parse", "HEAD")
    git(repo_dir, "branch", "baton")
    git(repo_dir, "branch", "other/deep")
    if packed:
        git(repo_dir, "pack-refs", "--all")
    for ref in ("refs/heads/baton/run", "refs/heads/baton/a/b", "refs/heads/other"):
        with pytest.raises(Refused) as caught:
            refs.cas(repo, ref, None, head, "x", ours=True)
        assert caught.value.code == "branch-in-the-way"
        assert "baton.branchPrefix" in caught.value.hint
        assert refs.read(repo, ref) is None
    git(repo_dir, "fsck", "--strict")


def test_an_empty_directory_is_not_in_the_way(repo_dir: Path, repo: Repository) -> None:
    (repo_dir / ".git" / "refs" / "heads" / "x" / "y").mkdir(parents=True)
    head = git(repo_dir, "rev-parse", "HEAD")
    refs.cas(repo, "refs/heads/x", None, head, "x")
    assert git(repo_dir, "rev-parse", "x") == head


def test_branches_get_a_reflog_and_a_bad_name_is_refused(repo_dir: Path, repo: Repository) -> None:
    head = git(repo_dir, "rev-parse", "HEAD")
    refs.cas(repo, "refs/heads/x", None, head, "why\nit moved")
    assert git(repo_dir, "reflog", "-1", "--format=%gs", "x") == "why it moved"
    with pytest.raises(Refused) as caught:
        refs.cas(repo, "refs/heads/a..b", None, head, "x")
    assert caught.value.code == "bad-ref-name"


def test_listing_sees_loose_packed_and_symbolic(repo_dir: Path, repo: Repository) -> None:
    one = git(repo_dir, "rev-parse", "HEAD")
    git(repo_dir, "tag", "-a", "v1", "-m", "annotated")
    git(repo_dir, "branch", "a/packed")
    git(repo_dir, "pack-refs", "--all")
    two = commit(repo_dir, {"x": "1"})
    git(repo_dir, "branch", "a/loose")
    git(repo_dir, "symbolic-ref", "refs/heads/a/link", "refs/heads/main")
    assert refs.list_refs(repo, "refs/heads/") == {
        "refs/heads/a/link": two,
        "refs/heads/a/loose": two,
        "refs/heads/a/packed": one,
        "refs/heads/main": two,
    }
    assert list(refs.list_refs(repo, "refs/heads/a/l")) == [
        "refs/heads/a/link",
        "refs/heads/a/loose",
    ]
    assert refs.list_refs(repo, "refs/nothing/") == {}
    assert refs.read(repo, "refs/heads/a/link") == two
    assert refs.read(repo, "refs/heads/main/below") is None


def test_a_ref_destroyed_by_a_crash_is_not_absent(repo_dir: Path, repo: Repository) -> None:
    (repo_dir / ".git" / "refs" / "heads" / "torn").write_text("")
    with pytest.raises(RepositoryError) as caught:
        refs.read(repo, "refs/heads/torn")
    assert caught.value.code == "corrupt-ref"


def test_from_a_linked_worktree(repo_dir: Path, tmp_path: Path) -> None:
    git(repo_dir, "worktree", "add", "-q", "--detach", str(tmp_path / "w"))
    head = git(repo_dir, "rev-parse", "HEAD")
    refs.cas(open_repository(tmp_path / "w"), RUN, None, head, "x")
    assert git(repo_dir, "rev-parse", RUN) == head
