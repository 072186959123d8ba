"""Recognising a run that a forge landed: squashed, rebased, or merged by its own button.

Such commits are in no state. They are covered all the same if what they make of their parent is
what merging a covered tip of the run makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from gitbaton.errors import RepositoryError
from gitbaton.evidence import ticks
from gitbaton.evidence.recompute import Recomputer
from gitbaton.git import ancestry, history, objects
from gitbaton.git.history import Listed
from gitbaton.git.merge import Asked
from gitbaton.model.plan import Unit
from gitbaton.plan import write

_TIPS = 64  # tips of the run that are tried, newest first
_STARTS = 16  # places in one push at which a landed run may begin

Identity = tuple[tuple[str, str], str]
"""Author and message of a commit: what a rebase keeps."""


class Landed(NamedTuple):
    """What is known of a run: its change folder and unit, its integration commits, newest first,
    which of them are covered down to the base, what came into each from outside (the base, and what
    was merged in), and the identities of its covered commits."""

    folder: str
    unit: Unit | None
    tips: Sequence[str]
    is_sound: Callable[[str], bool]
    outside: Callable[[str], Collection[str]]
    resolved: Callable[[str], Collection[str]]
    identities: Collection[Identity]


class _Target(NamedTuple):
    """What merging ``tip`` onto a parent makes: the tree, and the tasks file to go with it."""

    tip: str
    tree: str
    tasks: str
    text: bytes | None


def landed_by_forge(recomputer: Recomputer, commits: Collection[str], run: Landed) -> set[str]:
    """Those of ``commits`` that land the run by squash, rebase or merge."""
    # Of ten thousand commits of a push none may be one of these: what git lists is looked at first.
    listed = history.these(recomputer.repo, commits)
    search = _Search(recomputer, run, listed)
    found: set[str] = set()
    for series in _series(listed):
        found.update(search.among(series))
    return found


def _series(listed: Mapping[str, Listed]) -> Iterator[list[str]]:
    """The commits as runs of first parents, oldest first; merges stand alone."""
    lines = {oid: commit.parents for oid, commit in listed.items()}
    single = {oid: parents[0] for oid, parents in lines.items() if len(parents) == 1}
    inner = set(single.values())
    for oid, parents in lines.items():
        if len(parents) == 2:
            yield [oid]
        if oid in single and oid not in inner:
            chain = []
            at = oid
            while at in single:
                chain.append(at)
                at = single[at]
            yield chain[::-1]


class _Search:
    def __init__(self, recomputer: Recomputer, run: Landed, listed: Mapping[str, Listed]) -> None:
        self._recomputer = recomputer
        self._repo = recomputer.repo
        self._run = run
        self._left = _STARTS
        self._listed = listed
        self._ticking = history.touching(recomputer.repo, listed, run.folder)
        self._subjects = {history.subject(m.encode(errors="replace")) for _, m in run.identities}

    def among(self, series: list[str]) -> Iterator[str]:
        at, fresh = 0, True
        while at < len(series):
            length = 0
            if self._left and (fresh or self._may_begin(series[at])):
                self._left -= 1
                length = self._length(series[at:])
            yield from series[at : at + length]
            fresh = length > 0
            at += length or 1

    def _may_begin(self, commit: str) -> bool:
        """Whether it is worth trying: the commit ticks boxes, or repeats one of the run's."""
        return commit in self._ticking or self._is_repeated(commit)

    def _is_repeated(self, commit: str) -> bool:
        if self._listed[commit].subject not in self._subjects:
            return False
        info = objects.commit_info(self._repo, commit)
        return (info.author, info.message) in self._run.identities

    def _length(self, series: list[str]) -> int:
        """How many of ``series`` together land the run: one, or a rebase of several."""
        first = objects.commit_info(self._repo, series[0])
        onto = first.parents[0]
        tips = list(first.parents[1:]) or list(self._run.tips[:_TIPS])
        own = [tip for tip in tips if tip in self._run.tips and self._brings_only_own(tip, onto)]
        targets = list(self._targets(onto, own))
        most = 1
        while most < len(series) and all(map(self._is_repeated, series[: most + 1])):
            most += 1
        for length in range(most, 0, -1):
            tree = objects.tree_of(self._repo, series[length - 1])
            if any(self._is_same(tree, t) and self._run.is_sound(t.tip) for t in targets):
                return length
        return 0

    def _brings_only_own(self, tip: str, onto: str) -> bool:
        """Whether what the run did not make itself is in ``onto`` already: a run covers neither its
        base nor what was merged into it, so a squash must not bring them along."""
        return all(
            objects.exists(self._repo, oid) and ancestry.is_ancestor(self._repo, oid, onto)
            for oid in self._run.outside(tip)
        )

    def _targets(self, onto: str, tips: Sequence[str]) -> Iterator[_Target]:
        paths = {tip: ticks.tasks_path(self._repo, tip, self._run.folder) for tip in tips}
        self._recomputer.prepare(Asked(onto, tip, k) for tip in tips for k in ((), (paths[tip],)))
        for tip, tasks in paths.items():
            for keep in ((), (tasks,)):
                try:
                    tree = self._recomputer.merged(onto, tip, keep)
                except RepositoryError:
                    continue
                if tree is None:
                    continue
                text = objects.blob_at(self._repo, tree, tasks)
                if keep:
                    resolved = self._run.resolved(tip)
                    text = ticks.met_text(self._repo, tip, onto, tasks, resolved, self._run.unit)
                yield _Target(tip, tree, tasks, text)

    def _is_same(self, tree: str, target: _Target) -> bool:
        """Whether ``tree`` is the target's, but for ticks that a rebase loses with the merges."""
        if tree == target.tree:
            return True
        if not set(self._recomputer.differences(target.tree, tree)) <= {target.tasks}:
            return False
        text = objects.blob_at(self._repo, tree, target.tasks)
        if text is None or target.text is None:
            return text == target.text
        return text == target.text or (
            write.marks_only_difference(text, target.text)
            and ticks.ticked_keys(text, self._run.unit)
            <= ticks.ticked_keys(target.text, self._run.unit)
        )
