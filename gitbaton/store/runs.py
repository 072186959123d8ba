"""Reading the state of runs.

A `Loaded` is one snapshot: the small files that every verb needs are decoded, everything else is
read from the same tree when somebody asks for it, so that a damaged receipt troubles only who
reads it and no verb pays for attempts that are over. Nothing here writes, not even a directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar, cast

from gitbaton.clock import stamp
from gitbaton.errors import NotFound, RepositoryError
from gitbaton.git import ancestry, objects, refs
from gitbaton.git.repo import Repository
from gitbaton.model import layout
from gitbaton.model.batch import Batch
from gitbaton.model.ids import AttemptId
from gitbaton.model.plan import Plan
from gitbaton.model.run import Attempt, Event, Intent, Live, RunRecord, RunState
from gitbaton.store import records, trailers

T = TypeVar("T")


class LogEntry(NamedTuple):
    """One transition: the state commit, its RFC 3339 time, what happened, and its nonce."""

    oid: str
    at: str
    event: Event
    nonce: str


class Loaded:
    """The state of a run as of commit ``oid``, and further reads in that same snapshot.

    Reading what is damaged raises `RepositoryError` ``corrupt-state``; what is absent is None.
    """

    def __init__(self, repo: Repository, oid: str, tree: str, state: RunState) -> None:
        self.repo = repo
        self.oid = oid
        self.tree = tree
        self.state = state

    @property
    def ref(self) -> str:
        return layout.run_ref(self.state.run.id)

    def file(self, path: str) -> bytes | None:
        """The bytes at ``path`` of the state's tree."""
        return objects.blob_at(self.repo, self.tree, path)

    def attempt(self, attempt: AttemptId) -> Attempt | None:
        """An attempt, whether it is over or not."""
        found = self.state.live.attempts.get(str(attempt))
        if found is not None:
            return found
        path = layout.path_of(attempt, layout.ATTEMPT)
        entry = objects.entry_at(self.repo, self.tree, path)
        return None if entry is None else records.read(self.repo, entry[0], Attempt, self.ref, path)

    def numbers(self, ticket: str) -> list[int]:
        """The numbers of all attempts at a ticket, ascending."""
        found = {a.number for a in self.state.live.attempts.values() if a.ticket == ticket}
        folder = layout.ticket_folder(ticket)
        for name, _, _ in objects.list_tree(self.repo, self.tree, folder):
            if parsed := layout.attempt_of(f"{folder}/{name}"):
                found.add(parsed[0].number)
        return sorted(found)

    def attempts_of(self, ticket: str) -> list[Attempt]:
        """All attempts at a ticket, by number."""
        found = (self.attempt(AttemptId(ticket, number)) for number in self.numbers(ticket))
        return [attempt for attempt in found if attempt is not None]

    def attempt_ids(self) -> Iterator[AttemptId]:
        """Every attempt ever made, in no particular order."""
        live = {a.id for a in self.state.live.attempts.values()}
        yield from live
        for shard, below, _ in objects.list_tree(self.repo, self.tree, layout.TICKETS):
            for ticket, numbers, _ in objects.list_tree(self.repo, below):
                for number, _, _ in objects.list_tree(self.repo, numbers):
                    parsed = layout.attempt_of(f"{layout.TICKETS}/{shard}/{ticket}/{number}")
                    if parsed and parsed[0] not in live:
                        yield parsed[0]

    def all_attempts(self) -> Iterator[Attempt]:
        """Every attempt ever made, in no particular order."""
        for attempt in self.attempt_ids():
            found = self.attempt(attempt)
            if found is not None:
                yield found

    def packet(self, attempt: AttemptId) -> bytes | None:
        return self.file(layout.path_of(attempt, layout.PACKET))

    def receipt(self, attempt: AttemptId) -> bytes | None:
        return self.file(layout.path_of(attempt, layout.RECEIPT))

    def signature(self, attempt: AttemptId) -> bytes | None:
        """The signature of the attempt's receipt, if it is signed."""
        return self.file(layout.path_of(attempt, layout.RECEIPT_SIGNATURE))

    def merged_receipt(self, attempt: AttemptId) -> bytes | None:
        """The receipt of the attempt's merge commit, if checks ran on exactly that."""
        return self.file(layout.path_of(attempt, layout.MERGED))

    def merged_signature(self, attempt: AttemptId) -> bytes | None:
        return self.file(layout.path_of(attempt, layout.MERGED_SIGNATURE))


def run_ref(run: str) -> str:
    """The ref that holds the state of a run."""
    return layout.run_ref(run)


def tip(repo: Repository, run: str) -> str:
    """The current state commit; raises `NotFound` ``unknown-run``, naming the nearest ids."""
    oid = refs.read(repo, layout.run_ref(run))
    if oid is None:
        near = _nearest(run, list(list_runs(repo)))
        hint = f"did you mean {', '.join(near)}?" if near else "`git baton list` shows the runs"
        raise NotFound("unknown-run", f"there is no run {run}", hint, {"nearest": near})
    return oid


def load(repo: Repository, run: str, at: str | None = None) -> Loaded:
    """The state of a run, now or as of the state commit ``at``.

    Raises `NotFound` ``unknown-run``, `RepositoryError` ``newer-schema`` or ``corrupt-state``.
    """
    oid = at or tip(repo, run)
    snapshot = _Snapshot(repo, run, oid)
    record = snapshot.record()
    state = RunState(
        run=record,
        live=snapshot.decode(Live, layout.LIVE),
        plan=snapshot.decode(Plan, layout.PLAN),
        batch=snapshot.batch(),
        intents=snapshot.intents(),
    )
    return Loaded(repo, oid, snapshot.tree, state)


def load_live(repo: Repository, run: str) -> tuple[str, RunRecord, Live]:
    """Commit, run record and live part of a run: two blobs, however long the run's history is."""
    oid = tip(repo, run)
    snapshot = _Snapshot(repo, run, oid)
    return oid, snapshot.record(), snapshot.decode(Live, layout.LIVE)


def load_batch(repo: Repository, run: str, at: str) -> Batch | None:
    """What only a batch has in its state, as of the state commit ``at``: one blob."""
    return _Snapshot(repo, run, at).batch()


def list_runs(repo: Repository) -> dict[str, str]:
    """The runs of this repository and their state commits, by id."""
    found = refs.list_refs(repo, layout.RUNS)
    return {name.removeprefix(layout.RUNS): oid for name, oid in found.items()}


def log(repo: Repository, run: str) -> Iterator[LogEntry]:
    """The transitions of a run, newest first."""
    for commit in ancestry.first_parent_chain(repo, tip(repo, run), None):
        event, nonce = trailers.parse(commit.message)
        yield LogEntry(commit.oid, stamp(commit.committer_time), event, nonce)


class _Snapshot:
    """The top of a state's tree, read once."""

    def __init__(self, repo: Repository, run: str, oid: str) -> None:
        self.repo = repo
        self.ref = layout.run_ref(run)
        try:
            self.tree = objects.tree_of(repo, oid)
            self.top = {name: blob for name, blob, _ in objects.list_tree(repo, self.tree)}
        except RepositoryError as error:
            raise records.corrupt(self.ref, "its commit", error.message) from error

    def record(self) -> RunRecord:
        return self.decode(RunRecord, layout.RUN)

    def decode(self, kind: type[T], name: str) -> T:
        if name not in self.top:
            raise records.corrupt(self.ref, name, "the file is missing")
        return records.read(self.repo, self.top[name], kind, self.ref, name)

    def batch(self) -> Batch | None:
        return self.decode(Batch, layout.BATCH) if layout.BATCH in self.top else None

    def intents(self) -> dict[str, Intent]:
        found: dict[str, Intent] = {}
        if layout.INTENTS in self.top:
            for name, oid, _ in objects.list_tree(self.repo, self.top[layout.INTENTS]):
                path = f"{layout.INTENTS}/{name}"
                # A union is not a type to mypy, though msgspec decodes it like one.
                intent = records.read(self.repo, oid, cast(Any, Intent), self.ref, path)
                found[intent.id] = intent
        return found


def _nearest(run: str, known: list[str]) -> list[str]:
    import difflib

    return difflib.get_close_matches(run, known, n=3)
