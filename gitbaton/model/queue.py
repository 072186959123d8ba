"""A queue of things to fix: items, who holds one, and how a selection of them is described.

A queue is one chain of commits under ``refs/baton/queues/<name>``; the tree holds ``queue.json``
and one small file for each item, ``items/<xx>/<id>.json``. The object id of the newest commit is
the queue's revision. Nothing here knows where an item came from.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

SCHEMA = 1

Severity = Literal["critical", "high", "medium", "low", "info"]
ItemState = Literal["open", "claimed", "fixed", "obe", "blocked", "owned", "deferred", "wontfix"]

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""The worst first."""
CLOSED: frozenset[ItemState] = frozenset(("fixed", "obe", "wontfix"))
"""States in which an item holds nobody up any more."""


class QueueRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``queue.json``."""

    schema: int = SCHEMA
    name: str
    created: str


class Claim(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Who holds an item: an attempt (``TICKET@N``) of a run, and the capability that it holds it
    by."""

    run: str
    attempt: str
    capability: str


class Item(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing to fix.

    ``source`` names the scan that reported it ("": a person) and ``fingerprint`` tells it from
    others of that scan, whatever line it is on. ``owner`` is the run that an item in the state
    ``owned`` is left to; ``reason`` says why it is in its state; ``paths`` are where it was found,
    ``scopes`` the files and folders that its fixer may change (none given: any). Times are RFC
    3339, UTC. (There may be a hundred thousand of them, and none is part of a cycle: so the garbage
    collector need not look at them.)
    """

    id: str
    title: str
    body: str = ""
    section: str = ""
    severity: Severity = "medium"
    labels: tuple[str, ...] = ()
    state: ItemState = "open"
    paths: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    owner: str | None = None
    claimed_by: Claim | None = None
    source: str = ""
    fingerprint: str = ""
    reason: str = ""
    created: str = ""
    updated: str = ""


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """A finding as an importer reads it: what a scan says of an item. ``id`` only where the source
    names its findings itself; ``closed`` is the source's own word that it is done."""

    fingerprint: str
    title: str
    id: str = ""
    body: str = ""
    section: str = ""
    severity: Severity = "medium"
    labels: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    closed: bool = False


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """All that one source reports: what it does not report any more is overtaken by events."""

    source: str
    reported: tuple[Reported, ...]


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Which items are meant. Of one kind any may match, of different kinds all must; an empty one
    matches everything. ``severity`` is a floor; ``paths`` are globs; ``text`` is looked for in
    title and body, without regard to case."""

    severity: Severity | None = None
    sections: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    text: tuple[str, ...] = ()


OrderKey = Literal[
    "severity", "-severity", "section", "-section", "created", "-created", "id", "-id"
]
"""A ``-`` in front reverses; severity begins with the worst, ``id`` counts digits as numbers."""
ORDER: tuple[OrderKey, ...] = ("severity", "created", "id")
"""The order where none is given."""
