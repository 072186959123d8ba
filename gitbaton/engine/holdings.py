"""What doctor looks at where batches and queues meet: who holds what, and what was cut off between
the two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gitbaton.engine.context import Context
from gitbaton.engine.health import Check, guarded, is_free, repaired
from gitbaton.engine.holding import released
from gitbaton.engine.membership import descriptor_of, view_of
from gitbaton.engine.queue import holder
from gitbaton.errors import BatonError
from gitbaton.model.queue import Item
from gitbaton.model.run import Close, Hold, Intent, Return
from gitbaton.store import queues, runs

_NAMED = 5


def checks(ctx: Context, fix: bool) -> Iterator[Check]:
    """One for each queue, and one for each batch that has not closed."""
    for name in queues.list_queues(ctx.repo):
        yield guarded(f"queue {name}", lambda name=name: _queue(ctx, name, fix))  # type: ignore[misc]
    for run in runs.list_runs(ctx.repo):
        try:
            batch = runs.load(ctx.repo, run).state.batch
        except BatonError:
            continue  # the check of the run speaks of it
        if batch is not None and batch.closed is None:
            yield guarded(f"batch {run}", lambda run=run: _batch(ctx, run))  # type: ignore[misc]


def _queue(ctx: Context, name: str, fix: bool) -> Check:
    """Whether every item can be read, and who holds them."""
    title = f"queue {name}"
    items = queues.load(ctx.repo, name).items
    held = [item.id for item in items.values() if item.state == "claimed"]
    free = _of_nobody(ctx, items)
    said = f"{len(items)} items, {len(held) - len(free)} held"
    if free and fix:
        _release(ctx, name)
        return repaired(title, f"{said}; set free what nobody knew of holding: {_named(free)}")
    if free:
        said += f"; nobody knows of holding {_named(free)}: free again"
    return Check(name=title, ok=True, message=said)


def _of_nobody(ctx: Context, items: Mapping[str, Item]) -> list[str]:
    """The items that are held by a capability that no run has."""
    holds = holder(ctx)
    claims = [(i.id, i.claimed_by) for i in items.values() if i.state == "claimed"]
    return [item for item, claim in claims if claim is not None and not holds(claim)]


def _release(ctx: Context, name: str) -> None:
    """The items that nobody holds are free."""

    def step(queue: queues.Queue) -> tuple[queues.Changes, queues.QueueEvent] | None:
        stamp = ctx.clock.now().stamp
        free = _of_nobody(ctx, queue.items)
        changed: queues.Changes = {item: released(queue.items[item], stamp) for item in free}
        event = queues.QueueEvent(event="release", message=f"nobody holds {', '.join(free)}")
        return (changed, event) if changed else None

    queues.transact(ctx.repo, name, step, ctx.clock)


def _batch(ctx: Context, run: str) -> Check:
    """Whether its queue is the one that it saw, and nothing is left half done."""
    name = f"batch {run}"
    loaded = runs.load(ctx.repo, run)
    descriptor = descriptor_of(loaded.state.run)
    assert descriptor is not None
    view_of(ctx, loaded.state)
    left = [told for i in loaded.state.intents.values() if (told := _half_done(i))]
    if left and is_free(queues.lock(ctx.repo, descriptor.queue)):
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


def _named(names: list[str]) -> str:
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
