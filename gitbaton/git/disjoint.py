"""Merges that need not be made again, because their sides changed different files.

Such a merge is the one side with the changes of the other, by whatever algorithm. So it is enough
to know what each commit changed, which git tells of a whole branch at once, in a fraction of the
time that merging takes. Only what follows from that is said here: where a file was moved or
removed, or history is not as simple as workers make it, the merge has to be made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gitbaton.errors import RepositoryError
from gitbaton.git import chain
from gitbaton.git.chain import Walked
from gitbaton.git.objects import Change
from gitbaton.git.odb import DIRECTORY, SUBMODULE, Entry
from gitbaton.git.remade import Remade
from gitbaton.git.repo import Repository


class Kept(NamedTuple):
    """A file in the first parent of a merge and in the merge; ``others`` are what else changed."""

    before: Entry
    after: Entry
    others: list[str]


class _Side(NamedTuple):
    """What a merge brings: its commits, newest first, and the files in which they differ from the
    branch as they found it, in order."""

    commits: list[Walked]
    changes: list[Change]


class Disjoint:
    """The merges on the first-parent chain from ``tip`` down to ``base``.

    Raises `RepositoryError` when history cannot be read, or is not that of the commits alone.
    """

    def __init__(self, repo: Repository, base: str, tip: str) -> None:
        repo.require_history()
        repo.require_attributes()
        self._repo = repo
        self._commits = {each.oid: each for each in chain.between(repo, base, tip)}
        self._trees = Remade(repo)
        self._sides: dict[str, _Side] = {}
        place = {base: 0}
        removal = [0]  # by place, the last one up to there at which a file went away
        merged: set[str] = set()
        for at, commit in enumerate(self._branch(base, tip), 1):
            side = self._side(commit, place, merged, removal)
            if side is not None:
                self._sides[commit.oid] = side
            merged.update(self._brought(commit, place, merged))
            place[commit.oid] = at
            removal.append(at if _removes(commit.changes) else removal[-1])

    def kept(self, merge: str, path: str) -> Kept | None:
        """What became of the file ``path``, if that is all in which ``merge`` differs from the
        merge of its parents that keeps ``path`` as the first has it; None if that does not follow
        from what changed alone."""
        side = self._sides.get(merge)
        if side is None:
            return None
        commit = self._commits[merge]
        own = [change for change in commit.changes if change.path == path]
        if len(own) != 1 or not (_is_file(own[0].old) and _is_file(own[0].new)):
            return None
        # That each file was before as the branch had it says that the branch has not changed it.
        others = _beside(commit.changes, path)
        if others != _beside(side.changes, path):
            return None
        try:
            for each in (commit, *side.commits):
                chain.require_digests(self._repo, each, self._trees)
        except RepositoryError:  # whoever makes the merge will say so
            return None
        assert own[0].old and own[0].new
        return Kept(own[0].old, own[0].new, [change.path for change in others])

    def _branch(self, base: str, tip: str) -> list[Walked]:
        """The first parents after ``base``, oldest first; none if they do not lead there."""
        found: list[Walked] = []
        at = tip
        while at in self._commits:
            found.append(self._commits[at])
            at = next(iter(found[-1].parents), "")
        return found[::-1] if at == base else []

    def _brought(self, commit: Walked, place: dict[str, int], merged: set[str]) -> Iterator[str]:
        """What the branch has not had before ``commit``."""
        pending = list(commit.parents[1:])
        seen: set[str] = set()
        while pending:
            at = pending.pop()
            if at in self._commits and at not in place and at not in merged and at not in seen:
                seen.add(at)
                yield at
                pending += self._commits[at].parents

    def _side(
        self, commit: Walked, place: dict[str, int], merged: set[str], removal: list[int]
    ) -> _Side | None:
        """What ``commit`` merges, if that is a line of commits that begins on the branch, so that
        this is the only merge base, and since then neither side removed a file: so none moved."""
        if len(commit.parents) != 2:
            return None
        line: list[Walked] = []
        at = commit.parents[1]
        while at in self._commits and at not in place:
            each = self._commits[at]
            if at in merged or len(each.parents) != 1 or _removes(each.changes):
                return None
            line.append(each)
            at = each.parents[0]
        if not line or at not in place or removal[-1] > place[at]:
            return None
        changes = _joined(line)
        return None if changes is None else _Side(line, changes)


def _joined(line: list[Walked]) -> list[Change] | None:
    """What a line of commits, newest first, changes in all; None if one of them is damaged."""
    found: dict[str, Change] = {}
    for commit in reversed(line):
        if len({change.path for change in commit.changes}) != len(commit.changes):
            return None
        for path, old, new in commit.changes:
            found[path] = Change(path, found[path].old if path in found else old, new)
    return [change for change in found.values() if change.old != change.new]


def _beside(changes: Iterable[Change], path: str) -> list[Change]:
    return sorted((each for each in changes if each.path != path), key=lambda each: each.path)


def _removes(changes: Iterable[Change]) -> bool:
    return any(change.new is None for change in changes)


def _is_file(entry: Entry | None) -> bool:
    return entry is not None and entry[1] not in (DIRECTORY, SUBMODULE)
