"""Integration: everything that is sealed becomes part of the integration branch, checked as merged.

Whoever gets the run's integration lock merges all sealed attempts as one chain in memory, checks
the tree of the last merge, and moves the branch. Who finds the lock busy leaves: the receipt is in
the state, and the holder looks once more after releasing. A red chain is bisected, so that what is
green lands and the culprit is named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gitbaton.engine import advance, closing, planning, prepare, returning, trust, update
from gitbaton.engine.bounds import overstep
from gitbaton.engine.context import Context
from gitbaton.engine.merging import (
    Conflicted,
    TicketMerge,
    merge_ticket,
    merge_workspace,
)
from gitbaton.engine.proof import Proof, prove
from gitbaton.errors import BatonError, Conflict, Refused, RepositoryError
from gitbaton.evidence import statement
from gitbaton.evidence.ticks import same_but_for_ticks
from gitbaton.model.action import Blocked
from gitbaton.model.run import Attempt, Event, Halt, Merged, RunState
from gitbaton.rules import settle
from gitbaton.store import runs

Chain = list[TicketMerge]


class _Verdict(NamedTuple):
    """What may land: the longest green prefix with its proof (or the sealed commit that covers its
    tree), and the member that broke the chain with the output that shows it (or the halt, when the
    tip itself is red)."""

    chain: Chain
    proof: Proof | None
    covered_by: str | None = None
    culprit: Attempt | None = None
    output: str = ""
    halt: Halt | None = None


def integrate(
    ctx: Context,
    run: str,
    *,
    plan_from: str | None = None,
    read_plan: bool = False,
    landed: Callable[[], None] = lambda: None,
) -> bool:
    """Recover, integrate all sealed attempts, and (``read_plan``) bring the plan up to date.

    ``landed`` is called after each chain: there may be more to claim now, though more is sealed.
    False: another process is at it. What cannot be integrated is recorded in the state, not raised.
    """
    while True:
        lock = advance.integration_lock(ctx, run)
        if not lock.try_acquire():
            return False
        with lock:
            advance.recover(ctx, run)
            loaded = runs.load(ctx.repo, run)
            advance.heal_branch(ctx, loaded)
            while not _stuck(ctx, loaded) and _integrate_once(ctx, loaded):
                landed()
                loaded = runs.load(ctx.repo, run)
            if read_plan and not _stuck(ctx, loaded):
                _refresh(ctx, run, plan_from)
                closing.close(ctx, run)
                read_plan = False
        # Somebody may have sealed and found the lock busy since we looked last.
        loaded = runs.load(ctx.repo, run)
        if not _pending(loaded) or obstacle(ctx, loaded) is not None:
            return True


def _stuck(ctx: Context, loaded: runs.Loaded) -> bool:
    """Whether trying is in vain until a person has done something to the branch or the plan."""
    halt = loaded.state.live.halt
    return obstacle(ctx, loaded) is not None and not (halt and halt.passing)


def obstacle(ctx: Context, loaded: runs.Loaded) -> Blocked | None:
    """Why nothing can be integrated at the present tip, or None."""
    record, halt = loaded.state.run, loaded.state.live.halt
    foreign = advance.foreign_tip(ctx, loaded)
    if foreign is not None:
        return advance.astray(ctx, record, foreign)
    if halt is not None and halt.tip == record.tip:
        return Blocked(code=halt.code, reason=halt.reason, hint=halt.hint)
    return None


def _refresh(ctx: Context, run: str, plan_from: str | None) -> None:
    """The plan read again; a run that was complete and goes on first takes in its base."""
    was_complete = runs.load_live(ctx.repo, run)[2].complete
    loaded = planning.synchronise(ctx, run, plan_from=plan_from)
    if was_complete and not loaded.state.live.complete:
        try:
            update.merge_base_branch(ctx, run)
        except BatonError as error:
            _record_halt(ctx, loaded, error.code, error.message, error.hint)


def _pending(loaded: runs.Loaded) -> list[Attempt]:
    """Sealed attempts in the order they were claimed."""
    found = [a for a in loaded.state.live.attempts.values() if a.state == "sealed"]
    return sorted(found, key=lambda a: (a.claimed_at, a.ticket, a.number))


def _integrate_once(ctx: Context, loaded: runs.Loaded) -> bool:
    """One chain: True when something changed and another look is worth while."""
    pending = _pending(loaded)
    if not pending:
        return False
    accepted, rejected = [], False
    for attempt in pending:
        lost = returning.lost(ctx, loaded, attempt)
        if lost is not None:
            returning.lose(ctx, loaded.state.run.id, attempt, lost)
            rejected = True
            continue
        failure = _reject(ctx, loaded, attempt)
        if failure is None:
            accepted.append(attempt)
        else:
            _review(ctx, loaded, attempt, *failure)
            rejected = True
    if rejected:
        return True
    with merge_workspace(ctx) as workspace:
        chain: Chain = []
        tip = loaded.state.run.tip
        for attempt in accepted:
            merged = merge_ticket(ctx, loaded, tip, attempt, workspace)
            if isinstance(merged, TicketMerge):
                beyond = overstep(ctx, loaded, tip, merged)
                if beyond is not None:
                    _review(ctx, loaded, attempt, *beyond)
                    return True
                chain.append(merged)
                tip = merged.commit
            elif not chain:
                # Only the landed tip counts: behind others, it is judged in the next round.
                _record_conflict(ctx, loaded, merged)
                return True
    return _land(ctx, loaded, _judge(ctx, loaded, chain))


def _reject(ctx: Context, loaded: runs.Loaded, attempt: Attempt) -> tuple[str, str] | None:
    """Code and reason why a sealed attempt must not be merged, or None."""
    assert attempt.sealed is not None
    try:
        failure = trust.judge(ctx, loaded, attempt)
    except RepositoryError as error:
        return "receipt-rejected", error.message
    if failure is not None:
        return failure.code, failure.message
    ticket = loaded.state.plan.ticket(attempt.ticket)
    if ticket and ticket.digest not in (attempt.ticket_digest, attempt.accepted_digest):
        return (
            "ticket-changed",
            f"the text of {attempt.ticket} changed while it was in flight: "
            f"`git baton adopt {attempt.id}` accepts the work as it is, `abandon` has it redone",
        )
    return None


def _review(ctx: Context, loaded: runs.Loaded, attempt: Attempt, code: str, message: str) -> None:
    def step(fresh: runs.Loaded) -> tuple[RunState, Event] | None:
        current = fresh.state.attempt(attempt.id)
        if current is None or current.state != "sealed" or current.sealed != attempt.sealed:
            return None
        state = settle.review(fresh.state, current, code, message)
        first = message.splitlines()[0] if message else code
        return state, _event("review", attempt, f"{attempt.id} needs a decision: {first}")

    ctx.transact(loaded.state.run.id, step, lambda _: _note(loaded, attempt))


def _record_conflict(ctx: Context, loaded: runs.Loaded, conflicted: Conflicted) -> None:
    attempt = conflicted.attempt

    def step(fresh: runs.Loaded) -> tuple[RunState, Event] | None:
        current = fresh.state.attempt(attempt.id)
        if current is None or current.state != "sealed" or current.sealed != attempt.sealed:
            return None
        state = settle.conflict(fresh.state, current, conflicted.paths)
        text = f"{attempt.id} conflicts in {', '.join(conflicted.paths)}"
        return state, _event("conflict", attempt, text)

    ctx.transact(loaded.state.run.id, step, lambda _: _note(loaded, attempt))


def _note(loaded: runs.Loaded, attempt: Attempt) -> dict[str, bytes]:
    """The note of a sealed commit that is not integrated; none if the receipt is not the one
    recorded."""
    receipt = loaded.receipt(attempt.id)
    if receipt is None or attempt.sealed is None:
        return {}
    sound = statement.digest(receipt) == attempt.sealed.receipt_sha256
    return {attempt.sealed.commit: receipt} if sound else {}


def _record_halt(
    ctx: Context, loaded: runs.Loaded, code: str, reason: str, hint: str, *, passing: bool = False
) -> None:
    def step(fresh: runs.Loaded) -> tuple[RunState, Event] | None:
        state = settle.halt(fresh.state, code, reason, hint, passing=passing)
        if state.live.halt == fresh.state.live.halt:
            return None
        return state, Event(event="halt", message=f"{code}: {reason.splitlines()[0]}")

    ctx.transact(loaded.state.run.id, step)


# --- judging -----------------------------------------------------------------------------------


def _judge(ctx: Context, loaded: runs.Loaded, chain: Chain) -> _Verdict:
    """The longest prefix of the chain whose last tree is green, found by bisection."""
    covered = _covering_commit(ctx, loaded, chain)
    if covered is not None or ctx.settings.verify_merged == "never":
        return _Verdict(chain, None, covered)
    proof = prove(ctx, loaded, chain[-1].commit, _commands(loaded, chain))
    if proof.green:
        return _Verdict(chain, proof)
    green, red = 0, len(chain)
    proofs: dict[int, Proof] = {red: proof}
    while red - green > 1:
        middle = (green + red) // 2
        prefix = chain[:middle]
        proofs[middle] = prove(ctx, loaded, prefix[-1].commit, _commands(loaded, prefix))
        if proofs[middle].green:
            green = middle
        else:
            red = middle
    if green == 0:
        tip = prove(ctx, loaded, loaded.state.run.tip, loaded.state.run.checks)
        if not tip.green:
            return _Verdict([], None, halt=_tip_red(loaded, tip))
    return _Verdict(
        chain[:green],
        proofs.get(green),
        culprit=chain[red - 1].attempt,
        output=proofs[red].failure_text(),
    )


def _covering_commit(ctx: Context, loaded: runs.Loaded, chain: Chain) -> str | None:
    """The sealed commit whose receipt already speaks of the last merged tree, ticks aside, with
    every command that this chain needs."""
    if ctx.settings.verify_merged == "always":
        return None
    tasks = prepare.tasks_path_of(ctx, loaded)
    needed = set(_commands(loaded, chain))
    for merged in chain:
        sealed = merged.attempt.sealed
        assert sealed is not None
        if sealed.sealed_in != "verification-worktree":
            continue
        if not same_but_for_ticks(ctx.repo, chain[-1].bare_tree, sealed.tree, tasks):
            continue
        receipt = loaded.receipt(merged.attempt.id)
        if receipt is None:
            continue
        if needed <= {c.command for c in statement.parse(receipt).predicate.checks}:
            return sealed.commit
    return None


def _commands(loaded: runs.Loaded, chain: Chain) -> tuple[str, ...]:
    """The checks of a chain: those of the run, and of every member."""
    members = [loaded.state.plan.ticket(m.attempt.ticket) for m in chain]
    own = [command for ticket in members if ticket for command in ticket.checks]
    return tuple(dict.fromkeys((*loaded.state.run.checks, *own)))


def _tip_red(loaded: runs.Loaded, proof: Proof) -> Halt:
    record = loaded.state.run
    return Halt(
        code="tip-red",
        reason=f"the checks are red on {advance.short(record.branch)} itself, before any merge:\n"
        + proof.failure_text(),
        hint="mend the base branch and `git baton update`, or give other checks: `git baton "
        f"actions {record.id} --verify CMD`; `git baton resume {record.id}` tries again as it is",
        tip=record.tip,
    )


# --- landing on the branch ---------------------------------------------------------------------


def _land(ctx: Context, loaded: runs.Loaded, verdict: _Verdict) -> bool:
    run = loaded.state.run.id
    if verdict.halt is not None:
        halt = verdict.halt
        _record_halt(ctx, loaded, halt.code, halt.reason, halt.hint)
        return False
    if verdict.chain:
        intent = advance.new_advance(
            ctx,
            loaded,
            verdict.chain[-1].commit,
            merges=_members(ctx, loaded, verdict),
        )
        names = ", ".join(str(m.attempt.id) for m in verdict.chain)
        only = verdict.chain[0].attempt if len(verdict.chain) == 1 else None
        message = f"integrate {names} as {intent.new[:12]}"
        event = (
            _event("integrate", only, message)
            if only
            else Event(event="integrate", message=message)
        )
        try:
            advance.carry_out(ctx, run, intent, event)
        except Conflict:
            return True  # the branch moved: a foreign commit, seen in the next look
        except Refused as error:
            if error.code == "receipt-changed":
                return True
            _record_halt(ctx, loaded, error.code, error.message, error.hint, passing=True)
            return False
    if verdict.culprit is not None:
        _review(ctx, loaded, verdict.culprit, "merged-checks-failed", verdict.output)
    return True


def _members(ctx: Context, loaded: runs.Loaded, verdict: _Verdict) -> tuple[Merged, ...]:
    """The merges of a chain as the intent records them; the last holds the receipt of the proof."""
    chain, last, receipt = verdict.chain, verdict.chain[-1], None
    if verdict.proof is not None:
        receipt = verdict.proof.receipt(
            ctx,
            loaded,
            subject=(last.commit, last.tree),
            attempt=last.attempt,
            covers=tuple(m.commit for m in chain),
            recipe=last.recipe,
        )
    signature = trust.sign(ctx, receipt) if receipt is not None else None
    return tuple(
        Merged(
            ticket=m.attempt.ticket,
            number=m.attempt.number,
            receipt_sha256=m.attempt.sealed.receipt_sha256 if m.attempt.sealed else "",
            commit=m.commit,
            tested_by=last.commit if receipt else verdict.covered_by,
            receipt=receipt.decode() if receipt and m is last else None,
            signature=signature.decode() if signature and m is last else None,
        )
        for m in chain
    )


def _event(kind: str, attempt: Attempt, message: str) -> Event:
    return Event(event=kind, message=message, ticket=attempt.ticket, attempt=attempt.number)
