"""What a caller of its own is told to do next: the action batch and its kinds."""

from __future__ import annotations

from typing import Literal

import msgspec

BatchState = Literal["executing", "waiting", "blocked", "paused", "complete"]


class LeaseTerms(msgspec.Struct, frozen=True, kw_only=True):
    ttl_seconds: int
    expires_at: str


class _Dispatch(msgspec.Struct, frozen=True, kw_only=True):
    assignment: str
    ticket: str
    attempt: int
    title: str
    cwd: str
    branch: str
    base_commit: str
    prompt: str
    token: str
    packet: str
    packet_sha256: str
    redelivered: bool
    lease: LeaseTerms


class Dispatch(_Dispatch, frozen=True, kw_only=True, tag_field="kind", tag="dispatch"):
    """Start a worker in ``cwd`` with ``prompt``."""

    agent: str | None = None


class ResolveMerge(_Dispatch, frozen=True, kw_only=True, tag_field="kind", tag="resolve_merge"):
    """As a dispatch; the worktree holds a merge in progress whose ``conflicts`` want resolving."""

    conflicts: tuple[str, ...]
    agent: str | None = None


class Recover(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="recover"):
    """The outcome of an attempt is unknown: retried by itself, or a decision is needed."""

    assignment: str
    ticket: str
    reason: str
    next: Literal["retry", "decide"]
    retried_as: str | None = None
    message: str = ""


class Wait(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="wait"):
    reason: str
    active: tuple[str, ...]
    poll_after_seconds: int | None = None
    undelivered: tuple[str, ...] = ()
    hint: str = ""


class Blocked(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="blocked"):
    code: str
    reason: str
    hint: str
    assignment: str | None = None


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    reason: str


class Complete(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="complete"):
    revision: int
    resolved: tuple[str, ...]
    resolved_by_hand: tuple[str, ...]
    branch: str
    commit: str
    worktrees_removed: tuple[str, ...] = ()
    worktrees_skipped: tuple[Skipped, ...] = ()


Action = Dispatch | ResolveMerge | Recover | Wait | Blocked | Complete


class ActionBatch(msgspec.Struct, frozen=True, kw_only=True):
    run: str
    generation: int
    revision: int
    state: BatchState
    mode: str | None = None
    actions: tuple[Action, ...]
    warnings: tuple[str, ...] = msgspec.field(default=())
