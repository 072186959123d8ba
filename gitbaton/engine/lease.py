"""The verbs by which a worker, or whoever started it, holds its attempt: bind and heartbeat.

Both are fenced: the token decides, inside the compare-and-swap, whether the attempt is still the
caller's.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gitbaton.engine.context import Context, resolve_attempt, token_for
from gitbaton.errors import Refused
from gitbaton.model.ids import AttemptId, assignment_id
from gitbaton.model.run import Attempt, Event, RunState
from gitbaton.model.transitions import ACTIVE, AttemptState
from gitbaton.rules import lease as leases
from gitbaton.store import runs


class LeaseView(msgspec.Struct, frozen=True, kw_only=True):
    ttl_seconds: int
    beat: int
    renewed_at: str
    expires_at: str


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an attempt is still the caller's."""

    assignment: str
    state: AttemptState
    lease: LeaseView
    yours: bool


def bind(ctx: Context, assignment: str, agent_id: str, token: str | None = None) -> Held:
    """Record the worker's own id; idempotent, a second id is refused."""
    run, attempt_id = resolve_attempt(ctx, assignment)

    def rule(state: RunState, secret: str) -> RunState:
        return leases.bind(state, attempt_id, secret, agent_id, ctx.clock.now())

    return _hold(ctx, run, attempt_id, token, rule, "bind", f"bind {attempt_id} to {agent_id}")


def heartbeat(
    ctx: Context,
    assignment: str | None,
    token: str | None = None,
    ttl_seconds: int | None = None,
) -> Held:
    """Renew the lease; raises `Refused` ``lease-lost`` when it is no longer the caller's."""
    run, attempt_id = resolve_attempt(ctx, assignment)

    def rule(state: RunState, secret: str) -> RunState:
        return leases.heartbeat(state, attempt_id, secret, ctx.clock.now(), ttl_seconds)

    try:
        return _hold(ctx, run, attempt_id, token, rule, "heartbeat", f"heartbeat of {attempt_id}")
    except Refused as error:
        attempt = runs.load(ctx.repo, run).attempt(attempt_id)
        if attempt is None or error.code not in ("stale-token", "attempt-retired"):
            raise
        lost = _held(run, attempt, yours=False)
        raise Refused("lease-lost", error.message, error.hint, msgspec.to_builtins(lost)) from error


def _hold(
    ctx: Context,
    run: str,
    attempt_id: AttemptId,
    token: str | None,
    rule: Callable[[RunState, str], RunState],
    kind: str,
    message: str,
) -> Held:
    secret = token_for(ctx, run, attempt_id, token)

    def step(loaded: runs.Loaded) -> tuple[RunState, Event]:
        _require_active(loaded, attempt_id)
        return rule(loaded.state, secret), Event(
            event=kind, message=message, ticket=attempt_id.ticket, attempt=attempt_id.number
        )

    attempt = ctx.transact(run, step).attempt(attempt_id)
    assert attempt is not None
    return _held(run, attempt, yours=True)


def _require_active(loaded: runs.Loaded, attempt_id: AttemptId) -> None:
    attempt = loaded.attempt(attempt_id)
    if attempt is not None and attempt.state not in ACTIVE:
        name = assignment_id(loaded.state.run.id, attempt_id)
        raise Refused(
            "attempt-retired",
            f"{name} is {attempt.state}: it is no longer yours",
            f"`git baton adopt {name}` revives it when it has a receipt",
        )


def _held(run: str, attempt: Attempt, *, yours: bool) -> Held:
    return Held(
        assignment=assignment_id(run, attempt.id),
        state=attempt.state,
        lease=LeaseView(
            ttl_seconds=attempt.lease.ttl_seconds,
            beat=attempt.lease.beat,
            renewed_at=attempt.lease.renewed_at,
            expires_at=leases.expires_at(attempt.lease),
        ),
        yours=yours,
    )
