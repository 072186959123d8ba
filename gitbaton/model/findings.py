"""Findings in shards, as they lie in a folder: an index, a file for each shard, and what the fixer
of each says of it.

The folder is all that planner, fixers and aggregator share, so its files are read and written by
programs that know nothing of git-baton. Their JSON Schemas in ``docs/schemas`` are made from these
structs.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from gitbaton.model.queue import Severity

SCHEMA: Literal[2] = 2

ScopeKind = Literal["skill_dir", "file"]
Number = Annotated[int, msgspec.Meta(ge=1)]
"""Shards are counted from 1."""
Count = Annotated[int, msgspec.Meta(ge=0)]


class Scope(msgspec.Struct, frozen=True, order=True):
    """What one shard alone may change: a folder and all below it (``skill_dir``), or a file."""

    scope_path: str
    scope_kind: ScopeKind


class Finding(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing to fix. ``path`` is relative to the top of the project; without one it belongs to
    no shard."""

    id: str
    path: str | None = None
    line: int | None = None
    rule: str = ""
    severity: Severity = "medium"
    message: str = ""


class _Document(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    schema_version: Literal[2]


class IndexEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One shard: its number, its file beside the index, how many findings, and where."""

    shard: Number
    file: str
    findings: Count
    scopes: tuple[Scope, ...]


class Index(_Document, frozen=True, kw_only=True, tag="index"):
    """``index.json``: all shards. ``source`` are the files that were read, ``shard_size`` the size
    that was aimed at, ``residue`` the findings that have no path."""

    source: tuple[str, ...]
    shard_size: Number
    shards: tuple[IndexEntry, ...]
    residue: tuple[Finding, ...] = ()


class Shard(_Document, frozen=True, kw_only=True, tag="shard"):
    """``shard-K.json``: what one fixer is given."""

    shard: Number
    scopes: tuple[Scope, ...]
    findings: tuple[Finding, ...]


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """A finding that was not fixed, and why."""

    id: str
    reason: str = ""


class Status(_Document, frozen=True, kw_only=True, tag="status"):
    """``shard-K.status.json``: what its fixer says. ``agent_exit_reason`` is how the fixer ended,
    ``completed`` if it came to its end; ``written`` is when, RFC 3339 in UTC."""

    shard: Number
    agent_exit_reason: str = "completed"
    fixed: tuple[str, ...] = ()
    failed: tuple[Failed, ...] = ()
    notes: str = ""
    written: str = ""


INDEX = "index.json"


def shard_file(number: int) -> str:
    """The name of a shard's file."""
    return f"shard-{number}.json"


def status_file(number: int) -> str:
    """The name of a shard's status."""
    return f"shard-{number}.status.json"
