"""Batches and items as the tests of their rules want them."""

from __future__ import annotations

from typing import Any

from gitbaton.model.batch import Disposition, DispositionKind
from gitbaton.model.queue import Item
from gitbaton.model.root import Membership, Mode, Provenance, VirtualBatchDescriptor

NOW = "2030-01-02T00:00:00Z"


def item(name: str, **fields: Any) -> Item:
    return Item(id=name, title=f"fix {name}", **fields)


def descriptor(
    membership: Membership = "snapshot", mode: Mode = "autopilot", **fields: Any
) -> VirtualBatchDescriptor:
    given: dict[str, Any] = {
        "batch_id": "batch-1",
        "command": "bugs",
        "queue": "default",
        "order": ("id",),
        "provenance": Provenance(who="a", tool="t", request_id="r", at=NOW),
    }
    return VirtualBatchDescriptor(membership=membership, mode=mode, **(given | fields))


def said(kind: DispositionKind, attempt: str = "", by: tuple[str, ...] = ()) -> Disposition:
    return Disposition(kind=kind, reason="because", by=by, attempt=attempt, at=NOW)
