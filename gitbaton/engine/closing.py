"""How a batch comes to its end: freeze, gates, close.

When nothing is selectable, that is recorded with the revision of the queue, the gates run on the
integration tip, and the queue is moved from just that revision: an item that came in between makes
the move fail, and the batch goes on. So each root closes once, with one closeout and one note.
"""

from __future__ import annotations

import secrets

from msgspec.structs import replace

from gitbaton.engine import holding, membership, returning
from gitbaton.engine.context import Context
from gitbaton.engine.membership import View, descriptor_of
from gitbaton.engine.proof import prove
from gitbaton.errors import BatonError, Conflict
from gitbaton.evidence.closeout import compose
from gitbaton.git import objects
from gitbaton.model import codec, layout
from gitbaton.model.batch import Batch, Child
from gitbaton.model.queue import Item
from gitbaton.model.run import Close, Event, Return, RunState
from gitbaton.rules import batch as rules
from gitbaton.rules.state import with_intent, with_live, without_intent
from gitbaton.store import notes, queues, runs


def close(ctx: Context, run: str) -> None:
    """Bring a batch in which nothing is left to do to its end, or pause it if a gate is red; called
    under the integration lock. Nothing for any other run, and for one that has closed."""
    descriptor = descriptor_of(runs.load_live(ctx.repo, run)[1])
    if descriptor is None:
        return
    recover(ctx, run)
    while True:
        loaded = membership.synchronise(ctx, run)
        state, batch = loaded.state, loaded.state.batch
        if batch is None or batch.closed is not None:
            return
        if state.run.paused is not None or not state.live.exhausted:
            return
        view = membership.view_of(ctx, state)
        selected = view.selected(descriptor)
        if not rules.exhausted(descriptor, batch, state.live.missing, selected):
            continue  # something came in just now
        if _fold_children(ctx, loaded):
            continue
        if not _gates_are_green(ctx, _freeze(ctx, loaded, view)):
            return
        if _close(ctx, run):
            return


def recover(ctx: Context, run: str) -> None:
    """Finish or void a return or a close that was cut off: the queue tells which."""
    loaded = runs.load(ctx.repo, run)
    descriptor = descriptor_of(loaded.state.run)
    found = [i for i in loaded.state.intents.values() if isinstance(i, Return | Close)]
    if descriptor is None or not found:
        return
    with holding.locked(ctx, descriptor.queue):
        returning.recover(ctx, run)
        for intent in (i for i in found if isinstance(i, Close)):
            if _is_closed(ctx, run, descriptor.queue, intent):
                _finish(ctx, run, intent)
            else:
                _void(ctx, run, intent)


def _freeze(ctx: Context, loaded: runs.Loaded, view: View) -> runs.Loaded:
    """On record: at this revision of the queue there is nothing to do."""

    def step(fresh: runs.Loaded) -> tuple[RunState, Event] | None:
        batch = fresh.state.batch
        assert batch is not None
        frozen = rules.freeze(batch, view.queue.oid, fresh.state.run.tip)
        if frozen == batch or frozen.freeze is None:
            return None
        message = f"freeze {frozen.freeze.count}: nothing to do at {view.queue.oid[:12]}"
        return replace(fresh.state, batch=frozen), Event(event="freeze", message=message)

    return ctx.transact(loaded.state.run.id, step)


def _gates_are_green(ctx: Context, loaded: runs.Loaded) -> bool:
    """Run the gates on the tip, once for each freeze; a red one pauses the run."""
    descriptor, batch = descriptor_of(loaded.state.run), loaded.state.batch
    assert descriptor is not None and batch is not None and batch.freeze is not None
    if batch.freeze.gates is not None:
        return not batch.freeze.red
    gates = descriptor.gates if batch.members else ()
    results = prove(ctx, loaded, batch.freeze.tip, gates).checks if gates else ()

    def step(fresh: runs.Loaded) -> tuple[RunState, Event] | None:
        if fresh.state.batch is None:
            return None
        state = replace(fresh.state, batch=rules.gates_done(fresh.state.batch, results))
        red = next((r for r in results if not r.green), None)
        said = f"gate `{red.command}` exits with {red.exit_code}" if red else "the gates are green"
        return membership.paused_if_wanted(state), Event(event="gates", message=said)

    after = ctx.transact(loaded.state.run.id, step).state.batch
    return after is not None and after.frozen and after.pause is None


def _close(ctx: Context, run: str) -> bool:
    """Move the queue and the run to their last state of this batch; False: the queue has moved, or
    the run has, so that it is to be looked at again."""
    record = runs.load_live(ctx.repo, run)[1]
    descriptor = descriptor_of(record)
    assert descriptor is not None
    with holding.locked(ctx, descriptor.queue):
        holding.release_abandoned(ctx, run)
        loaded = runs.load(ctx.repo, run)
        queue = membership.view_of(ctx, loaded.state).queue
        batch = loaded.state.batch
        assert batch is not None and batch.freeze is not None
        moved = descriptor.membership == "live" and queue.oid != batch.freeze.queue_revision
        if moved or not loaded.state.live.exhausted or loaded.state.run.paused is not None:
            return False
        intent = _intend(ctx, loaded, queue)
        try:
            _close_queue(ctx, run, queue)
        except Conflict:
            _void(ctx, run, intent)
            return False
        _finish(ctx, run, intent)
    return True


def _intend(ctx: Context, loaded: runs.Loaded, queue: queues.Queue) -> Close:
    now = ctx.clock.now()
    intent = Close(
        id=secrets.token_hex(8),
        machine=now.machine,
        boot=now.boot,
        started_at=now.stamp,
        queue_revision=queue.oid,
    )
    run = loaded.state.run.id
    event = Event(event="close-intent", message=f"about to close {run}")
    ctx.transact(run, lambda fresh: (with_intent(fresh.state, intent), event))
    return intent


def _close_queue(ctx: Context, run: str, queue: queues.Queue) -> None:
    """The queue's commit that closes a batch: what it still held is free."""
    stamp = ctx.clock.now().stamp
    changed: dict[str, Item | None] = {
        item.id: holding.released(item, stamp)
        for item in queue.items.values()
        if item.claimed_by is not None and item.claimed_by.run == run
    }
    event = queues.QueueEvent(event="close", message=f"closed by {run}", run=run)
    queues.commit(ctx.repo, queue, changed, event, ctx.clock)


def _is_closed(ctx: Context, run: str, queue: str, intent: Close) -> bool:
    """Whether the queue was moved by this intent."""
    for entry in queues.log(ctx.repo, queue):
        if entry.oid == intent.queue_revision:
            return False
        if entry.event.event == "close" and entry.event.run == run:
            return True
    return False


def _void(ctx: Context, run: str, intent: Close) -> None:
    event = Event(event="void", message=f"void: close {run}")
    ctx.transact(run, lambda fresh: (without_intent(fresh.state, intent.id), event))


def _finish(ctx: Context, run: str, intent: Close) -> None:
    """The batch is closed: its closeout lies in the state, and as a note on the tip."""
    closeout = b""

    def step(loaded: runs.Loaded) -> tuple[RunState, Event] | None:
        nonlocal closeout
        state = loaded.state
        descriptor, batch = descriptor_of(state.run), state.batch
        if intent.id not in state.intents or batch is None or descriptor is None:
            return None
        batch = rules.close(batch, rules.outcome(descriptor, batch))
        closeout = codec.encode(
            compose(
                ctx.repo,
                loaded,
                batch,
                loaded.all_attempts(),
                queue_revision=intent.queue_revision,
                closed_at=intent.started_at,
            )
        )
        state = without_intent(with_live(state, unclosed=False), intent.id)
        files = {**state.files, layout.CLOSEOUT: closeout}
        event = Event(event="close", message=f"close {run}: {batch.closed}")
        return replace(state, batch=batch, files=files), event

    def texts(loaded: runs.Loaded) -> dict[str, bytes]:
        return dict([notes.of_closeout(loaded, closeout)])

    ctx.transact(run, step, texts, notes_first=True)


# --- batches below an attempt of this one ------------------------------------------------------


def _fold_children(ctx: Context, loaded: runs.Loaded) -> bool:
    """Take over what batches below this one came to; True if there was something to take over."""
    run, batch = loaded.state.run.id, loaded.state.batch
    assert batch is not None
    folded: Batch = batch
    for child in children_of(ctx, run):
        folded = rules.fold(folded, child)
    if folded == batch:
        return False

    def step(fresh: runs.Loaded) -> tuple[RunState, Event] | None:
        mine = fresh.state.batch
        if mine is None:
            return None
        for child in folded.children:
            mine = rules.fold(mine, child)
        names = ", ".join(child.run for child in folded.children)
        return replace(fresh.state, batch=mine), Event(event="fold", message=f"fold {names}")

    ctx.transact(run, step)
    return True


def children_of(ctx: Context, run: str) -> list[Child]:
    """The batches that were opened below attempts of ``run``, as they are now."""
    found: list[Child] = []
    for name in sorted(runs.list_runs(ctx.repo)):
        try:
            descriptor = descriptor_of(runs.load_live(ctx.repo, name)[1])
        except BatonError as error:
            ctx.warn(f"whether {name} is a batch below {run} cannot be told: {error.message}")
            continue
        parent = descriptor.parent if descriptor else None
        if parent is None or parent.partition("/")[0] != run:
            continue
        loaded = runs.load(ctx.repo, name)
        closeout = loaded.file(layout.CLOSEOUT)
        oid = objects.entry_at(ctx.repo, loaded.tree, layout.CLOSEOUT) if closeout else None
        assert loaded.state.batch is not None
        result = rules.result(loaded.state.batch)
        found.append(
            Child(run=name, parent=parent, result=result, closeout=oid[0] if oid else None)
        )
    return found
