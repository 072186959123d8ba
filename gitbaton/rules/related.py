"""What else may have the same cause: advice for a person who thinks about one cure for many items.

Nothing follows from it. Two items of one rule in one file are often one mistake; more than that
nobody can tell from the outside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gitbaton.model.queue import CLOSED, Item
from gitbaton.rules.select import ordered

_WORD = re.compile(r"[^\W\d_]{4,}")
_OF_LABEL, _OF_PATH, _OF_WORD = 3, 2, 1


class Related(NamedTuple):
    """An item and what it has in common with another."""

    item: Item
    because: tuple[str, ...]


def related(items: Mapping[str, Item], item: Item, limit: int) -> list[Related]:
    """Open items that share a label, a path or words of the title with ``item``, those that share
    most first."""
    words = _words(item)
    found: dict[int, list[Related]] = {}
    for other in items.values():
        if other.id == item.id or other.state in CLOSED:
            continue
        labels = [label for label in item.labels if label in other.labels]
        paths = [path for path in item.paths if path in other.paths]
        shared = sorted(words & _words(other))
        score = _OF_LABEL * len(labels) + _OF_PATH * len(paths) + _OF_WORD * len(shared)
        if labels or paths or len(shared) > 1:
            found.setdefault(score, []).append(Related(other, (*labels, *paths, *shared)))
    best: list[Related] = []
    for score in sorted(found, reverse=True):
        best += _in_order(found[score], limit - len(best))
    return best


def _in_order(equal: Sequence[Related], limit: int) -> list[Related]:
    by_id = {each.item.id: each for each in equal}
    first = ordered([each.item for each in equal], limit=limit)
    return [by_id[item.id] for item in first]


def _words(item: Item) -> set[str]:
    return {word.casefold() for word in _WORD.findall(item.title)}
