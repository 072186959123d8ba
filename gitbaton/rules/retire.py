"""Taking an attempt out of the run, and bringing one back.

Neither destroys work: worktree, branch, commits, packet and receipt of a retired attempt stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gitbaton.clock import Moment
from gitbaton.errors import Refused
from gitbaton.model.run import Attempt, Failure, RunState
from gitbaton.model.transitions import ACTIVE, WORKING
from gitbaton.rules.lease import remaining
from gitbaton.rules.settle import reopen_ticket
from gitbaton.rules.state import move, record, remember_failure, with_live

NEARLY_SPENT = 0.8


def spent_fraction(attempt: Attempt, now: Moment) -> float:
    """How much of the lease is spent, 0 to 1, as this machine judges it."""
    ttl = max(attempt.lease.ttl_seconds, 1)
    return min(1.0, max(0.0, 1 - remaining(attempt.lease, now) / ttl))


def refuse_abandon(attempt: Attempt, now: Moment) -> str | None:
    """Why `abandon` should not be granted without ``--force``, or None."""
    if attempt.sealed is not None and attempt.state != "blocked-review":
        return "it has a receipt: `git baton reconcile` integrates it"
    if (
        attempt.state in WORKING
        and attempt.failure is None
        and spent_fraction(attempt, now) < NEARLY_SPENT
    ):
        spent = spent_fraction(attempt, now)
        return f"it is {attempt.state} with no failure on record and {spent:.0%} of its lease spent"
    return None


def abandon(
    state: RunState, attempt: Attempt, reason: str, now: Moment, *, force: bool
) -> RunState:
    """The attempt is given up; its ticket may be claimed again. Idempotent."""
    if attempt.state == "abandoned":
        return state
    name = f"{state.run.id}/{attempt.id}"
    if attempt.terminal:
        raise Refused(
            "attempt-retired", f"{name} is {attempt.state} already", f"see `git baton show {name}`"
        )
    if attempt.state == "integrating":
        raise Refused("being-integrated", f"{name} is being integrated", "try again in a moment")
    why = refuse_abandon(attempt, now)
    if why and not force:
        raise Refused("abandon-refused", f"{name} is not abandoned: {why}", "--force overrides")
    failure = attempt.failure or Failure(code="abandoned", message=reason)
    state = move(state, attempt, "abandoned", failure=failure, ended_at=now.stamp)
    return remember_failure(state, attempt.ticket, failure)


def adopt(state: RunState, attempt: Attempt, siblings: Sequence[Attempt], now: Moment) -> RunState:
    """A retired attempt with a receipt is sealed again.

    ``siblings`` are all attempts of the ticket. Refused when a newer one has a receipt or is in
    flight. The caller has verified the receipt before.
    """
    name = f"{state.run.id}/{attempt.id}"
    if attempt.sealed is None:
        raise Refused(
            "no-receipt", f"{name} has no receipt", f"seal it, or claim {attempt.ticket} again"
        )
    newer = [a for a in siblings if a.number > attempt.number]
    rivals = [a for a in newer if a.state in ACTIVE or (a.sealed and a.state != "succeeded")]
    if rivals:
        listed = ", ".join(f"{a.id} ({a.state})" for a in rivals)
        raise Refused(
            "newer-attempt",
            f"{name} is older than {listed}",
            "abandon the newer one first, or adopt that",
        )
    ticket = state.plan.ticket(attempt.ticket)
    if ticket is None or attempt.ticket not in state.live.missing:
        raise Refused(
            "ticket-resolved",
            f"ticket {attempt.ticket} is not open",
            f"`git baton reopen {attempt.ticket} --reason R` makes it claimable again",
        )
    for other in newer:
        if not other.terminal:
            state = move(state, other, "superseded")
    state = move(
        state,
        attempt,
        "sealed",
        failure=None,
        accepted_digest=ticket.digest,
        ended_at=now.stamp,
    )
    return record(state, attempt.ticket, failed=False)


def reopen(state: RunState, key: str) -> RunState:
    """A resolved, hand-resolved or failed ticket may be claimed again, its count reset."""
    require_reopenable(state, key)
    return reopen_ticket(state, key)


def require_reopenable(state: RunState, key: str) -> None:
    """Raise `Refused` for a ticket that is open already."""
    known = state.live.records.get(key)
    failed = known is not None and known.failed
    if key in state.live.missing and not failed:
        raise Refused("ticket-open", f"ticket {key} is open already", f"see `git baton show {key}`")


def pause(state: RunState, reason: str) -> RunState:
    """Nothing new is claimed until `resume`; what is in flight goes on."""
    return replace(state, run=replace(state.run, paused=reason))


def resume(state: RunState) -> RunState:
    """The pause is over; a halt is looked at again."""
    return with_live(replace(state, run=replace(state.run, paused=None)), halt=None)
