"""One ticket and one attempt as a board shows them, with the commands that a reader may want."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import msgspec

from gitbaton.errors import BatonError
from gitbaton.model.batch import Disposition
from gitbaton.model.ids import assignment_id
from gitbaton.model.plan import Ticket
from gitbaton.model.receipt import CheckResult, Predicate, Statement
from gitbaton.model.run import (
    Attempt,
    Failure,
    Live,
    RunRecord,
    RunState,
    TicketState,
)
from gitbaton.model.transitions import AttemptState
from gitbaton.model.usage import Usage
from gitbaton.store import runs

MOST_FILES = 200
"""Of so many changed files of an attempt the names are shown; of more, the first."""
_TAIL = 600  # characters of a check's output: it was green, so its end will do


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """A criterion, and whether it was ticked when the plan was read."""

    text: str
    done: bool


class TicketCard(msgspec.Struct, frozen=True, kw_only=True):
    """``needs`` are the tickets that it names; it also waits for all of a lower ``level``.
    ``dispositions`` are what a member of a batch was returned as, the newest last."""

    key: str
    alias: str
    title: str
    body: str
    section: int
    level: int
    state: TicketState
    needs: tuple[str, ...]
    criteria: tuple[Box, ...]
    checks: tuple[str, ...]
    paths: tuple[str, ...]
    dispositions: tuple[Disposition, ...]
    commands: tuple[str, ...]


class AttemptCard(msgspec.Struct, frozen=True, kw_only=True):
    """``ended_at`` is when nothing was at work on it any more, None while it is under way;
    ``changed`` counts its files, of which ``files`` are the first. ``damaged`` says why its receipt
    cannot be shown."""

    assignment: str
    ticket: str
    number: int
    state: AttemptState
    failure: Failure | None
    session: str
    agent_id: str | None
    advice: str
    resolves: int | None
    conflicts: tuple[str, ...]
    claimed_at: str
    sealed_at: str | None
    ended_at: str | None
    base_commit: str
    branch: str
    commit: str | None
    merge_commit: str | None
    receipt_sha256: str | None
    signed: bool
    damaged: str | None
    checks: tuple[CheckResult, ...]
    changed: int
    files: tuple[str, ...]
    usage: Usage | None
    commands: tuple[str, ...]


def ticket_card(state: RunState, ticket: Ticket, at: TicketState) -> TicketCard:
    """A ticket of the plan, in the state ``at``."""
    member = state.batch.member(ticket.key) if state.batch else None
    return TicketCard(
        key=ticket.key,
        alias=ticket.alias,
        title=ticket.title,
        body=ticket.body,
        section=ticket.section,
        level=ticket.level,
        state=at,
        needs=ticket.needs,
        criteria=tuple(Box(text=box.text, done=box.done) for box in ticket.criteria),
        checks=ticket.checks,
        paths=ticket.paths,
        dispositions=member.history if member else (),
        commands=tuple(_for_ticket(state.run.id, ticket.key, at)),
    )


def attempt_card(
    loaded: runs.Loaded, attempt: Attempt, advice: str, next_claim: str | None
) -> AttemptCard:
    """An attempt with its receipt; ``next_claim`` is when its ticket was claimed again."""
    sealed = attempt.sealed
    predicate, damaged = _receipt(loaded, attempt)
    ended = attempt.ended_at or (
        next_claim or attempt.lease.renewed_at if attempt.terminal else None
    )
    files = predicate.changed_files if predicate else ()
    return AttemptCard(
        assignment=assignment_id(loaded.state.run.id, attempt.id),
        ticket=attempt.ticket,
        number=attempt.number,
        state=attempt.state,
        failure=attempt.failure,
        session=attempt.session,
        agent_id=attempt.agent_id,
        advice=advice,
        resolves=attempt.resolves,
        conflicts=attempt.conflicts,
        claimed_at=attempt.claimed_at,
        sealed_at=sealed.sealed_at if sealed else None,
        ended_at=ended,
        base_commit=attempt.base_commit,
        branch=attempt.branch.removeprefix("refs/heads/"),
        commit=sealed.commit if sealed else None,
        merge_commit=attempt.merge_commit,
        receipt_sha256=sealed.receipt_sha256 if sealed else None,
        signed=sealed is not None and sealed.signature_sha256 is not None,
        damaged=damaged,
        checks=tuple(map(_shortened, predicate.checks)) if predicate else (),
        changed=len(files),
        files=files[:MOST_FILES],
        usage=attempt.usage,
        commands=tuple(_for_attempt(loaded.state.run.id, attempt)),
    )


def _receipt(loaded: runs.Loaded, attempt: Attempt) -> tuple[Predicate | None, str | None]:
    """What the receipt says, or why it cannot be read."""
    if attempt.sealed is None:
        return None, None
    try:
        data = loaded.receipt(attempt.id)
        return (None, "it is missing") if data is None else (_predicate(data), None)
    except (BatonError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return None, str(error)


def _predicate(data: bytes) -> Predicate:
    return msgspec.json.decode(data, type=Statement).predicate


def _shortened(check: CheckResult) -> CheckResult:
    return msgspec.structs.replace(check, output_tail=check.output_tail[-_TAIL:])


def for_run(record: RunRecord, live: Live, *, landed: bool) -> Iterator[str]:
    """What one does with a run as it stands."""
    yield from _command("status", record.id)
    yield from _command("log", record.id)
    yield from _command("audit", record.id)
    if record.paused is not None:
        yield from _command("resume", record.id)
    if live.complete and not landed:
        yield from _command("land", record.id)


def _for_attempt(run: str, attempt: Attempt) -> Iterator[str]:
    name = assignment_id(run, attempt.id)
    yield from _command("show", name)
    if attempt.sealed is not None:
        yield from _command("receipt", "verify", name)
    if attempt.sealed is not None and attempt.state in ("abandoned", "superseded", "failed"):
        yield from _command("adopt", name)
    if not attempt.terminal:
        yield from _command("abandon", name, "--reason", "REASON")


def _for_ticket(run: str, key: str, state: TicketState) -> Iterator[str]:
    if state in ("failed", "resolved", "resolved-by-hand"):
        yield from _command("reopen", run, key, "--reason", "REASON")


def _command(*words: str) -> Iterator[str]:
    """A line for a shell; none for words that a terminal would not show as they are."""
    if all(word.isprintable() for word in words):
        yield f"git baton {shlex.join(words)}"
