"""Dependencies between tickets as people write them: ``(depends on 1.2)`` and its relatives.

Only a few phrases make an edge. A parenthesis that names a ticket in any other way is pointed out,
since there somebody may have meant an edge that the plan does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gitbaton.plan import boxes
from gitbaton.plan.lines import without_code
from gitbaton.plan.outline import Outline, Piece
from gitbaton.plan.roles import Roles, Work

_VERB = re.compile(
    r"(?:^|[,;(（、，；])\s*(?:depends(?:\s+on)?|needs|requires|after|blocked\s+by)"
    r"(?:\s*[:：]|(?![\w-]))",
    re.IGNORECASE,
)
_UNWRAPPED = re.compile(
    r"^[\s>*_+-]*(?:depends(?:\s+on)?|dependencies|needs|requires|after|blocked\s+by)"
    r"[*_]*\s*[:：][*_]*(.*)",
    re.IGNORECASE,
)
_BRACKET = re.compile("[()（）]")
_SPLIT = re.compile("[\\s,;+&|()（）、，；\\[\\]{}]+")
_TRIM = "`*_#.:：!?。\"'~“”‘’<>="


class Phrase(NamedTuple):
    """What stands in a parenthesis, or as much of it as makes edges or makes none."""

    line: int
    words: list[str]
    edges: bool


def may_name(pieces: Iterable[Piece]) -> bool:
    """A quick look at whether there is anything to read."""
    return any("(" in text or "（" in text or ":" in text or "：" in text for _, text in pieces)


def phrases(pieces: Iterable[Piece]) -> Iterator[Phrase]:
    """The parentheses of a text that may run over several lines."""
    kept = [piece for piece in pieces if piece[1]]
    if not any("(" in text or "（" in text for _, text in kept):
        return
    text = "\n".join(without_code(text) for _, text in kept)
    starts: list[int] = []
    at = 0
    for _, line in kept:
        starts.append(at)
        at += len(line) + 1
    index = 0
    for start, end in _outermost(text):
        while index + 1 < len(starts) and starts[index + 1] <= start:
            index += 1
        yield from _clauses(kept[index][0], text[start + 1 : end])


def _outermost(text: str) -> list[tuple[int, int]]:
    """Where the outermost of the parentheses that close begin and end."""
    opened: list[int] = []
    pairs: list[tuple[int, int]] = []
    for found in _BRACKET.finditer(text):
        if found[0] in "(（":
            opened.append(found.start())
        elif opened:
            start = opened.pop()
            while pairs and pairs[-1][0] > start:
                pairs.pop()
            pairs.append((start, found.start()))
    return pairs


def _clauses(line: int, text: str) -> Iterator[Phrase]:
    at, edges = 0, False
    for found in _VERB.finditer(text):
        yield Phrase(line, listed(text[at : found.start()]), edges)
        at, edges = found.end(), True
    yield Phrase(line, listed(text[at:]), edges)


def listed(text: str) -> list[str]:
    """The words of ``text``, without what separates and surrounds them."""
    return [word for part in _SPLIT.split(text) if (word := part.strip(_TRIM))]


class Names:
    """By what names a dependency can call tickets; all names give indices in plan order."""

    def __init__(self, roles: Roles, found: Outline) -> None:
        self._of: dict[str, tuple[int, ...]] = {}
        index = {id(work): at for at, work in enumerate(roles.works)}
        for at, work in enumerate(roles.works):
            self._of[work.key] = (at,)
        for key, below in _below_umbrellas(roles).items():
            self._of.setdefault(key, tuple(index[id(work)] for work in below))
        for at, work in enumerate(roles.works):
            for name in (work.alias, *work.names):
                self._of.setdefault(name, (at,))
        for key, below in _below_headings(roles, found).items():
            self._of.setdefault(key, tuple(index[id(work)] for work in below))
        self._of.pop("", None)

    def find(self, word: str) -> tuple[list[int], list[str]]:
        """The tickets that ``word`` (a name, or a range of them) names, and what of it names
        none."""
        if word in self._of:
            return list(self._of[word]), []
        members = boxes.range_in(word)
        if not members:
            return [], [word] if boxes.is_key(word) else []
        missing = [m for m in members if m not in self._of]
        if len(missing) == len(members):
            return [], [word]
        return [at for m in members for at in self._of.get(m, ())], missing


def _below_umbrellas(roles: Roles) -> dict[str, list[Work]]:
    below: dict[str, list[Work]] = {}
    for work in roles.works:
        for umbrella in work.umbrellas:
            below.setdefault(umbrella.key, []).append(work)
    return below


def _below_headings(roles: Roles, found: Outline) -> dict[str, list[Work]]:
    """Headings such as ``### 2.1 Routes`` above the tickets 2.1.1 and 2.1.2."""
    keys = {h.label.key for h in found.headings if h.keyed and h.label and "." in h.label.key}
    below: dict[str, list[Work]] = {}
    if not keys:
        return below
    for work in roles.works:
        parts = work.named.split(".")
        for count in range(2, len(parts)):
            if (prefix := ".".join(parts[:count])) in keys:
                below.setdefault(prefix, []).append(work)
    return below


def unwrapped(pieces: Iterable[Piece]) -> Iterator[Phrase]:
    """Lines such as ``Depends on: 1.2``, which make no edge since no parenthesis is around."""
    for line, text in pieces:
        if (":" in text or "：" in text) and (found := _UNWRAPPED.match(text)):
            yield Phrase(line, listed(found[1]), False)
