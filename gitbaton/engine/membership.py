"""Keeping a batch in step with its queue, as `planning` keeps a change in step with its tasks file.

What the queue holds now decides who is a member; the members become the tickets of the run's plan,
and from there on everything goes as for any plan. The queue is only read here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from gitbaton.engine.context import Context, require_following
from gitbaton.engine.queue import holder
from gitbaton.errors import NotFound, Refused
from gitbaton.git import objects
from gitbaton.model.plan import Plan
from gitbaton.model.queue import Claim, Item
from gitbaton.model.root import BatchTarget, VirtualBatchDescriptor
from gitbaton.model.run import Event, RunRecord, RunState
from gitbaton.rules import batch as rules
from gitbaton.rules.dispose import require
from gitbaton.rules.frontier import claimable
from gitbaton.rules.members import admit, leave, lost, plan_of
from gitbaton.rules.revise import resolved_by_receipt, revise
from gitbaton.rules.select import available, select
from gitbaton.store import queues, runs


class View(NamedTuple):
    """A batch's queue at one revision, as the rules ask about it."""

    queue: queues.Queue
    holds: Callable[[Claim], bool]

    def item(self, item: str) -> Item | None:
        return self.queue.items.get(item)

    def closed(self, item: str) -> bool:
        return self.queue.closed(item)

    def selected(self, descriptor: VirtualBatchDescriptor) -> list[str]:
        """What the one selector chooses now."""
        return select(self.queue.items, descriptor.filters, descriptor.order, holds=self.holds)

    def to_be_had(self, run: str, item: str) -> bool:
        """Whether ``run`` may take the item: nobody else has it."""
        found = self.item(item)
        if found is None:
            return False
        own = found.claimed_by is not None and found.claimed_by.run == run
        return own or available(found, self.item, self.holds) is None


def look(ctx: Context, descriptor: VirtualBatchDescriptor) -> View:
    """The queue of a batch as it is now."""
    return View(queues.load(ctx.repo, descriptor.queue), holder(ctx))


def view_of(ctx: Context, state: RunState) -> View:
    """The queue of a batch as it is now; raises `Refused` ``foreign-mutation`` if it does not go on
    from where the batch saw it last."""
    descriptor, batch = descriptor_of(state.run), state.batch
    assert descriptor is not None and batch is not None
    seen, ref = batch.queue_revision, queues.queue_ref(descriptor.queue)
    try:
        view = look(ctx, descriptor)
    except NotFound as error:
        raise Refused(
            "foreign-mutation",
            f"{ref} was at {seen} and is gone",
            f"git update-ref {ref} {seen}"
            if objects.exists(ctx.repo, seen)
            else "git fetch REMOTE 'refs/baton/*:refs/baton/*'",
            {"before": seen, "after": None},
        ) from error
    require_following(ctx.repo, ref, seen, view.queue.oid)
    return view


def descriptor_of(record: RunRecord) -> VirtualBatchDescriptor | None:
    """What a batch is to do; None for a run whose plan is a change. Raises `BatonError`
    ``newer-schema`` for one that says more than can be read here."""
    if not isinstance(record.target, BatchTarget):
        return None
    rules.require_schema(record.target.descriptor)
    return record.target.descriptor


def synchronise(ctx: Context, run: str) -> runs.Loaded:
    """Members, and with them the plan, brought up to date; called under the integration lock.

    Raises as `view_of` does.
    """
    loaded = runs.load(ctx.repo, run)
    descriptor, batch = descriptor_of(loaded.state.run), loaded.state.batch
    assert descriptor is not None and batch is not None
    if batch.closed is not None:
        return loaded
    view, at = view_of(ctx, loaded.state), ctx.clock.now().stamp
    if revised(loaded.state, view, at) == loaded.state:
        return loaded

    def step(fresh: runs.Loaded) -> tuple[RunState, Event] | None:
        state = revised(fresh.state, view, at)
        if state == fresh.state or state.batch is None:
            return None
        state = seen(state, view)
        return state, Event(event="admit", message=_differences(fresh.state, state))

    return ctx.transact(run, step)


def revised(state: RunState, view: View, at: str) -> RunState:
    """``state`` with the members and the plan that the queue makes of it at the time ``at``.
    What is being worked on is judged when the work is there."""
    descriptor, batch = descriptor_of(state.run), state.batch
    assert descriptor is not None and batch is not None
    batch = admit(descriptor, batch, view.selected(descriptor), started(state))
    working = {a.ticket for a in state.live.attempts.values() if a.active}
    idle = [item for item in state.live.missing if item not in working]
    done = resolved_by_receipt(state)
    for item in idle:
        reason = lost(descriptor, batch, item, view.item)
        if reason is not None:
            batch = leave(batch, item, reason, at)
    batch = require(descriptor, batch, idle, view.item, at, done)
    return replanned(replace(state, batch=batch), view)


def replanned(state: RunState, view: View) -> RunState:
    """``state`` with the plan that its members make, and paused if they want a person."""
    descriptor, batch = descriptor_of(state.run), state.batch
    assert descriptor is not None and batch is not None
    plan = plan_of(batch, view.item, view.closed, state.plan)
    return paused_if_wanted(revise(state, _as_handed_out(state, plan)))


def _as_handed_out(state: RunState, plan: Plan) -> Plan:
    """``plan`` with the texts of what is being worked on as they were handed out: a rescan moves
    lines, which makes no work worthless."""
    active = {a.ticket for a in state.live.attempts.values() if a.active}
    before = {t.key: t for t in state.plan.tickets if t.key in active}
    tickets = tuple(
        replace(before[t.key], section=t.section, needs=t.needs, mark=t.mark)
        if t.key in before
        else t
        for t in plan.tickets
    )
    return replace(plan, tickets=tickets)


def elsewhere(ctx: Context, state: RunState) -> str | None:
    """Why what the plan would let start is not to be had now; None for a run without a queue, or if
    something is to be had."""
    if state.batch is None:
        return None
    view = view_of(ctx, state)
    waiting = [view.item(ticket.key) for ticket in claimable(state)]
    if any(item is not None and view.to_be_had(state.run.id, item.id) for item in waiting):
        return None
    told = [f"{i.id} {available(i, view.item, view.holds)}" for i in waiting if i is not None]
    return _named(told, "; ") or None


def resumed(ctx: Context, state: RunState) -> RunState:
    """``state`` with what its batch was paused for tried again; any other run as it is."""
    descriptor, batch = descriptor_of(state.run), state.batch
    if descriptor is None or batch is None:
        return state
    view = view_of(ctx, state)
    return replanned(replace(state, batch=rules.resume(descriptor, batch, view.closed)), view)


def paused_if_wanted(state: RunState) -> RunState:
    """``state``, paused if its batch cannot go on without a person."""
    pause = state.batch.pause if state.batch else None
    if pause is None or state.run.paused is not None:
        return state
    return replace(state, run=replace(state.run, paused=f"{pause.code}: {pause.reason}"))


def seen(state: RunState, view: View) -> RunState:
    """``state`` with the revision of the queue that it was made by."""
    assert state.batch is not None
    return replace(state, batch=replace(state.batch, queue_revision=view.queue.oid))


def started(state: RunState) -> frozenset[str]:
    """The members that an attempt was ever made for."""
    return resolved_by_receipt(state).union(state.live.records)


def _differences(before: RunState, after: RunState) -> str:
    """Who came and who went, for the log."""
    assert before.batch is not None and after.batch is not None
    old = {m.id: m for m in before.batch.members}
    new = {m.id: m for m in after.batch.members}
    came = [item for item in new if item not in old]
    gone = [item for item in old if item not in new or (new[item].left and not old[item].left)]
    told = [f"{word} {_named(items)}" for word, items in (("admit", came), ("drop", gone)) if items]
    return ", ".join(told) or "read the queue again"


def _named(items: list[str], between: str = ", ") -> str:
    return between.join(items[:5]) + (f" and {len(items) - 5} more" if len(items) > 5 else "")
