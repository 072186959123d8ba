"""What there is to see of one run and of one attempt: the facts that the verbs of looking share.

Whether a worker lives can only be inferred, so every fact that speaks for or against it is shown.
"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

import msgspec

from gitbaton.engine.context import Context
from gitbaton.engine.observe import sightings_of
from gitbaton.engine.presence import has_lost_its_runner
from gitbaton.errors import BatonError
from gitbaton.git import ancestry, checkout, refs
from gitbaton.model.ids import assignment_id
from gitbaton.model.run import Attempt, Failure, Live, RunRecord
from gitbaton.model.transitions import AttemptState
from gitbaton.model.usage import Usage
from gitbaton.rules.frontier import exhausted
from gitbaton.rules.relay import Relay, Worktree, relay
from gitbaton.store import runs

FOREIGN = "foreign-commit"


PROGRESS = "progress"


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    total: int = 0
    resolved: int = 0
    resolved_by_hand: int = 0
    active: int = 0
    ready: int = 0
    waiting: int = 0
    failed: int = 0
    canceled: int = 0
    dropped: int = 0


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt as ``status`` and ``show`` print it."""

    assignment: str
    ticket: str
    attempt: int
    state: AttemptState
    failure: Failure | None
    session: str
    agent_id: str | None
    commit: str | None
    merge_commit: str | None
    receipt_sha256: str | None
    resolves: int | None
    claimed_at: str
    ended_at: str | None
    usage: Usage | None
    worktree: str
    branch: str
    relay: Relay


class HaltView(msgspec.Struct, frozen=True, kw_only=True):
    """Why nothing can be integrated, and what frees it."""

    code: str
    message: str
    hint: str


def halt_of(ctx: Context, record: RunRecord, live: Live) -> HaltView | None:
    """What `integrate.obstacle` says, for one more read of a ref as long as nobody moved it."""
    if refs.read(ctx.repo, record.branch) not in (None, record.tip):
        from gitbaton.engine.integrate import obstacle

        found = obstacle(ctx, runs.load(ctx.repo, record.id))
        return HaltView(code=found.code, message=found.reason, hint=found.hint) if found else None
    halt = live.halt
    if halt is None or halt.tip != record.tip:
        return None
    return HaltView(code=halt.code, message=halt.reason, hint=halt.hint)


def state_of(record: RunRecord, live: Live) -> str:
    """``executing waiting blocked paused complete``, from the state alone: a run with something in
    flight executes, one with something to claim waits for a caller, and so does a batch that is
    still to be closed."""
    if record.paused is not None:
        return "paused"
    if live.complete:
        return "complete"
    if any(a.active for a in live.attempts.values()):
        return "executing"
    halted = live.halt is not None and live.halt.tip == record.tip
    to_do = live.ready or live.exhausted
    return "waiting" if to_do and not halted else "blocked"


LOOK_BACK = 500


def is_seen_landed(ctx: Context, record: RunRecord) -> bool:
    """Whether the base branch, not far back, took in the run's tip. `has_landed` is exact, but what
    it costs grows with the history of the run."""
    tip = refs.read(ctx.repo, record.base.ref)
    if tip is None:
        return False
    chain = ancestry.first_parent_chain(ctx.repo, tip, record.base.commit)
    recent = islice(chain, LOOK_BACK)
    return any(record.tip in (commit.oid, *commit.parents) for commit in recent)


def has_landed(ctx: Context, record: RunRecord) -> bool:
    """Whether the base branch, or a branch the run was landed on, holds all integrated work: by
    ancestry, since a target may have moved on."""
    targets = {record.base.ref, *(r.onto for r in record.recorded if r.kind == "land")}
    tips = (refs.read(ctx.repo, ref) for ref in targets if ref)
    return any(tip and ancestry.is_ancestor(ctx.repo, record.tip, tip) for tip in tips)


def counts_of(live: Live) -> Counts:
    """How many tickets are in which state."""
    active = len({a.ticket for a in live.attempts.values() if a.active} & set(live.missing))
    failed = len(exhausted(live))
    return Counts(
        total=live.total,
        resolved=live.resolved,
        resolved_by_hand=len(live.by_hand),
        active=active,
        ready=live.ready,
        waiting=max(0, len(live.missing) - active - live.ready - failed),
        failed=failed,
        canceled=live.canceled,
        dropped=len(live.dropped),
    )


def view(ctx: Context, run: str, attempt: Attempt, live: Live) -> AttemptView:
    """An attempt with its relay facts."""
    sealed = attempt.sealed
    return AttemptView(
        assignment=assignment_id(run, attempt.id),
        ticket=attempt.ticket,
        attempt=attempt.number,
        state=attempt.state,
        failure=attempt.failure,
        session=attempt.session,
        agent_id=attempt.agent_id,
        commit=sealed.commit if sealed else None,
        merge_commit=attempt.merge_commit,
        receipt_sha256=sealed.receipt_sha256 if sealed else None,
        resolves=attempt.resolves,
        claimed_at=attempt.claimed_at,
        ended_at=attempt.ended_at,
        usage=attempt.usage,
        worktree=attempt.worktree,
        branch=attempt.branch.removeprefix("refs/heads/"),
        relay=relay_of(ctx, run, attempt, live),
    )


def relay_of(ctx: Context, run: str, attempt: Attempt, live: Live) -> Relay:
    """The facts about an attempt, gathered from state, file system and clock."""
    now = ctx.clock.now()
    heartbeat = _age(ctx.attempt_dir(run, attempt.id) / PROGRESS, now.wall.timestamp())
    return relay(
        attempt,
        now,
        _worktree(attempt, now.wall.timestamp()),
        heartbeat,
        sightings_of(ctx, run).get(str(attempt.id)),
        runner_gone=has_lost_its_runner(ctx, attempt),
        ticket_open=attempt.active or attempt.ticket in live.missing,
    )


def _worktree(attempt: Attempt, now: float) -> Worktree:
    path = Path(attempt.worktree)
    if not path.is_dir():
        return Worktree(exists=False, dirty=None, last_activity_seconds=None)
    dirty: bool | None = None
    if not attempt.terminal:
        try:
            dirty = not checkout.status(path, fresh_index=False).clean
        except BatonError:
            dirty = None
    return Worktree(exists=True, dirty=dirty, last_activity_seconds=_last_activity(path, now))


def _last_activity(path: Path, now: float) -> int | None:
    """Seconds since something changed in the worktree, two levels deep: enough to see life."""
    newest = 0.0
    try:
        with os.scandir(path) as top:
            for entry in top:
                newest = max(newest, entry.stat(follow_symlinks=False).st_mtime)
                if entry.is_dir(follow_symlinks=False):
                    with os.scandir(entry.path) as below:
                        newest = max(
                            (e.stat(follow_symlinks=False).st_mtime for e in below),
                            default=newest,
                        )
    except OSError:
        pass
    return max(0, round(now - newest)) if newest else None


def _age(path: Path, now: float) -> int | None:
    try:
        return max(0, round(now - path.stat().st_mtime))
    except OSError:
        return None
