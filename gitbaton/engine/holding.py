"""Taking items of a queue for attempts, and giving them back: two refs, one outcome.

A run and a queue cannot move at once, so the queue decides who holds an item. Each step that spans
both is an intent in the run, a move of the queue by compare-and-swap, and the final state without
the intent; all of it under the queue's lock, so whoever has that lock and finds an intent knows
that its maker is dead, or on another machine. A stalled claimer is fenced by moving the queue
before its intent is voided: its own move fails then.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from gitbaton.engine.context import Context
from gitbaton.engine.membership import View, descriptor_of, view_of
from gitbaton.errors import Busy
from gitbaton.model.ids import AttemptId
from gitbaton.model.queue import Claim, Item
from gitbaton.model.run import Advance, Attempt, Event, Hold, RunState
from gitbaton.rules.batch import capability_id
from gitbaton.rules.claim import Choice
from gitbaton.rules.state import with_intent, without_intent
from gitbaton.store import queues, runs

Wanted = Callable[[runs.Loaded, Callable[[str], bool]], Sequence[Choice]]
"""What is to be claimed in a state, of the tickets that are to be had."""


@contextmanager
def locked(ctx: Context, queue: str) -> Iterator[None]:
    """The queue's lock, waited for; raises `Busy` ``queue-busy``."""
    lock = queues.lock(ctx.repo, queue)
    try:
        lock.acquire(timeout=60)
    except Busy as error:
        raise Busy("queue-busy", f"another process changes queue {queue}", "try again") from error
    with lock:
        yield


@contextmanager
def held(ctx: Context, run: str, wanted: Wanted, session: str) -> Iterator[Hold | None]:
    """Take the items of what is ``wanted``; within the block the claim is recorded, which drops the
    intent. What is not claimed then is given back. None: the run has no queue."""
    record = runs.load_live(ctx.repo, run)[1]
    descriptor = descriptor_of(record)
    if descriptor is None:
        yield None
        return
    with locked(ctx, descriptor.queue):
        release_abandoned(ctx, run)
        view = view_of(ctx, runs.load(ctx.repo, run).state)
        hold = _intend(ctx, run, view, wanted, session)
        if not hold.capabilities:
            yield hold
            return
        try:
            _take(ctx, run, view, hold)
            yield hold
        finally:
            if hold.id in runs.load(ctx.repo, run).state.intents:
                _void(ctx, run, hold)


def _intend(ctx: Context, run: str, view: View, wanted: Wanted, session: str) -> Hold:
    """The intent, recorded unless there is nothing to take."""
    now = ctx.clock.now()
    hold = Hold(
        id=secrets.token_hex(8),
        machine=now.machine,
        boot=now.boot,
        started_at=now.stamp,
        queue_revision=view.queue.oid,
        capabilities={},
        session=session,
    )

    def step(loaded: runs.Loaded) -> tuple[RunState, Event] | None:
        nonlocal hold
        choices = wanted(loaded, lambda item: view.to_be_had(run, item))
        hold = replace(
            hold,
            capabilities={
                str(c.id): capability_id(run, c.id.ticket, c.id.number, secrets.token_hex(16))
                for c in choices
            },
        )
        if not choices:
            return None
        names = ", ".join(hold.capabilities)
        event = Event(event="claim-intent", message=f"about to take {names}", session=session)
        return with_intent(loaded.state, hold), event

    ctx.transact(run, step)
    return hold


def _take(ctx: Context, run: str, view: View, hold: Hold) -> None:
    """Move the queue: the items are ours."""
    stamp = ctx.clock.now().stamp
    changed: dict[str, Item | None] = {}
    for name, capability in hold.capabilities.items():
        item = view.queue.items[AttemptId.parse(name).ticket]
        claim = Claim(run=run, attempt=name, capability=capability)
        changed[item.id] = replace(item, state="claimed", claimed_by=claim, updated=stamp)
    event = queues.QueueEvent(event="claim", message=f"{run} takes {', '.join(changed)}", run=run)
    queues.commit(ctx.repo, view.queue, changed, event, ctx.clock)


def release_abandoned(ctx: Context, run: str) -> None:
    """Void every intent to take items that a dead process left, whether or not it had taken them:
    nobody was told of such an attempt. Called under the queue's lock."""
    for intent in runs.load(ctx.repo, run).state.intents.values():
        if isinstance(intent, Hold):
            _void(ctx, run, intent)


def _void(ctx: Context, run: str, hold: Hold) -> None:
    descriptor = descriptor_of(runs.load_live(ctx.repo, run)[1])
    assert descriptor is not None
    queue = queues.load(ctx.repo, descriptor.queue)
    stamp = ctx.clock.now().stamp
    items = (queue.item(AttemptId.parse(name).ticket) for name in hold.capabilities)
    changed: dict[str, Item | None] = {
        item.id: released(item, stamp)
        for item in items
        if item and item.claimed_by and item.claimed_by.capability in hold.capabilities.values()
    }
    # The queue moves even if nothing was taken: a claimer that only seems to be dead fails then.
    names = ", ".join(hold.capabilities)
    event = queues.QueueEvent(event="release", message=f"{run} does not take {names}", run=run)
    queues.commit(ctx.repo, queue, changed, event, ctx.clock)

    def step(loaded: runs.Loaded) -> tuple[RunState, Event] | None:
        if hold.id not in loaded.state.intents:
            return None
        voided = Event(event="void", message=f"void: take {names}", session=hold.session)
        return without_intent(loaded.state, hold.id), voided

    ctx.transact(run, step)


def released(item: Item, stamp: str) -> Item:
    """The item when nobody holds it any more."""
    return replace(item, state="open", claimed_by=None, updated=stamp)


def stands(loaded: runs.Loaded, hold: Hold, chosen: Sequence[Choice]) -> bool:
    """Whether the intent still stands in this state, for just the attempts that are ``chosen``."""
    return hold.id in loaded.state.intents and {str(c.id) for c in chosen} == set(hold.capabilities)


def holds(run: str, item: Item | None) -> bool:
    """Whether the run still has the item. Which of its attempts has, the run itself decides."""
    claim = item.claimed_by if item is not None and item.state == "claimed" else None
    return claim is not None and claim.run == run


def settle(ctx: Context, run: str, intent: Advance) -> None:
    """The work of these merges is on the integration branch: the items are fixed. Idempotent; an
    item that somebody else decided about meanwhile stays as they said."""
    loaded = runs.load(ctx.repo, run)
    descriptor = descriptor_of(loaded.state.run)
    found = [loaded.attempt(AttemptId(m.ticket, m.number)) for m in intent.merges]
    attempts: Mapping[str, Attempt] = {a.ticket: a for a in found if a is not None}
    if descriptor is None or not attempts:
        return

    def step(
        queue: queues.Queue,
    ) -> tuple[Mapping[str, Item | None], queues.QueueEvent] | None:
        stamp = ctx.clock.now().stamp
        changed: dict[str, Item | None] = {}
        for ticket, attempt in attempts.items():
            item = queue.item(ticket)
            if item is not None and holds(run, item):
                reason = f"{run}/{attempt.id}"
                changed[ticket] = replace(
                    item, state="fixed", claimed_by=None, reason=reason, updated=stamp
                )
        if not changed:
            return None
        message = f"{run} fixed {', '.join(changed)}"
        return changed, queues.QueueEvent(event="fixed", message=message, run=run)

    queues.transact(ctx.repo, descriptor.queue, step, ctx.clock)
