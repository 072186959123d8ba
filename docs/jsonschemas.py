"""JSON Schemas of the files in a folder of shards, for fixers that write them by hand."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from gitbaton.model.findings import Index, Shard, Status

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_FILES = {"index": Index, "shard": Shard, "status": Status}


def schemas() -> dict[str, str]:
    """File name and text of every schema."""
    return {f"{name}.schema.json": _schema(kind) for name, kind in _FILES.items()}


def _schema(kind: type[msgspec.Struct]) -> str:
    document = {"$schema": _DIALECT, **msgspec.json.schema(kind)}
    for definition in document["$defs"].values():
        _flow(definition)
    return json.dumps(document, indent=2) + "\n"


def _flow(definition: dict[str, Any]) -> None:
    """The description on one line, without the marks of its source."""
    text = " ".join(definition.get("description", "").split())
    if text:
        definition["description"] = text.replace("``", "`")
