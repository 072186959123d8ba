"""`actions`: heal, integrate, read the plan, claim, prepare, and say what to do next.

The steps are the same for every caller: a script, an agent session, the runner. Each of them may be
cut off by a kill; the next call finds what is there and goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import asdict, replace

from gitbaton.engine import (
    advance,
    contract,
    holding,
    integrate,
    notify,
    observe,
    prepare,
    start,
)
from gitbaton.engine.batch import Outlook, compose
from gitbaton.engine.context import Context, known_run, require_outside, resolve_run
from gitbaton.engine.remains import last_red_check
from gitbaton.errors import Busy, Refused, UsageError
from gitbaton.evidence.prepare import worktree_root
from gitbaton.git import worktree
from gitbaton.model.action import ActionBatch, Dispatch, LeaseTerms, ResolveMerge
from gitbaton.model.ids import AttemptId, assignment_id
from gitbaton.model.plan import Order, Unit
from gitbaton.model.run import Attempt, Event, Hold, RunRecord, RunState, TicketRecord
from gitbaton.rules import lease as leases
from gitbaton.rules.claim import Choice, choose, claim
from gitbaton.rules.frontier import claimable
from gitbaton.rules.settle import exhaust, expire
from gitbaton.rules.state import record, with_intent, with_live, without_intent
from gitbaton.store import runs

MOST_CAPACITY = 64
_A_MOMENT = 3.0  # seconds


def actions(
    ctx: Context,
    run: str | None,
    *,
    session: str,
    capacity: int | None = None,
    checks: Sequence[str] = (),
    base: str | None = None,
    lease: int | None = None,
    redeliver: bool = False,
    order: Order | None = None,
    unit: Unit | None = None,
    project: str | None = None,
    plan_from: str | None = None,
) -> ActionBatch:
    """What ``session`` is to do now. ``lease`` is in seconds; ``run`` is a run or a change.

    Raises before anything is changed when a run could not work: no check, no identity, no base, a
    plan that cannot be read.
    """
    require_terms(session, capacity)
    if lease is not None and lease < 1:
        raise UsageError("bad-lease", "a lease of no time would be lost at once", "e.g. --lease 1h")
    name = resolve_run(ctx, run, must_exist=False)
    about_a_plan = {"order": order, "unit": unit, "project": project, "plan_from": plan_from}
    start.require_tasks_file(ctx, name, about_a_plan)
    resolved = start.run_of_change(ctx, name, project)
    if not known_run(ctx, resolved):
        resolved = start.start(
            ctx,
            name,
            checks=checks,
            base=base,
            order=order,
            unit=unit,
            project=project,
            plan_from=plan_from,
        )
    else:
        _reconfigure(ctx, resolved, checks, order, unit)
    if not integrate.integrate(ctx, resolved, plan_from=plan_from, read_plan=True):
        _await_plan(ctx, resolved)
    return next_batch(
        ctx, resolved, session=session, capacity=capacity, lease=lease, redeliver=redeliver
    )


def next_batch(
    ctx: Context,
    run: str,
    *,
    session: str,
    capacity: int | None,
    lease: int | None = None,
    redeliver: bool = False,
    outlook: Outlook | None = None,
) -> ActionBatch:
    """Heal, claim, prepare, and put together what there is to do; integrates nothing. ``outlook``
    holds what the caller has done already."""
    prepare.recover(ctx, run)
    outlook = outlook or Outlook()
    outlook.retired += _retire(ctx, run)
    loaded = runs.load(ctx.repo, run)
    if redeliver:
        outlook.dispatches += _redeliver(ctx, run, session)
    record = loaded.state.run
    if record.paused is None and _has_its_plan(record) and not integrate.obstacle(ctx, loaded):
        outlook.dispatches += _claim(ctx, run, session, capacity, lease)
    batch = compose(ctx, run, outlook)
    notify.saw(ctx, batch)
    return batch


def _await_plan(ctx: Context, run: str) -> None:
    """Wait a moment while another process brings the plan to the integration branch for the first
    time: before that there is nothing to claim."""
    if not _has_its_plan(runs.load(ctx.repo, run).state.run):
        with suppress(Busy), advance.integration_lock(ctx, run).acquire(timeout=_A_MOMENT):
            pass


def _has_its_plan(record: RunRecord) -> bool:
    """Whether the plan was brought to the integration branch, so that a worktree will hold it. Not
    yet so only while another process, at this moment, makes the first plan commit."""
    own = record.source.kind == "revision" and record.source.at == record.branch
    return own or record.source.kind == "queue" or bool(record.source.files)


def take_over(
    ctx: Context, run: str, attempt_id: AttemptId, session: str
) -> Dispatch | ResolveMerge:
    """Hand out again an attempt whose worker is known to be dead, to ``session``: fresh token, same
    packet and prompt. Raises `Refused` unless its work is not finished."""
    state = runs.load(ctx.repo, run).state
    attempt = state.attempt(attempt_id)
    if attempt is None or attempt.state not in ("leased", "spawned", "running"):
        raise Refused("attempt-retired", f"{run}/{attempt_id} is not being worked on", "")
    return _hand_out_again(ctx, run, attempt_id, session)


def require_terms(session: str, capacity: int | None) -> None:
    """Raise `UsageError` unless the session has a name and its capacity is one it may have."""
    if not session.strip():
        raise UsageError("empty-session", "the session has no name", "--session takes any name")
    if capacity is not None and not 1 <= capacity <= MOST_CAPACITY:
        raise UsageError("bad-capacity", f"a capacity is 1 to {MOST_CAPACITY}, not {capacity}")


def _reconfigure(
    ctx: Context, run: str, checks: Sequence[str], order: Order | None, unit: Unit | None
) -> None:
    """Checks, order and unit given again replace those of the run, for packets made from now on."""

    def step(loaded: runs.Loaded) -> tuple[RunState, Event] | None:
        record = loaded.state.run
        changed = replace(
            record,
            checks=start.usable(checks) or record.checks,
            order=order or record.order,
            unit=unit or record.unit,
        )
        if changed == record:
            return None
        require_outside(ctx, "changing how a run works")
        state = replace(loaded.state, run=changed)
        halt = state.live.halt
        if halt is not None and halt.code == "tip-red" and changed.checks != record.checks:
            state = with_live(state, halt=None)
        return state, Event(event="configure", message=_differences(record, changed))

    if checks or order or unit:
        ctx.transact(run, step)


def _differences(old: RunRecord, new: RunRecord) -> str:
    """What a new configuration replaces, for the log."""
    told = []
    if old.checks != new.checks:
        before, after = ("; ".join(f"`{c}`" for c in r.checks) for r in (old, new))
        told.append(f"checks: {before}, now {after}")
    if old.order != new.order:
        told.append(f"order: {old.order or 'as planned'}, now {new.order}")
    if old.unit != new.unit:
        told.append(f"unit: {old.unit or 'as planned'}, now {new.unit}")
    return ", ".join(told)


def _retire(ctx: Context, run: str) -> tuple[AttemptId, ...]:
    """Attempts whose lease has run out, or whose ticket has no attempts left, are retired."""
    retired: list[AttemptId] = []

    def step(loaded: runs.Loaded) -> tuple[RunState, Event] | None:
        retired.clear()
        state = loaded.state
        sightings = observe.sightings_of(ctx, run)
        said = {a.id: last_red_check(ctx, run, a.id) for a in state.live.attempts.values()}
        state, expired = expire(state, ctx.clock.now(), sightings, said)
        state, spent = exhaust(state, ctx.settings.max_attempts)
        retired.extend((*expired, *spent))
        if not retired:
            return None
        names = ", ".join(str(a) for a in retired)
        return state, Event(event="expire", message=f"retired {names}")

    state = runs.load(ctx.repo, run).state
    observe.look(ctx, run, state)
    now, sightings = ctx.clock.now(), observe.sightings_of(ctx, run)
    if expire(state, now, sightings, {})[1] or exhaust(state, ctx.settings.max_attempts)[1]:
        ctx.transact(run, step)
    return tuple(retired)


# --- claiming ----------------------------------------------------------------------------------


def _claim(
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
        _dispatch(ctx, prepared, attempt, tokens[attempt.id], redelivered=False)
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


# --- delivering --------------------------------------------------------------------------------


def _redeliver(ctx: Context, run: str, session: str) -> list[Dispatch | ResolveMerge]:
    """Every attempt that is still leased and that nobody is preparing, handed out again."""
    state = runs.load(ctx.repo, run).state
    busy = prepare.in_preparation(state)
    waiting = [
        a for name, a in state.live.attempts.items() if a.state == "leased" and name not in busy
    ]
    waiting.sort(key=lambda a: (a.claimed_at, a.ticket))
    return [_hand_out_again(ctx, run, attempt.id, session) for attempt in waiting]


def _hand_out_again(
    ctx: Context, run: str, attempt_id: AttemptId, session: str
) -> Dispatch | ResolveMerge:
    token = contract.new_token()

    def step(loaded: runs.Loaded) -> tuple[RunState, Event]:
        packet = loaded.packet(attempt_id)
        if packet is not None:
            contract.restore_contract(ctx, run, attempt_id, packet)
        contract.write_token(ctx.attempt_dir(run, attempt_id), token)
        state = leases.redeliver(loaded.state, attempt_id, token, session, ctx.clock.now())
        return state, Event(
            event="redeliver",
            message=f"hand out {attempt_id} again, to {session}",
            ticket=attempt_id.ticket,
            attempt=attempt_id.number,
            session=session,
        )

    loaded = ctx.transact(run, step)
    attempt = loaded.attempt(attempt_id)
    assert attempt is not None
    if not Path(attempt.worktree).is_dir():
        prepare.remake(ctx, run, attempt)
    return _dispatch(ctx, loaded, attempt, token, redelivered=True)


def _dispatch(
    ctx: Context, loaded: runs.Loaded, attempt: Attempt, token: str, *, redelivered: bool
) -> Dispatch | ResolveMerge:
    run = loaded.state.run.id
    packet_bytes = loaded.packet(attempt.id)
    assert packet_bytes is not None
    packet = contract.read_packet(ctx, run, attempt.id, packet_bytes)
    folder = ctx.attempt_dir(run, attempt.id)
    ticket = loaded.state.plan.ticket(attempt.ticket)
    dispatch = Dispatch(
        assignment=assignment_id(run, attempt.id),
        ticket=attempt.ticket,
        attempt=attempt.number,
        title=packet.title,
        cwd=attempt.worktree,
        branch=packet.branch,
        base_commit=attempt.base_commit,
        prompt=contract.prompt_of(packet),
        token=token,
        packet=str(folder / contract.PACKET),
        packet_sha256=attempt.packet_sha256,
        redelivered=redelivered,
        lease=LeaseTerms(
            ttl_seconds=attempt.lease.ttl_seconds, expires_at=leases.expires_at(attempt.lease)
        ),
        agent=ticket.agent if ticket else None,
    )
    if attempt.resolves is None:
        return dispatch
    return ResolveMerge(conflicts=attempt.conflicts, **asdict(dispatch))
