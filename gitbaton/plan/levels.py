"""From edges and phases to an order without cycles.

A ticket waits for all tickets of a lower level, so that ten thousand tickets need no million
edges. An explicit edge against the order of the phases pulls its target, and what that needs, to a
lower level; the pulled ticket still waits for whatever came before it and does not wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_ENOUGH = 20  # cycles to report


class Settled(NamedTuple):
    """For each ticket its level and what it needs; ``pulled`` maps a ticket that was pulled to a
    lower level to the one for which it was."""

    levels: list[int]
    needs: list[set[int]]
    pulled: dict[int, int]


def cycles(needs: Sequence[set[int]]) -> list[list[int]]:
    """Some cycles of ``needs``, if there is any; each begins with its smallest ticket."""
    state = [0] * len(needs)
    found: list[list[int]] = []
    for root in range(len(needs)):
        path: list[int] = []
        stack = [root] if not state[root] else []
        while stack and len(found) < _ENOUGH:
            at = stack[-1]
            if state[at] == 0:
                state[at] = 1
                path.append(at)
                for target in sorted(needs[at], reverse=True):
                    if state[target] == 1:
                        found.append(_rotated(path[path.index(target) :]))
                    elif state[target] == 0:
                        stack.append(target)
                continue
            stack.pop()
            if state[at] == 1:
                state[at] = 2
                path.pop()
    return found


def _rotated(cycle: list[int]) -> list[int]:
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]


def settle(ranks: Sequence[int], needs: Sequence[set[int]]) -> Settled:
    """Levels for tickets that come in plan order with non-decreasing ``ranks`` (their phases) and
    ``needs`` without cycles."""
    levels = list(ranks)
    pulled: dict[int, int] = {}
    order = _needed_first(needs)
    for at in reversed(order):
        for target in needs[at]:
            if levels[at] < levels[target]:
                levels[target] = levels[at]
                pulled[target] = pulled.get(at, at)
    out = [set(targets) for targets in needs]
    _keep_phases(ranks, levels, out, sorted(pulled), order)
    return Settled(levels, out, pulled)


def _needed_first(needs: Sequence[set[int]]) -> list[int]:
    """All tickets, each after what it needs."""
    order: list[int] = []
    seen = bytearray(len(needs))
    for root in range(len(needs)):
        stack = [root]
        while stack:
            at = stack[-1]
            if seen[at] == 0:
                seen[at] = 1
                stack += [target for target in needs[at] if not seen[target]]
            else:
                stack.pop()
                if seen[at] == 1:
                    seen[at] = 2
                    order.append(at)
    return order


def _keep_phases(
    ranks: Sequence[int],
    levels: list[int],
    needs: list[set[int]],
    pulled: list[int],
    order: list[int],
) -> None:
    """Let each pulled ticket wait for those of earlier phases on its level that do not wait for it.

    Sets of tickets are bits of integers here. An edge that others imply is not added, so a plan
    pulled together as a whole gets few edges.
    """
    if not pulled:
        return
    touched = {levels[at] for at in pulled}
    ahead: dict[int, int] = {}  # ticket -> what it waits for on its level, as far as known
    members: dict[int, list[int]] = {level: [] for level in touched}
    users: dict[int, list[int]] = {}
    for at in order:
        if levels[at] in touched:
            ahead[at] = 0
            for target in needs[at]:
                if levels[target] == levels[at]:
                    users.setdefault(target, []).append(at)
                    ahead[at] |= 1 << target | ahead[target]
    for at, level in enumerate(levels):
        if level in touched:
            members[level].append(at)
    for level in sorted(touched):
        before = _before(members[level], ranks)
        for at in (p for p in pulled if levels[p] == level):
            wanted = before[ranks[at]] & ~_waiting(at, users) & ~ahead[at]
            while wanted:
                target = wanted.bit_length() - 1
                needs[at].add(target)
                users.setdefault(target, []).append(at)
                ahead[at] |= 1 << target | ahead[target]
                wanted &= ~ahead[at]


def _before(members: list[int], ranks: Sequence[int]) -> dict[int, int]:
    """For each rank the members of lower ranks."""
    out: dict[int, int] = {}
    below = 0
    for at in members:
        out.setdefault(ranks[at], below)
        below |= 1 << at
    return out


def _waiting(at: int, users: dict[int, list[int]]) -> int:
    """``at`` and all that wait for it by edges."""
    seen = 1 << at
    stack = [at]
    while stack:
        for user in users.get(stack.pop(), ()):
            if not seen >> user & 1:
                seen |= 1 << user
                stack.append(user)
    return seen
