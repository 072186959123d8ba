"""Which box is a ticket, a criterion, an umbrella, or only reported - and what each is called.

Every box gets exactly one of these roles; that is what makes the reader lossless.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator

import msgspec

from gitbaton.model.plan import Mark, Remark, Unit
from gitbaton.plan.outline import Heading, Node, Outline, Piece
from gitbaton.plan.phases import Phase

_ASIDE = {
    "deferred": "deferred: not worked on",
    "struck-open": "crossed out but not ticked: not worked on",
    "empty-box": "a box without text: not worked on",
}


class Work(msgspec.Struct, eq=False):
    """A ticket in the making. ``box`` is its own box, if it has one; ``names`` are further names by
    which a dependency may call it; ``umbrellas`` are those around it, outermost first."""

    line: int
    section: int
    title: str
    named: str
    text: str
    box: Node | None = None
    names: list[str] = msgspec.field(default_factory=list)
    body: list[Piece] = msgspec.field(default_factory=list)
    criteria: list[Node] = msgspec.field(default_factory=list)
    umbrellas: tuple[Node, ...] = ()
    key: str = ""
    alias: str = ""
    struck: bool = False  # its heading is crossed out

    @property
    def mark(self) -> Mark:
        """Its state; without a box of its own, that of its criteria together."""
        if self.box is not None:
            state = self.box.state
            return "open" if state == "deferred" else state
        states = {node.state for node in self.criteria}
        if self.struck or states == {"canceled"}:
            return "canceled"
        return "done" if states <= {"done", "canceled"} else "open"

    def pieces(self) -> Iterator[Piece]:
        """Everything written about it, with lines."""
        yield self.line, self.text
        yield from self.body
        for node in self.criteria:
            yield node.line, node.text
            yield from node.body


class Roles(msgspec.Struct, eq=False):
    """The tickets in plan order, the umbrellas, and to which of them each box went."""

    works: list[Work]
    umbrellas: list[Node]
    of_node: dict[int, Work]  # by line
    of_heading: dict[int, Work]
    of_section: dict[int, Work]
    remarks: list[Remark]


def assign(found: Outline, phases: list[Phase], unit: Unit) -> Roles:
    """Give every box its role and every ticket its key."""
    roles = Roles([], [], {}, {}, {}, [])
    if unit == "section":
        _by_section(found, phases, roles)
    else:
        _by_task(found, roles)
        _keys_fit_sections(roles, phases)
    _prose(found, phases, roles)
    _name(roles, found, phases, unit)
    return roles


def _remark(roles: Roles, line: int, code: str, message: str) -> None:
    roles.remarks.append(Remark(line=line, code=code, message=message))


def _report(roles: Roles, node: Node, why: str) -> None:
    node.role, node.why = "reported", why
    name = node.label.key or node.label.title
    _remark(roles, node.line, why, f"{short(name)} is {_ASIDE[why]}" if name else _ASIDE[why])


def short(text: str) -> str:
    """``text`` in quotes, cut to what fits in a message."""
    return f"'{text if len(text) <= 60 else text[:59] + '…'}'"


# --- one ticket a task -------------------------------------------------------------------------


def _by_task(found: Outline, roles: Roles) -> None:
    umbrellas = _umbrellas(found.nodes)
    struck = {
        h.line
        for h in found.headings
        if h.ticket and h.label and h.label.struck and any(n.state == "open" for n in h.nodes)
    }
    works: list[Work] = []
    for heading in found.headings:
        if heading.ticket and heading.line not in struck and heading.label is not None:
            label = heading.label
            title = label.title or label.key
            work = Work(heading.line, heading.section or 0, title, label.key, heading.text)
            work.names += (label.written, *label.members)
            work.struck = label.struck
            if label.members:
                _remark_range(roles, heading.line, label.key)
            roles.of_heading[heading.line] = work
            works.append(work)
        elif heading.label is not None and not heading.below:
            name = f"heading {short(heading.text)}"
            _remark(roles, heading.line, "heading-without-boxes", f"{name} has no box: no ticket")
    for node in found.nodes:
        _take(node, node.line in umbrellas, struck, roles, works)
    works.sort(key=lambda work: work.line)
    roles.works = works


def _umbrellas(nodes: list[Node]) -> set[int]:
    """Lines of the boxes that have a child with a key, or one that is an umbrella itself."""
    lines: set[int] = set()
    for node in reversed(nodes):
        parent = node.parent
        if parent is not None and (node.label.key or node.line in lines) and not node.set_aside():
            lines.add(parent.line)
    return lines


def _take(node: Node, umbrella: bool, struck: set[int], roles: Roles, works: list[Work]) -> None:
    """Decide the role of ``node``; its parent has one already."""
    parent, heading = node.parent, node.heading
    aside = node.set_aside()
    if aside:
        _report(roles, node, aside)
    elif parent is not None and parent.role == "reported":
        _report(roles, node, parent.why)
    elif heading is not None and heading.line in struck:
        _report(roles, node, "struck-open")
    elif heading is not None:
        node.role = "criterion"
        roles.of_heading[heading.line].criteria.append(node)
        roles.of_node[node.line] = roles.of_heading[heading.line]
    elif umbrella:
        node.role = "umbrella"
        roles.umbrellas.append(node)
        _open_below(node, roles)
    elif _open_below(node, roles) or parent is None or parent.role == "umbrella":
        works.append(_work_of(node, roles))
    else:
        node.role, node.owner = "criterion", parent.owner or parent
        work = roles.of_node[node.owner.line]
        work.criteria.append(node)
        roles.of_node[node.line] = work
    if node.label.members and node.role != "reported":
        _remark_range(roles, node.line, node.label.key)


def _remark_range(roles: Roles, line: int, key: str) -> None:
    message = f"{key} is a range: one ticket, its members are names for it"
    _remark(roles, line, "range-key", message)


def _open_below(node: Node, roles: Roles) -> bool:
    """Whether an open box stands below a done one, which a tick would never reach."""
    above = node.parent
    if above is not None and above.role == "criterion":
        above = above.owner
    if above is None or above.role == "reported" or node.state != "open":
        return False
    if above.state == "canceled" and above.role == "umbrella":
        message = f"{short(node.text)} is open below a canceled box: it is a ticket"
        _remark(roles, node.line, "open-below-canceled", message)
    if above.state == "done":
        message = f"{short(node.text)} is open below a box that is done: it is a ticket"
        _remark(roles, node.line, "open-below-done", message)
    return above.state == "done"


def _work_of(node: Node, roles: Roles) -> Work:
    label = node.label
    work = Work(node.line, node.section, label.title or label.key, label.key, node.text, node)
    work.body = node.body
    if label.members:
        work.names += (label.written, *label.members)
    if node.parent is not None:
        work.umbrellas = _umbrellas_around(node)
    roles.of_node[node.line] = work
    return work


def _umbrellas_around(node: Node) -> tuple[Node, ...]:
    around: list[Node] = []
    above = node.parent
    while above is not None:
        if above.role == "umbrella":
            around.append(above)
        above = above.parent
    return tuple(reversed(around))


def _keys_fit_sections(roles: Roles, phases: list[Phase]) -> None:
    for work in roles.works:
        number, key = phases[work.section].number, work.named
        if not number or key.startswith(f"{number}.") or key == number or "." not in key:
            continue
        if key[0].isdigit() == number[0].isdigit():
            message = f"{key} stands in section {number}"
            _remark(roles, work.line, "key-section", message)


# --- one ticket a section ----------------------------------------------------------------------


def _by_section(found: Outline, phases: list[Phase], roles: Roles) -> None:
    works = [Work(p.line, i, p.title or "tasks", p.number, p.title) for i, p in enumerate(phases)]
    for node in found.nodes:
        aside = node.set_aside()
        if node.parent is not None and node.parent.role == "reported":
            aside = aside or node.parent.why
        if aside:
            _report(roles, node, aside)
            continue
        node.role = "criterion"
        work = works[node.section]
        work.criteria.append(node)
        if node.label.key:
            work.names += (node.label.key, node.label.written, *node.label.members)
        roles.of_node[node.line] = work
    for heading in found.headings:
        if heading.label is not None and heading.section is not None:
            works[heading.section].names.append(heading.label.key)
            roles.of_heading[heading.line] = works[heading.section]
    for index, work in enumerate(works):
        work.line = work.line or (work.criteria[0].line if work.criteria else 0)
        roles.of_section[index] = work
    roles.works = [work for work in works if work.criteria]


# --- text and names ----------------------------------------------------------------------------


def _prose(found: Outline, phases: list[Phase], roles: Roles) -> None:
    """Give the text below a heading ticket to it; in a section that is a ticket, all of it."""
    for owner, section, piece in owned_prose(found, phases):
        work = roles.of_heading.get(owner.around.line) if owner and owner.around else None
        if section is not None and roles.of_section:
            work = roles.of_section[section]
        if work is not None:
            work.body.append(piece)


def owned_prose(
    found: Outline, phases: list[Phase]
) -> Iterator[tuple[Heading | None, int | None, Piece]]:
    """Text outside boxes, with the heading that it follows and its section; headings inside a
    section are part of its text."""
    starts = {phase.line for phase in phases}
    section = 0 if phases and phases[0].line == 0 else None
    owner: Heading | None = None
    lines: list[tuple[int, Heading | str]] = [(h.line, h) for h in found.headings]
    for line, thing in sorted([*lines, *found.prose], key=lambda event: event[0]):
        if isinstance(thing, str):
            yield owner, section, (line, thing)
            continue
        owner, section = thing, thing.section
        if thing.level > 1 and thing.line not in starts and not thing.ticket:
            yield owner, section, (line, f"{'#' * thing.level} {thing.text}")


def _name(roles: Roles, found: Outline, phases: list[Phase], unit: Unit) -> None:
    """Give every ticket and umbrella its key, in the order of the file.

    A box without a key in its text gets one whatever its role, so that keys do not depend on ticks.
    """
    _hash_keys(found.nodes, phases)
    things: list[Work | Node] = [*roles.works, *roles.umbrellas]
    things.sort(key=lambda thing: thing.line)
    taken: dict[str, int] = {}
    position: Counter[int] = Counter()
    for thing in things:
        if isinstance(thing, Node):
            key = thing.key or thing.label.key
        else:
            position[thing.section] += 1
            key = thing.named or (thing.box.key if thing.box else _slug(phases[thing.section].name))
            if not thing.named:
                place = f"s{thing.section + 1}"
                thing.alias = place if unit == "section" else f"{place}.{position[thing.section]}"
        thing.key = _unique(key, taken)
        if thing.key != key:
            message = f"the key {key} comes again: this one is {thing.key}"
            _remark(roles, thing.line, "duplicate-key", message)


def _hash_keys(nodes: list[Node], phases: list[Phase]) -> None:
    equals: Counter[tuple[str, str]] = Counter()
    for node in nodes:
        if not node.label.key:
            same = phases[node.section].name, node.label.title
            node.key = _hash(*same, equals[same])
            equals[same] += 1


def _unique(key: str, taken: dict[str, int]) -> str:
    """``key``, or ``KEY~2`` and so on; ``taken`` counts how often each has been asked for."""
    count = taken[key] = taken.get(key, 0) + 1
    if count == 1:
        return key
    return _unique(f"{key}~{count}", taken)


def _hash(section: str, text: str, ordinal: int) -> str:
    return hashlib.sha256(f"{section}\0{text}\0{ordinal}".encode()).hexdigest()[:8]


def _slug(name: str) -> str:
    """The key of a section without a number."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-")
    return slug if slug and name.isascii() else _hash(name, "", 0)
