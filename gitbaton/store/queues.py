"""Queues: how they lie in the repository, and how they move.

A queue is one chain of commits, like the state of a run, with one small file for each item; its
newest commit is its revision. Whoever holds an item holds it here: a queue moves by
compare-and-swap only, so that of two claimers one loses. Loading a queue reads nothing but its
top; all items are read when somebody asks for all, from copies that `store.shards` keeps.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from gitbaton.clock import Clock, stamp
from gitbaton.errors import Conflict, NotFound, Refused, RepositoryError, UsageError
from gitbaton.git import ancestry, objects, odb, pack, refs
from gitbaton.git.repo import Repository
from gitbaton.lock import Lock
from gitbaton.model import codec, layout
from gitbaton.model.ids import encode_key, is_run_id, shard
from gitbaton.model.queue import CLOSED, SCHEMA, Item, QueueRecord
from gitbaton.store import shards, trailers
from gitbaton.store.transact import identity

RECORD = "queue.json"
ITEMS = "items"

Changes = Mapping[str, Item | None]
"""Items to write, by id; None removes one."""

_PATIENCE = 10.0
"""Seconds for which a queue may keep moving under us; see `store.transact`."""


class QueueEvent(NamedTuple):
    """One change as the log shows it; ``run`` is the run that made it, if one did."""

    event: str
    message: str
    run: str = ""


class QueueLogEntry(NamedTuple):
    """One change: the commit, its RFC 3339 time, what happened, and its nonce."""

    oid: str
    at: str
    event: QueueEvent
    nonce: str


class Queue:
    """A queue as of its revision ``oid`` ("" if it has none yet), and reads in that snapshot.

    Reading what is damaged raises `RepositoryError` ``corrupt-queue``; what is absent is None.
    """

    def __init__(self, repo: Repository, name: str, oid: str = "", tree: str | None = None) -> None:
        self.repo = repo
        self.name = name
        self.oid = oid
        self.tree = tree

    @property
    def ref(self) -> str:
        return queue_ref(self.name)

    @cached_property
    def record(self) -> QueueRecord | None:
        """``queue.json``; None before the first commit."""
        if self.tree is None:
            return None
        data = objects.blob_at(self.repo, self.tree, RECORD)
        if data is None:
            raise shards.corrupt(self.ref, RECORD, "the file is missing")
        return shards.decoded(data, QueueRecord, self.ref, RECORD)

    @cached_property
    def shards(self) -> Mapping[str, str]:
        """The trees of items, by shard."""
        if self.tree is None:
            return {}
        return {name: oid for name, oid, _ in objects.list_tree(self.repo, self.tree, ITEMS)}

    @cached_property
    def items(self) -> Mapping[str, Item]:
        """All items, by id."""
        found: dict[str, Item] = {}
        for tree in self.shards.values():
            found.update(shards.read(self.repo, tree, self.ref))
        return found

    def item(self, name: str) -> Item | None:
        """One item, without reading the others."""
        if "items" in self.__dict__:
            return self.items.get(name)
        tree = self.shards.get(shard(name))
        return shards.read_one(self.repo, tree, name, self.ref) if tree else None

    def closed(self, name: str) -> bool:
        """Whether an item holds nobody up: it is closed, or not in the queue."""
        item = self.item(name)
        return item is None or item.state in CLOSED


Step = Callable[[Queue], tuple[Changes, QueueEvent] | None]


def queue_ref(name: str) -> str:
    """The ref that holds a queue."""
    return layout.QUEUES + name


def checked_name(text: str) -> str:
    """``text`` if it can name a queue; raises `UsageError` ``bad-queue-name`` otherwise."""
    if not is_run_id(text):
        raise UsageError(
            "bad-queue-name",
            f"{text!r} cannot name a queue",
            "use letters, digits, '.', '_' and '-', beginning with a letter or digit",
        )
    return text


def item_path(name: str) -> str:
    """The path of an item in the tree of its queue."""
    return f"{ITEMS}/{shard(name)}/{encode_key(name)}.json"


def list_queues(repo: Repository) -> dict[str, str]:
    """The queues of this repository and their revisions, by name."""
    found = refs.list_refs(repo, layout.QUEUES)
    return {name.removeprefix(layout.QUEUES): oid for name, oid in found.items()}


def load(repo: Repository, name: str, at: str | None = None) -> Queue:
    """A queue, now or at the revision ``at``.

    Raises `NotFound` ``unknown-queue``, `RepositoryError` ``newer-schema`` or ``corrupt-queue``.
    """
    oid = at or _tip(repo, name)
    try:
        queue = Queue(repo, name, oid, objects.tree_of(repo, oid))
        objects.list_tree(repo, oid)
    except RepositoryError as error:
        raise shards.corrupt(queue_ref(name), "its commit", error.message) from error
    record = queue.record
    if record is not None and record.schema > SCHEMA:
        raise RepositoryError(
            "newer-schema", f"{queue.ref} was written by a newer git-baton", "upgrade git-baton"
        )
    return queue


def log(repo: Repository, name: str) -> Iterator[QueueLogEntry]:
    """The changes of a queue, newest first."""
    for commit in ancestry.first_parent_chain(repo, _tip(repo, name), None):
        said = trailers.fields(commit.message)
        event = QueueEvent(
            event=said.get("Event", ""),
            message=commit.message.partition("\n")[0],
            run=said.get("Run", ""),
        )
        yield QueueLogEntry(commit.oid, stamp(commit.committer_time), event, said.get("Nonce", ""))


def descends(repo: Repository, old: str, new: str) -> bool:
    """Whether ``new`` is ``old`` or follows it, by first parents."""
    chain = ancestry.first_parent_chain(repo, new, None)
    return any(commit.oid == old for commit in chain)


def lock(repo: Repository, name: str) -> Lock:
    """The lock of this machine for writers of a queue."""
    return Lock(repo.baton_dir / "locks" / f"queue-{encode_key(name)}.lock")


def transact(
    repo: Repository, name: str, step: Step, clock: Clock, *, create: bool = False
) -> Queue:
    """Apply ``step`` to a queue and commit what it returns; None means nothing to do.

    ``step`` may run several times and must not write anything itself. What it raises passes
    through with nothing written. With ``create`` a queue that does not exist is empty, and made.
    Raises as `load` does, `Busy`, `Refused` ``foreign-mutation``, and `Conflict` if others move
    the queue without a pause.
    """
    if not create:
        _tip(repo, name)  # before a lock file is made for it
    deadline = time.monotonic() + _PATIENCE
    pause = 0.001
    before = ""
    with lock(repo, checked_name(name)):
        while True:
            queue = _load_or_new(repo, name) if create else load(repo, name)
            _require_descent(queue, before)
            made = step(queue)
            if made is None:
                return queue
            try:
                return commit(repo, queue, *made, clock)
            except Conflict:
                if time.monotonic() > deadline:
                    raise
            before = queue.oid
            time.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, 0.1)


def commit(
    repo: Repository,
    before: Queue,
    changed: Changes,
    event: QueueEvent,
    clock: Clock,
    *,
    expect: str | None = None,
    extra_parents: Sequence[str] = (),
) -> Queue:
    """Write ``changed`` on top of ``before`` and move the queue there, if it still is where it was
    and that is ``expect``, if given. With nothing changed the queue moves all the same.

    For whoever holds the queue's `lock`. Raises `Conflict` ``queue-moved``.
    """
    if expect is not None and before.oid != expect:
        raise _moved(before.name)
    moment = clock.now()
    old = before.oid or None
    edits = _edits(before, changed)
    if before.record is None:
        edits[RECORD] = codec.encode(QueueRecord(name=before.name, created=moment.stamp))
    with odb.batch(repo):
        tree = objects.edit_tree(repo, before.tree, edits) if edits else before.tree
        assert tree is not None
        oid = objects.create_commit(
            repo,
            tree,
            [*filter(None, (old,)), *extra_parents],
            _message(before.name, event),
            author=identity(repo),
            when=moment.wall,
        )
    try:
        refs.cas(repo, before.ref, old, oid, f"baton: {event.event}", ours=True)
    except Conflict as error:
        raise _moved(before.name) from error
    after = Queue(repo, before.name, oid, tree)
    _carry_over(before, after, changed)
    return after


def _edits(before: Queue, changed: Changes) -> dict[str, objects.Edit]:
    """What of the tree changes; many items at once are packed."""
    edits: dict[str, objects.Edit] = {}
    paths: list[str] = []
    blobs: list[bytes] = []
    for name, item in changed.items():
        path = item_path(name)
        if item is None:
            edits[path] = None
            continue
        paths.append(path)
        blobs.append(_encoded(before, path, item))
    if pack.is_worth_it(len(blobs)):
        oids = pack.write_blobs(before.repo, blobs)
        edits.update((path, (oid, odb.FILE)) for path, oid in zip(paths, oids, strict=True))
    else:
        edits.update(zip(paths, blobs, strict=True))
    return edits


def _encoded(before: Queue, path: str, item: Item) -> bytes:
    """The bytes of an item, with what the file that it replaces holds beyond what we know of."""
    previous = objects.blob_at(before.repo, before.tree, path) if before.tree else None
    try:
        return codec.encode_over(item, previous)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return codec.encode(item)  # a damaged file is healed by writing it anew


def _carry_over(before: Queue, after: Queue, changed: Changes) -> None:
    """Keep copies of the shards that changed, made from those that are known."""
    touched: dict[str, dict[str, Item | None]] = {}
    for name, item in changed.items():
        touched.setdefault(shard(name), {})[name] = item
    for key, items in touched.items():
        tree = after.shards.get(key)
        if tree is not None:
            shards.follow(after.repo, before.shards.get(key), tree, items)


def _message(name: str, event: QueueEvent) -> str:
    subject = trailers.one_line(event.message) or trailers.one_line(event.event)
    fields = (("Event", event.event), ("Queue", name), ("Run", event.run))
    told = [f"Baton-{key}: {line}" for key, text in fields if (line := trailers.one_line(text))]
    return "\n".join((subject, "", *told, f"Baton-Nonce: {os.urandom(16).hex()}")) + "\n"


def _tip(repo: Repository, name: str) -> str:
    oid = refs.read(repo, queue_ref(name)) if is_run_id(name) else None
    if oid is None:
        from difflib import get_close_matches

        known = list(list_queues(repo))
        near = get_close_matches(name, known, n=3, cutoff=0.4) or known[:3]
        raise NotFound(
            "unknown-queue",
            f"there is no queue {name}",
            f"there is {', '.join(near)}" if near else "make one: git baton queue import FILE",
            {"nearest": near},
        )
    return oid


def _load_or_new(repo: Repository, name: str) -> Queue:
    if refs.read(repo, queue_ref(name)) is None:
        return Queue(repo, name)
    return load(repo, name)


def _require_descent(queue: Queue, before: str) -> None:
    """Refuse to go on where somebody else rewrote the queue."""
    if before and not (queue.oid and descends(queue.repo, before, queue.oid)):
        raise Refused(
            "foreign-mutation",
            f"{queue.ref} was at {before} and is now at {queue.oid or 'nothing'}, "
            "which does not follow from it",
            f"`git log -g {queue.ref}` shows who moved it; `git update-ref` moves it back",
            {"before": before, "after": queue.oid or None},
        )


def _moved(name: str) -> Conflict:
    return Conflict("queue-moved", f"queue {name} was moved by another process", "try again")
