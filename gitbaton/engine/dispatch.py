"""`actions`: heal, integrate, read the plan, claim, prepare, and say what to do next.

The steps are the same for every caller: a script, an agent session, the runner. Each of them may be
cut off by a kill; the next call finds what is there and goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from gitbaton.engine import (
    advance,
    claiming,
    deliver,
    integrate,
    notify,
    observe,
    prepare,
    start,
)
from gitbaton.engine.batch import Outlook, compose
from gitbaton.engine.context import Context, known_run, require_outside, resolve_run
from gitbaton.engine.remains import last_red_check
from gitbaton.errors import Busy, UsageError
from gitbaton.model.action import ActionBatch
from gitbaton.model.ids import AttemptId
from gitbaton.model.plan import Order, Unit
from gitbaton.model.run import Event, RunRecord, RunState
from gitbaton.rules.settle import exhaust, expire
from gitbaton.rules.state import with_live
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
        outlook.dispatches += deliver.redeliver(ctx, run, session)
    record = loaded.state.run
    if record.paused is None and _has_its_plan(record) and not integrate.obstacle(ctx, loaded):
        outlook.dispatches += claiming.claim_tickets(ctx, run, session, capacity, lease)
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
