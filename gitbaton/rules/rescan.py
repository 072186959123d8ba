"""What a new scan makes of a queue.

A scan tells all that its source finds, so what it tells no more is over, and what it tells again
is back. Texts are the source's, states are ours: a scan never changes what people or batches have
decided about a finding that is still there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from msgspec.structs import replace

from gitbaton.errors import BatonError
from gitbaton.model.ids import made_name
from gitbaton.model.queue import CLOSED, Item, Reported, Scan
from gitbaton.rules.items import item_id, require_dependencies

_REOPENS = ("fixed", "obe")
"""States that a finding does not stay in when it is reported again."""
_SHORTEST = 7


class Rescan(NamedTuple):
    """The items that a scan changes or adds, and how many of each kind."""

    changed: dict[str, Item]
    added: int = 0
    updated: int = 0
    reopened: int = 0
    obe: int = 0
    unchanged: int = 0


def rescan(items: Mapping[str, Item], scans: Iterable[Scan], now: str) -> Rescan:
    """What ``scans``, each of another source, make of ``items`` at ``now`` (RFC 3339).

    Raises `BatonError` ``duplicate-item``, ``unknown-dependency`` or ``dependency-cycle``.
    """
    work = _Rescan(items, now)
    for scan in scans:
        work.scan(scan)
    require_dependencies(work.changed, items.get)
    return Rescan(work.changed, **work.counts)


def made_id(reported: Reported, source: str, taken: Callable[[str], bool]) -> str:
    """An id for a finding that has none: its first label, or its source, and as many letters of a
    hash of its fingerprint as it takes."""
    digest = hashlib.sha256(f"{source}\0{reported.fingerprint}".encode()).hexdigest()
    stem = reported.labels[0] if reported.labels else source
    for length in range(_SHORTEST, len(digest)):
        name = made_name(stem, digest, length)
        if not taken(name):
            return name
    raise _duplicate(source, reported, digest)


class _Rescan:
    """One rescan under way; ``changed`` hides what it replaces of ``items``."""

    def __init__(self, items: Mapping[str, Item], now: str) -> None:
        self.items = items
        self.now = now
        self.changed: dict[str, Item] = {}
        self.counts = dict.fromkeys(("added", "updated", "reopened", "obe", "unchanged"), 0)

    def scan(self, scan: Scan) -> None:
        own = {item.fingerprint: item for item in self.items.values() if item.source == scan.source}
        gone = {item.id: item for item in own.values()}
        seen: set[str] = set()
        for reported in scan.reported:
            item = self._known(reported, scan.source, own)
            if reported.fingerprint in seen or (item is not None and item.id not in gone):
                raise _duplicate(scan.source, reported, reported.id or reported.fingerprint)
            seen.add(reported.fingerprint)
            if item is None:
                self._add(reported, scan.source)
            else:
                del gone[item.id]
                self._again(item, reported, scan.source)
        for item in gone.values():
            self._vanished(item, scan.source)

    def _known(self, reported: Reported, source: str, own: Mapping[str, Item]) -> Item | None:
        """The item that a finding is; the source's own name for it counts more than the rest."""
        found = own.get(reported.fingerprint)
        if not reported.id or (found is not None and found.id == reported.id):
            return found
        named = self.changed.get(reported.id) or self.items.get(reported.id)
        if named is not None and (named.source != source or found is not None):
            raise _duplicate(source, reported, reported.id)
        return named or found

    def _add(self, reported: Reported, source: str) -> None:
        name = reported.id and item_id(reported.id)
        if not name:
            name = made_id(reported, source, self._taken)
        self.changed[name] = Item(
            id=name,
            title=reported.title,
            body=reported.body,
            section=reported.section,
            severity=reported.severity,
            labels=reported.labels,
            paths=reported.paths,
            depends_on=reported.depends_on,
            state="fixed" if reported.closed else "open",
            reason=f"done, says {source}" if reported.closed else "",
            source=source,
            fingerprint=reported.fingerprint,
            created=self.now,
            updated=self.now,
        )
        self.counts["added"] += 1

    def _taken(self, name: str) -> bool:
        return name in self.items or name in self.changed

    def _again(self, item: Item, reported: Reported, source: str) -> None:
        told = replace(
            item,
            title=reported.title,
            body=reported.body,
            section=reported.section,
            severity=reported.severity,
            labels=reported.labels,
            paths=reported.paths,
            depends_on=reported.depends_on or item.depends_on,
            fingerprint=reported.fingerprint,
        )
        kind = "unchanged" if told == item else "updated"
        if reported.closed and item.state not in CLOSED:
            told = _ended(told, "fixed", f"done, says {source}")
            kind = "updated"
        elif not reported.closed and item.state in _REOPENS:
            told = replace(
                told, state="open", claimed_by=None, owner=None, reason=f"again, says {source}"
            )
            kind = "reopened"
        if kind != "unchanged":
            self.changed[item.id] = replace(told, updated=self.now)
        self.counts[kind] += 1

    def _vanished(self, item: Item, source: str) -> None:
        if item.state not in CLOSED:
            over = _ended(item, "obe", f"no longer reported by {source}")
            self.changed[item.id] = replace(over, updated=self.now)
            self.counts["obe"] += 1


def _ended(item: Item, state: Literal["fixed", "obe"], reason: str) -> Item:
    """The item in a closed state; whoever held it does so no more."""
    return replace(item, state=state, claimed_by=None, owner=None, reason=reason)


def _duplicate(source: str, reported: Reported, name: str) -> BatonError:
    return BatonError(
        "duplicate-item",
        f"{name} is there twice: {reported.title[:80]!r} of {source} is not the only one",
        "give each its own id or fingerprint; or import another source with --source",
    )
