"""What doctor looks at where batches and queues meet: who holds what, and what was cut off between
the two."""

from __future__ import annotations

from collections.abc import Iterator

from gitbaton.engine.context import Context
from gitbaton.engine.health import Check, guarded
from gitbaton.engine.membership import descriptor_of, require_descent
from gitbaton.engine.queue import holder
from gitbaton.errors import BatonError, NotFound
from gitbaton.model.run import Close, Hold, Intent, Return
from gitbaton.store import queues, runs

_NAMED = 5


def checks(ctx: Context) -> Iterator[Check]:
    """One for each queue, and one for each batch that has not closed."""
    for name in queues.list_queues(ctx.repo):
        yield guarded(f"queue {name}", lambda name=name: _queue(ctx, name))  # type: ignore[misc]
    for run in runs.list_runs(ctx.repo):
        try:
            batch = runs.load(ctx.repo, run).state.batch
        except BatonError:
            continue  # the check of the run speaks of it
        if batch is not None and batch.closed is None:
            yield guarded(f"batch {run}", lambda run=run: _batch(ctx, run))  # type: ignore[misc]


def _queue(ctx: Context, name: str) -> Check:
    """Whether every item can be read, and who holds them."""
    items = queues.load(ctx.repo, name).items.values()
    holds = holder(ctx)
    claims = [(i.id, i.claimed_by) for i in items if i.state == "claimed" and i.claimed_by]
    free = [item for item, claim in claims if not holds(claim)]
    said = f"{len(items)} items, {len(claims) - len(free)} held"
    if free:
        said += f"; nobody knows of holding {_named(free)}: free again"
    return Check(name=f"queue {name}", ok=True, message=said)


def _batch(ctx: Context, run: str) -> Check:
    """Whether its queue is the one that it saw, and nothing is left half done."""
    name = f"batch {run}"
    loaded = runs.load(ctx.repo, run)
    descriptor, batch = descriptor_of(loaded.state.run), loaded.state.batch
    assert descriptor is not None and batch is not None
    ref = queues.queue_ref(descriptor.queue)
    try:
        require_descent(ctx, batch.queue_revision, queues.load(ctx.repo, descriptor.queue))
    except NotFound:
        return Check(
            name=name,
            ok=False,
            message=f"its queue {descriptor.queue} is gone; it was seen at {batch.queue_revision}",
            fix=f"git update-ref {ref} {batch.queue_revision}",
        )
    left = [told for i in loaded.state.intents.values() if (told := _half_done(i))]
    if left and _is_idle(ctx, descriptor.queue):
        return Check(
            name=name,
            ok=False,
            message=f"cut off: {'; '.join(left)}",
            fix=f"git baton actions {run} --session S",
        )
    return Check(name=name, ok=True, message=f"in step with queue {descriptor.queue}")


def _half_done(intent: Intent) -> str:
    match intent:
        case Hold():
            return f"taking {_named(list(intent.capabilities))}"
        case Return():
            return f"returning {intent.item} as {intent.disposition.kind}"
        case Close():
            return "closing the batch"
        case _:
            return ""


def _is_idle(ctx: Context, queue: str) -> bool:
    """Whether nobody here is at work on the queue, so that whoever began something is dead."""
    lock = queues.lock(ctx.repo, queue)
    if not lock.path.exists():
        return True
    try:
        return lock.try_acquire()
    finally:
        lock.release()


def _named(names: list[str]) -> str:
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
