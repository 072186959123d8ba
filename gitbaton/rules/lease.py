"""Who holds an attempt, and whether they still do.

Safety never depends on clocks: `fence` compares the token's hash inside the compare-and-swap.
Clocks only decide when somebody else may try. A lease of this machine and boot is judged by the
monotonic clock; of an earlier boot, it has expired; of another machine, it has expired once the
same beat was seen for 1.25 times its length on the observer's own clock.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import timedelta
from typing import NamedTuple

from msgspec.structs import replace

from gitbaton.clock import Moment, parse_stamp, stamp
from gitbaton.errors import Refused
from gitbaton.model.ids import AttemptId
from gitbaton.model.run import Attempt, Lease, RunState
from gitbaton.rules.state import move, put, require_attempt

OBSERVED_FACTOR = 1.25


class Sighting(NamedTuple):
    """The first time this machine saw a beat of another machine's lease (own monotonic clock)."""

    beat: int
    boot: str
    monotonic: float


def token_sha256(token: str) -> str:
    """What the state keeps of a secret token."""
    return hashlib.sha256(token.encode()).hexdigest()


def grant(now: Moment, holder: str, token: str, ttl_seconds: int) -> Lease:
    """A new lease."""
    return Lease(
        holder=holder,
        machine=now.machine,
        boot=now.boot,
        token_sha256=token_sha256(token),
        ttl_seconds=ttl_seconds,
        deadline=now.monotonic + ttl_seconds,
        renewed_at=now.stamp,
    )


def renew(lease: Lease, now: Moment, ttl_seconds: int | None = None) -> Lease:
    """The lease with one more beat, on the clock of whoever renews it."""
    ttl = ttl_seconds or lease.ttl_seconds
    return replace(
        lease,
        machine=now.machine,
        boot=now.boot,
        ttl_seconds=ttl,
        beat=lease.beat + 1,
        deadline=now.monotonic + ttl,
        renewed_at=now.stamp,
    )


def remaining(lease: Lease, now: Moment, sighting: Sighting | None = None) -> float:
    """Seconds until the lease expires as this machine judges it; 0 or less when it has."""
    if lease.machine == now.machine:
        return lease.deadline - now.monotonic if lease.boot == now.boot else 0.0
    window = lease.ttl_seconds * OBSERVED_FACTOR
    if sighting is None or (sighting.beat, sighting.boot) != (lease.beat, now.boot):
        return window
    return sighting.monotonic + window - now.monotonic


def expires_at(lease: Lease) -> str:
    """When the lease expires unless it is renewed: wall time, for display."""
    return stamp(parse_stamp(lease.renewed_at) + timedelta(seconds=lease.ttl_seconds))


def is_expired(lease: Lease, now: Moment, sighting: Sighting | None = None) -> bool:
    return remaining(lease, now, sighting) <= 0


def holds(attempt: Attempt, token: str) -> bool:
    """Whether ``token`` is the one the attempt was last handed out with."""
    return hmac.compare_digest(attempt.lease.token_sha256, token_sha256(token))


def fence(state: RunState, attempt_id: AttemptId, token: str) -> Attempt:
    """The attempt, if it is active and ``token`` is the current one; raises `Refused`."""
    attempt = require_attempt(state, attempt_id)
    require_token(state, attempt, token)
    if not attempt.active:
        raise Refused(
            "attempt-retired",
            f"{state.run.id}/{attempt_id} is {attempt.state}: it is no longer yours",
            f"`git baton adopt {attempt_id}` revives it when it has a receipt",
        )
    return attempt


def require_token(state: RunState, attempt: Attempt, token: str) -> None:
    """Raise `Refused` unless ``token`` is the current one."""
    if not holds(attempt, token):
        raise Refused(
            "stale-token",
            f"the token is not the one {state.run.id}/{attempt.id} was last handed out with",
            "the attempt was handed out again; work in the worktree of its newest dispatch",
        )


def bind(
    state: RunState, attempt_id: AttemptId, token: str, agent_id: str, now: Moment
) -> RunState:
    """The worker's own id is recorded; the same id again renews the lease, another is refused."""
    attempt = fence(state, attempt_id, token)
    if attempt.agent_id not in (None, agent_id):
        raise Refused(
            "already-bound",
            f"{state.run.id}/{attempt_id} is bound to {attempt.agent_id}",
            f"end it with `git baton abandon {attempt_id}` first",
        )
    changed = replace(attempt, agent_id=agent_id, lease=renew(attempt.lease, now))
    return move(state, changed, "spawned") if attempt.state == "leased" else put(state, changed)


def heartbeat(
    state: RunState,
    attempt_id: AttemptId,
    token: str,
    now: Moment,
    ttl_seconds: int | None = None,
) -> RunState:
    """The lease renewed by one beat; the first one makes the attempt ``running``."""
    attempt = fence(state, attempt_id, token)
    changed = replace(attempt, lease=renew(attempt.lease, now, ttl_seconds))
    if attempt.state in ("leased", "spawned"):
        return move(state, changed, "running")
    return put(state, changed)


def redeliver(
    state: RunState, attempt_id: AttemptId, token: str, session: str, now: Moment
) -> RunState:
    """An attempt handed out again with a fresh token, which fences the old one."""
    attempt = require_attempt(state, attempt_id)
    lease = renew(attempt.lease, now)
    lease = replace(lease, holder=session, token_sha256=token_sha256(token))
    return put(state, replace(attempt, session=session, lease=lease))
