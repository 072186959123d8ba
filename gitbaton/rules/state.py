"""The few ways in which a `RunState` changes, so that every rule changes it in the same way.

An attempt is moved only through `put`, which asks the transition table and keeps ``live`` in step:
terminal attempts leave ``live``, the ticket's record remembers the highest number.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from gitbaton.errors import NotFound
from gitbaton.model.ids import AttemptId
from gitbaton.model.run import Attempt, Failure, Intent, Live, RunState, TicketRecord
from gitbaton.model.transitions import ACTIVE, AttemptState, check_move


def with_live(state: RunState, **changes: Any) -> RunState:
    """``state`` with fields of ``live`` replaced."""
    return replace(state, live=replace(state.live, **changes))


def put(state: RunState, attempt: Attempt) -> RunState:
    """``state`` with ``attempt`` in it, new or changed. While it is not over it lies in ``live``
    only; when it is, the next commit writes it to its place."""
    attempts = {k: a for k, a in state.live.attempts.items() if k != str(attempt.id)}
    if not attempt.terminal:
        attempts[str(attempt.id)] = attempt
    records = state.live.records
    known = records.get(attempt.ticket, TicketRecord())
    if attempt.number > known.last:
        records = {**records, attempt.ticket: replace(known, last=attempt.number)}
    over = {k: a for k, a in state.touched.items() if k != attempt.id}
    if attempt.terminal:
        over[attempt.id] = attempt
    return replace(
        state, live=replace(state.live, attempts=attempts, records=records), touched=over
    )


def move(state: RunState, attempt: Attempt, to: AttemptState, **changes: Any) -> RunState:
    """``attempt`` moved to another state, with further fields replaced."""
    check_move(f"{state.run.id}/{attempt.id}", attempt.state, to)
    return put(state, replace(attempt, state=to, **changes))


def record(state: RunState, ticket: str, **changes: Any) -> RunState:
    """The record of a ticket with fields replaced."""
    known = state.live.records.get(ticket, TicketRecord())
    return with_live(state, records={**state.live.records, ticket: replace(known, **changes)})


def remember_failure(state: RunState, ticket: str, failure: Failure | None) -> RunState:
    """Keep the last failure of a ticket for the next packet."""
    return record(state, ticket, failure=failure)


def with_intent(state: RunState, intent: Intent) -> RunState:
    """``state`` with ``intent`` standing."""
    return replace(state, intents={**state.intents, intent.id: intent})


def without_intent(state: RunState, intent_id: str) -> RunState:
    """``state`` without that intent."""
    return replace(state, intents={k: i for k, i in state.intents.items() if k != intent_id})


def stays_resolved(key: str) -> str:
    """The end of a warning about a resolved ticket; it holds until the ticket is reopened."""
    return f"but stays resolved: `git baton reopen {key} --reason R` makes it claimable again"


def attempts_of(live: Live, ticket: str) -> list[Attempt]:
    """The attempts of a ticket that are not terminal, oldest first."""
    return sorted((a for a in live.attempts.values() if a.ticket == ticket), key=lambda a: a.number)


def active_attempts(live: Live) -> list[Attempt]:
    """All attempts from leased to integrating, in the order they were claimed."""
    return sorted(
        (a for a in live.attempts.values() if a.state in ACTIVE),
        key=lambda a: (a.claimed_at, a.ticket, a.number),
    )


def require_attempt(state: RunState, attempt: AttemptId) -> Attempt:
    """The attempt if it is not terminal; raises `NotFound` otherwise."""
    found = state.attempt(attempt)
    if found is None:
        raise NotFound(
            "unknown-attempt",
            f"{state.run.id} has no attempt {attempt} in flight",
            f"see `git baton status {state.run.id} --all`",
        )
    return found
