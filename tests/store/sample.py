"""A small run to work on, and how to make attempts in any state."""

from __future__ import annotations

from datetime import UTC, datetime

from gitbaton.clock import Moment
from gitbaton.model.ids import AttemptId
from gitbaton.model.plan import Plan, Section, Ticket
from gitbaton.model.root import ChangeTarget
from gitbaton.model.run import (
    Attempt,
    Base,
    Event,
    Lease,
    Live,
    PlanSource,
    RunRecord,
    RunState,
)

RUN = "add-login"
EVENT = Event(event="test", message="Something happened")


class FixedClock:
    """Always noon of one day."""

    def now(self) -> Moment:
        return Moment(datetime(2030, 1, 2, 12, tzinfo=UTC), 1000.0, "machine", "boot")


def state_of(head: str, run: str = RUN) -> RunState:
    """A run with two tickets, not yet stored."""
    record = RunRecord(
        id=run,
        target=ChangeTarget(change=run),
        base=Base(ref="refs/heads/trunk", commit=head),
        branch=f"refs/heads/baton/{run}",
        tip=head,
        checks=("true",),
        source=PlanSource(kind="revision", at="refs/heads/trunk"),
        created_at="2030-01-02T12:00:00Z",
    )
    plan = Plan(
        sections=(Section(title="One", line=1),),
        tickets=tuple(
            Ticket(key=key, title=f"Do {key}", section=0, line=line)
            for line, key in enumerate(("1.1", "1.2"), 2)
        ),
    )
    return RunState(run=record, plan=plan, live=Live(revision=1, total=2, missing=("1.1", "1.2")))


def attempt_of(attempt: AttemptId, state: str = "leased", **fields: object) -> Attempt:
    """An attempt in some state."""
    lease = Lease(
        holder="s",
        machine="machine",
        boot="boot",
        token_sha256="0" * 64,
        ttl_seconds=60,
        deadline=1060.0,
        renewed_at="2030-01-02T12:00:00Z",
    )
    values = {
        "ticket": attempt.ticket,
        "number": attempt.number,
        "state": state,
        "session": "s",
        "lease": lease,
        "base_commit": "1" * 40,
        "branch": "refs/heads/x",
        "worktree": "/nowhere",
        "packet_sha256": "0" * 64,
        "ticket_digest": "0" * 64,
        "plan_revision": 1,
        "claimed_at": "2030-01-02T12:00:00Z",
    }
    return Attempt(**{**values, **fields})  # type: ignore[arg-type]
