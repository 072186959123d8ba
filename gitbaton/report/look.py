"""What the verbs that look print: status, list, log, show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gitbaton.model.transitions import TERMINAL, WORKING
from gitbaton.report import batch, style, text
from gitbaton.report.lines import ago, clean, duration, facts, plural, table, wrapped

if TYPE_CHECKING:
    from gitbaton.engine.look import Log, RunList, Show, Status
    from gitbaton.engine.view import AttemptView

_SUGGESTION = {
    "wait": "wait",
    "wait-lease-nearly-spent": "wait; its lease is nearly spent",
    "reconcile": "reconcile",
    "adopt": "adopt",
    "decide": "decide: abandon or adopt",
    "resolve-or-abandon": "resolve or abandon",
    "await-expiry": "worktree is gone: abandon, or await expiry",
    "none": "",
}


def status(status: Status) -> str:
    """Where a run stands, what is at work, what is wrong, and what to do next."""
    head = f"{style.bold(status.run)}  {style.state(status.state.replace('-', ' '))}"
    lines = ["  ".join(filter(None, (head, _done(status))))]
    pause = status.batch.pause if status.batch else None
    if pause is not None:
        lines += batch.stopped(pause)
    elif status.paused is not None:
        lines += wrapped(f"paused: {status.paused}", 2)
    if status.halt is not None:
        lines += style.failure(status.halt, 2)
        lines += wrapped(f"hint: {status.halt.hint}", 2) if status.halt.hint else []
    lines += [f"  next: {line}" for line in _next(status)]
    if status.attempts:
        lines += ["", *_attempts(status.attempts)]
    if status.revision:
        lines += ["", *_facts(status)]
    if status.batch:
        lines += batch.below(status.batch)
    notes = [f"{note.kind} of {note.assignment}: {note.text}" for note in status.followups]
    for title, texts in (("noted by workers:", notes), ("warnings:", status.warnings)):
        if texts:
            lines += ["", title]
            for text in texts:
                lines += style.bullet(text)
    return style.joined(lines)


def _done(status: Status) -> str:
    """How much of it is done; of a batch also what it is called."""
    tickets = status.tickets
    done = tickets.resolved + tickets.resolved_by_hand
    if status.batch is None:
        return f"{done} of {tickets.total} resolved" if tickets.total else ""
    total = tickets.total + status.batch.pending
    said = f"{done} of {total} fixed" if total else "nothing to do"
    return f"{said}  {clean(status.batch.command)}"


def _facts(status: Status) -> list[str]:
    rows = [
        *(batch.facts(status.batch, status.mode) if status.batch else ()),
        ("items" if status.batch else "tickets", _counts(status)),
        ("open", "" if status.complete else style.listed(status.missing)),
        ("failed", style.listed(status.failed)),
        ("by hand", style.listed(status.resolved_by_hand)),
        ("branch", f"{style.branch(status.branch)} at {style.short(status.commit)}"),
        ("used", style.used(status.usage)),
    ]
    return facts(rows)


def _counts(status: Status) -> str:
    tickets = status.tickets
    named = (
        ("active", tickets.active),
        ("ready", tickets.ready),
        ("waiting", tickets.waiting),
        ("failed", tickets.failed),
        ("resolved by hand", tickets.resolved_by_hand),
        ("left" if status.batch else "canceled", tickets.canceled),
        ("dropped", tickets.dropped),
        ("to come", status.batch.pending if status.batch else 0),
    )
    return ", ".join(f"{count} {name}" for name, count in named if count)


def _next(status: Status) -> list[str]:
    """What a person may do, most urgent first."""
    run = status.run
    if status.revision == 0:
        return [
            f"{style.do(f'git baton run {run} --command CMD')} (or --agent NAME)",
            f"{style.do(f'git baton plan {run}')} shows what would run",
        ]
    if found := batch.after(status):
        return found
    if status.landed:
        return [f"landed; its record stays: {style.do(f'git baton log {run}')}"]
    if status.complete:
        return [f"{style.do(f'git baton land {run}')} brings it to its target"]
    if status.state == "paused":
        return [style.do(f"git baton resume {run}")]
    advice = {a.relay.suggested_action for a in status.attempts if a.state not in TERMINAL}
    lines: list[str] = []
    if advice & {"decide", "resolve-or-abandon", "adopt"}:
        lines.append(
            f"decide on the attempts below; {style.do('git baton show ASSIGNMENT')} tells more"
        )
    if status.tickets.failed:
        reopen = style.do(f"git baton reopen {run} TICKET --reason R")
        lines.append(f"{plural(status.tickets.failed, 'ticket')} failed: {reopen}")
    if "reconcile" in advice or status.tickets.ready:
        lines.append(f"{style.do(f'git baton run {run} --command CMD')} goes on")
        lines.append(f"{style.do(f'git baton actions {run} --session S')}, step by step")
    elif advice & {"wait", "wait-lease-nearly-spent", "await-expiry"}:
        lines.append("wait for the workers")
    return lines or [f"{style.do(f'git baton actions {run} --session S')} says what is missing"]


def _attempts(attempts: Sequence[AttemptView]) -> list[str]:
    rows = [
        (
            clean(f"{a.ticket}@{a.attempt}"),
            style.state(a.state),
            duration(a.relay.elapsed_seconds),
            _suggestion(a),
            _lease(a),
            _worktree(a),
            style.dim(a.session),
        )
        for a in attempts
    ]
    lines: list[str] = []
    for line, attempt in zip(table(rows, indent=2), attempts, strict=True):
        lines.append(line)
        if attempt.failure is not None:
            lines += style.failure(attempt.failure, 6, most=3)
    return lines


def _suggestion(attempt: AttemptView) -> str:
    if attempt.relay.runner_gone:
        return "its runner is gone; run again"
    return _SUGGESTION[attempt.relay.suggested_action]


def _lease(attempt: AttemptView) -> str:
    if attempt.state not in WORKING:
        return ""
    left = attempt.relay.lease_remaining_seconds
    return f"lease {duration(left)}" if left > 0 else "lease over"


def _worktree(attempt: AttemptView) -> str:
    worktree = attempt.relay.worktree
    if attempt.state in TERMINAL:
        return ""
    if not worktree.exists:
        return "no worktree"
    return "changes" if worktree.dirty else ""


def runs(listed: RunList) -> str:
    """All runs, one line each."""
    if not listed.runs:
        start = style.do("git baton run CHANGE --agent NAME --verify CMD")
        return style.joined(listed.warnings) or f"no runs yet; start one: {start}"
    return style.joined(
        table(
            [
                (
                    style.bold(run.run),
                    style.state(run.state),
                    f"{run.tickets.resolved + run.tickets.resolved_by_hand}/{run.tickets.total}",
                    ago(run.updated_at) or clean(run.error or ""),
                    f"{run.type}: {clean(run.name)}" if run.name else "",
                )
                for run in listed.runs
            ]
        )
    )


def log(log: Log) -> str:
    """The events of a run, one line each."""
    rows = [
        (style.dim(style.short(e.oid)), ago(e.at), clean(e.message), style.dim(e.session or ""))
        for e in log.events
    ]
    return style.joined(table(rows))


def show(shown: Show) -> str:
    """One attempt."""
    attempt = shown.attempt
    title = clean(shown.packet.title) if shown.packet else ""
    lines = [f"{style.bold(shown.assignment)}  {style.state(attempt.state)}  {title}".rstrip()]
    if shown.disposition is not None:
        came_to = batch.came_to(shown.disposition.kind, shown.disposition.by)
        lines += wrapped(f"returned as {came_to}: {shown.disposition.reason}", 2)
    elif attempt.failure is not None:
        lines += style.failure(attempt.failure, 2)
    rows = [
        ("session", clean(attempt.session)),
        ("worker", clean(attempt.agent_id or "")),
        ("elapsed", duration(attempt.relay.elapsed_seconds)),
        ("lease", _lease(attempt).removeprefix("lease ")),
        ("next", _suggestion(attempt)),
        ("worktree", _there(attempt.worktree, attempt.relay.worktree.exists)),
        ("branch", _there(attempt.branch, shown.branch_exists)),
        ("commit", style.short(attempt.commit)),
        ("merge", style.short(attempt.merge_commit)),
        ("receipt", style.short(attempt.receipt_sha256)),
        ("used", style.used(attempt.usage)),
        ("output", clean(shown.log_path) if shown.log_exists else ""),
    ]
    lines += facts(rows)
    if shown.receipt is not None:
        lines += ["", text.checks(shown.receipt.predicate.checks)]
    if shown.history:
        lines += ["", *table([(ago(e.at), clean(e.message)) for e in shown.history])]
    return style.joined(lines)


def _there(name: str, exists: bool) -> str:
    """A path or branch to go to, or that it is no more."""
    return clean(name) if exists else f"{clean(name)} (removed)"
