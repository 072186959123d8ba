"""A run judged from a clone, by who was never near it: nothing it says of itself is believed.

Four things are held against each other: the chain of states, the receipts in it, the integration
branch, and what lies outside (merges that name states, notes, tips seen before). Whatever cannot
be read is a problem with a place, never an exception: the rest is still to be judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from gitbaton.errors import BatonError, RepositoryError
from gitbaton.evidence import anchors, beside, chain, closeout, copies, queued, steps
from gitbaton.evidence.anchors import Witness
from gitbaton.evidence.chain import Chain, spot
from gitbaton.evidence.covered import Coverage, Policy
from gitbaton.evidence.queued import Line
from gitbaton.evidence.recompute import Recomputer
from gitbaton.git import ancestry, objects
from gitbaton.git.repo import Repository
from gitbaton.model import layout
from gitbaton.model.audit import Problem, RunAudit
from gitbaton.model.ids import is_oid
from gitbaton.model.run import Advance, Attempt, Land, RunRecord
from gitbaton.rules.revise import resolved_by_receipt
from gitbaton.store import runs

_NAMED = 5  # merges, commits that a message names
_ON_BRANCH = ("merge", "plan", "update", "accept")


class Place(NamedTuple):
    """Where a run is to be found here: the ref of its state (or where that should be) with its
    value, that of its notes, the refs of its integration branch with theirs, and the queues that
    lie beside it."""

    run: str
    ref: str
    state: str | None
    notes: str | None = None
    branches: Mapping[str, str] = {}
    queues: Mapping[str, Line] = {}


def audit_run(
    repo: Repository,
    place: Place,
    policy: Policy,
    recomputer: Recomputer,
    witnesses: Sequence[Witness] = (),
) -> RunAudit:
    """The verdict on one run. ``witnesses`` know states of it: merges on branches, earlier
    audits."""
    if place.state is None:
        return _verdict(place, [_gone(place, witnesses)])
    problems: list[Problem] = []
    with ExitStack() as stack:
        told: Callable[[], Chain] = partial(chain.read, repo, place.run, place.state)
        try:
            loaded = runs.load(repo, place.run, at=place.state)
            length = loaded.state.run.generation
            told = stack.enter_context(beside.reading(repo, place.run, place.state, length))
            attempts = list(_attempts(loaded, problems))
            _require_ids(loaded, attempts)
        except BatonError as error:
            history = told()
            held = anchors.judge(repo, history, witnesses, policy.signers)
            problems += [*history.problems, *held.problems, _unreadable(place.state, error)]
            return _verdict(place, problems, transitions=len(history.links))
        copied = _notes(repo, place, problems)
        notes = copied.text if copied else _none
        coverage = Coverage(repo, loaded, policy, recomputer, notes, attempts)
        coverage.verify_signatures()
        sealed = [attempt for attempt in attempts if attempt.sealed is not None]
        for attempt in sealed:
            problems += _guarded(place.state, partial(coverage.receipt_problems, attempt))
        problems += _resolved(loaded, attempts)
        problems += closeout.judge(repo, loaded, attempts)
        problems += queued.judge(loaded, attempts, place.queues)
        problems += _branch(repo, place, loaded, coverage)
        known = dict.fromkeys((*witnesses, *_own_witnesses(repo, place, attempts)))
        history = told()
    held = anchors.judge(repo, history, known, policy.signers)
    if copied is not None:
        problems += copies.judge(loaded, history, attempts, copied)
    claims = coverage.claims.values()
    further = sum(c.receipt is not None and c.kind not in ("sealed", "resolution") for c in claims)
    return _verdict(
        place,
        [*history.problems, *held.problems, *problems],
        transitions=len(history.links),
        receipts=len(sealed) + further,
        merges=sum(claim.kind == "merge" for claim in claims),
        unanchored=held.unanchored,
        resolved_by_hand=loaded.state.live.by_hand,
    )


def _verdict(place: Place, problems: Iterable[Problem], **numbers: Any) -> RunAudit:
    listed = tuple({(p.code, p.where): p for p in problems}.values())
    return RunAudit(run=place.run, ok=not listed, problems=listed, **numbers)


def _gone(place: Place, witnesses: Sequence[Witness]) -> Problem:
    """The problem of a run without a state; what speaks of it is named."""
    told = [f"{w.where} names {w.state}" for w in witnesses[:_NAMED]]
    told += [f"branch {ref}" for ref in place.branches]
    return Problem(
        code="state-missing",
        where=place.ref,
        message=f"there is no state of {place.run}, but there was one: {'; '.join(told)}",
    )


def _notes(repo: Repository, place: Place, problems: list[Problem]) -> copies.Notes | None:
    if place.notes is None:
        return None
    try:
        return copies.Notes(repo, place.notes)
    except BatonError as error:
        problems.append(Problem(code="notes-unreadable", where=place.notes, message=error.message))
        return None


def _none(_: str) -> None:
    """There is no note."""


def _unreadable(commit: str, error: BatonError) -> Problem:
    return Problem(code=error.code, where=spot(commit), message=error.message)


def _guarded(commit: str, judge: Callable[[], list[Problem]]) -> list[Problem]:
    """What ``judge`` finds; that something cannot be read is a finding."""
    try:
        return judge()
    except BatonError as error:
        return [_unreadable(commit, error)]


def _attempts(loaded: runs.Loaded, problems: list[Problem]) -> Iterator[Attempt]:
    for attempt_id in loaded.attempt_ids():
        try:
            attempt = loaded.attempt(attempt_id)
        except BatonError as error:
            problems.append(_unreadable(loaded.oid, error))
            continue
        if attempt is None or attempt.id != attempt_id:
            where = spot(loaded.oid, layout.path_of(attempt_id, layout.ATTEMPT))
            said = f"there is {attempt.id if attempt else 'nothing'} in the place of {attempt_id}"
            problems.append(Problem(code="misplaced-attempt", where=where, message=said))
        else:
            yield attempt


def _require_ids(loaded: runs.Loaded, attempts: Iterable[Attempt]) -> None:
    """Raise `RepositoryError` ``corrupt-state`` where what should be an object id is none: nothing
    else could be asked about it."""
    record = loaded.state.run
    named = [("base", record.base.commit), ("tip", record.tip)]
    named += [("recorded", entry.commit) for entry in record.recorded]
    for attempt in attempts:
        named += steps.commits_of(attempt)
        named += [("sealed.tree", attempt.sealed.tree)] if attempt.sealed else []
    for intent in loaded.state.intents.values():
        if isinstance(intent, Advance | Land):
            named += [("intents", oid) for oid in (intent.old, intent.new) if oid is not None]
            merges = intent.merges if isinstance(intent, Advance) else ()
            named += [("intents", merged.commit) for merged in merges]
    for field, oid in named:
        if not is_oid(oid):
            raise RepositoryError("corrupt-state", f"{field} is {oid!r}, which is no object id")


def _own_witnesses(
    repo: Repository, place: Place, attempts: Iterable[Attempt]
) -> Iterator[Witness]:
    """The merges that the state itself records; a forged one is no merge, and judged as such."""
    for attempt in attempts:
        oid = attempt.merge_commit
        if oid is not None and objects.exists(repo, oid):
            mention = anchors.mention_in(repo, oid)
            if mention is not None and mention.run == place.run:
                yield mention.witness


def _resolved(loaded: runs.Loaded, attempts: Iterable[Attempt]) -> Iterator[Problem]:
    """A ticket that counts as resolved by a receipt has an attempt that succeeded."""
    done = {attempt.ticket for attempt in attempts if attempt.state == "succeeded"}
    for key in sorted(resolved_by_receipt(loaded.state) - done):
        yield Problem(
            code="resolved-without-receipt",
            where=spot(loaded.oid, "live.json", "missing"),
            message=f"ticket {key} counts as resolved, but no attempt at it succeeded",
        )


# --- the integration branch --------------------------------------------------------------------


def _branch(
    repo: Repository, place: Place, loaded: runs.Loaded, coverage: Coverage
) -> Iterator[Problem]:
    """Every first-parent commit from the base to the tip is recorded and covered, every recorded
    one is there, and no ref of the branch holds another."""
    record = loaded.state.run
    try:
        own = _first_parents(repo, record.tip, record.base.commit)
    except BatonError as error:
        yield _unreadable(record.tip, error)
        return
    if own and objects.commit_info(repo, own[-1]).parents[:1] != (record.base.commit,):
        yield Problem(
            code="base-not-reached",
            where=spot(own[-1], field="parent"),
            message=f"the branch of {record.id} does not begin at its base {record.base.commit}",
        )
    for oid in coverage.in_order(own):
        yield from _commit(loaded, coverage, oid, record.branch)
    moving = {
        oid
        for intent in loaded.state.intents.values()
        if isinstance(intent, Advance)
        for oid in (intent.new, *(m.commit for m in intent.merges))
    }
    known = {*own, *moving}
    for claim in coverage.claims.values():
        if claim.kind in _ON_BRANCH and claim.commit not in known:
            yield Problem(
                code="not-on-branch",
                where=claim.commit,
                message=f"a recorded {claim.kind} of {record.id} that its branch does not hold",
            )
        elif claim.kind == "land":
            yield from _commit(loaded, coverage, claim.commit, "its target")
    for ref, tip in place.branches.items():
        yield from _ref(repo, record, ref, tip, known, own)


def _first_parents(repo: Repository, tip: str, base: str) -> list[str]:
    return [info.oid for info in ancestry.first_parent_chain(repo, tip, base)]


def _commit(loaded: runs.Loaded, coverage: Coverage, oid: str, ref: str) -> Iterator[Problem]:
    try:
        found = coverage.judge(oid)
    except BatonError as error:
        yield _unreadable(oid, error)
        return
    if found is None:
        yield _unrecorded(oid, ref, loaded.state.run.id)
    else:
        yield from found


def _unrecorded(oid: str, ref: str, run: str) -> Problem:
    return Problem(
        code="unrecorded-commit",
        where=spot(oid),
        message=f"lies on {ref}, but the state of {run} does not know it",
    )


def _ref(
    repo: Repository,
    record: RunRecord,
    ref: str,
    tip: str,
    known: set[str],
    own: Sequence[str],
) -> Iterator[Problem]:
    """What a ref of the branch holds beyond the state. One that is behind is no problem: state and
    branch are pushed one after the other."""
    beyond: list[str] = []
    try:
        for info in ancestry.first_parent_chain(repo, tip, record.base.commit):
            if info.oid in known:
                break
            beyond.append(info.oid)
    except BatonError as error:
        yield _unreadable(tip, error)
        return
    for oid in beyond[: -_NAMED - 1 : -1]:
        yield _unrecorded(oid, ref, record.id)
    if not beyond:
        return
    parents = objects.commit_info(repo, beyond[-1]).parents
    meant = own[own.index(parents[0]) - 1] if parents and parents[0] in own[1:] else None
    if parents and parents[0] == record.base.commit and own:
        meant = own[-1]
    if meant is not None:  # in the place of a recorded one, so what differs can be told
        for where in anchors.differences(repo, meant, beyond[-1]):
            yield Problem(
                code="unrecorded-commit",
                where=where,
                message=f"differs from the commit {meant} that the state of {record.id} records",
            )
