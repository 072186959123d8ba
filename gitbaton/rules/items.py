"""What must hold of items before they enter a queue: names that can be typed, and dependencies
that exist and end somewhere. Whoever breaks it is told, and the queue stays as it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping

from gitbaton.errors import BatonError, UsageError
from gitbaton.model.ids import encode_key
from gitbaton.model.queue import Item

_LONGEST = 200  # of a name in a tree, where a file system may one day hold it
_WORD = re.compile(r"[a-z0-9]+")
_MOST_LETTERS = 32

Lookup = Callable[[str], Item | None]


def item_id(text: str) -> str:
    """``text`` if it can name an item; raises `UsageError` ``bad-item-id`` otherwise."""
    plain = text.isprintable() and not any(char.isspace() for char in text)
    if not text or not plain or len(encode_key(text)) > _LONGEST or text.startswith("-"):
        raise UsageError(
            "bad-item-id",
            f"{text[:80]!r} cannot name an item",
            "use letters, digits and signs, without spaces, not beginning with '-'",
        )
    return text


def id_of_title(title: str, taken: Callable[[str], bool]) -> str:
    """An id for what a person wrote: its first words, and a number if those are taken."""
    stem = ""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    for word in _WORD.findall(plain):
        longer = f"{stem}-{word}" if stem else word
        if len(longer) > _MOST_LETTERS:
            break
        stem = longer
    stem = stem or "item"
    number, name = 1, stem
    while taken(name):
        number += 1
        name = f"{stem}-{number}"
    return name


def require_dependencies(changed: Mapping[str, Item], before: Lookup) -> None:
    """Raise `BatonError` ``unknown-dependency`` or ``dependency-cycle`` for what ``changed`` adds
    to the items ``before``. A dependency that was removed from the queue later is no error."""

    def after(item: str) -> Item | None:
        return changed.get(item) or before(item)

    grown: list[str] = []
    for item in changed.values():
        old = before(item.id)
        new = [needed for needed in item.depends_on if not old or needed not in old.depends_on]
        for needed in new:
            if after(needed) is None:
                raise BatonError(
                    "unknown-dependency",
                    f"{item.id} depends on {needed}, which is not in the queue",
                    "name an item of the queue, or import both at once",
                )
        if new:
            grown.append(item.id)
    _require_no_cycle(grown, after)


def _require_no_cycle(starts: Iterable[str], known: Lookup) -> None:
    """Follow all dependencies of ``starts``, each of them once; none may lead back to itself."""

    def needs(name: str) -> Iterator[str]:
        item = known(name)
        return iter(item.depends_on if item else ())

    done: set[str] = set()
    for start in starts:
        way = {start: needs(start)} if start not in done else {}
        while way:
            at = next(reversed(way))
            needed = next(way[at], None)
            if needed is None:
                done.add(at)
                del way[at]
            elif needed in way:
                names = list(way)
                circle = " -> ".join((*names[names.index(needed) :], needed))
                raise BatonError(
                    "dependency-cycle",
                    f"items wait for each other: {circle}",
                    "remove one of these dependencies",
                )
            elif needed not in done:
                way[needed] = needs(needed)
