from __future__ import annotations

import multiprocessing
from collections.abc import Mapping
from pathlib import Path

import pytest

from gitbaton.errors import BatonError
from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository
from gitbaton.model import layout
from gitbaton.model.ids import AttemptId
from gitbaton.model.run import Event, RunState, Sealed
from gitbaton.store import notes, runs, transact

from .conftest import Git
from .sample import EVENT, RUN, FixedClock, attempt_of
from .test_transact import rewrite

NOTES = f"refs/notes/baton/{RUN}"
RECEIPT = b'{"receipt": 1}\n'
MERGED = b'{"merged": 1}\n'
ONE = AttemptId("1.1", 1)


@pytest.fixture
def commits(git: Git) -> list[str]:
    """Some commits to speak of."""
    tree = git("rev-parse", "trunk^{tree}")
    return [git("commit-tree", tree, "-p", "trunk", "-m", str(n)) for n in range(5)]


@pytest.fixture
def evidence(
    run: runs.Loaded, repo: Repository, commits: list[str], clock: FixedClock
) -> dict[str, bytes]:
    """A state with one integrated attempt and one update commit; the notes it speaks for."""
    sealed, merge, update = commits[:3]
    attempt = attempt_of(
        ONE,
        "succeeded",
        sealed=Sealed(
            receipt_sha256="0" * 64, commit=sealed, tree=sealed, sealed_in="worktree", sealed_at=""
        ),
        merge_commit=merge,
    )

    def step(loaded: runs.Loaded) -> tuple[RunState, Event]:
        files: dict[str, bytes | None] = {
            layout.path_of(ONE, layout.RECEIPT): RECEIPT,
            layout.path_of(ONE, layout.MERGED): MERGED,
            layout.commit_path(update): b"update\n",
            layout.commit_path(update, "sig"): b"signature\n",
        }
        state = loaded.state
        return (
            RunState(
                run=state.run,
                plan=state.plan,
                live=state.live,
                touched={ONE: attempt},
                files=files,
                parents=(sealed, merge, update),
            ),
            EVENT,
        )

    transact.transact(repo, RUN, step, clock)
    return {sealed: RECEIPT, merge: notes.of_merge(RECEIPT, MERGED), update: b"update\n"}


def write(repo: Repository, run: str, texts: Mapping[str, bytes], clock: FixedClock) -> None:
    """Notes written with a transition that is about something else."""

    def failed(error: BatonError) -> None:
        raise error

    def step(loaded: runs.Loaded) -> tuple[RunState, Event]:
        return loaded.state, EVENT

    beside = notes.beside(repo, run, lambda _: texts, clock, failed)
    transact.transact(repo, run, step, clock, beside)


def shown(git: Git, commit: str) -> str:
    """What git itself finds."""
    return git("notes", f"--ref={NOTES}", "show", commit)


def test_git_shows_them(repo: Repository, git: Git, clock: FixedClock, head: str) -> None:
    write(repo, RUN, {head: RECEIPT}, clock)
    assert RECEIPT.decode().strip() in git("log", "--notes=baton/*", "-1", "trunk")
    assert notes.read(repo, RUN, head) == RECEIPT
    assert git("ls-tree", "-r", "--name-only", NOTES) == f"{head[:2]}/{head[2:4]}/{head[4:]}"


@pytest.fixture(autouse=True)
def _with_run(run: runs.Loaded) -> None:
    """Notes belong to a run."""


def test_several_in_one_commit(
    repo: Repository, git: Git, clock: FixedClock, commits: list[str]
) -> None:
    write(repo, RUN, {c: c.encode() for c in commits}, clock)
    write(repo, RUN, {commits[0]: b"new"}, clock)
    assert git("rev-list", "--count", NOTES) == "2"
    assert shown(git, commits[0]) == "new"
    assert [shown(git, c) for c in commits[1:]] == commits[1:]


def test_writing_what_is_there_adds_no_commit(
    repo: Repository, git: Git, clock: FixedClock, head: str
) -> None:
    write(repo, RUN, {head: RECEIPT}, clock)
    write(repo, RUN, {head: RECEIPT}, clock)
    assert git("rev-list", "--count", NOTES) == "1"


def test_a_flat_note_of_git_is_found_and_replaced(
    repo: Repository, git: Git, clock: FixedClock, head: str, commits: list[str]
) -> None:
    git("notes", f"--ref={NOTES}", "add", "-m", "by hand", head)
    git("notes", f"--ref={NOTES}", "add", "-m", "another", commits[0])
    assert notes.read(repo, RUN, head) == b"by hand\n"
    write(repo, RUN, {head: RECEIPT}, clock)
    assert shown(git, head) == RECEIPT.decode().strip()
    assert shown(git, commits[0]) == "another"
    assert len(git("ls-tree", "-r", NOTES).splitlines()) == 2


@pytest.mark.parametrize("cuts", [(2,), (2, 4, 6)])
def test_other_fan_outs_are_found_and_replaced(
    repo: Repository, git: Git, clock: FixedClock, head: str, cuts: tuple[int, ...]
) -> None:
    parts = [head[a:b] for a, b in zip((0, *cuts), (*cuts, 40), strict=True)]
    oid = git("hash-object", "-w", "--stdin", stdin="deep")
    kind = "100644 blob"
    for name in reversed(parts):
        oid = git("mktree", stdin=f"{kind} {oid}\t{name}\n")
        kind = "040000 tree"
    git("update-ref", NOTES, git("commit-tree", oid, "-m", "x"))
    assert notes.read(repo, RUN, head) == b"deep"
    write(repo, RUN, {head: RECEIPT}, clock)
    assert shown(git, head) == RECEIPT.decode().strip()
    assert len(git("ls-tree", "-r", NOTES).splitlines()) == 1


def test_rebuild_makes_them_from_the_state(
    repo: Repository, git: Git, clock: FixedClock, evidence: dict[str, bytes], head: str
) -> None:
    write(repo, RUN, {head: b"stale"}, clock)
    tip = git("rev-parse", NOTES)
    assert notes.rebuild(repo, RUN, clock)
    assert {c: notes.read(repo, RUN, c) for c in evidence} == evidence
    assert len(git("ls-tree", "-r", NOTES).splitlines()) == len(evidence)
    assert git("rev-parse", f"{NOTES}~1") == tip
    assert not notes.rebuild(repo, RUN, clock)


def test_rebuild_of_nothing_makes_no_ref(repo: Repository, git: Git, clock: FixedClock) -> None:
    assert not notes.rebuild(repo, RUN, clock)
    assert git("for-each-ref", NOTES) == ""


def test_a_damaged_attempt_costs_its_note_only(
    repo: Repository, git: Git, clock: FixedClock, evidence: dict[str, bytes]
) -> None:
    rewrite(git, layout.path_of(ONE, layout.ATTEMPT), "{")
    notes.rebuild(repo, RUN, clock)
    assert git("ls-tree", "-r", NOTES).count("\n") == 0


@pytest.mark.parametrize("damage", ["blob", "tree", "foreign tree", "missing", "garbage", "empty"])
def test_a_damaged_ref_stops_nothing(
    repo: Repository,
    git: Git,
    clock: FixedClock,
    evidence: dict[str, bytes],
    commits: list[str],
    damage: str,
) -> None:
    notes.rebuild(repo, RUN, clock)
    blob = git("hash-object", "-w", "--stdin", stdin="x")
    file = repo.common_dir / NOTES
    match damage:
        case "blob":
            git("update-ref", NOTES, blob)
        case "tree":
            git("update-ref", NOTES, git("rev-parse", "trunk^{tree}"))
        case "foreign tree":
            names = sorted({c[:2] for c in (*evidence, *commits)})
            tree = git("mktree", stdin="".join(f"100644 blob {blob}\t{n}\n" for n in names))
            git("update-ref", NOTES, git("commit-tree", tree, "-m", "x"))
        case "missing":
            file.write_text("1" * 40 + "\n")
        case "garbage":
            file.write_text("nonsense\n")
        case "empty":
            file.write_text("")
    assert notes.read(repo, RUN, commits[0]) is None
    write(repo, RUN, {commits[4]: b"more"}, clock)
    assert shown(git, commits[4]) == "more"
    notes.rebuild(repo, RUN, clock)
    assert {c: notes.read(repo, RUN, c) for c in evidence} == evidence
    git("fsck", "--strict", "--no-reflogs")


def _write_in_a_process(path: Path, commits: list[str]) -> None:
    repo = open_repository(path)
    for commit in commits:
        write(repo, RUN, {commit: commit.encode()}, FixedClock())


def test_processes_lose_no_note(repo: Repository, path: Path, git: Git) -> None:
    tree = git("rev-parse", "trunk^{tree}")
    commits = [git("commit-tree", tree, "-m", str(n)) for n in range(24)]
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_write_in_a_process, args=(path, commits[n::4])) for n in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert [notes.read(repo, RUN, c) for c in commits] == [c.encode() for c in commits]
    assert len(git("notes", f"--ref={NOTES}", "list").splitlines()) == 24
