"""What there is to see of a batch beyond what any run has: its queue, who has left it, who waits
for whom, and what it came to."""

from __future__ import annotations

import msgspec

from gitbaton.model.batch import Batch, Child, DispositionKind, Member, Outcome, Pause
from gitbaton.model.root import Membership, VirtualBatchDescriptor
from gitbaton.model.run import Live


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """A member that left without a receipt, and why."""

    item: str
    disposition: DispositionKind
    reason: str
    by: tuple[str, ...]
    attempt: str


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """An open member, and the items that it waits for."""

    item: str
    by: tuple[str, ...]


class BatchView(msgspec.Struct, frozen=True, kw_only=True):
    """A batch as ``status`` prints it. ``members`` counts those that left as well, ``pending`` what
    of a frozen set is not in the plan yet; ``closed`` is how it ended."""

    command: str
    queue: str
    queue_revision: str
    membership: Membership
    parent: str | None
    members: int
    pending: int
    left: tuple[Left, ...]
    waiting: tuple[Waiting, ...]
    pause: Pause | None
    freezes: int
    children: tuple[Child, ...]
    closed: Outcome | None


def view(descriptor: VirtualBatchDescriptor, batch: Batch, live: Live) -> BatchView:
    """The batch, from its state alone."""
    return BatchView(
        command=descriptor.command,
        queue=descriptor.queue,
        queue_revision=batch.queue_revision,
        membership=descriptor.membership,
        parent=descriptor.parent,
        members=len(batch.members),
        pending=len(batch.pending) if descriptor.mode == "autopilot" else 0,
        left=tuple(found for member in batch.members if (found := _left(member))),
        waiting=tuple(_waiting(batch, live)),
        pause=batch.pause,
        freezes=batch.freeze.count if batch.freeze else 0,
        children=batch.children,
        closed=batch.closed,
    )


def _left(member: Member) -> Left | None:
    last = member.disposition
    if last is None or not member.left:
        return None
    return Left(
        item=member.id,
        disposition=last.kind,
        reason=last.reason,
        by=last.by,
        attempt=last.attempt,
    )


def _waiting(batch: Batch, live: Live) -> list[Waiting]:
    """Members whose blockers are open, or are nobody's to fix here."""
    members, missing = {m.id for m in batch.members}, set(live.missing)
    found = []
    for member in batch.members:
        by = tuple(item for item in member.blockers if item in missing or item not in members)
        if by and member.id in missing:
            found.append(Waiting(item=member.id, by=by))
    return found
