"""Which tickets may start now, and what is still missing.

A ticket may start when everything it needs is resolved and no ticket of a lower level is left. A
canceled or dropped ticket holds nobody up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise

from gitbaton.model.plan import Plan, Ticket
from gitbaton.model.run import Live, RunState, TicketState
from gitbaton.rules.state import with_live


def startable(plan: Plan, missing: Collection[str]) -> list[Ticket]:
    """The tickets of ``missing`` that wait for nothing, in plan order."""
    open_keys = set(missing)
    pending = [t for t in plan.tickets if t.key in open_keys]
    floor = min((t.level for t in pending), default=0)
    return [
        t for t in pending if t.level <= floor and not any(need in open_keys for need in t.needs)
    ]


def conflicted(live: Live) -> dict[str, int]:
    """Tickets whose latest attempt waits for its merge conflict to be resolved -> its number."""
    return {
        a.ticket: a.number
        for a in live.attempts.values()
        if a.state == "blocked-review"
        and a.failure is not None
        and a.failure.code == "merge-conflict"
    }


def claimable(state: RunState) -> list[Ticket]:
    """What `actions` may claim now, in plan order.

    That is every startable ticket that has no attempt under way or waiting for a decision and has
    not used up its attempts; an attempt of unknown outcome or with a conflict is no obstacle, since
    the claim supersedes it.
    """
    live = state.live
    taken = {
        a.ticket
        for a in live.attempts.values()
        if a.active or (a.state == "blocked-review" and a.ticket not in conflicted(live))
    }
    failed = exhausted(live)
    return [
        t for t in startable(state.plan, live.missing) if t.key not in taken and t.key not in failed
    ]


def exhausted(live: Live) -> tuple[str, ...]:
    """The tickets of the plan that have used up their attempts, in plan order."""
    tried = ((key, live.records.get(key)) for key in live.missing)
    return tuple(key for key, record in tried if record is not None and record.failed)


def ticket_states(state: RunState) -> dict[str, TicketState]:
    """The state of every ticket of the plan, and of those that were dropped from it."""
    live = state.live
    missing, by_hand = set(live.missing), set(live.by_hand)
    active = {a.ticket for a in live.attempts.values() if a.active}
    ready = {t.key for t in startable(state.plan, live.missing)}
    states: dict[str, TicketState] = dict.fromkeys(live.dropped, "dropped")
    for ticket in state.plan.tickets:
        key = ticket.key
        record = live.records.get(key)
        if key in by_hand:
            states[key] = "resolved-by-hand"
        elif key not in missing:
            states[key] = "canceled" if ticket.mark == "canceled" else "resolved"
        elif key in active:
            states[key] = "active"
        elif record is not None and record.failed:
            states[key] = "failed"
        else:
            states[key] = "ready" if key in ready else "waiting"
    return states


def recount(state: RunState) -> RunState:
    """``live`` with the count of claimable tickets brought up to date; called before each write."""
    ready = len(claimable(state))
    return state if ready == state.live.ready else with_live(state, ready=ready)


def predecessors(plan: Plan, ticket: Ticket) -> tuple[str, ...]:
    """The keys a ticket waits for directly: what it needs, and the nearest lower level."""
    return next(needs for t, needs in all_predecessors(plan) if t.key == ticket.key)


def all_predecessors(plan: Plan) -> Iterator[tuple[Ticket, tuple[str, ...]]]:
    """Each ticket with its `predecessors`, in plan order; the time is that of what comes out."""
    place = {ticket.key: at for at, ticket in enumerate(plan.tickets)}
    levels: dict[int, list[str]] = {}
    for ticket in plan.tickets:
        levels.setdefault(ticket.level, []).append(ticket.key)
    ascending = sorted(levels)
    below = {level: tuple(levels[lower]) for lower, level in pairwise(ascending)}
    for ticket in plan.tickets:
        nearest = below.get(ticket.level, ())
        needs = [key for key in ticket.needs if key in place]
        if needs:
            yield ticket, tuple(sorted({*nearest, *needs}, key=place.__getitem__))
        else:
            yield ticket, nearest
