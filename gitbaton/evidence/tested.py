"""Which commit's checks speak of the tree of another.

A chain of merges is tested at its end, accepted commits at the last of them, and a merge whose tree
a worker's commit has already is tested by that one's receipt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from gitbaton.evidence import ticks
from gitbaton.evidence.claims import Claim
from gitbaton.git import objects
from gitbaton.git.repo import Repository
from gitbaton.model.ids import AttemptId
from gitbaton.model.run import Attempt


class Tested:
    """The claims of one run; ``tasks_path`` is that in the tree of a commit, ``covers`` what the
    receipt of a commit says that it speaks of."""

    def __init__(
        self,
        repo: Repository,
        claims: Mapping[str, Claim],
        attempts: Mapping[AttemptId, Attempt],
        tasks_path: Callable[[str], str],
        covers: Callable[[Claim], tuple[str, ...]],
    ) -> None:
        self._repo = repo
        self._claims = claims
        self._attempts = attempts
        self._tasks_path = tasks_path
        self._covers = covers
        self._chains: dict[str, frozenset[str]] = {}

    def at(self, claim: Claim) -> str | None:
        """The commit at which the tree of a claimed one was tested: itself, or a later one of its
        chain; None if none speaks of it."""
        if claim.kind == "accept":
            return claim.commit if claim.stored else self._accepted.get(claim.commit)
        if claim.kind != "merge":
            return claim.commit
        tester = self._claims.get(claim.tested_by or "")
        if tester is None:
            return None
        if tester.kind == "merge":
            last = tester.commit if claim.commit in self._covers(tester) else None
        else:
            last = self._last_by_worker.get(tester.commit)
        return last if last and claim.commit in self._chain(last) else None

    def _chain(self, last: str) -> frozenset[str]:
        """The merges that end in ``last`` and were tested by the same commit as it."""
        known = self._chains.get(last)
        if known is None:
            members: list[str] = []
            at: str | None = last
            while at and (claim := self._claims.get(at)) and claim.kind == "merge":
                if claim.tested_by != self._claims[last].tested_by:
                    break
                members.append(at)
                at = next(iter(objects.commit_info(self._repo, at).parents), None)
            known = self._chains[last] = frozenset(members)
        return known

    @cached_property
    def _last_by_worker(self) -> dict[str, str]:
        """By sealed commit, the last of the merges that it is said to have tested; only if it was
        tested in a clean worktree, and that merge has its tree, ticks aside."""
        groups: dict[str, list[str]] = {}
        for claim in self._claims.values():
            if claim.kind == "merge" and self._is_clean(claim.tested_by or ""):
                groups.setdefault(claim.tested_by or "", []).append(claim.commit)
        found = {tester: self._last(tester, group) for tester, group in groups.items()}
        return {tester: last for tester, last in found.items() if last is not None}

    def _is_clean(self, tester: str) -> bool:
        claim = self._claims.get(tester)
        if claim is None or claim.attempt is None or claim.kind == "merge":
            return False
        sealed = self._attempts[claim.attempt].sealed
        return sealed is not None and sealed.sealed_in == "verification-worktree"

    def _last(self, tester: str, group: list[str]) -> str | None:
        infos = [objects.commit_info(self._repo, oid) for oid in group]
        parents = {info.parents[0] for info in infos if info.parents}
        tree = objects.tree_of(self._repo, tester)
        for info in infos:
            tasks = self._tasks_path(info.oid)
            if info.oid not in parents and ticks.same_but_for_ticks(
                self._repo, info.tree, tree, tasks
            ):
                return info.oid
        return None

    @cached_property
    def _accepted(self) -> dict[str, str]:
        """By accepted commit, the one whose receipt speaks of it."""
        found: dict[str, str] = {}
        for claim in self._claims.values():
            if claim.kind == "accept" and claim.stored is not None:
                found.update(dict.fromkeys(self._covers(claim), claim.commit))
        return found
