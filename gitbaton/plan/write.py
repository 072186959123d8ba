"""Ticks in tasks.md: only the characters between the brackets of a box ever change.

The file belongs to people. So a tick keeps every other byte, and merging a person's text with the
ticks of a run is a matter of setting markers in the person's bytes.
"""

from __future__ import annotations

from collections.abc import Collection

from gitbaton.errors import PlanError
from gitbaton.model.plan import Order, Plan, Ticket, Umbrella, Unit
from gitbaton.plan import lines, tasksmd
from gitbaton.plan.boxes import box_in


def set_marks(
    data: bytes,
    keys: Collection[str],
    done: bool,
    *,
    order: Order | None = None,
    unit: Unit | None = None,
    ignore_missing: bool = False,
) -> bytes:
    """``data`` with the boxes of the tickets ``keys`` ticked, or unticked: their own, their
    criteria, and umbrellas that are complete thereby, or no longer.

    A key may be an alias or that of an umbrella (all tickets below it). Canceled boxes stay. Raises
    `PlanError` ``unknown-ticket`` when the text has no such ticket, unless ``ignore_missing``.
    """
    plan = tasksmd.read(data, order=order, unit=unit)
    chosen: dict[str, Ticket] = {}
    boxes: set[int] = set()
    for key in keys:
        found = _tickets(plan, key)
        if not found:
            boxes |= (criterion := _criterion(plan, key))
            if not criterion and not ignore_missing:
                raise _unknown(plan, key)
        chosen.update((ticket.key, ticket) for ticket in found)
        boxes |= {line for ticket in found for line in ticket.boxes}
    return _marked(data, boxes | _umbrella_boxes(plan, chosen, done), done)


def carry_ticks(
    person: bytes,
    resolved: Collection[str],
    *,
    order: Order | None = None,
    unit: Unit | None = None,
) -> bytes:
    """A person's text with each box ticked that is ticked there or whose ticket is ``resolved``;
    keys that the text does not have are ignored."""
    return set_marks(person, resolved, True, order=order, unit=unit, ignore_missing=True)


def marks_only_difference(a: bytes, b: bytes) -> bool:
    """Whether two texts differ in nothing but what stands between the brackets of boxes."""
    if a == b:
        return True
    one, other = lines.cut(a), lines.cut(b)
    if (one.mark, one.ends) != (other.mark, other.ends):
        return False
    pairs = zip(one.lines, other.lines, strict=True)
    return all(x == y or _unmarked(x) == _unmarked(y) for x, y in pairs)


class Ticker:
    """A text whose tickets are ticked one after the other, and that is read only once: whoever
    follows a run of a thousand merges would otherwise read it a thousand times."""

    def __init__(self, data: bytes, unit: Unit | None) -> None:
        plan = tasksmd.read(data, unit=unit)
        self.data = data
        self._text = lines.cut(data)
        self._tickets: dict[str, Ticket] = {}
        for ticket in reversed(plan.tickets):
            self._tickets.update(dict.fromkeys(filter(None, (ticket.alias, ticket.key)), ticket))
        self._closed = {ticket.key for ticket in plan.tickets if ticket.mark != "open"}
        self._umbrellas = {umbrella.key: umbrella for umbrella in plan.umbrellas}

    def tick(self, key: str) -> bool:
        """Make ``data`` what `carry_ticks` makes of it for that one key; False if it has no such
        ticket."""
        ticket = self._tickets.get(key)
        if ticket is None:
            return False
        self._closed.add(ticket.key)
        around = (u for u in self._umbrellas.values() if u.key in ticket.umbrellas)
        closed = {u.line for u in around if self._is_closed(u)}
        _mark(self._text, {*ticket.boxes, *closed}, True)
        self.data = self._text.join()
        return True

    def _is_closed(self, umbrella: Umbrella) -> bool:
        return all(
            key in self._closed
            or (key in self._umbrellas and self._is_closed(self._umbrellas[key]))
            for key in umbrella.children
        )


def _tickets(plan: Plan, key: str) -> list[Ticket]:
    ticket = plan.ticket(key)
    if ticket is not None:
        return [ticket]
    if any(umbrella.key == key for umbrella in plan.umbrellas):
        return [ticket for ticket in plan.tickets if key in ticket.umbrellas]
    return []


def _criterion(plan: Plan, key: str) -> set[int]:
    """The line of the criterion that was the ticket ``key`` as long as it was open."""
    return {c.line for t in plan.tickets if t.mark == "done" for c in t.criteria if c.key == key}


def _unknown(plan: Plan, key: str) -> PlanError:
    from difflib import get_close_matches

    known = [ticket.key for ticket in plan.tickets]
    near = get_close_matches(key, known, n=3, cutoff=0.5) or known[:3]
    return PlanError(
        "unknown-ticket",
        f"the plan has no ticket {key}",
        f"nearest: {', '.join(near)}" if near else "the plan has no tickets",
    )


def _umbrella_boxes(plan: Plan, chosen: Collection[str], done: bool) -> set[int]:
    """Lines of the umbrellas around ``chosen`` to be ticked or unticked with them."""
    around = {key for t in plan.tickets if t.key in chosen for key in t.umbrellas}
    if not around or not done:
        return {u.line for u in plan.umbrellas if u.key in around and u.mark != "canceled"}
    closed = {t.key for t in plan.tickets if t.mark != "open" or t.key in chosen}
    lines_: set[int] = set()
    for umbrella in reversed(plan.umbrellas):  # inner ones come later
        if closed.issuperset(umbrella.children):
            closed.add(umbrella.key)
            if umbrella.key in around:
                lines_.add(umbrella.line)
    return lines_


def _marked(data: bytes, numbers: Collection[int], done: bool) -> bytes:
    text = lines.cut(data)
    _mark(text, numbers, done)
    return text.join()


def _mark(text: lines.Text, numbers: Collection[int], done: bool) -> None:
    for number in numbers:
        line = text.lines[number - 1]
        box = box_in(line)
        if box is None or box.state == "canceled" or (box.state == "done") == done:
            continue
        inside = line[box.start : box.end]
        if inside.strip():
            at, width = box.start + inside.index(inside.strip()), len(inside.strip())
        else:
            at, width = box.start, min(1, len(inside))
        text.lines[number - 1] = line[:at] + ("x" if done else " ") + line[at + width :]


def _unmarked(line: str) -> str:
    box = box_in(line)
    return line if box is None else f"{line[: box.start]}\0{line[box.end :]}"
