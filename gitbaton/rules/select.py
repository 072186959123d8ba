"""Which items of a queue are next. This is the only code that chooses.

The listing, ``queue next`` and every batch ask here, so that what a person sees is what a batch
gets. A selection depends on nothing but the items, the filters, the order and who still holds
what; ties end with the id, so it is the same on every machine.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter, itemgetter

from gitbaton.model.ids import natural_key
from gitbaton.model.queue import CLOSED, ORDER, SEVERITIES, Claim, Filters, Item, OrderKey
from gitbaton.rules.globs import glob_match

Holds = Callable[[Claim], bool]
"""Whether a claim still stands: its run records it, or intends to."""

_WORST = {severity: at for at, severity in enumerate(SEVERITIES)}


def stands(claim: Claim) -> bool:
    """Any claim holds: the answer where nobody looks into the runs."""
    return True


def select(
    items: Mapping[str, Item],
    filters: Filters,
    order: Sequence[OrderKey] = ORDER,
    *,
    holds: Holds = stands,
    limit: int | None = None,
) -> list[str]:
    """The ids of the items that are available and meant, in order; the first ``limit`` of them."""
    found = candidates(items, filters, holds=holds)
    return [item.id for item in ordered(found, order, limit=limit)]


def candidates(items: Mapping[str, Item], filters: Filters, *, holds: Holds = stands) -> list[Item]:
    """The items that are available and meant, in no particular order."""
    every: Iterable[Item] = items.values()
    if filters != Filters():
        every = filter(meaning(filters), every)
    return [item for item in every if available(item, items.get, holds) is None]


def available(item: Item, known: Callable[[str], Item | None], holds: Holds = stands) -> str | None:
    """Why nobody may start the item now, in words that follow its id; None: it may be started.

    ``known`` looks up what it depends on; what is in the queue no more holds nothing up.
    """
    if item.state == "open" and item.owner is None and not item.depends_on:
        return None  # as nearly all are
    if item.state == "owned" or item.owner is not None:
        return f"is left to {item.owner}"
    if item.state == "claimed":
        if item.claimed_by is not None and holds(item.claimed_by):
            return f"is held by {item.claimed_by.run}/{item.claimed_by.attempt}"
    elif item.state != "open" and not (item.state == "blocked" and item.depends_on):
        return f"is {item.state}"
    for needed in item.depends_on:
        other = known(needed)
        if other is not None and other.state not in CLOSED:
            return f"waits for {needed}"
    return None


def matches(item: Item, filters: Filters) -> bool:
    """Whether the filters mean the item, whatever state it is in."""
    return meaning(filters)(item)


def meaning(filters: Filters) -> Callable[[Item], bool]:
    """Whether filters mean an item, as a function, for asking about many."""
    tests = list(_tests(filters))
    if len(tests) == 1:
        return tests[0]
    return lambda item: all(test(item) for test in tests)


def ordered(
    items: Sequence[Item], order: Sequence[OrderKey] = ORDER, *, limit: int | None = None
) -> list[Item]:
    """The first ``limit`` items in order, or all of them.

    Ids cost most to compare, so they are only where everything else is equal and still wanted.
    """
    before, by_id = _until_id(order)
    values = _values(before)
    groups: dict[tuple[str, ...], list[Item]] = {}
    for item in items:
        groups.setdefault(values(item), []).append(item)
    found: list[Item] = []
    for each in _ranked(groups, before):
        left = None if limit is None else limit - len(found)
        if left == 0:
            break
        found += _by_id(groups[each], left, backwards=by_id == "-id")
    return found


def _until_id(order: Sequence[OrderKey]) -> tuple[list[OrderKey], OrderKey]:
    """The keys before the id, and how ids go: after an id nothing is left to be decided."""
    before: list[OrderKey] = []
    for key in order:
        if key in ("id", "-id"):
            return before, key
        before.append(key)
    return before, "id"


def _values(keys: Sequence[OrderKey]) -> Callable[[Item], tuple[str, ...]]:
    """What an item has for each of ``keys``."""
    names = [key.removeprefix("-") for key in keys]
    if not names:
        return lambda item: ()
    return attrgetter(*names, names[0])  # of one name alone it would be no tuple


def _ranked(groups: Iterable[tuple[str, ...]], keys: Sequence[OrderKey]) -> list[tuple[str, ...]]:
    ranked = list(groups)
    for at, key in reversed(list(enumerate(keys))):
        severity = key in ("severity", "-severity")
        ranked.sort(
            key=(lambda values, at=at: _WORST[values[at]]) if severity else itemgetter(at),
            reverse=key.startswith("-"),
        )
    return ranked


def _by_id(items: list[Item], limit: int | None, *, backwards: bool) -> list[Item]:
    if len(items) == 1:
        return items
    ids = [item.id for item in items]
    if limit is None or limit >= len(items):
        ids.sort(key=_id_key, reverse=backwards)
    else:
        ids = (heapq.nlargest if backwards else heapq.nsmallest)(limit, ids, key=_id_key)
    wanted = frozenset(ids)
    by_id = {item.id: item for item in items if item.id in wanted}
    return [by_id[each] for each in ids]


@lru_cache(1 << 17)
def _id_key(text: str) -> str:
    """``01`` and ``1`` are the same number, but not the same id."""
    return f"{natural_key(text)}\0{text}"


def _tests(filters: Filters) -> Iterator[Callable[[Item], bool]]:
    """One test for each kind of filter that is set."""
    if filters.severity is not None:
        floor = _WORST[filters.severity]
        yield lambda item: _WORST[item.severity] <= floor
    if filters.sections:
        yield lambda item: item.section in filters.sections
    if filters.labels:
        wanted = frozenset(filters.labels)
        yield lambda item: not wanted.isdisjoint(item.labels)
    if filters.paths:
        yield lambda item: any(glob_match(path, filters.paths) for path in item.paths)
    if filters.ids:
        ids = frozenset(filters.ids)
        yield lambda item: item.id in ids
    if filters.text:
        words = tuple(word.casefold() for word in filters.text)
        yield lambda item: _mentions(item, words)


def _mentions(item: Item, words: Sequence[str]) -> bool:
    title, body = item.title.casefold(), item.body.casefold()
    return any(word in title or word in body for word in words)
