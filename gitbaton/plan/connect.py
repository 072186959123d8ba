"""The edges of a plan: what each ticket needs, and which levels that and the order give.

Targets are names as people write them; here they become tickets, cycles become errors, and the
order of the plan (sections, sequential or explicit edges only) becomes levels.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from gitbaton.model.plan import Order, Remark, Unit
from gitbaton.plan import boxes, levels
from gitbaton.plan.directives import Settings
from gitbaton.plan.edges import Names, Phrase, listed, may_name, phrases, unwrapped
from gitbaton.plan.outline import Node, Outline
from gitbaton.plan.roles import Roles, Work


class Edges(NamedTuple):
    """Per ticket, in plan order: the keys it needs and its level; and what is wrong."""

    needs: list[tuple[str, ...]]
    levels: list[int]
    warnings: list[Remark]
    errors: list[Remark]


def connect(
    found: Outline, roles: Roles, settings: dict[int, Settings], order: Order, unit: Unit
) -> Edges:
    """Resolve all edges of the plan."""
    works = roles.works
    edges = Edges([], [], [], [])
    reader = _Reader(found, roles, edges.warnings)
    inherited = {node.line: reader.of_umbrella(node, settings) for node in roles.umbrellas}
    needs: list[set[int]] = []
    for at, work in enumerate(works):
        targets = reader.of_work(at, work, settings.get(work.line), unit)
        for umbrella in work.umbrellas:
            targets |= inherited[umbrella.line] - reader.below(umbrella)
        needs.append(targets)
    if unit == "task":
        reader.look_at_headings()
    knots = levels.cycles(needs) if any(needs) else []
    for cycle in knots:
        keys = [works[at].key for at in (*cycle, cycle[0])]
        message = f"these tickets wait for each other: {' -> '.join(keys)}"
        line = works[cycle[0]].line
        edges.errors.append(Remark(line=line, code="dependency-cycle", message=message))
    ranks = _ranks(works, order)
    easy = knots or not any(needs)
    settled = levels.Settled(ranks, needs, {}) if easy else levels.settle(ranks, needs)
    for at, cause in settled.pulled.items():
        message = (
            f"{works[cause].key} needs {works[at].key}, which comes later in the plan: "
            f"{works[at].key} does not wait for {works[cause].key} nor for what waits for that"
        )
        edges.warnings.append(
            Remark(line=works[at].line, code="section-order-yields", message=message)
        )
    edges.levels.extend(settled.levels)
    edges.needs.extend(
        tuple([works[i].key for i in sorted(targets)]) if targets else ()
        for targets in settled.needs
    )
    return edges


def _ranks(works: list[Work], order: Order) -> list[int]:
    match order:
        case "sections":
            return [work.section for work in works]
        case "sequential":
            return list(range(len(works)))
        case "explicit":
            return [0] * len(works)


class _Reader:
    """Turns phrases into targets, and remarks on what names none."""

    def __init__(self, found: Outline, roles: Roles, warnings: list[Remark]) -> None:
        self._found = found
        self._roles = roles
        self._warnings = warnings

    @cached_property
    def _names(self) -> Names:
        return Names(self._roles, self._found)

    def look_at_headings(self) -> None:
        """Point out edges in headings that are no tickets."""
        for heading in self._found.headings:
            if not heading.ticket:
                for phrase in phrases([(heading.line, heading.text)]):
                    self._mention(phrase, set())

    def below(self, umbrella: Node) -> set[int]:
        """The tickets below ``umbrella``."""
        return set(self._names.find(umbrella.key)[0])

    def of_umbrella(self, node: Node, settings: dict[int, Settings]) -> set[int]:
        own = self.below(node)
        said = settings.get(node.line)
        pieces = [(node.line, node.text), *node.body]
        return self._targets(phrases(pieces), unwrapped(node.body), said, own) - own

    def of_work(self, at: int, work: Work, said: Settings | None, unit: Unit) -> set[int]:
        pieces = list(work.pieces())
        if said is None and not may_name(pieces):
            return set()
        targets = self._targets(phrases(pieces), unwrapped(pieces), said, {at})
        if unit == "section":
            targets.discard(at)
        return targets

    def _targets(
        self,
        found: Iterable[Phrase],
        bare: Iterable[Phrase],
        said: Settings | None,
        own: set[int],
    ) -> set[int]:
        targets: set[int] = set()
        for phrase in found:
            if phrase.edges:
                targets |= self._edge(phrase.line, phrase.words, own)
            else:
                self._mention(phrase, own)
        for phrase in bare:
            self._mention(phrase, own)
        for line, words in said.after if said else ():
            targets |= self._edge(line, listed(words), own)
        return targets

    def _edge(self, line: int, words: list[str], own: set[int]) -> set[int]:
        targets: set[int] = set()
        unknown: list[str] = []
        for word in words:
            named, missing = self._names.find(word)
            targets.update(named if len(named) == 1 else set(named) - own)
            unknown += missing
        for word in unknown:
            self._warn(line, "unknown-target", f"{word} is no ticket: this edge is ignored")
        if not targets and not unknown:
            phrase = " ".join(words)
            self._warn(line, "unknown-target", f"'{phrase}' names no ticket: no edge")
        return targets

    def _mention(self, phrase: Phrase, own: set[int]) -> None:
        pairs = zip(phrase.words, [*phrase.words[1:], ""], strict=False)
        known = [word for word, then in pairs if self._means_ticket(word, then, own)]
        if known:
            message = (
                f"{', '.join(known)} is named here, but that makes no edge: "
                f"write '(depends on {', '.join(known)})' if it should"
            )
            self._warn(phrase.line, "unread-edge", message)

    def _means_ticket(self, word: str, then: str, own: set[int]) -> bool:
        if word.isdigit() and then and not boxes.is_key(then):
            return False  # such as "3 tries"
        if not (boxes.is_key(word) or boxes.range_in(word)):
            return False  # such as a word that is also the key of a section without number
        named, _ = self._names.find(word)
        return bool(named) and not set(named) <= own

    def _warn(self, line: int, code: str, message: str) -> None:
        self._warnings.append(Remark(line=line, code=code, message=message))
