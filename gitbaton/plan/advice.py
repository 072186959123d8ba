"""What a person should know about a plan that loads: overlaps, better settings, what CI refuses.

Nothing here changes the plan. A remark that is wrong costs a glance, so these are guesses by
simple signs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from gitbaton.model.plan import Plan, Remark, Ticket

_RED = re.compile(r"\b(?:failing|red)\b|\b(?:write|add)\s+(?:\w+\s+){0,3}tests?\b", re.IGNORECASE)
_GREEN = re.compile(r"\b(?:green|implement|make\b.*\bpass)", re.IGNORECASE)
_PAIRS = 2
_TINY_TITLE = 40
_TINY_STEPS = 5
_TINY_PLAN = 12
_WILD = re.compile(r"[*?\[]")
_LOOK_BACK = 64


def check_errors(plan: Plan) -> tuple[Remark, ...]:
    """What `plan --check` refuses: the errors of the plan, and a key that comes twice while one of
    the two is open."""
    open_keys = {_family(t.key) for t in plan.tickets if t.mark == "open"}
    open_keys |= {_family(u.key) for u in plan.umbrellas if u.mark == "open"}
    key_at = {ticket.line: ticket.key for ticket in plan.tickets}
    key_at |= {umbrella.line: umbrella.key for umbrella in plan.umbrellas}
    doubles = (
        remark
        for remark in plan.warnings
        if remark.code == "duplicate-key" and _family(key_at.get(remark.line, "")) in open_keys
    )
    return (*plan.errors, *doubles)


def _family(key: str) -> str:
    return re.sub(r"(?:~\d+)+$", "", key)


def advise(plan: Plan, fixed: str | None) -> Iterator[Remark]:
    """Warnings about the plan as a whole; no other order or unit is suggested when one is
    ``fixed``."""
    yield from _overlaps(plan)
    if not fixed and plan.unit == "task":
        if pairs := _red_green_pairs(plan.tickets):
            message = (
                f"{pairs} times a failing test comes right before its implementation, and both may "
                "start at once: consider order=sequential or '(depends on ...)'"
            )
            yield Remark(line=0, code="suggest-order", message=message)
        elif _tiny(plan):
            message = (
                "the tickets are small steps of sections: consider unit=section, one ticket each"
            )
            yield Remark(line=0, code="suggest-unit", message=message)


def _red_green_pairs(tickets: tuple[Ticket, ...]) -> int:
    """How many open tickets are a test that the next of the section makes pass; 0 if few."""
    pairs = sum(
        1
        for red, green in pairwise(tickets)
        if red.mark == "open"
        and red.section == green.section
        and red.key not in green.needs
        and _RED.search(red.title)
        and not _RED.search(green.title)
        and _GREEN.search(green.title)
    )
    waiting = sum(1 for ticket in tickets if ticket.mark == "open")
    return pairs if pairs >= _PAIRS and 4 * pairs >= waiting else 0


def _tiny(plan: Plan) -> bool:
    waiting = [ticket for ticket in plan.tickets if ticket.mark == "open"]
    sections = {ticket.section for ticket in waiting}
    if len(sections) < _PAIRS or len(waiting) < max(_TINY_PLAN, _TINY_STEPS * len(sections)):
        return False
    if any(ticket.body or ticket.criteria or ticket.checks for ticket in waiting):
        return False
    return all(len(ticket.title) <= _TINY_TITLE for ticket in waiting)


# --- parallel tickets that may change the same files -------------------------------------------


def _overlaps(plan: Plan) -> Iterator[Remark]:
    """For each ticket the first other one that may run beside it with overlapping ``paths``.

    Patterns are sorted by what stands before their first wildcard: only those can overlap of which
    one begins like the other, and these are neighbours then.
    """
    globs = sorted(
        (ticket.level, _fixed(pattern), pattern, at)
        for at, ticket in enumerate(plan.tickets)
        if ticket.mark == "open"
        for pattern in ticket.paths
    )
    index = {ticket.key: at for at, ticket in enumerate(plan.tickets)} if globs else {}
    seen: set[tuple[int, int]] = set()
    around: list[tuple[int, tuple[str, ...], str, int]] = []
    for entry in globs:
        level, fixed, pattern, at = entry
        around = [e for e in around[-_LOOK_BACK:] if e[0] == level and fixed[: len(e[1])] == e[1]]
        for _, _, other, beside in reversed(around):
            pair = (min(at, beside), max(at, beside))
            if at == beside or pair in seen or not overlap(pattern, other):
                continue
            seen.add(pair)
            first, second = plan.tickets[pair[0]], plan.tickets[pair[1]]
            if not _ordered(plan, index, *pair):
                message = f"{first.key} and {second.key} may run at once, and both may change "
                message += pattern if pattern == other else f"{other} and {pattern}"
                yield Remark(line=second.line, code="paths-overlap", message=message)
                break
        around.append(entry)


def _ordered(plan: Plan, index: dict[str, int], first: int, second: int) -> bool:
    """Whether one of two tickets of the same level waits for the other by edges."""
    for start, goal in ((first, second), (second, first)):
        stack, seen = [start], {start}
        while stack:
            for key in plan.tickets[stack.pop()].needs:
                target = index[key]
                if target == goal:
                    return True
                if target not in seen and plan.tickets[target].level == plan.tickets[goal].level:
                    seen.add(target)
                    stack.append(target)
    return False


def _fixed(pattern: str) -> tuple[str, ...]:
    """The folders and name before the first wildcard; none for a name at any depth."""
    parts = _parts(pattern)
    if len(parts) == 1 and _WILD.search(pattern) and not pattern.endswith("/"):
        return ()
    wild = next((at for at, part in enumerate(parts) if _WILD.search(part)), len(parts))
    return tuple(parts[:wild])


def _parts(pattern: str) -> list[str]:
    return [part for part in pattern.removeprefix("./").split("/") if part]


def overlap(one: str, other: str) -> bool:
    """Whether some path may match both patterns; one without a dot in its last name is taken for a
    folder, too."""
    return _meet(_anchored(one), _anchored(other))


def _anchored(pattern: str) -> list[str]:
    parts = _parts(pattern)
    below = [] if parts and "." in parts[-1] and not pattern.endswith("/") else ["**"]
    if len(parts) == 1 and _WILD.search(pattern) and not pattern.endswith("/"):
        return ["**", *parts, *below]
    return [*parts, *below]


def _meet(one: list[str], other: list[str]) -> bool:
    """Whether the two sequences of name patterns, in which ``**`` is any number, have a path in
    common."""
    row = [True] + [False] * len(other)
    for j, part in enumerate(other):
        row[j + 1] = row[j] and part == "**"
    for left in one:
        above, row = row, [row[0] and left == "**"] + [False] * len(other)
        for j, right in enumerate(other):
            row[j + 1] = (
                (left == "**" and above[j + 1])
                or (right == "**" and row[j])
                or (above[j] and _names_meet(left, right))
            )
            if left == "**":
                row[j + 1] = row[j + 1] or row[j]
            if right == "**":
                row[j + 1] = row[j + 1] or above[j + 1]
    return row[-1]


def _names_meet(one: str, other: str) -> bool:
    """Whether two name patterns may match the same name: by their fixed beginnings and ends."""
    if not _WILD.search(one) and not _WILD.search(other):
        return one == other
    heads = _WILD.split(one, maxsplit=1)[0], _WILD.split(other, maxsplit=1)[0]
    if not (heads[0].startswith(heads[1]) or heads[1].startswith(heads[0])):
        return False
    tails = re.split(r"[*?\]]", one)[-1], re.split(r"[*?\]]", other)[-1]
    return tails[0].endswith(tails[1]) or tails[1].endswith(tails[0])
