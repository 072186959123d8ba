"""Who belongs to a batch, and the plan that follows from it.

Only a window of a queue is in the plan at a time, so that a queue of 100,000 items is no plan of
100,000 tickets, and a claim is no new plan. Who was started, disposed of or admitted as somebody's
blocker stays a member, whatever the selector says later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from gitbaton.model.batch import Batch, Disposition, Member
from gitbaton.model.plan import Mark, Plan, Section, Ticket
from gitbaton.model.queue import Item
from gitbaton.model.root import VirtualBatchDescriptor
from gitbaton.rules.batch import WINDOW, thaw
from gitbaton.rules.globs import literal
from gitbaton.rules.select import available, matches

Lookup = Callable[[str], Item | None]

HEAD = 64
"""While the first so many are the right ones, the window of a live batch stays as it is."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def admit(
    descriptor: VirtualBatchDescriptor,
    batch: Batch,
    selected: Sequence[str],
    started: Collection[str],
) -> Batch:
    """``batch`` with the members that it has now; the same one when nothing changes.

    ``selected`` are the ids that the selector chooses now (a snapshot does not look at them),
    ``started`` the items that ever had an attempt in this run. Whoever joins thaws the batch.
    """
    if batch.closed is not None:
        return batch
    if descriptor.membership == "snapshot":
        return batch if descriptor.mode == "one-item" else _topped_up(batch, started)
    size = 1 if descriptor.mode == "one-item" else WINDOW
    return _live(batch, selected, started, size, alone=descriptor.mode == "one-item")


def _fixed(batch: Batch, started: Collection[str]) -> tuple[Member, ...]:
    """The members that stay whatever is selected."""
    needed = {blocker for m in batch.members for blocker in m.blockers}
    return tuple(
        m for m in batch.members if m.id in started or m.history or m.blocks or m.id in needed
    )


def _topped_up(batch: Batch, started: Collection[str]) -> Batch:
    waiting = len(batch.members) - len(_fixed(batch, started))
    if not batch.pending or waiting >= WINDOW // 2:
        return batch
    room = WINDOW - waiting
    return _joined(batch, batch.members, batch.pending[:room], batch.pending[room:])


def _live(
    batch: Batch, selected: Sequence[str], started: Collection[str], size: int, *, alone: bool
) -> Batch:
    stay = _fixed(batch, started)
    if alone and stay:
        return batch
    ids = {m.id for m in stay}
    fresh = [item for item in selected if item not in ids]
    waiting = [m.id for m in batch.members if m.id not in ids]
    head = min(HEAD, size)
    if waiting[:head] == fresh[:head] and set(waiting[head:]) <= set(fresh):
        return batch
    return _joined(batch, stay, fresh[:size], ())


def _joined(
    batch: Batch, stay: tuple[Member, ...], joining: Sequence[str], pending: Sequence[str]
) -> Batch:
    ids = {m.id for m in stay}
    joined = tuple(Member(id=item) for item in joining if item not in ids)
    before = {m.id for m in batch.members}
    if any(m.id not in before for m in joined):
        batch = thaw(batch)
    return replace(batch, members=(*stay, *joined), pending=tuple(pending))


def lost(descriptor: VirtualBatchDescriptor, batch: Batch, item: str, known: Lookup) -> str | None:
    """Why a missing member is no longer this batch's to fix, or None: removed, closed or owned
    meanwhile, put off, or filtered out (filters do not apply to descendants).

    One that another root holds, or that waits for something, is not lost: it is waited for.
    Whether an attempt under way still holds its item is not asked here.
    """
    member, found = batch.member(item), known(item)
    if member is None or member.left:
        return None
    if found is None:
        return "is not in the queue any more"
    why = barred(found)
    if why is not None:
        return f"{why}: {found.reason}" if found.reason else why
    if member.blocks is None and not matches(found, descriptor.filters):
        return "is not meant by the filters any more"
    return None


def barred(item: Item) -> str | None:
    """Why nobody may start an item whoever holds it and whatever it waits for, or None."""
    return available(item, lambda _: None, lambda _: False)


def leave(batch: Batch, item: str, reason: str, at: str) -> Batch:
    """``batch`` without a member that is `lost`, as of the time ``at``."""
    lost = Disposition(kind="eligibility-lost", reason=reason, at=at)
    return replace(
        batch,
        members=tuple(
            replace(m, history=(*m.history, lost)) if m.id == item and not m.left else m
            for m in batch.members
        ),
    )


def plan_of(
    batch: Batch,
    known: Lookup,
    closed: Callable[[str], bool],
    previous: Plan | None = None,
) -> Plan:
    """The plan that the members make: in the order of admission, a descendant before whom it
    blocks.

    ``closed`` says of an item that it holds nobody up (in the queue, or fixed here; one that does
    not exist is closed). A closed or removed item keeps its ticket of the ``previous`` plan: what
    was fixed is not asked for anew because its text changes. Members that left are canceled.
    """
    kept = {t.key: t for t in previous.tickets} if previous is not None else {}
    over = {m.id for m in batch.members if m.left or closed(m.id)}
    found = {m.id: known(m.id) for m in batch.members if not (m.id in over and m.id in kept)}
    needs = _needs([m for m in batch.members if m.id not in over], found)
    sections: dict[str, int] = {}
    tickets = []
    for member in _in_order(batch.members):
        item = found.get(member.id)
        last = kept.get(member.id)
        if item is not None:
            ticket, section = _ticket(item), _line(item.section)
        elif last is not None and previous is not None:
            ticket, section = last, previous.sections[last.section].title
        else:
            ticket, section = Ticket(key=member.id, title=member.id, section=0, line=0), ""
        place = sections.setdefault(section, len(sections))
        mark: Mark = "canceled" if member.left else "open"
        tickets.append(replace(ticket, section=place, mark=mark, needs=needs.get(member.id, ())))
    return Plan(
        order="explicit",
        unit="task",
        sections=tuple(Section(title=title, line=0) for title in sections or [""]),
        tickets=tuple(tickets),
    )


def _ticket(item: Item) -> Ticket:
    """What a worker is told of an item. Where it was found is told, and forbids nothing: the cure
    may lie elsewhere. Only an item with scopes is to be cured there."""
    body = _CONTROL.sub("\ufffd", item.body.replace("\r\n", "\n")).strip()
    title = _line(item.title) or item.id
    return Ticket(
        key=item.id,
        title=title,
        body=body,
        paths=tuple(map(literal, item.scopes)),
        context=() if item.scopes else item.paths,
        section=0,
        line=0,
    )


def _line(text: str) -> str:
    """``text`` on one line, with nothing in it that a terminal would obey."""
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else "\ufffd" for c in line)


def _in_order(members: Sequence[Member]) -> Iterator[Member]:
    """Members in the order of admission, descendants before whom they block."""
    ids = {m.id for m in members}
    below: dict[str | None, list[Member]] = {}
    for member in members:
        below.setdefault(member.blocks if member.blocks in ids else None, []).append(member)
    stack = [(m, False) for m in reversed(below.get(None, []))]
    while stack:
        member, descended = stack.pop()
        if descended or member.id not in below:
            yield member
        else:
            stack.append((member, True))
            stack.extend((m, False) for m in reversed(below[member.id]))


def _needs(
    members: Sequence[Member], found: Mapping[str, Item | None]
) -> dict[str, tuple[str, ...]]:
    """Which of the open members each of them waits for: as the queue says, then as returns have
    said. An edge that would close a circle is left out, since tickets in one are never tried,
    whereas who tries them finds the circle."""
    ids = {m.id for m in members}
    depends = ((m.id, item.depends_on) for m in members if (item := found.get(m.id)) is not None)
    needs: dict[str, tuple[str, ...]] = {}
    for member, others in chain(depends, ((m.id, m.blockers) for m in members)):
        for other in others:
            if other in ids and not _reaches(needs, other, member):
                needs[member] = (*needs.get(member, ()), other)
    return {member: tuple(dict.fromkeys(others)) for member, others in needs.items()}


def _reaches(needs: Mapping[str, Sequence[str]], start: str, goal: str) -> bool:
    seen, left = {start}, [start]
    while left:
        at = left.pop()
        if at == goal:
            return True
        new = [other for other in needs.get(at, ()) if other not in seen]
        seen.update(new)
        left.extend(new)
    return False
