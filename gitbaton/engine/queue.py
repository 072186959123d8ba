"""The verbs of queues: what people do with items, and who still holds one.

Each is one transaction on one queue. None of them touches a run: that an item was closed, owned or
removed under somebody who works on it, its run finds out by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from gitbaton.engine.context import Context, nearest, require_outside
from gitbaton.errors import BatonError, NotFound, Refused, UsageError
from gitbaton.model.ids import AttemptId, parse_attempt, run_id
from gitbaton.model.queue import (
    CLOSED,
    Claim,
    Item,
    ItemState,
    Scan,
    Severity,
)
from gitbaton.model.run import Hold
from gitbaton.rules import select as selecting
from gitbaton.rules.items import id_of_title, item_id, require_dependencies
from gitbaton.rules.rescan import rescan
from gitbaton.store import queues, runs

DEFAULT = "default"
BY_HAND: tuple[ItemState, ...] = ("open", "fixed", "obe", "blocked", "deferred", "wontfix")
"""The states that a person may set; the others say who holds or owns an item."""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    revision: str
    sources: tuple[str, ...]
    added: int
    updated: int
    reopened: int
    obe: int
    unchanged: int


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """An item as it is now; ``changed`` is false if it was like that before."""

    queue: str
    revision: str
    item: Item
    changed: bool


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    revision: str
    removed: str


class Texts(msgspec.Struct, frozen=True, kw_only=True):
    """What a person says of an item; None is what is not said."""

    title: str | None = None
    body: str | None = None
    section: str | None = None
    severity: Severity | None = None
    labels: tuple[str, ...] | None = None
    paths: tuple[str, ...] | None = None
    depends_on: tuple[str, ...] | None = None
    reason: str | None = None

    def said(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in fields.items() if value is not None}


# --- which queue, which item, who holds it -----------------------------------------------------


def resolve_queue(ctx: Context, name: str | None) -> str:
    """The queue that is meant: the one named, else the only one, else ``default``."""
    if name is not None:
        return queues.checked_name(name)
    known = queues.list_queues(ctx.repo)
    return next(iter(known)) if len(known) == 1 else DEFAULT


def holder(ctx: Context) -> selecting.Holds:
    """Whether a claim stands: its run is not closed, and has an attempt with that capability, or is
    about to have it. Each run is read once; one that cannot be read keeps what it holds."""
    known: dict[str, runs.Loaded | None] = {}

    def holds(claim: Claim) -> bool:
        try:
            if claim.run not in known:
                known[claim.run] = _load_run(ctx, claim.run)
            loaded = known[claim.run]
            return loaded is not None and _records(loaded, claim)
        except BatonError:
            return True

    return holds


def _load_run(ctx: Context, run: str) -> runs.Loaded | None:
    try:
        return runs.load(ctx.repo, run)
    except NotFound:
        return None


def _records(loaded: runs.Loaded, claim: Claim) -> bool:
    state = loaded.state
    if state.batch is not None and state.batch.closed is not None:
        return False
    intended = (intent for intent in state.intents.values() if isinstance(intent, Hold))
    if any(claim.capability in intent.capabilities.values() for intent in intended):
        return True
    ticket, number = parse_attempt(claim.attempt)
    attempt = loaded.attempt(AttemptId(ticket, number or 0))
    return attempt is not None and attempt.capability == claim.capability


def item_of(queue: queues.Queue, name: str) -> Item:
    """The item of that id; raises `NotFound` with the nearest ids."""
    found = queue.item(name)
    if found is None:
        raise NotFound(
            "unknown-item", f"queue {queue.name} has no item {name}", nearest(name, queue.items)
        )
    return found


# --- changing ------------------------------------------------------------------------------------


def import_files(
    ctx: Context,
    name: str | None,
    files: Sequence[str],
    *,
    format: str | None = None,
    source: str | None = None,
) -> Imported:
    """Rescan from files (``-`` is standard input): all that their sources report."""
    require_outside(ctx, "importing into a queue")
    if source is not None and not source.strip():
        raise UsageError("bad-source", "a source needs a name", "leave --source out, or name it")
    scans = _read(ctx, files, format, source)
    now = ctx.clock.now().stamp
    counts = dict.fromkeys(("added", "updated", "reopened", "obe", "unchanged"), 0)

    def step(queue: queues.Queue) -> tuple[queues.Changes, queues.QueueEvent] | None:
        found = rescan(queue.items, scans, now)
        counts.update({kind: getattr(found, kind) for kind in counts})
        if not found.changed and queue.oid:
            return None
        told = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        sources = ", ".join(scan.source for scan in scans)
        return found.changed, queues.QueueEvent(event="import", message=f"import {sources}: {told}")

    queue = queues.transact(ctx.repo, resolve_queue(ctx, name), step, ctx.clock, create=True)
    sources = tuple(scan.source for scan in scans)
    return Imported(queue=queue.name, revision=queue.oid, sources=sources, **counts)


def _read(ctx: Context, files: Sequence[str], format: str | None, source: str | None) -> list[Scan]:
    from gitbaton.engine.findings import read_files
    from gitbaton.findings import importers

    given = read_files(files)
    return importers.read_all(given, format=format, source=source, root=ctx.repo.worktree)


def add(ctx: Context, name: str | None, texts: Texts, wanted: str | None = None) -> Written:
    """Put an item into a queue by hand; its id is made of its title if none is ``wanted``."""
    title = texts.title or ""
    _require_title(title)
    if wanted is not None:
        item_id(wanted)

    def make(queue: queues.Queue, now: str) -> tuple[Item, str]:
        made = wanted or id_of_title(title, lambda name: queue.item(name) is not None)
        if queue.item(made) is not None:
            raise Refused(
                "duplicate-item",
                f"queue {queue.name} has an item {made} already",
                "choose another --id",
            )
        item = Item(id=made, created=now, updated=now, **texts.said())
        return item, f"add {made}: {title}"

    return _change(ctx, name, "add", make, create=True)


def _require_title(title: str) -> None:
    if not title.strip():
        raise UsageError("no-title", "an item needs a title", "say what is wrong: --title TEXT")


def set_item(
    ctx: Context, name: str | None, item: str, texts: Texts, state: ItemState | None = None
) -> Written:
    """Change what is said of an item. Whoever holds or owns an item loses it to a new state."""
    require_outside(ctx, "changing an item")
    if texts.title is not None:
        _require_title(texts.title)
    said = texts.said()
    if state is not None:
        said = {"reason": "", **said, "state": state, "claimed_by": None, "owner": None}
    if not said:
        raise UsageError(
            "nothing-to-set", "nothing is said of the item", "see `-h` for what can be"
        )

    def make(queue: queues.Queue, now: str) -> tuple[Item, str]:
        old = item_of(queue, item)
        new = replace(old, updated=now, **said)
        told = f"{old.state} -> {state}" if state is not None else ", ".join(said)
        return new, f"set {item}: {told}"

    return _change(ctx, name, "set", make)


def own(ctx: Context, name: str | None, item: str, run: str) -> Written:
    """Leave an item to a run of its own: batches skip it."""
    require_outside(ctx, "giving an item to a run")
    run_id(run)

    def make(queue: queues.Queue, now: str) -> tuple[Item, str]:
        old = item_of(queue, item)
        if old.state in CLOSED:
            raise Refused(
                "item-closed",
                f"{item} is {old.state}: there is nothing left to own",
                f"open it first: git baton queue set {item} --state open",
            )
        new = replace(old, state="owned", owner=run, claimed_by=None, updated=now)
        return new, f"own {item} by {run}"

    return _change(ctx, name, "own", make)


def remove(ctx: Context, name: str | None, item: str) -> Removed:
    """Take an item out of a queue; refused while somebody holds it."""
    require_outside(ctx, "removing an item")
    holds = holder(ctx)

    def step(queue: queues.Queue) -> tuple[queues.Changes, queues.QueueEvent]:
        old = item_of(queue, item)
        claim = old.claimed_by if old.state == "claimed" else None
        if claim is not None and holds(claim):
            raise Refused(
                "item-claimed",
                f"{item} is held by {claim.run}/{claim.attempt}",
                f"take it back first: git baton queue set {item} --state open",
            )
        return {item: None}, queues.QueueEvent(event="rm", message=f"rm {item}: {old.title}")

    queue = queues.transact(ctx.repo, resolve_queue(ctx, name), step, ctx.clock)
    return Removed(queue=queue.name, revision=queue.oid, removed=item)


def _change(
    ctx: Context,
    name: str | None,
    event: str,
    make: Callable[[queues.Queue, str], tuple[Item, str]],
    *,
    create: bool = False,
) -> Written:
    """Write the item that ``make`` says, unless it is like that already."""
    made: list[tuple[Item, bool]] = []

    def step(queue: queues.Queue) -> tuple[queues.Changes, queues.QueueEvent] | None:
        item, message = make(queue, ctx.clock.now().stamp)
        before = queue.item(item.id)
        same = before is not None and replace(item, updated=before.updated) == before
        made[:] = [(before if before is not None and same else item, not same)]
        if same:
            return None
        require_dependencies({item.id: item}, queue.item)
        return {item.id: item}, queues.QueueEvent(event=event, message=message)

    queue = queues.transact(ctx.repo, resolve_queue(ctx, name), step, ctx.clock, create=create)
    item, changed = made[0]
    return Written(queue=queue.name, revision=queue.oid, item=item, changed=changed)
