from __future__ import annotations

from pathlib import Path

import pytest

from gitbaton.errors import NotFound
from gitbaton.git import objects
from gitbaton.git.repo import Repository
from gitbaton.model import layout
from gitbaton.model.ids import AttemptId
from gitbaton.model.run import Event
from gitbaton.store import notes, runs, transact

from .conftest import Git
from .sample import EVENT, RUN, FixedClock, attempt_of, state_of
from .test_transact import count_up, replace, with_attempt


def tree_of(path: Path) -> dict[str, int]:
    """Every file and directory below ``path``, with its time of change."""
    return {str(p.relative_to(path)): p.stat().st_mtime_ns for p in path.rglob("*")}


def test_reading_creates_nothing(repo: Repository, path: Path, head: str, git: Git) -> None:
    git("gc", "-q")
    before = tree_of(path)
    assert runs.list_runs(repo) == {}
    for read in (runs.load, runs.load_live, lambda *a: next(runs.log(*a))):
        with pytest.raises(NotFound):
            read(repo, "never")
    with pytest.raises(NotFound):
        transact.transact(repo, "never", lambda _: None, FixedClock())
    assert notes.read(repo, "never", head) is None
    assert tree_of(path) == before


def test_a_run_is_read_without_writing(run: runs.Loaded, repo: Repository, path: Path) -> None:
    before = tree_of(path)
    loaded = runs.load(repo, RUN)
    assert loaded.state == run.state
    assert runs.load_live(repo, RUN) == (run.oid, run.state.run, run.state.live)
    assert runs.list_runs(repo) == {RUN: run.oid}
    assert list(loaded.all_attempts()) == []
    assert tree_of(path) == before


def test_a_typing_error_names_the_nearest(run: runs.Loaded, repo: Repository) -> None:
    with pytest.raises(NotFound) as refusal:
        runs.load(repo, "add-logn")
    assert refusal.value.code == "unknown-run"
    assert RUN in refusal.value.hint


def test_the_fast_path_reads_two_blobs(
    run: runs.Loaded, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitbaton.store.records._known", {})
    read = []
    blob = objects.read_blob
    monkeypatch.setattr(objects, "read_blob", lambda r, oid: read.append(oid) or blob(r, oid))
    runs.load_live(repo, RUN)
    assert len(read) == 2


def test_a_snapshot_stays_what_it_was(
    run: runs.Loaded, repo: Repository, clock: FixedClock
) -> None:
    attempt = AttemptId("1.1", 1)
    first = transact.transact(repo, RUN, lambda now: (with_attempt(now, attempt), EVENT), clock)
    transact.transact(
        repo, RUN, lambda now: (with_attempt(now, attempt, "abandoned"), EVENT), clock
    )
    assert first.attempt(attempt) == attempt_of(attempt)
    assert runs.load(repo, RUN, at=first.oid).state == first.state
    assert run.attempt(attempt) is None


def test_attempts_of_a_ticket_are_in_order_live_ones_included(
    run: runs.Loaded, repo: Repository, clock: FixedClock
) -> None:
    for number in (1, 2, 9, 10, 100):
        transact.transact(
            repo,
            RUN,
            lambda now, n=number: (with_attempt(now, AttemptId("1.1", n), "failed"), EVENT),
            clock,
        )
    live = attempt_of(AttemptId("1.1", 101))

    def only_live(loaded: runs.Loaded) -> tuple[object, Event]:
        return (
            replace(loaded.state, live=replace(loaded.state.live, attempts={str(live.id): live})),
            EVENT,
        )

    loaded = transact.transact(repo, RUN, only_live, clock)  # type: ignore[arg-type]
    assert [a.number for a in loaded.attempts_of("1.1")] == [1, 2, 9, 10, 100, 101]
    assert sorted(a.number for a in loaded.all_attempts()) == [1, 2, 9, 10, 100, 101]
    assert loaded.attempts_of("1.2") == []


def test_files_of_an_attempt(run: runs.Loaded, repo: Repository, clock: FixedClock) -> None:
    attempt = AttemptId("1.1", 1)
    files = {
        layout.path_of(attempt, name): name.encode()
        for name in (layout.PACKET, layout.RECEIPT, layout.MERGED)
    }
    loaded = transact.transact(
        repo, RUN, lambda now: (replace(now.state, files=files), EVENT), clock
    )
    assert loaded.packet(attempt) == b"packet.json"
    assert loaded.receipt(attempt) == b"receipt.json"
    assert loaded.merged_receipt(attempt) == b"merged.json"
    assert loaded.receipt(AttemptId("1.1", 2)) is None


def test_the_log_tells_every_transition(
    run: runs.Loaded, repo: Repository, clock: FixedClock
) -> None:
    event = Event(event="claim", message="Claim 1.1", ticket="1.1", attempt=1, session="s")
    loaded = transact.transact(repo, RUN, lambda now: (now.state, event), clock)
    newest, oldest = runs.log(repo, RUN)
    assert (newest.oid, newest.at, newest.event) == (loaded.oid, "2030-01-02T12:00:00Z", event)
    assert oldest.event == EVENT
    assert newest.nonce != oldest.nonce


def test_two_runs_do_not_touch_each_other(
    run: runs.Loaded, repo: Repository, head: str, clock: FixedClock
) -> None:
    transact.create(repo, state_of(head, "add-logout"), EVENT, clock)
    transact.transact(repo, "add-logout", count_up, clock)
    assert runs.load(repo, RUN).oid == run.oid
    assert sorted(runs.list_runs(repo)) == [RUN, "add-logout"]
