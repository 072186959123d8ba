"""Looking at a queue: what may be started, one item and what is like it, what was changed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import msgspec

from gitbaton.engine.context import Context
from gitbaton.engine.queue import holder, item_of, resolve_queue
from gitbaton.model.queue import ORDER, Filters, Item, OrderKey
from gitbaton.rules import related as relating
from gitbaton.rules import select as selecting
from gitbaton.store import queues


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """The first of ``total`` items."""

    queue: str
    revision: str
    items: tuple[Item, ...]
    total: int


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """An item, and why nobody may start it now (None: somebody may)."""

    queue: str
    revision: str
    item: Item
    unavailable: str | None


class Next(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    revision: str
    item: Item | None


class RelatedItem(msgspec.Struct, frozen=True, kw_only=True):
    item: Item
    because: tuple[str, ...]


class RelatedItems(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    revision: str
    item: str
    related: tuple[RelatedItem, ...]


class QueueEventView(msgspec.Struct, frozen=True, kw_only=True):
    oid: str
    at: str
    event: str
    run: str | None
    message: str


class QueueLog(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    events: tuple[QueueEventView, ...]


def list_items(
    ctx: Context,
    name: str | None,
    filters: Filters,
    order: Sequence[OrderKey] = ORDER,
    *,
    limit: int | None = None,
    all_states: bool = False,
) -> Listed:
    """The items that may be started now; with ``all_states`` all that the filters mean."""
    queue = queues.load(ctx.repo, resolve_queue(ctx, name))
    if all_states:
        meant = selecting.meaning(filters)
        found = [item for item in queue.items.values() if meant(item)]
    else:
        found = selecting.candidates(queue.items, filters, holds=holder(ctx))
    return Listed(
        queue=queue.name,
        revision=queue.oid,
        items=tuple(selecting.ordered(found, order, limit=limit)),
        total=len(found),
    )


def next_item(
    ctx: Context, name: str | None, filters: Filters, order: Sequence[OrderKey] = ORDER
) -> Next:
    """The item that a batch with this selector would start now."""
    queue = queues.load(ctx.repo, resolve_queue(ctx, name))
    first = selecting.select(queue.items, filters, order, holds=holder(ctx), limit=1)
    item = queue.items[first[0]] if first else None
    return Next(queue=queue.name, revision=queue.oid, item=item)


def show(ctx: Context, name: str | None, item: str) -> Shown:
    """One item."""
    queue = queues.load(ctx.repo, resolve_queue(ctx, name))
    found = item_of(queue, item)
    why = selecting.available(found, queue.item, holder(ctx))
    return Shown(queue=queue.name, revision=queue.oid, item=found, unavailable=why)


def related(ctx: Context, name: str | None, item: str, limit: int) -> RelatedItems:
    """Open items that may have the same cause, the likeliest first."""
    queue = queues.load(ctx.repo, resolve_queue(ctx, name))
    found = relating.related(queue.items, item_of(queue, item), limit)
    listed = tuple(RelatedItem(item=each.item, because=each.because) for each in found)
    return RelatedItems(queue=queue.name, revision=queue.oid, item=item, related=listed)


def log(ctx: Context, name: str | None, limit: int | None = None) -> QueueLog:
    """The changes of a queue, newest first."""
    queue = resolve_queue(ctx, name)
    events = tuple(
        QueueEventView(
            oid=entry.oid,
            at=entry.at,
            event=entry.event.event,
            run=entry.event.run or None,
            message=entry.event.message,
        )
        for entry in islice(queues.log(ctx.repo, queue), limit)
    )
    return QueueLog(queue=queue, events=events)
