"""Claiming: tickets become attempts of a session, each with a contract and a worktree.

The contract is written before the state says that it exists, and the worktree is made after; an
intent in the state joins the two, so that whoever comes after a kill can finish it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from gitbaton.engine import contract, deliver, holding, prepare
from gitbaton.engine.context import Context
from gitbaton.evidence.prepare import worktree_root
from gitbaton.git import worktree
from gitbaton.model.action import Dispatch, ResolveMerge
from gitbaton.model.ids import AttemptId
from gitbaton.model.run import Event, Hold, RunState, TicketRecord
from gitbaton.rules import lease as leases
from gitbaton.rules.claim import Choice, choose, claim
from gitbaton.rules.frontier import claimable
from gitbaton.rules.state import record, with_intent, without_intent
from gitbaton.store import runs


def claim_tickets(
    ctx: Context, run: str, session: str, capacity: int | None, lease: int | None
) -> list[Dispatch | ResolveMerge]:
    """Claim what the session may have, and make the worktrees."""
    limit = capacity or ctx.settings.capacity

    def choices(
        loaded: runs.Loaded, to_be_had: Callable[[str], bool] = lambda _: True
    ) -> tuple[RunState, tuple[Choice, ...]]:
        state = _numbered(loaded, limit)
        return state, choose(state, session, limit, ctx.settings.max_active, to_be_had)

    if not choices(runs.load(ctx.repo, run))[1]:
        return []
    intent_id = prepare.new_intent_id()
    tokens: dict[AttemptId, str] = {}

    def step(loaded: runs.Loaded) -> tuple[RunState, Event] | None:
        # The contract is written here, under the state lock, because its place on disk is named
        # after the attempt: nobody else can be writing an attempt of the same number.
        tokens.clear()
        contracts = []
        state, chosen = choices(loaded, lambda key: hold is None or hold.is_for(key))
        if hold is not None and not holding.stands(loaded, hold, chosen):
            return None
        for choice in chosen:
            made = _contract(ctx, state, choice)
            state = _claimed(ctx, state, choice, session, made, lease, hold)
            tokens[choice.id] = made.token
            contracts.append(made)
        if not tokens:
            return None
        contract.write_contracts(ctx, contracts)
        if hold is not None:
            state = without_intent(state, hold.id)
        state = with_intent(state, prepare.new_prepare(ctx, list(tokens), intent_id))
        names = ", ".join(str(a) for a in tokens)
        only = next(iter(tokens)) if len(tokens) == 1 else AttemptId("", 0)
        return state, Event(
            event="claim",
            message=f"claim {names} for {session}",
            ticket=only.ticket,
            attempt=only.number,
            session=session,
        )

    def wanted(loaded: runs.Loaded, to_be_had: Callable[[str], bool]) -> Sequence[Choice]:
        return choices(loaded, to_be_had)[1]

    with prepare.intent_lock(ctx, intent_id) as lock:
        with holding.held(ctx, run, wanted, session) as hold:
            claimed = ctx.transact(run, step)
        if not tokens:
            return []
        attempts = [a for a in (claimed.attempt(i) for i in tokens) if a is not None]
        prepared = prepare.carry_out(ctx, run, intent_id, attempts)
    lock.path.unlink(missing_ok=True)
    ready = (prepared.attempt(attempt.id) for attempt in attempts)
    return [
        deliver.dispatch_of(ctx, prepared, attempt, tokens[attempt.id], redelivered=False)
        for attempt in ready
        if attempt is not None and attempt.state == "leased"
    ]


def _numbered(loaded: runs.Loaded, limit: int) -> RunState:
    """The state with the highest attempt number of what may be claimed: a ticket that was reopened,
    or whose key came back into the plan, has attempts that its record no longer speaks of."""
    state = loaded.state
    for ticket in claimable(state)[:limit]:
        known = state.live.records.get(ticket.key, TicketRecord())
        last = max(loaded.numbers(ticket.key), default=0)
        if last > known.last:
            state = record(state, ticket.key, last=last)
    return state


def _contract(ctx: Context, state: RunState, choice: Choice) -> contract.Contract:
    run = state.run.id
    path = worktree_root(ctx.repo, ctx.settings) / run / choice.id.slug
    worktree.require_available(ctx.repo, path)  # before the claim: it is no fault of the ticket's
    return contract.new_contract(ctx, state, choice, path, ctx.attempt_branch(run, choice.id))


def _claimed(
    ctx: Context,
    state: RunState,
    choice: Choice,
    session: str,
    made: contract.Contract,
    lease: int | None,
    hold: Hold | None,
) -> RunState:
    run, now = state.run, ctx.clock.now()
    ttl = lease or choice.ticket.lease_seconds or ctx.settings.lease_seconds
    return claim(
        state,
        choice,
        session=session,
        lease=leases.grant(now, session, made.token, ttl),
        base_commit=run.tip,
        branch=ctx.attempt_branch(run.id, choice.id),
        worktree=made.packet.worktree,
        packet=made.data,
        packet_sha256=hashlib.sha256(made.data).hexdigest(),
        now=now,
        capability=hold.capabilities[str(choice.id)] if hold else None,
        queue_revision=hold.queue_revision if hold else None,
    )
