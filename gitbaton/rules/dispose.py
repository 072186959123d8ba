"""What the return of a member does when it has no receipt.

Nothing here resolves an item: only an integrated receipt does. A return takes the member out of the
batch, makes it wait for others (its blockers become members too), or pauses the root.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from gitbaton.errors import NotFound, Refused, UsageError
from gitbaton.model.batch import Batch, Disposition, DispositionKind, Member, Pause
from gitbaton.model.queue import CLOSED
from gitbaton.model.root import VirtualBatchDescriptor
from gitbaton.rules.batch import paused
from gitbaton.rules.members import Lookup, barred

_BY: dict[DispositionKind, str] = {"blocked": "the items that block it", "owned": "the owning run"}
"""What ``by`` names, for the kinds that name somebody."""
_STOPS: dict[DispositionKind, Literal["local-gate", "unresolved"]] = {
    "local-gate": "local-gate",
    "unresolved": "unresolved",
}
"""What pauses the root at once, and as which pause."""


def dispose(
    descriptor: VirtualBatchDescriptor,
    batch: Batch,
    item: str,
    disposition: Disposition,
    known: Lookup,
    resolved: Collection[str],
) -> Batch:
    """``batch`` after a return of the member ``item``; the same one for the same return again.

    ``known`` looks an item of the queue up, ``resolved`` are the members whose receipts were
    integrated. ``fixed`` is a question only: those receipts tell it, so it changes nothing.

    Raises `NotFound` ``not-a-member``, `UsageError` ``reason-missing`` and ``wrong-by``, `Refused`
    ``already-returned`` for a second return that differs, and ``fixed-needs-receipt``.
    """
    member = batch.member(item)
    if member is None:
        raise NotFound(
            "not-a-member",
            f"{item} is no member of batch {descriptor.batch_id}",
            f"`git baton status {descriptor.batch_id}` lists the members",
        )
    _require_complete(disposition)
    earlier = _returned(member, disposition.attempt, item in resolved)
    if earlier is not None:
        if earlier == _word(disposition):
            return batch
        raise Refused(
            "already-returned",
            f"{disposition.attempt or item} was returned as {_say(earlier)} already",
            "a return stands: what is left to do belongs to another item",
        )
    if disposition.kind == "fixed":
        raise Refused(
            "fixed-needs-receipt",
            f"{item} has no integrated receipt",
            "seal the attempt and reconcile it",
        )
    return _follow(descriptor, _recorded(batch, member, disposition), item, known, resolved)


_Word = tuple[DispositionKind, frozenset[str]]


def _word(disposition: Disposition) -> _Word:
    """What makes a return the same one: reasons may be worded anew."""
    return disposition.kind, frozenset(disposition.by)


def _say(word: _Word) -> str:
    kind, by = word
    return f"{kind} by {', '.join(sorted(by))}" if by else kind


def _returned(member: Member, attempt: str, resolved: bool) -> _Word | None:
    """The return that stands for a member or an attempt of it."""
    own = next((d for d in member.history if attempt and d.attempt == attempt), None)
    if own is None and resolved:
        return "fixed", frozenset()
    stands = own or (member.disposition if member.left else None)
    return None if stands is None else _word(stands)


def _require_complete(disposition: Disposition) -> None:
    kind, by = disposition.kind, disposition.by
    if kind != "fixed" and not disposition.reason.strip():
        raise UsageError("reason-missing", f"{kind} needs a reason", "add --reason TEXT")
    right = {"blocked": len(by) > 0, "owned": len(by) == 1}.get(kind, not by)
    if not right:
        wanted = f"needs --by with {_BY[kind]}" if kind in _BY else "takes no --by"
        raise UsageError("wrong-by", f"{kind} {wanted}", "see `git baton dispose --help`")


def _recorded(batch: Batch, member: Member, disposition: Disposition) -> Batch:
    return _put(batch, replace(member, history=(*member.history, disposition)))


def _put(batch: Batch, member: Member) -> Batch:
    members = tuple(member if m.id == member.id else m for m in batch.members)
    return replace(batch, members=members)


def _follow(
    descriptor: VirtualBatchDescriptor,
    batch: Batch,
    item: str,
    known: Lookup,
    resolved: Collection[str],
) -> Batch:
    """What follows from the newest disposition of a member."""
    member = batch.member(item)
    assert member is not None and member.disposition is not None
    last = member.disposition
    if last.kind == "blocked":
        return _block(descriptor, batch, member, last, known, resolved)
    code = _STOPS.get(last.kind)
    return paused(batch, Pause(code=code, reason=last.reason, member=item)) if code else batch


# -- Blocked


def require(
    descriptor: VirtualBatchDescriptor,
    batch: Batch,
    idle: Collection[str],
    known: Lookup,
    at: str,
    resolved: Collection[str],
) -> Batch:
    """What the queue says a member waits for is required, as if a worker had returned it
    ``blocked``; the same batch when everybody's open dependencies are members.

    ``idle`` are the missing members without an attempt under way, ``at`` is the time to record,
    ``resolved`` are the members whose receipts were integrated.
    """
    waits = _Waits(batch, known, resolved)
    for member in batch.members:
        if member.id not in idle or member.left:
            continue
        by = tuple(i for i in waits.of(member.id) if not waits.cared_for(i))
        if not by:
            continue
        reason = f"waits for {', '.join(by)}"
        word = Disposition(kind="blocked", reason=reason, by=by, at=at)
        last = member.disposition
        if last is None or last.attempt or _word(last) != _word(word):
            batch = _recorded(batch, member, word)
        batch = _follow(descriptor, batch, member.id, known, resolved)
        waits = _Waits(batch, known, resolved)
    return batch


def _block(
    descriptor: VirtualBatchDescriptor,
    batch: Batch,
    member: Member,
    last: Disposition,
    known: Lookup,
    resolved: Collection[str],
) -> Batch:
    """The blockers become required descendants; where that cannot end well, the root pauses."""
    waits = _Waits(batch, known, resolved)
    reached, circle = _reach(member.id, waits.holding_up(last.by), waits.of)
    pause = _hopeless(descriptor, member.id, last.by, known, waits, reached, circle)
    if pause is not None:
        return paused(batch, pause)
    blockers = tuple(dict.fromkeys((*member.blockers, *last.by)))
    batch = _put(batch, replace(member, blockers=blockers))
    if descriptor.mode == "one-item":
        return paused(batch, Pause(code="blocked", reason=last.reason, member=member.id))
    return _admitted(batch, reached)


def _hopeless(
    descriptor: VirtualBatchDescriptor,
    item: str,
    by: Sequence[str],
    known: Lookup,
    waits: _Waits,
    reached: Collection[str],
    circle: Sequence[str],
) -> Pause | None:
    """Why waiting would never end. A one-item root fixes none of its blockers itself, so whoever
    else has them is no trouble."""
    absent = next((i for i in by if known(i) is None), None)
    if absent is not None:
        why = f"{item} waits for {absent}, which is not in the queue"
        return Pause(code="blocker-missing", reason=why, member=item)
    if circle:
        why = f"items wait for each other: {' -> '.join(circle)}"
        return Pause(code="blocker-cycle", reason=why, member=item)
    if descriptor.mode == "one-item":
        return None
    gone = next(filter(None, map(waits.unavailable, reached)), None)
    if gone is not None:
        why = f"{item} waits for {gone}"
        return Pause(code="blocker-unavailable", reason=why, member=item)
    return None


def _admitted(batch: Batch, reached: dict[str, str]) -> Batch:
    """``reached`` (item -> who waits for it) as required descendants, unless members already."""
    ids = {m.id for m in batch.members}
    joined = tuple(Member(id=i, blocks=who) for i, who in reached.items() if i not in ids)
    pending = tuple(i for i in batch.pending if i not in reached)
    return replace(batch, members=(*batch.members, *joined), pending=pending)


class _Waits:
    """Who waits for whom: as the queue has it, and as returns in this batch have said. Only the
    queue says who is closed."""

    def __init__(self, batch: Batch, known: Lookup, resolved: Collection[str]) -> None:
        self._members = {m.id: m for m in batch.members}
        self._known = known
        self._resolved = resolved

    def of(self, item: str) -> tuple[str, ...]:
        """What ``item`` waits for directly and is not closed; an absent one holds nobody up."""
        member, found = self._members.get(item), self._known(item)
        said = (*(member.blockers if member else ()), *(found.depends_on if found else ()))
        return self.holding_up(said)

    def holding_up(self, items: Iterable[str]) -> tuple[str, ...]:
        """Those of ``items`` that are not closed, each once."""
        found = ((item, self._known(item)) for item in dict.fromkeys(items))
        return tuple(item for item, it in found if it is not None and it.state not in CLOSED)

    def cared_for(self, item: str) -> bool:
        """Whether ``item`` is a member that will come to an end here."""
        return item in self._members and self.unavailable(item) is None

    def unavailable(self, item: str) -> str | None:
        """Why nobody in this batch will ever fix ``item``, which is not closed."""
        member, found = self._members.get(item), self._known(item)
        if member is not None and member.left and member.disposition is not None:
            return f"{item}, which has left the batch ({member.disposition.kind})"
        if item in self._resolved and found is not None and found.state != "claimed":
            return f"{item}, which was fixed in this batch and is {found.state} again"
        why = barred(found) if found else None
        return f"{item}, which {why}" if why else None


def _reach(
    start: str, first: Sequence[str], waits: Callable[[str], Sequence[str]]
) -> tuple[dict[str, str], list[str]]:
    """All that ``start`` waits for by way of ``first``, each with who waits for it, in the order
    found; and a circle of waiting, if there is one."""
    reached: dict[str, str] = {}
    path: dict[str, Iterator[str]] = {start: iter(first)}
    while path:
        at = next(reversed(path))
        other = next(path[at], None)
        if other is None:
            del path[at]
        elif other in path:
            names = list(path)
            return reached, [*names[names.index(other) :], other]
        elif other not in reached:
            reached[other] = at
            path[other] = iter(waits(other))
    return reached, []
