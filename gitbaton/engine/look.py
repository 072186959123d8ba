"""The verbs that only look: status, list, log, show. No ref, file or directory is ever made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice, takewhile
from typing import Any

import msgspec

from gitbaton.engine.context import (
    LOG,
    Context,
    not_taken_over,
    resolve_attempt,
    resolve_run,
)
from gitbaton.engine.rootview import BatchView
from gitbaton.engine.rootview import view as batch_view
from gitbaton.engine.view import (
    FOREIGN,
    AttemptView,
    Counts,
    HaltView,
    counts_of,
    halt_of,
    is_seen_landed,
    state_of,
    view,
)
from gitbaton.errors import BatonError, NotFound
from gitbaton.git import refs
from gitbaton.model.batch import Disposition
from gitbaton.model.ids import assignment_id, natural_key
from gitbaton.model.packet import Packet
from gitbaton.model.receipt import Statement
from gitbaton.model.root import BatchTarget, Mode, RootTarget
from gitbaton.model.run import INTENT, Attempt, Event, Live, Note, RunRecord
from gitbaton.model.usage import Usage
from gitbaton.rules.frontier import exhausted
from gitbaton.store import runs


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A run; ``mode`` and ``batch`` are there for a batch only, ``usage`` where workers told what
    they used."""

    run: str
    revision: int
    generation: int
    state: str
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
    mode: Mode | None = None
    batch: BatchView | None = None
    usage: Usage | None = None


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """A run; ``name`` is what people call it, where its id says nothing to them."""

    run: str
    type: str
    name: str
    state: str
    complete: bool
    tickets: Counts
    updated_at: str
    error: str | None = None


class RunList(msgspec.Struct, frozen=True, kw_only=True):
    runs: tuple[RunLine, ...]
    warnings: tuple[str, ...] = ()


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
    disposition: Disposition | None
    log_path: str
    branch_exists: bool
    log_exists: bool
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
            warnings=tuple(filter(None, (not_taken_over(ctx),))),
        )
    oid, record, live = runs.load_live(ctx.repo, run)
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
        landed=live.complete and is_seen_landed(ctx, record),
        mode=record.target.mode,
        batch=_batch(ctx, oid, record, live),
        usage=live.usage,
    )


def _batch(ctx: Context, oid: str, record: RunRecord, live: Live) -> BatchView | None:
    if not isinstance(record.target, BatchTarget):
        return None
    batch = runs.load_batch(ctx.repo, record.id, oid)
    return batch_view(record.target.descriptor, batch, live) if batch else None


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
                name="",
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
                name=record.target.name,
                state=state_of(record, live),
                complete=live.complete,
                tickets=counts_of(live),
                updated_at=record.updated_at,
            )
        lines.append(line)
    taking_over = None if lines else not_taken_over(ctx)
    return RunList(runs=tuple(lines), warnings=(taking_over,) if taking_over else ())


def log(ctx: Context, run_name: str | None, limit: int | None = None) -> Log:
    """The transitions of a run, newest first; an intent only while nothing has come of it."""
    run = resolve_run(ctx, run_name)
    told = map(_event, _done(runs.log(ctx.repo, run)))
    return Log(run=run, events=tuple(islice(told, limit)))


def since(
    ctx: Context, run: str, known: str | None, most: int | None
) -> tuple[str | None, list[EventView]]:
    """The newest state commit, and what was done since ``known`` (None: ever), at most so much of
    it, newest first."""
    entries = takewhile(lambda entry: entry.oid != known, runs.log(ctx.repo, run))
    newest = next(entries, None)
    if newest is None:
        return known, []
    done = (e for e in chain((newest,), entries) if not e.event.event.endswith(INTENT))
    return newest.oid, list(map(_event, islice(done, most)))


def _done(entries: Iterable[runs.LogEntry]) -> Iterator[runs.LogEntry]:
    """What was done; what was only about to be done is part of that, unless nothing followed."""
    for at, entry in enumerate(entries):
        if at == 0 or not entry.event.event.endswith(INTENT):
            yield entry


def show(ctx: Context, what: str | None) -> Show:
    """One attempt with everything that is known of it."""
    run, attempt_id = resolve_attempt(ctx, what)
    loaded = runs.load(ctx.repo, run)
    attempt = loaded.attempt(attempt_id)
    if attempt is None:
        raise NotFound("unknown-attempt", f"{run} has no attempt {attempt_id}", "")
    told = (e for e in _done(runs.log(ctx.repo, run)) if _is_about(e.event, attempt))
    log_path = ctx.attempt_dir(run, attempt_id) / LOG
    return Show(
        assignment=assignment_id(run, attempt_id),
        attempt=view(ctx, run, attempt, loaded.state.live),
        packet=_decoded(ctx, loaded.packet(attempt_id), Packet),
        receipt=_decoded(ctx, loaded.receipt(attempt_id), Statement),
        merged=_decoded(ctx, loaded.merged_receipt(attempt_id), Statement),
        disposition=batch.returned(attempt.id) if (batch := loaded.state.batch) else None,
        log_path=str(log_path),
        branch_exists=refs.read(ctx.repo, attempt.branch) is not None,
        log_exists=log_path.exists(),
        history=tuple(map(_event, told)),
    )


def _is_about(event: Event, attempt: Attempt) -> bool:
    """Whether an event is the attempt's; one of several attempts names them in its message."""
    if event.ticket:
        return event.ticket == attempt.ticket and event.attempt in (0, attempt.number)
    words = (word.strip(",.;:") for word in event.message.split())
    return str(attempt.id) in words


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
