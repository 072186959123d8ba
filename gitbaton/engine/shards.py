"""Shards of a folder as a queue of their own, for a batch that runs them.

The queue's name follows from the index, and each item from its shard; so filling it again changes
nothing, above all not what became of an item.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gitbaton.engine.context import Context
from gitbaton.engine.findings import index_bytes, read_folder
from gitbaton.findings.items import item_of, queue_name
from gitbaton.findings.shards import require_separate
from gitbaton.model.queue import Item
from gitbaton.store import queues


def fill(ctx: Context, folder: Path) -> str:
    """Put the shards of ``folder`` into their queue; its name.

    Raises as `read_folder` does, and `BatonError` ``overlapping-scopes`` or ``bad-scope``.
    """
    folder = Path(os.path.realpath(folder))
    name = queue_name(index_bytes(folder))
    shards = read_folder(folder).shards
    require_separate(shards)
    now = ctx.clock.now().stamp
    items = [item_of(shard, len(shards), str(folder), now) for shard in shards]

    def step(queue: queues.Queue) -> tuple[Mapping[str, Item], queues.QueueEvent] | None:
        changed = {item.id: item for item in items if not _is_there(queue, item)}
        if not changed and queue.oid:
            return None
        event = queues.QueueEvent(event="import", message=f"import {len(changed)} shards")
        return changed, event

    queues.transact(ctx.repo, name, step, ctx.clock, create=True)
    return name


def _is_there(queue: queues.Queue, item: Item) -> bool:
    """Whether the queue has an item for the same shard. One of the same number with other findings
    is another, which begins anew."""
    known = queue.item(item.id)
    return known is not None and known.fingerprint == item.fingerprint
