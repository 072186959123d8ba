"""A member of a batch goes back to its queue without a receipt, and why.

The queue learns it first, then the run; an intent says meanwhile what is meant. An attempt whose
item was decided about by somebody else loses its eligibility: its work stays on its branch.
"""

from __future__ import annotations

import secrets

from msgspec.structs import replace

from gitbaton.engine import holding, membership
from gitbaton.engine.context import Context
from gitbaton.engine.membership import View, descriptor_of
from gitbaton.errors import Refused
from gitbaton.model.batch import Batch, Disposition
from gitbaton.model.ids import AttemptId
from gitbaton.model.queue import Item
from gitbaton.model.run import Attempt, Event, Failure, Return, RunState, TicketRecord
from gitbaton.rules import members
from gitbaton.rules.dispose import dispose
from gitbaton.rules.lease import require_token
from gitbaton.rules.revise import resolved_by_receipt
from gitbaton.rules.state import (
    move,
    record,
    remember_failure,
    with_intent,
    without_intent,
)
from gitbaton.store import queues, runs


def lost(ctx: Context, loaded: runs.Loaded, attempt: Attempt) -> str | None:
    """Why the item of a sealed attempt is not to be had any more, or None."""
    descriptor, batch = descriptor_of(loaded.state.run), loaded.state.batch
    if descriptor is None or batch is None:
        return None
    view = membership.view_of(ctx, loaded.state)
    item = view.item(attempt.ticket)
    if holding.holds(loaded.state.run.id, item):
        # Only the filters may have changed their mind about what it still holds.
        item = item and replace(item, state="open", claimed_by=None)
        return members.lost(descriptor, batch, attempt.ticket, lambda _: item)
    return members.lost(descriptor, batch, attempt.ticket, view.item) or "was given to others"


def lose(ctx: Context, run: str, attempt: Attempt, reason: str) -> None:
    """Return an attempt whose item is not to be had any more; its work is kept."""
    descriptor = descriptor_of(runs.load_live(ctx.repo, run)[1])
    assert descriptor is not None
    lost = Disposition(
        kind="eligibility-lost", reason=reason, attempt=str(attempt.id), at=ctx.clock.now().stamp
    )
    with holding.locked(ctx, descriptor.queue):
        give_back(ctx, run, attempt.id, lost, None)


def recover(ctx: Context, run: str) -> None:
    """Void or finish what a dead process left between run and queue. Called under the queue's
    lock."""
    holding.release_abandoned(ctx, run)
    for intent in runs.load(ctx.repo, run).state.intents.values():
        if isinstance(intent, Return):
            _carry_out(ctx, run, intent)


def give_back(
    ctx: Context, run: str, attempt_id: AttemptId, wanted: Disposition, secret: str | None
) -> None:
    """Close an attempt as ``wanted`` says; called under the queue's lock. With a ``secret``, by who
    holds the attempt."""
    recover(ctx, run)
    loaded = runs.load(ctx.repo, run)
    now = ctx.clock.now()
    intent = Return(
        id=secrets.token_hex(8),
        machine=now.machine,
        boot=now.boot,
        started_at=now.stamp,
        item=attempt_id.ticket,
        disposition=wanted,
    )
    view = membership.view_of(ctx, loaded.state)

    def step(fresh: runs.Loaded) -> tuple[RunState, Event] | None:
        attempt = fresh.attempt(attempt_id)
        assert attempt is not None
        if secret is not None:
            require_token(fresh.state, attempt, secret)
        if attempt.state == "integrating":
            raise Refused("being-integrated", f"{run}/{attempt_id} is being integrated", "")
        batch = _disposed(fresh.state, intent, view)  # raises for what cannot be
        if batch == fresh.state.batch:
            return None  # it was returned just so before
        if not attempt.active:
            raise Refused(
                "attempt-retired",
                f"{run}/{attempt_id} is {attempt.state} already",
                f"see `git baton show {attempt_id}`",
            )
        if secret is not None:
            _require_hold(run, attempt, view.item(attempt.ticket))
        return with_intent(fresh.state, intent), _event(intent, "dispose-intent", "about to return")

    if intent.id in ctx.transact(run, step).state.intents:
        _carry_out(ctx, run, intent)


def _require_hold(run: str, attempt: Attempt, item: Item | None) -> None:
    """Raise `Refused` unless the queue says that the attempt holds its item still."""
    claim = item.claimed_by if item is not None and item.state == "claimed" else None
    if claim is None or (claim.run, claim.capability) != (run, attempt.capability):
        raise Refused(
            "stale-capability",
            f"{run}/{attempt.id} does not hold {attempt.ticket} any more: it is "
            + (item.state if item is not None else "not in the queue"),
            "seal what there is, so that it is kept, and `git baton reconcile` the attempt",
        )


def _carry_out(ctx: Context, run: str, intent: Return) -> None:
    """Queue, then state."""
    loaded = runs.load(ctx.repo, run)
    view = membership.view_of(ctx, loaded.state)
    item = view.item(intent.item)
    if item is not None and holding.holds(run, item):
        member = _disposed(loaded.state, intent, view).member(item.id)
        admitted = member is not None and set(intent.disposition.by) <= set(member.blockers)
        changed = {item.id: _given_back(item, intent.disposition, admitted, ctx.clock.now().stamp)}
        message = f"{run} returns {item.id}: {intent.disposition.kind}"
        event = queues.QueueEvent(event="return", message=message, run=run)
        if changed[item.id] != item:
            queues.commit(ctx.repo, view.queue, changed, event, ctx.clock)
            view = membership.view_of(ctx, loaded.state)

    def step(fresh: runs.Loaded) -> tuple[RunState, Event] | None:
        if intent.id not in fresh.state.intents:
            return None
        state = _returned(without_intent(fresh.state, intent.id), intent, view)
        return membership.seen(state, view), _event(intent, "dispose", "return")

    ctx.transact(run, step)


def _given_back(item: Item, disposition: Disposition, admitted: bool, stamp: str) -> Item:
    """The item as its disposition leaves it in the queue; ``admitted``: what blocks it may be
    waited for."""
    kind, reason = disposition.kind, disposition.reason
    free = replace(item, claimed_by=None, reason=reason, updated=stamp)
    match kind:
        case "obe":
            return replace(free, state="obe")
        case "owned":
            return replace(free, state="owned", owner=disposition.by[0])
        case "blocked" if admitted:
            waits = dict.fromkeys((*item.depends_on, *disposition.by))
            return replace(free, state="blocked", depends_on=tuple(waits))
        case "eligibility-lost":
            return replace(free, state="open")
        case _:  # it is this root's to try again
            return item


def _disposed(state: RunState, intent: Return, view: View) -> Batch:
    """The batch after the return."""
    descriptor = descriptor_of(state.run)
    assert descriptor is not None and state.batch is not None
    done = resolved_by_receipt(state)
    return dispose(descriptor, state.batch, intent.item, intent.disposition, view.item, done)


def _returned(state: RunState, intent: Return, view: View) -> RunState:
    """``state`` with the attempt closed, and what that means for the batch."""
    disposition = intent.disposition
    batch = _disposed(state, intent, view)
    attempt = state.attempt(AttemptId.parse(disposition.attempt))
    assert attempt is not None
    failure = Failure(code=disposition.kind, message=disposition.reason)
    state = move(state, attempt, "closed", failure=failure, ended_at=disposition.at)
    state = remember_failure(state, attempt.ticket, failure)
    known = state.live.records.get(attempt.ticket, TicketRecord())
    if attempt.counted:  # it did not fail
        state = record(state, attempt.ticket, counted=max(0, known.counted - 1))
    return membership.replanned(replace(state, batch=batch), view)


def _event(intent: Return, kind: str, word: str) -> Event:
    attempt = AttemptId.parse(intent.disposition.attempt)
    return Event(
        event=kind,
        message=f"{word} {attempt} as {intent.disposition.kind}: {intent.disposition.reason}",
        ticket=attempt.ticket,
        attempt=attempt.number,
    )
