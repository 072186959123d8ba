"""A batch held against its queue: what it says to have taken must have been there to be taken.

The queue has a history of its own, which nobody could have known before it was written. So each
revision that a batch saw lies on it, each claim is the change that followed the revision it was
selected at, and so is the end of the batch. What the items say is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from gitbaton.errors import BatonError
from gitbaton.evidence import closeout
from gitbaton.evidence.chain import spot
from gitbaton.evidence.roots import descriptor_of
from gitbaton.git import ancestry, objects
from gitbaton.git.repo import Repository
from gitbaton.model import layout
from gitbaton.model.audit import Problem
from gitbaton.model.queue import Claim
from gitbaton.model.run import Attempt
from gitbaton.store import queues, runs, trailers


class Line:
    """The changes of a queue as they lie at ``ref``."""

    def __init__(self, repo: Repository, name: str, ref: str, tip: str) -> None:
        self.repo = repo
        self.name = name
        self.ref = ref
        self.tip = tip

    @cached_property
    def after(self) -> Mapping[str, str | None]:
        """By revision, the one that follows it; raises `RepositoryError`."""
        found: dict[str, str | None] = {}
        following: str | None = None
        for commit in ancestry.first_parent_chain(self.repo, self.tip, None):
            found[commit.oid] = following
            following = commit.oid
        return found

    def is_close(self, revision: str | None, run: str) -> bool:
        """Whether ``revision`` is the change by which a run closed."""
        if revision is None:
            return False
        said = trailers.fields(objects.commit_info(self.repo, revision).message)
        return (said.get("Event"), said.get("Run"), said.get("Queue")) == ("close", run, self.name)

    def holds(self, revision: str | None, item: str, claim: Claim) -> bool:
        """Whether the item is held by that claim in ``revision``."""
        if revision is None:
            return False
        found = queues.load(self.repo, self.name, revision).item(item)
        return found is not None and found.state == "claimed" and found.claimed_by == claim


def lines(repo: Repository, refs: Iterable[tuple[str, str, str]]) -> dict[str, Line]:
    """The queues at ``refs`` (name, ref, tip), by name."""
    return {name: Line(repo, name, ref, tip) for name, ref, tip in refs}


def judge(
    loaded: runs.Loaded, attempts: Iterable[Attempt], at_hand: Mapping[str, Line]
) -> Iterator[Problem]:
    """What a batch says of its queue that the queue does not say."""
    descriptor = descriptor_of(loaded.state.run)
    if descriptor is None:
        return
    line = at_hand.get(descriptor.queue)
    if line is None:
        yield Problem(
            code="queue-missing",
            where=queues.queue_ref(descriptor.queue),
            message=f"there is no queue {descriptor.queue} here to hold the claims against",
        )
        return
    try:
        yield from _rewritten(loaded, attempts, line)
        for attempt in attempts:
            yield from _claim(loaded, attempt, line)
        yield from _closing(loaded, line)
    except BatonError as error:
        yield Problem(code=error.code, where=line.ref, message=error.message)


def _rewritten(loaded: runs.Loaded, attempts: Iterable[Attempt], line: Line) -> Iterator[Problem]:
    """Revisions that the state names and the queue does not have any more."""
    for path, field, revision in _seen(loaded, attempts):
        if revision not in line.after:
            yield Problem(
                code="queue-rewritten",
                where=spot(loaded.oid, path, field),
                message=f"was seen at {revision}, which {line.ref} does not hold",
            )


def _seen(loaded: runs.Loaded, attempts: Iterable[Attempt]) -> Iterator[tuple[str, str, str]]:
    """(path, field, revision) of what the state says to have seen of the queue."""
    batch = loaded.state.batch
    if batch is not None:
        yield layout.BATCH, "queue_revision", batch.queue_revision
        if batch.freeze is not None:
            yield layout.BATCH, "freeze.queue_revision", batch.freeze.queue_revision
    for attempt in attempts:
        if attempt.queue_revision is not None:
            yield *_place(attempt, "queue_revision"), attempt.queue_revision


def _place(attempt: Attempt, field: str) -> tuple[str, str]:
    if attempt.terminal:
        return layout.path_of(attempt.id, layout.ATTEMPT), field
    return layout.LIVE, f"attempts.{attempt.id}.{field}"


def _claim(loaded: runs.Loaded, attempt: Attempt, line: Line) -> Iterator[Problem]:
    """The change after the one at which an item was selected took it, for just this attempt."""
    revision, capability = attempt.queue_revision or "", attempt.capability or ""
    claim = Claim(run=loaded.state.run.id, attempt=str(attempt.id), capability=capability)
    if revision in line.after and not line.holds(line.after[revision], attempt.ticket, claim):
        yield Problem(
            code="claim-without-item",
            where=spot(loaded.oid, *_place(attempt, "capability")),
            message=f"{attempt.id} was made without holding its item, so {line.ref} says",
        )


def _closing(loaded: runs.Loaded, line: Line) -> Iterator[Problem]:
    """The change after the last revision that a batch saw is its end."""
    told, run = closeout.of(loaded), loaded.state.run.id
    if told is not None and not line.is_close(line.after.get(told.queue_revision), run):
        yield Problem(
            code="close-not-queued",
            where=spot(loaded.oid, layout.CLOSEOUT, "queue_revision"),
            message=f"{line.ref} does not say that {run} closed at {told.queue_revision}",
        )
