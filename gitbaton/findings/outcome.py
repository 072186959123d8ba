"""What an aggregation is told, and what it tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from gitbaton.model.findings import Finding, Index, Shard, Status

Verdict = Literal["fixed", "failed", "remaining"]


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """All that lies in a folder of shards. ``statuses`` are by the number in the file's name;
    ``unreadable`` says of the others what is wrong with them."""

    index: Index
    shards: tuple[Shard, ...]
    statuses: Mapping[int, Status] = {}
    unreadable: Mapping[int, str] = {}


class Flag(msgspec.Struct, frozen=True, kw_only=True):
    """Something about a shard's status that does not count; ``finding`` is the id it is about."""

    shard: int
    code: Literal["unreadable", "no-such-shard", "foreign-finding", "contradiction", "still-found"]
    finding: str = ""
    message: str


class Duplicate(msgspec.Struct, frozen=True, kw_only=True):
    """A scope that several shards claim: only what the status of ``kept``, the newest, says of it
    counts."""

    scope_path: str
    shards: tuple[int, ...]
    kept: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one shard; ``fixed + failed + remaining`` are its findings. ``claimed`` is how
    many its status calls fixed."""

    shard: int
    agent_exit_reason: str
    claimed: int
    fixed: int
    failed: int
    remaining: int
    notes: str = ""


class Unfixed(msgspec.Struct, frozen=True, kw_only=True):
    """A finding that is still to be fixed; ``shard`` is None for one without a path."""

    finding: Finding
    verdict: Verdict
    shard: int | None
    reason: str = ""


class Rescan(msgspec.Struct, frozen=True, kw_only=True):
    """A scan after the fixes: ``still`` of what was to be fixed is found again, ``new`` is what was
    not found before."""

    still: int
    new: tuple[Finding, ...]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """``fixed + failed + remaining`` are all findings, those without a path included; ``missing``
    are the shards without a status."""

    source: tuple[str, ...]
    fixed: int
    failed: int
    remaining: int
    missing: tuple[int, ...]
    duplicates: tuple[Duplicate, ...]
    flagged: tuple[Flag, ...]
    rescan: Rescan | None
    shards: tuple[Outcome, ...]
    unfixed: tuple[Unfixed, ...]

    def residue(self) -> list[Finding]:
        """What is to be sharded again."""
        new = self.rescan.new if self.rescan else ()
        return [*(one.finding for one in self.unfixed), *new]
