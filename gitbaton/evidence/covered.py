"""What makes a commit covered: one rule, used by the push guard and by audit.

Nothing that a run says of itself is believed. Receipts are judged from their bytes, merges are
computed again, and what the verifier demands (`Policy`) is the verifier's own setting, never
something that came with the commits. A commit is covered if it is

- an integration merge that the state records, of a commit with a valid receipt, whose tree is the
  recomputed merge with its ticket ticked, and which checks have tested: on itself, on a later merge
  of the same chain, or on a sealed commit with that very tree;
- an ancestor of such a merge's sealed commit, down to the base;
- a recorded plan commit that touches only the change folder;
- a recorded update or landing merge that can be recomputed or has a receipt of its own, or what a
  forge made of a landing: a squash or rebase with the tree of a covered tip merged there;
- a recorded resolution or accepted commit with a receipt of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import islice

from gitbaton.errors import BatonError, RepositoryError
from gitbaton.evidence import forge
from gitbaton.evidence.claims import Claim, claims_of
from gitbaton.evidence.receipts import Copies, Judge, Policy, policy_of
from gitbaton.evidence.recompute import Recomputer
from gitbaton.evidence.tested import Tested
from gitbaton.evidence.trees import Trees
from gitbaton.git import ancestry, history, objects
from gitbaton.git.repo import Repository
from gitbaton.model.audit import Problem
from gitbaton.model.ids import AttemptId
from gitbaton.model.run import Attempt
from gitbaton.store import notes, runs, trailers

__all__ = ["Claim", "Coverage", "Policy", "policy_of"]


class Coverage:
    """One run's evidence, judged by ``policy``; merges are recomputed by ``recomputer``.

    ``copies`` are the notes to compare altered receipts with, by default those of ``repo``, and
    ``attempts`` all that can be read, for who has read them already.
    """

    def __init__(
        self,
        repo: Repository,
        loaded: runs.Loaded,
        policy: Policy,
        recomputer: Recomputer,
        copies: Copies | None = None,
        attempts: Iterable[Attempt] | None = None,
    ) -> None:
        self._repo = repo
        self._run = loaded.state.run
        self._policy = policy
        self._loaded = loaded
        readable = self._readable() if attempts is None else attempts
        self.attempts: Mapping[AttemptId, Attempt] = {each.id: each for each in readable}
        self.claims: Mapping[str, Claim] = claims_of(loaded, self.attempts)
        """Everything that the run says of commits, by object id."""
        self._judge = Judge(
            repo, loaded, policy, copies or (lambda oid: notes.read(repo, self._run.id, oid))
        )
        self._trees = Trees(loaded, recomputer, self.claims)
        self._tested = Tested(
            repo, self.claims, self.attempts, self._trees.tasks_path, self._judge.covers
        )
        self._recomputer = recomputer
        self._ahead = 1
        self._receipts: dict[AttemptId, list[Problem]] = {}
        self._own: dict[str, list[Problem]] = {}
        self._judged: dict[str, list[Problem]] = {}

    def _readable(self) -> Iterator[Attempt]:
        for attempt in self._loaded.attempt_ids():
            try:
                found = self._loaded.attempt(attempt)
            except RepositoryError:  # damaged: it has no say
                continue
            if found is not None and found.id == attempt:  # else it lies in another's place
                yield found

    def outside(self, tip: str | None = None) -> tuple[str, ...]:
        """The base, and what updates and accepted merges took in on the way from there to ``tip``
        (default: that of the run): on the run's own branch, what is reachable from these is not
        judged. What is recorded and not on that way takes nothing in."""
        found = {self._run.base.commit: None}
        for oid in self._branch if tip is None else self._line(tip):
            claim = self.claims.get(oid)
            if claim is not None and claim.kind in ("update", "accept"):
                found.update(dict.fromkeys(objects.commit_info(self._repo, oid).parents[1:]))
        return tuple(found)

    # --- receipts --------------------------------------------------------------------------------

    def verify_signatures(self) -> None:
        """Judge all signed receipts now, several at once; otherwise each is when it is needed."""
        signed = [a for a in self.attempts.values() if a.sealed and a.sealed.signature_sha256]
        own = [c for c in self.claims.values() if c.stored and c.stored.signature_digest]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(self.receipt_problems, signed))
            list(pool.map(self._own_problems, own))

    def receipt_problems(self, attempt: Attempt) -> list[Problem]:
        """What is wrong with the receipt of a sealed attempt; [] if it stands."""
        known = self._receipts.get(attempt.id)
        if known is None:
            sealed = attempt.sealed
            integrated = sealed is not None and sealed.commit in self.claims

            def judge() -> list[Problem]:
                tasks = self._trees.tasks_path(self._run.tip) if integrated else None
                return self._judge.of_attempt(attempt, tasks)

            known = self._receipts[attempt.id] = self._guarded(self._loaded.oid, judge)
        return known

    def _own_problems(self, claim: Claim) -> list[Problem]:
        """What is wrong with a commit's own receipt, which it must have."""
        if claim.kind in ("sealed", "resolution"):
            assert claim.attempt is not None
            return self.receipt_problems(self.attempts[claim.attempt])
        known = self._own.get(claim.commit)
        if known is None:
            known = self._guarded(claim.commit, lambda: self._judge.of_commit(claim))
            self._own[claim.commit] = known
        return known

    # --- commits ---------------------------------------------------------------------------------

    def judge(self, oid: str, tip: str | None = None) -> list[Problem] | None:
        """What is wrong with a commit that the run speaks of; [] if it is covered, None if the run
        says nothing of it. With ``tip``, checks of a later commit count only if ``tip`` contains
        that one."""
        claim = self.claims.get(oid)
        if claim is None:
            return None
        known = self._judged.get(oid)
        if known is None:
            self._recompute_ahead(claim)
            known = self._judged[oid] = self._guarded(oid, lambda: list(self._problems(claim)))
        if known or tip is None:
            return known
        last = self._tested.at(claim)
        if last is None or last == oid or ancestry.is_ancestor(self._repo, last, tip):
            return []
        said = f"its tree was only tested together with {last}, which {tip} does not contain"
        return [_problem("untested", oid, said)]

    def uncovered(self, commits: Iterable[str], tip: str | None = None) -> dict[str, list[Problem]]:
        """Those of ``commits`` that the run does not cover, with the reasons."""
        asked = list(dict.fromkeys(commits))
        found = {oid: self.judge(oid, tip) for oid in self.in_order(asked)}
        rest = {oid for oid, problems in found.items() if problems is None}
        if rest:
            rest -= self._ancestors
        if rest:
            rest -= forge.landed_by_forge(self._recomputer, rest, self._landed)
        said = f"no receipt of {self._run.id} covers it"
        result = {oid: problems for oid, problems in found.items() if problems}
        result.update((oid, [_problem("uncovered", oid, said)]) for oid in asked if oid in rest)
        return result

    def ticked_by_hand(self, commit: str, since: str | None = None) -> tuple[str, ...]:
        """Tickets ticked in ``commit`` and not in ``since`` (default: the base of the run) that no
        integrated receipt resolved, in the order of the file."""
        ticked = self._trees.ticked_since(commit, since or self._run.base.commit)
        return tuple(key for key in ticked if not self._is_resolved(key))

    def _is_resolved(self, key: str) -> bool:
        """Whether a covered merge is of that ticket."""
        return any(
            claim.kind == "merge"
            and claim.attempt is not None
            and claim.attempt.ticket == key
            and self.judge(claim.commit) == []
            for claim in self.claims.values()
        )

    def in_order(self, oids: Iterable[str]) -> list[str]:
        """``oids`` in the order of the branch, which is the cheapest to judge them in; merges are
        recomputed together."""
        order = sorted(oids, key=lambda oid: self._places.get(oid, -1))
        self._trees.prepare([self.claims[oid] for oid in order if oid in self.claims])
        return order

    @cached_property
    def _branch(self) -> list[str]:
        """The commits of the integration branch, newest first; none if it cannot be read."""
        return self._line(self._run.tip)

    def _line(self, tip: str) -> list[str]:
        """The first parents from ``tip`` down to the base, newest first; none if one of them cannot
        be read."""
        chain = ancestry.first_parent_chain(self._repo, tip, self._run.base.commit)
        try:
            return [info.oid for info in chain]
        except RepositoryError:
            return []

    @cached_property
    def _places(self) -> dict[str, int]:
        return {oid: -at for at, oid in enumerate(self._branch)}

    def _recompute_ahead(self, claim: Claim) -> None:
        """Recompute a merge, and with it ever more of those that will be asked for next, if they
        are: starting git costs more than a merge."""
        if self._trees.is_prepared(claim):
            return
        others = (other for other in self.claims.values() if not self._trees.is_prepared(other))
        self._trees.prepare([claim, *islice(others, self._ahead)])
        self._ahead *= 4

    @cached_property
    def _ancestors(self) -> frozenset[str]:
        """The ancestors of the sealed commits of covered merges, down to what is outside."""
        merges = [claim.commit for claim in self.claims.values() if claim.kind == "merge"]
        sealed = []
        for oid in self.in_order(merges):
            attempt = self.claims[oid].attempt
            bound = self.attempts[attempt].sealed if attempt else None
            if bound is not None and not self.judge(oid):
                sealed.append(bound.commit)
        known = [oid for oid in self.outside() if objects.exists(self._repo, oid)]
        return frozenset(c.oid for c in history.commits(self._repo, sealed, known))

    @cached_property
    def _landed(self) -> forge.Landed:
        tips = self._branch
        known = (oid for oid in (*self._ancestors, *self.claims) if objects.exists(self._repo, oid))
        infos = (objects.commit_info(self._repo, oid) for oid in known)
        return forge.Landed(
            self._run.target.folder,
            self._run.unit,
            tips,
            lambda tip: not any(self.judge(c, tip) != [] for c in tips[tips.index(tip) :]),
            self.outside,
            self._trees.resolved_at,
            frozenset((info.author, info.message) for info in infos),
        )

    def _guarded(self, where: str, judge: Callable[[], list[Problem]]) -> list[Problem]:
        """What cannot even be judged is a problem too."""
        try:
            return judge()
        except BatonError as error:
            return [_problem(error.code, where, error.message)]

    # --- one kind after the other ----------------------------------------------------------------

    def _problems(self, claim: Claim) -> Iterator[Problem]:
        if claim.kind in ("sealed", "resolution"):
            yield from self._own_problems(claim)
            return
        yield from self._lineage(claim)
        if claim.kind == "merge":
            yield from self._merge(claim)
        elif claim.kind == "accept":
            yield from self._accepted(claim)
        elif claim.kind == "plan":
            yield from self._trees.plan_problems(claim)
        else:
            yield from self._met(claim)

    def _lineage(self, claim: Claim) -> Iterator[Problem]:
        """The side that is the run's own is recorded, and the commit says what the state says."""
        info = objects.commit_info(self._repo, claim.commit)
        own = info.parents[1:] if claim.kind == "land" else info.parents[:1]
        wanted = {"merge": 2, "update": 2, "land": 2, "plan": 1}.get(claim.kind, len(info.parents))
        if len(info.parents) != wanted or not own:
            said = f"it has {len(info.parents)} parents, and should have {wanted}"
            yield _problem("wrong-parents", f"{claim.commit}#parent", said)
        for oid in own:
            if oid != self._run.base.commit and oid not in self.claims:
                said = f"its parent {oid} is neither the base of {self._run.id} nor recorded"
                yield _problem("unrecorded-parent", f"{claim.commit}#parent", said)
        said_here = trailers.fields(info.message)
        for name, value in self._trailers(claim).items():
            if said_here.get(name) != value:
                yield _problem(
                    "wrong-trailer",
                    f"{claim.commit}#Baton-{name}",
                    f"it says {said_here.get(name)!r}, recorded is {value!r}",
                )

    def _trailers(self, claim: Claim) -> dict[str, str]:
        if claim.kind == "accept":
            return {}
        if claim.attempt is None:
            return {"Run": self._run.id, "Event": claim.kind}
        sealed = self.attempts[claim.attempt].sealed
        return {
            "Run": self._run.id,
            "Ticket": claim.attempt.ticket,
            "Attempt": str(claim.attempt.number),
            "Receipt": sealed.receipt_sha256 if sealed else "",
        }

    def _merge(self, claim: Claim) -> Iterator[Problem]:
        assert claim.attempt is not None
        attempt = self.attempts[claim.attempt]
        yield from self.receipt_problems(attempt)
        if attempt.sealed is None:
            return
        parents = objects.commit_info(self._repo, claim.commit).parents
        if parents[1:] != (attempt.sealed.commit,):
            said = f"it does not merge {attempt.sealed.commit}, which {attempt.id} sealed"
            yield _problem("wrong-parents", f"{claim.commit}#parent", said)
            return
        yield from self._trees.merge_problems(claim, attempt)
        yield from self._checked(claim)

    def _checked(self, claim: Claim) -> Iterator[Problem]:
        """Checks speak of the merge's tree, and what they said stands."""
        tester = self.claims.get(claim.tested_by or "")
        if tester is None:
            what = f"{claim.tested_by}, which is not recorded" if claim.tested_by else "no commit"
            yield _problem("untested", claim.commit, f"the checks of its tree ran on {what}")
        elif tester.kind != "merge" and tester.kind not in ("sealed", "resolution"):
            said = f"the checks of its tree ran on {tester.commit}, which is no merge"
            yield _problem("untested", claim.commit, said)
        elif tester.stored is None:
            said = f"{tester.commit}, which tested it, has no receipt of its own"
            yield _problem("untested", claim.commit, said)
        else:
            if tester.attempt != claim.attempt or tester.kind == "merge":
                yield from self._own_problems(tester)
            if self._tested.at(claim) is None:
                said = f"the receipt of {tester.commit} does not speak of its tree"
                yield _problem("untested", claim.commit, said)

    def _accepted(self, claim: Claim) -> Iterator[Problem]:
        last = self._tested.at(claim)
        if last is None:
            said = "it was accepted, and no receipt speaks of it"
            yield _problem("untested", claim.commit, said)
        else:
            yield from self._own_problems(self.claims[last])

    def _met(self, claim: Claim) -> Iterator[Problem]:
        """An update or a landing: recomputed, or with a receipt of its own."""
        own = self._own_problems(claim) if claim.stored else []
        yield from own
        proven = claim.stored is not None and not own
        yield from self._trees.met_problems(claim, proven=proven)
        if claim.stored is None and self._policy.require and not self._trees.is_own_tree(claim):
            said = "no receipt speaks of its tree, and baton.require asks for checks"
            yield _problem("required-check-missing", claim.commit, said)


def _problem(code: str, where: str, message: str) -> Problem:
    return Problem(code=code, where=where, message=message)
