"""A queue and batches over it, worked off to their end, and what must then be true of all three.

As `scene` for changes: crash and race tests need items, a caller that does the next thing it is
told, and the invariants of batches that have closed.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import scene

from gitbaton.engine import dispatch
from gitbaton.engine.audit import audit
from gitbaton.engine.opening import open_batch
from gitbaton.model.action import ActionBatch, Dispatch, ResolveMerge
from gitbaton.model.queue import Item
from gitbaton.model.root import Membership
from gitbaton.rules.batch import request_run_id
from gitbaton.store import notes, queues, runs

QUEUE = "bugs"


def ids_of(count: int, start: int = 1) -> list[str]:
    return [f"B-{n}" for n in range(start, start + count)]


def add(top: Path, ids: Sequence[str]) -> None:
    """These items in the queue, which is made if it is not there."""
    ctx = scene.context(top)
    stamp = ctx.clock.now().stamp
    items = {i: Item(id=i, title=f"fix {i}", created=stamp, updated=stamp) for i in ids}
    event = queues.QueueEvent(event="add", message=f"add {len(items)}")
    queues.transact(ctx.repo, QUEUE, lambda _: (items, event), ctx.clock, create=True)


def open_root(top: Path, request: str, membership: Membership = "live") -> str:
    opened = open_batch(
        scene.context(top),
        queue=QUEUE,
        membership=membership,
        mode="autopilot",
        request_id=request,
    )
    assert opened.run == request_run_id(request)
    return opened.run


def drive(
    top: Path, run: str, session: str = "s", capacity: int = 4, seconds: float = 60
) -> list[str]:
    """One caller, until the batch is complete; the assignments it was handed."""
    ctx = scene.context(top)
    handed: list[str] = []
    todo: list[Dispatch | ResolveMerge] = []
    deadline = time.monotonic() + seconds

    def look(*, redeliver: bool) -> ActionBatch:
        return dispatch.actions(ctx, run, session=session, capacity=capacity, redeliver=redeliver)

    batch = look(redeliver=session == "s")
    while True:
        fresh = scene.dispatches(batch)
        handed += [given.assignment for given in fresh]
        todo += fresh
        if todo:
            batch = scene.finish_one(ctx, todo.pop(0), session, capacity)
            continue
        if batch.state == "complete":
            return handed
        if batch.state in ("blocked", "paused") or time.monotonic() > deadline:
            raise AssertionError(f"{session}: {batch}")
        time.sleep(0.05)
        batch = look(redeliver=False)


def left(top: Path) -> list[str]:
    """The items that are still open."""
    items = queues.load(scene.context(top).repo, QUEUE).items
    return [i for i, item in items.items() if item.state == "open"]


def check(top: Path, requests: Sequence[str], ids: Sequence[str]) -> None:
    """Every item is fixed by one merge of one root; each root has closed once; the audit agrees."""
    ctx = scene.context(top)
    scene.check_objects(top)
    queue = queues.load(ctx.repo, QUEUE)
    assert {i: item.state for i, item in queue.items.items()} == dict.fromkeys(ids, "fixed")
    assert not any(item.claimed_by for item in queue.items.values())
    merged: Counter[str] = Counter()
    for request in requests:
        run = request_run_id(request)
        merged += scene.merges_by_ticket(top, f"baton/{run}", "trunk")
        loaded = runs.load(ctx.repo, run)
        assert loaded.state.live.complete and not loaded.state.intents
        closed = json.loads(loaded.file("closeout.json") or b"{}")
        fixed = [m["item"] for m in closed["members"] if m["disposition"] == "fixed"]
        assert Counter(fixed) == scene.merges_by_ticket(top, f"baton/{run}", "trunk")
        note = notes.read(ctx.repo, run, loaded.state.run.tip) or b""
        assert note.count(b'"outcome"') == 1
    assert merged == Counter(dict.fromkeys(ids, 1))
    closings = Counter(e.event.run for e in queues.log(ctx.repo, QUEUE) if e.event.event == "close")
    assert closings == Counter(request_run_id(request) for request in requests)
    found = audit(ctx, tuple(request_run_id(request) for request in requests))
    assert found.ok, found
