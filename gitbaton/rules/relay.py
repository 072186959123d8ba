"""Is it alive? Facts about an attempt put together into one suggestion.

The facts are gathered at the edge (`Facts`); what they suggest is decided here. A clean worktree
without a receipt is the normal middle of an attempt, not a death.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from gitbaton.clock import Moment, parse_stamp
from gitbaton.model.run import Attempt
from gitbaton.rules.lease import Sighting, remaining
from gitbaton.rules.retire import NEARLY_SPENT

Suggestion = Literal[
    "wait",
    "wait-lease-nearly-spent",
    "reconcile",
    "adopt",
    "decide",
    "resolve-or-abandon",
    "await-expiry",
    "none",
]


class Worktree(msgspec.Struct, frozen=True, kw_only=True):
    """What the file system says. ``dirty`` is None where nobody looked."""

    exists: bool
    dirty: bool | None
    last_activity_seconds: int | None


class Relay(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one attempt as ``status`` shows them; seconds are whole seconds.
    ``runner_gone``: a `run` on this machine was at it and has ended."""

    elapsed_seconds: int
    lease_remaining_seconds: int
    lease_fraction: float
    receipt_exists: bool
    beat_age_seconds: int
    heartbeat_file_age_seconds: int | None
    worktree: Worktree
    runner_gone: bool
    suggested_action: Suggestion


def relay(
    attempt: Attempt,
    now: Moment,
    worktree: Worktree,
    heartbeat_file_age: int | None,
    sighting: Sighting | None = None,
    *,
    runner_gone: bool = False,
    ticket_open: bool = True,
) -> Relay:
    """All that is known of an attempt, and what to do about it; ``ticket_open`` says whether its
    ticket still waits to be resolved."""
    left = remaining(attempt.lease, now, sighting)
    fraction = min(1.0, max(0.0, 1 - left / max(attempt.lease.ttl_seconds, 1)))
    ended = parse_stamp(attempt.ended_at) if attempt.ended_at else now.wall
    renewed = parse_stamp(attempt.lease.renewed_at)
    return Relay(
        elapsed_seconds=_seconds((ended - parse_stamp(attempt.claimed_at)).total_seconds()),
        lease_remaining_seconds=_seconds(left),
        lease_fraction=round(fraction, 3),
        receipt_exists=attempt.sealed is not None,
        beat_age_seconds=_seconds((now.wall - renewed).total_seconds()),
        heartbeat_file_age_seconds=heartbeat_file_age,
        worktree=worktree,
        runner_gone=runner_gone,
        suggested_action=_suggest(attempt, fraction, 0 if runner_gone else left, worktree)
        if ticket_open
        else "none",
    )


def _suggest(attempt: Attempt, fraction: float, left: float, worktree: Worktree) -> Suggestion:
    match attempt.state:
        case "sealed" | "integrating":
            return "reconcile"
        case "blocked-review":
            conflict = attempt.failure is not None and attempt.failure.code == "merge-conflict"
            return "resolve-or-abandon" if conflict else "decide"
        case "unknown" | "abandoned" | "superseded" | "failed":
            return "adopt" if attempt.sealed is not None else "none"
        case "leased" | "spawned" | "running":
            if left <= 0:
                return "reconcile"
            if not worktree.exists:
                return "await-expiry"
            return "wait-lease-nearly-spent" if fraction >= NEARLY_SPENT else "wait"
        case _:
            return "none"


def _seconds(value: float) -> int:
    return max(0, round(value))
