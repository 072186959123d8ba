"""The verbs that only look: status, list, log, show. No ref, file or directory is ever made."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from gitbaton.engine.context import LOG, Context, resolve_attempt, resolve_run
from gitbaton.engine.observe import sightings_of
from gitbaton.errors import BatonError, NotFound
from gitbaton.git import checkout, objects, refs
from gitbaton.model.ids import assignment_id, natural_key
from gitbaton.model.packet import Packet
from gitbaton.model.receipt import Statement
from gitbaton.model.root import RootTarget
from gitbaton.model.run import Attempt, Event, Failure, Live, Note, RunRecord, Usage
from gitbaton.model.transitions import AttemptState
from gitbaton.rules.frontier import exhausted
from gitbaton.rules.relay import Relay, Worktree, relay
from gitbaton.store import runs

RunStateName = str
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


class Status(msgspec.Struct, frozen=True, kw_only=True):
    run: str
    revision: int
    generation: int
    state: RunStateName
    complete: bool
    target: RootTarget | None
    branch: str | None
    commit: str | None
    tickets: Counts
    missing: tuple[str, ...] = ()
    resolved_by_hand: tuple[str, ...] = ()
    attempts: tuple[AttemptView, ...] = ()
    followups: tuple[Note, ...] = ()
    warnings: tuple[str, ...] = ()
    halt: HaltView | None = None
    failed: tuple[str, ...] = ()
    paused: str | None = None
    landed: bool = False


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    run: str
    type: str
    state: RunStateName
    complete: bool
    tickets: Counts
    updated_at: str
    error: str | None = None


class RunList(msgspec.Struct, frozen=True, kw_only=True):
    runs: tuple[RunLine, ...]


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    oid: str
    at: str
    event: str
    ticket: str | None
    attempt: int | None
    session: str | None
    message: str


class Log(msgspec.Struct, frozen=True, kw_only=True):
    run: str
    events: tuple[EventView, ...]


class Show(msgspec.Struct, frozen=True, kw_only=True):
    assignment: str
    attempt: AttemptView
    packet: Packet | None
    receipt: Statement | None
    merged: Statement | None
    log_path: str
    history: tuple[EventView, ...]


def status(ctx: Context, run_name: str | None, *, all_attempts: bool = False) -> Status:
    """How a run stands; finished attempts only with ``all_attempts``."""
    try:
        run = resolve_run(ctx, run_name)
    except NotFound:
        if run_name is None or run_name not in _changes(ctx):
            raise
        return Status(
            run=run_name,
            revision=0,
            generation=0,
            state="not-started",
            complete=False,
            target=None,
            branch=None,
            commit=None,
            tickets=Counts(),
        )
    _, record, live = runs.load_live(ctx.repo, run)
    attempts = list(live.attempts.values())
    if all_attempts:
        attempts = list(runs.load(ctx.repo, run).all_attempts())
    attempts.sort(key=lambda a: (natural_key(a.ticket), a.number))
    halt = halt_of(ctx, record, live)
    return Status(
        run=run,
        revision=live.revision,
        generation=record.generation,
        state="blocked" if halt and halt.code == FOREIGN else state_of(record, live),
        complete=live.complete,
        target=record.target,
        branch=record.branch.removeprefix("refs/heads/"),
        commit=record.tip,
        tickets=counts_of(live),
        missing=live.missing,
        resolved_by_hand=live.by_hand,
        attempts=tuple(view(ctx, run, attempt, live) for attempt in attempts),
        followups=live.notes,
        warnings=live.warnings,
        halt=halt,
        failed=exhausted(live),
        paused=record.paused,
        landed=live.complete and _is_seen_landed(ctx, record),
    )


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


def state_of(record: RunRecord, live: Live) -> RunStateName:
    """``executing waiting blocked paused complete``, from the state alone: a run with something in
    flight executes, one with something to claim waits for a caller."""
    if record.paused is not None:
        return "paused"
    if live.complete:
        return "complete"
    if any(a.active for a in live.attempts.values()):
        return "executing"
    halted = live.halt is not None and live.halt.tip == record.tip
    return "waiting" if live.ready and not halted else "blocked"


LOOK_BACK = 500


def _is_seen_landed(ctx: Context, record: RunRecord) -> bool:
    """Whether the base branch, not far back, took in the run's tip. `has_landed` is exact, but what
    it costs grows with the history of the run."""
    tip = refs.read(ctx.repo, record.base.ref)
    if tip is None:
        return False
    chain = objects.first_parent_chain(ctx.repo, tip, record.base.commit)
    recent = islice(chain, LOOK_BACK)
    return any(record.tip in (commit.oid, *commit.parents) for commit in recent)


def has_landed(ctx: Context, record: RunRecord) -> bool:
    """Whether the base branch, or a branch the run was landed on, holds all integrated work: by
    ancestry, since a target may have moved on."""
    targets = {record.base.ref, *(r.onto for r in record.recorded if r.kind == "land")}
    tips = (refs.read(ctx.repo, ref) for ref in targets if ref)
    return any(tip and objects.is_ancestor(ctx.repo, record.tip, tip) for tip in tips)


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


def list_runs(ctx: Context) -> RunList:
    """All runs of the repository; one that cannot be read is listed with its error."""
    lines = []
    for run in runs.list_runs(ctx.repo):
        try:
            _, record, live = runs.load_live(ctx.repo, run)
        except BatonError as error:
            line = RunLine(
                run=run,
                type="",
                state="unreadable",
                complete=False,
                tickets=Counts(),
                updated_at="",
                error=error.message,
            )
        else:
            line = RunLine(
                run=run,
                type=str(record.target.__struct_config__.tag),
                state=state_of(record, live),
                complete=live.complete,
                tickets=counts_of(live),
                updated_at=record.updated_at,
            )
        lines.append(line)
    return RunList(runs=tuple(lines))


def log(ctx: Context, run_name: str | None, limit: int | None = None) -> Log:
    """The transitions of a run, newest first."""
    run = resolve_run(ctx, run_name)
    events: list[EventView] = []
    for entry in runs.log(ctx.repo, run):
        if limit is not None and len(events) >= limit:
            break
        events.append(_event(entry))
    return Log(run=run, events=tuple(events))


def show(ctx: Context, what: str | None) -> Show:
    """One attempt with everything that is known of it."""
    run, attempt_id = resolve_attempt(ctx, what)
    loaded = runs.load(ctx.repo, run)
    attempt = loaded.attempt(attempt_id)
    if attempt is None:
        raise NotFound("unknown-attempt", f"{run} has no attempt {attempt_id}", "")
    history = [
        _event(entry) for entry in runs.log(ctx.repo, run) if _is_about(entry.event, attempt)
    ]
    return Show(
        assignment=assignment_id(run, attempt_id),
        attempt=view(ctx, run, attempt, loaded.state.live),
        packet=_decoded(ctx, loaded.packet(attempt_id), Packet),
        receipt=_decoded(ctx, loaded.receipt(attempt_id), Statement),
        merged=_decoded(ctx, loaded.merged_receipt(attempt_id), Statement),
        log_path=str(ctx.attempt_dir(run, attempt_id) / LOG),
        history=tuple(history),
    )


def _is_about(event: Event, attempt: Attempt) -> bool:
    """Whether an event is the attempt's; one of several attempts names them in its message."""
    if event.ticket:
        return event.ticket == attempt.ticket and event.attempt in (0, attempt.number)
    words = (word.strip(",.;:") for word in event.message.split())
    return str(attempt.id) in words


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


def _event(entry: runs.LogEntry) -> EventView:
    event = entry.event
    return EventView(
        oid=entry.oid,
        at=entry.at,
        event=event.event,
        ticket=event.ticket or None,
        attempt=event.attempt or None,
        session=event.session or None,
        message=event.message,
    )


def _decoded(ctx: Context, data: bytes | None, kind: Any) -> Any:
    """A stored document, or None with a warning when it is damaged."""
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        ctx.warn(f"a stored {kind.__name__.lower()} cannot be read: {error}")
        return None


def _changes(ctx: Context) -> list[str]:
    from gitbaton.engine.source import active_changes

    return active_changes(ctx)
