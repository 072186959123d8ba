"""Claiming: which tickets a session gets now, and the attempts that makes.

`choose` decides, `claim` records. Between them the caller prepares what an attempt needs on disk,
so a claim that is in the state always has its token and packet.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from gitbaton.clock import Moment
from gitbaton.errors import Conflict
from gitbaton.model.ids import AttemptId
from gitbaton.model.layout import PACKET, path_of
from gitbaton.model.plan import Ticket
from gitbaton.model.run import Attempt, Lease, RunState, TicketRecord
from gitbaton.rules.frontier import claimable, conflicted
from gitbaton.rules.state import active_attempts, attempts_of, move, put, record


class Choice(NamedTuple):
    """A ticket to be claimed as attempt ``number``. ``resolves`` is the attempt whose conflict it
    is to resolve; ``supersedes`` those of unknown outcome that it replaces."""

    ticket: Ticket
    number: int
    counted: bool
    resolves: Attempt | None
    supersedes: tuple[AttemptId, ...]

    @property
    def id(self) -> AttemptId:
        return AttemptId(self.ticket.key, self.number)


def choose(
    state: RunState,
    session: str,
    capacity: int,
    max_active: int,
    to_be_had: Callable[[str], bool] = lambda _: True,
) -> tuple[Choice, ...]:
    """What ``session`` may claim: its free capacity, within the run's, in plan order, of the
    tickets that are ``to_be_had``."""
    active = active_attempts(state.live)
    own = sum(a.session == session for a in active)
    free = max(0, min(capacity - own, max_active - len(active)))
    tickets = (ticket for ticket in claimable(state) if to_be_had(ticket.key))
    return tuple(_choice(state, ticket) for ticket in islice(tickets, free))


def _choice(state: RunState, ticket: Ticket) -> Choice:
    earlier = attempts_of(state.live, ticket.key)
    known = state.live.records.get(ticket.key, TicketRecord())
    resolves = None
    counted = True
    number = conflicted(state.live).get(ticket.key)
    if number is not None:
        resolves = state.live.attempts[str(AttemptId(ticket.key, number))]
        counted = False
    elif earlier and earlier[-1].resolves is not None:
        # A resolution that came to nothing is tried again, and that does count.
        resolves = earlier[-1]
    return Choice(
        ticket=ticket,
        number=known.last + 1,
        counted=counted,
        resolves=resolves,
        supersedes=tuple(a.id for a in earlier),
    )


def source_of_resolution(choice: Choice) -> tuple[int, str] | None:
    """Number and sealed commit of the attempt whose conflict ``choice`` is to resolve."""
    attempt = choice.resolves
    if attempt is None:
        return None
    if attempt.resolves is not None and attempt.resolved_commit is not None and not attempt.sealed:
        return attempt.resolves, attempt.resolved_commit
    assert attempt.sealed is not None
    return attempt.number, attempt.sealed.commit


def claim(
    state: RunState,
    choice: Choice,
    *,
    session: str,
    lease: Lease,
    base_commit: str,
    branch: str,
    worktree: str,
    packet: bytes,
    packet_sha256: str,
    now: Moment,
    capability: str | None = None,
    queue_revision: str | None = None,
) -> RunState:
    """The attempt of ``choice`` is leased; raises `Conflict` if it is no longer to be had. In a
    batch it holds its item by ``capability``, as selected at ``queue_revision``."""
    if not any(t.key == choice.ticket.key for t in claimable(state)):
        raise Conflict("ticket-taken", f"{choice.ticket.key} was claimed by somebody else")
    known = state.live.records.get(choice.ticket.key, TicketRecord())
    if known.last + 1 != choice.number:
        raise Conflict("ticket-taken", f"{choice.id} exists already")
    for earlier in choice.supersedes:
        state = move(state, state.live.attempts[str(earlier)], "superseded")
    source = source_of_resolution(choice)
    attempt = Attempt(
        ticket=choice.ticket.key,
        number=choice.number,
        state="leased",
        session=session,
        lease=lease,
        base_commit=base_commit,
        branch=branch,
        worktree=worktree,
        packet_sha256=packet_sha256,
        ticket_digest=choice.ticket.digest,
        plan_revision=state.plan.revision,
        counted=choice.counted,
        resolves=source[0] if source else None,
        resolved_commit=source[1] if source else None,
        conflicts=choice.resolves.conflicts if choice.resolves else (),
        capability=capability,
        queue_revision=queue_revision,
        claimed_at=now.stamp,
    )
    state = put(state, attempt)
    state = record(state, attempt.ticket, counted=known.counted + int(choice.counted))
    path = path_of(attempt.id, PACKET)
    return replace(
        state, files={**state.files, path: packet}, parents=(*state.parents, base_commit)
    )
