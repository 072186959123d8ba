"""tasks.md, read without losing a line.

People's files do not follow one grammar, so nothing here refuses a file: every checkbox becomes a
ticket, a criterion of one, an umbrella, or a reported line, and whatever looks wrong is a remark
with its line. `gitbaton.plan.write` ticks boxes in the same file.
"""

from __future__ import annotations

import functools
from bisect import bisect_right

from msgspec.structs import replace

from gitbaton.model.plan import (
    Boxes,
    Criterion,
    Order,
    Plan,
    Remark,
    Section,
    Ticket,
    Umbrella,
    Unit,
)
from gitbaton.plan import advice, directives, lines
from gitbaton.plan.connect import Edges, connect
from gitbaton.plan.directives import Settings
from gitbaton.plan.outline import Heading, Node, Outline, dedented, outline
from gitbaton.plan.phases import Phase, heading_number, phases
from gitbaton.plan.roles import Roles, Work, assign, owned_prose

__all__ = ["check_errors", "read"]

check_errors = advice.check_errors

_NO_WORK = {
    "fence": "a box in a code block: not worked on",
    "comment": "a box in a comment: not worked on",
    "front-matter": "a box in the front matter: not worked on",
}
_HEADINGS_NAMED = 12
_NOTHING = Settings()


@functools.lru_cache(maxsize=4)  # the same text is asked for again and again during a run
def read(data: bytes, *, order: Order | None = None, unit: Unit | None = None) -> Plan:
    """The plan that ``data`` holds. ``order`` and ``unit`` win over what the file says.

    Never raises: what is odd is in ``warnings``, what makes the plan unusable in ``errors``.
    """
    text = lines.cut(data)
    shown = [lines.printable(line) for line in text.lines]
    scan = lines.scan(shown)
    found = outline(shown, scan)
    errors: list[Remark] = []
    file = Settings()
    said = [(d, directives.read(d, file, errors)) for d in scan.directives]
    order_, unit_ = order or file.order or "sections", unit or file.unit or "task"
    parts = phases(found)
    roles = assign(found, parts, unit_)
    settings = _settings(found, roles, said, errors)
    edges = connect(found, roles, settings, order_, unit_)
    plan = Plan(
        order=order_,
        unit=unit_,
        sections=_sections(found, parts),
        tickets=tuple(_ticket(w, settings, edges, at) for at, w in enumerate(roles.works)),
        umbrellas=tuple(_umbrella(node, roles) for node in roles.umbrellas),
        boxes=_count(found, roles),
    )
    _missing(plan, found, errors)
    warnings = [*roles.remarks, *edges.warnings, *_oddities(text.lines, shown, found)]
    warnings += advice.advise(plan, fixed=order or file.order or unit or file.unit)
    return _with_remarks(plan, warnings, [*errors, *edges.errors])


def _with_remarks(plan: Plan, warnings: list[Remark], errors: list[Remark]) -> Plan:
    def in_order(remarks: list[Remark]) -> tuple[Remark, ...]:
        return tuple(sorted(dict.fromkeys(remarks), key=lambda remark: remark.line))

    return replace(plan, warnings=in_order(warnings), errors=in_order(errors))


def _settings(
    found: Outline,
    roles: Roles,
    said: list[tuple[lines.Directive, Settings]],
    errors: list[Remark],
) -> dict[int, Settings]:
    """What directives say, by the line of the ticket or umbrella they stand at or below."""
    settings: dict[int, Settings] = {}
    for directive, words in said:
        if words == _NOTHING:
            continue
        home = found.homes.get(directive.line)
        at = _line_of(home, directive.line, found, roles)
        if at is None:
            message = "this baton comment belongs to no ticket: put it after its text or below it"
            errors.append(Remark(line=directive.line, code="stray-directive", message=message))
        else:
            settings[at] = directives.both(settings.get(at, _NOTHING), words)
    return settings


def _line_of(home: Node | Heading | None, line: int, found: Outline, roles: Roles) -> int | None:
    """The line of the ticket or umbrella that a directive concerns; 0: of something that is only
    reported."""
    if isinstance(home, Node):
        if home.role == "umbrella":
            return home.line
        work = roles.of_node.get(home.line)
        return work.line if work else 0
    at = bisect_right(found.headings, line, key=lambda heading: heading.line)
    heading = home or (found.headings[at - 1] if at else None)
    if roles.of_section:
        section = heading.section if heading else 0
        work = None if section is None else roles.of_section[section]
        return work.line if work else None
    if heading is None or heading.around is None:
        return None
    work = roles.of_heading.get(heading.around.line)
    return work.line if work else 0


def _sections(found: Outline, parts: list[Phase]) -> tuple[Section, ...]:
    prose: list[list[tuple[int, str]]] = [[] for _ in parts]
    for owner, section, piece in owned_prose(found, parts):
        if section is not None and (owner is None or owner.around is None):
            prose[section].append(piece)
    return tuple(
        Section(title=part.title, number=part.number, line=part.line, text=dedented(pieces))
        for part, pieces in zip(parts, prose, strict=True)
    )


def _ticket(work: Work, settings: dict[int, Settings], edges: Edges, at: int) -> Ticket:
    own = settings.get(work.line, _NOTHING)
    for umbrella in reversed(work.umbrellas):
        if umbrella.line in settings:
            own = directives.under(settings[umbrella.line], own)
    mark = work.mark
    ticked = [] if mark == "canceled" else [n for n in work.criteria if n.state != "canceled"]
    if work.box is not None and mark != "canceled":
        ticked.insert(0, work.box)
    return Ticket(
        key=work.key,
        alias=work.alias,
        title=work.title,
        body=dedented(work.body),
        section=work.section,
        line=work.line,
        mark=mark,
        marker=work.box.marker if work.box else "x" if mark == "done" else " ",
        criteria=tuple([_criterion(node) for node in work.criteria]),
        boxes=tuple([node.line for node in ticked]),
        umbrellas=tuple([umbrella.key for umbrella in work.umbrellas]),
        needs=edges.needs[at],
        level=edges.levels[at],
        checks=own.checks,
        paths=own.paths,
        agent=own.agent,
        lease_seconds=own.lease_seconds,
    )


def _criterion(node: Node) -> Criterion:
    below = dedented(node.body)
    text = f"{node.text}\n{below}" if below else node.text
    return Criterion(text=text, key=node.key, done=node.state != "open", line=node.line)


def _umbrella(node: Node, roles: Roles) -> Umbrella:
    children = (
        child.key if child.role == "umbrella" else roles.of_node[child.line].key
        for child in node.children
        if child.role != "reported"
    )
    return Umbrella(
        key=node.key,
        title=node.label.title or node.key,
        body=dedented(node.body),
        line=node.line,
        children=tuple(children),
        mark="open" if node.state == "deferred" else node.state,
    )


def _count(found: Outline, roles: Roles) -> Boxes:
    counts = {"ticket": 0, "criterion": 0, "umbrella": 0, "reported": len(found.strays)}
    for node in found.nodes:
        counts[node.role] += 1
    return Boxes(
        total=sum(counts.values()),
        tickets=counts["ticket"],
        criteria=counts["criterion"],
        umbrellas=counts["umbrella"],
        reported=counts["reported"],
    )


def _missing(plan: Plan, found: Outline, errors: list[Remark]) -> None:
    if plan.tickets:
        return
    names = [f"{'#' * h.level} {h.text}" for h in found.headings[:_HEADINGS_NAMED]]
    if len(found.headings) > _HEADINGS_NAMED:
        names.append(f"{len(found.headings) - _HEADINGS_NAMED} more")
    headings = f"headings: {'; '.join(names)}" if names else "no heading either"
    boxes = f"{plan.boxes.total} boxes, all only reported" if plan.boxes.total else "no checkbox"
    message = f"no ticket in this file: {boxes}; {headings}"
    errors.append(Remark(line=0, code="plan-empty", message=message))


def _oddities(raw: list[str], shown: list[str], found: Outline) -> list[Remark]:
    """Remarks on lines that are neither boxes nor text as usual."""
    remarks = [
        Remark(line=line, code=f"in-{kind}", message=_NO_WORK[kind]) for line, kind in found.strays
    ]
    for line in found.almost:
        message = "brackets like those of a box, but the line does not begin with a bullet"
        remarks.append(Remark(line=line, code="no-bullet", message=message))
    for number, (before, after) in enumerate(zip(raw, shown, strict=True), start=1):
        if before is not after and before != after:
            message = "not UTF-8: shown with replacement characters, kept as it is on writing"
            remarks.append(Remark(line=number, code="not-utf8", message=message))
    for heading in found.headings:
        outside = heading.section is None and heading.level > 1 and heading.label is None
        if outside and heading_number(heading.text)[0]:
            message = f"section '{heading.text}' has no box: no ticket"
            remarks.append(Remark(line=heading.line, code="section-without-boxes", message=message))
    return remarks
