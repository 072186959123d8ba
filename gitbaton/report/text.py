"""What the verbs say to people, one function a verb, from the same values as the JSON documents.

Plain text in at most the terminal's width; colours only emphasize and never carry a meaning of
their own. First comes what somebody who looks wants to know: how is it, and what do I do next?
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from gitbaton.model.action import (
    Action,
    ActionBatch,
    Blocked,
    Complete,
    Dispatch,
    Recover,
    ResolveMerge,
    Skipped,
    Wait,
)
from gitbaton.model.transitions import TERMINAL, WORKING
from gitbaton.report.lines import ago, clean, clean_block, duration, plural, table, wrapped

if TYPE_CHECKING:
    from gitbaton.engine.cleanup import Cleaned, Deleted, WouldRemove
    from gitbaton.engine.doctor import Report
    from gitbaton.engine.look import AttemptView, Log, RunList, Show, Status
    from gitbaton.engine.planview import PlanView, TaskFlip
    from gitbaton.engine.setup import Changes, Shown
    from gitbaton.engine.steer import Abandoned, Adopted, Steered
    from gitbaton.engine.update import Moved
    from gitbaton.engine.worker import Held, SealResult

_STATE = {
    "complete": "green",
    "succeeded": "green",
    "resolved": "green",
    "executing": "cyan",
    "running": "cyan",
    "sealed": "cyan",
    "integrating": "cyan",
    "blocked": "red",
    "failed": "red",
    "blocked-review": "red",
    "unknown": "yellow",
    "paused": "yellow",
}
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


def _state(state: str) -> str:
    return click.style(state, fg=_STATE.get(state), bold=state in ("blocked", "complete"))


def _bold(text: str) -> str:
    return click.style(clean(text), bold=True)


def _dim(text: str) -> str:
    return click.style(clean(text), dim=True)


def _do(command: str) -> str:
    return click.style(command, fg="green")


def _short(oid: str | None) -> str:
    return (oid or "")[:12]


def _branch(ref: str | None) -> str:
    return clean((ref or "").removeprefix("refs/heads/"))


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def _listed(keys: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(clean(key) for key in keys[:most])
    return f"{shown} and {len(keys) - most} more" if len(keys) > most else shown


# --- looking -----------------------------------------------------------------------------------


def status(status: Status) -> str:
    """Where a run stands, what is at work, what is wrong, and what to do next."""
    tickets = status.tickets
    done = tickets.resolved + tickets.resolved_by_hand
    head = f"{_bold(status.run)}  {_state(status.state.replace('-', ' '))}"
    lines = [f"{head}  {done} of {tickets.total} resolved" if tickets.total else head]
    if status.paused is not None:
        lines += wrapped(f"paused: {status.paused}", 2)
    if status.halt is not None:
        lines += _failure(status.halt, 2)
    lines += [f"  next: {line}" for line in _next(status)]
    if status.attempts:
        lines += ["", *_attempts(status.attempts)]
    if status.revision:
        lines += ["", *_facts(status)]
    notes = [f"{note.kind} of {note.assignment}: {note.text}" for note in status.followups]
    for title, texts in (("noted by workers:", notes), ("warnings:", status.warnings)):
        if texts:
            lines += ["", title]
            for text in texts:
                lines += _bullet(text)
    return _joined(lines)


def _facts(status: Status) -> list[str]:
    rows = [
        ("tickets", _counts(status)),
        ("open", "" if status.complete else _listed(status.missing)),
        ("failed", _listed(status.failed)),
        ("by hand", _listed(status.resolved_by_hand)),
        ("branch", f"{_branch(status.branch)} at {_short(status.commit)}"),
    ]
    return table([row for row in rows if row[1]], indent=2)


def _counts(status: Status) -> str:
    tickets = status.tickets
    named = (
        ("active", tickets.active),
        ("ready", tickets.ready),
        ("waiting", tickets.waiting),
        ("failed", tickets.failed),
        ("resolved by hand", tickets.resolved_by_hand),
        ("canceled", tickets.canceled),
        ("dropped", tickets.dropped),
    )
    return ", ".join(f"{count} {name}" for name, count in named if count)


def _next(status: Status) -> list[str]:
    """What a person may do, most urgent first."""
    run = status.run
    if status.revision == 0:
        return [
            f"{_do(f'git baton run {run} --command CMD')} (or --agent NAME)",
            f"{_do(f'git baton plan {run}')} shows what would run",
        ]
    if status.landed:
        return [f"landed; {_do(f'git baton delete {run}')} removes its refs"]
    if status.complete:
        return [f"{_do(f'git baton land {run}')} brings it to its target"]
    if status.state == "paused":
        return [_do(f"git baton resume {run}")]
    advice = {a.relay.suggested_action for a in status.attempts if a.state not in TERMINAL}
    lines: list[str] = []
    if advice & {"decide", "resolve-or-abandon", "adopt"}:
        lines.append(f"decide on the attempts below; {_do('git baton show ASSIGNMENT')} tells more")
    if status.tickets.failed:
        reopen = _do(f"git baton reopen {run} TICKET --reason R")
        lines.append(f"{plural(status.tickets.failed, 'ticket')} failed: {reopen}")
    if "reconcile" in advice or status.tickets.ready:
        program = _do(f"git baton run {run} --command CMD")
        lines.append(f"{_do(f'git baton actions {run} --session S')} or {program} goes on")
    elif advice & {"wait", "wait-lease-nearly-spent", "await-expiry"}:
        lines.append("wait for the workers")
    return lines or [f"{_do(f'git baton actions {run} --session S')} says what is missing"]


def _attempts(attempts: Sequence[AttemptView]) -> list[str]:
    rows = [
        (
            clean(f"{a.ticket}@{a.attempt}"),
            _state(a.state),
            duration(a.relay.elapsed_seconds),
            _lease(a),
            _worktree(a),
            _SUGGESTION[a.relay.suggested_action],
            _dim(clean(a.session)) if a.session else "",
        )
        for a in attempts
    ]
    lines: list[str] = []
    for line, attempt in zip(table(rows, indent=2), attempts, strict=True):
        lines.append(line)
        if attempt.failure is not None:
            lines += _failure(attempt.failure, 6, most=3)
    return lines


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


def _failure(failure: Any, indent: int, most: int = 0) -> list[str]:
    """Code and message of a failure; of a long message, the last lines, where the cause is."""
    said = [line for line in clean_block(failure.message).splitlines() if line.strip()]
    said = said[-most:] if most else said
    if len(said) == 1:
        return wrapped(f"{failure.code}: {said[0]}", indent)
    pad = " " * indent
    return [f"{pad}{clean(failure.code)}", *(f"{pad}| {line}" for line in said)]


def _bullet(text: str) -> list[str]:
    first, *rest = wrapped(text, 4) or [""]
    return [f"  - {first.strip()}", *rest]


def runs(listed: RunList) -> str:
    """All runs, one line each."""
    if not listed.runs:
        return "no runs yet; start one: " + _do("git baton run CHANGE --command CMD")
    return _joined(
        table(
            [
                (
                    _bold(run.run),
                    _state(run.state),
                    f"{run.tickets.resolved + run.tickets.resolved_by_hand}/{run.tickets.total}",
                    ago(run.updated_at) or clean(run.error or ""),
                )
                for run in listed.runs
            ]
        )
    )


def log(log: Log) -> str:
    """The events of a run, one line each."""
    rows = [
        (_dim(_short(e.oid)), ago(e.at), clean(e.session or ""), clean(e.message))
        for e in log.events
    ]
    return _joined(table(rows))


def show(shown: Show) -> str:
    """One attempt."""
    attempt = shown.attempt
    title = clean(shown.packet.title) if shown.packet else ""
    lines = [f"{_bold(shown.assignment)}  {_state(attempt.state)}  {title}".rstrip()]
    if attempt.failure is not None:
        lines += _failure(attempt.failure, 2)
    rows = [
        ("session", clean(attempt.session)),
        ("worker", clean(attempt.agent_id or "")),
        ("elapsed", duration(attempt.relay.elapsed_seconds)),
        ("lease", _lease(attempt).removeprefix("lease ")),
        ("next", _SUGGESTION[attempt.relay.suggested_action]),
        ("worktree", clean(attempt.worktree)),
        ("branch", clean(attempt.branch)),
        ("commit", _short(attempt.commit)),
        ("merge", _short(attempt.merge_commit)),
        ("receipt", _short(attempt.receipt_sha256)),
        ("output", clean(shown.log_path)),
    ]
    lines += [f"  {name:<10}{value}" for name, value in rows if value]
    if shown.receipt is not None:
        lines += ["", checks(shown.receipt.predicate.checks)]
    if shown.history:
        lines += ["", *table([(ago(e.at), clean(e.message)) for e in shown.history])]
    return _joined(lines)


# --- the loop ----------------------------------------------------------------------------------


def batch(batch: ActionBatch) -> str:
    """What to do next, for somebody who drives the loop by hand."""
    lines = [f"{_bold(batch.run)}  {_state(batch.state)}"]
    stopped = batch.state in ("blocked", "paused")
    for action in batch.actions:
        if stopped and isinstance(action, Blocked):
            # This is what the error says, which is printed below.
            stopped = False
            continue
        lines += ["", *_action(action)]
    return _joined(lines)


def _action(action: Action) -> list[str]:
    match action:
        case Dispatch() | ResolveMerge():
            return _dispatch(action)
        case Recover():
            then = f"tried again as {action.retried_as}" if action.retried_as else action.next
            head = f"recover  {_bold(action.assignment)}  {clean(action.reason)}: {clean(then)}"
            return [head, *wrapped(action.message, 2)]
        case Wait():
            lines = [f"wait  {clean(action.reason)}"]
            if action.active:
                lines.append(f"  at work: {_listed(action.active)}")
            if action.undelivered:
                lines.append(f"  no worker was started for: {_listed(action.undelivered)}")
            return lines + wrapped(action.hint, 2)
        case Blocked():
            name = f"  {_bold(action.assignment)}" if action.assignment else ""
            head = f"{_state('blocked')}{name}  {clean(action.code)}"
            return [head, *wrapped(action.reason, 2), *wrapped(action.hint, 2)]
        case Complete():
            return _complete(action)


def _dispatch(action: Dispatch | ResolveMerge) -> list[str]:
    kind = "dispatch" if isinstance(action, Dispatch) else "resolve merge"
    again = "  (again)" if action.redelivered else ""
    lines = [f"{kind}  {_bold(action.assignment)}{again}  {clean(action.title)}"]
    rows = [
        ("in", clean(action.cwd)),
        ("branch", _branch(action.branch)),
        ("packet", clean(action.packet)),
        ("lease", duration(action.lease.ttl_seconds)),
    ]
    if isinstance(action, ResolveMerge):
        rows.append(("conflicts", _listed(action.conflicts)))
    return lines + table(rows, indent=2)


def _complete(action: Complete) -> list[str]:
    count = len(action.resolved)
    lines = [
        f"{_state('complete')}  {plural(count, 'ticket')} resolved on {_branch(action.branch)}"
        f" at {_short(action.commit)}"
    ]
    if action.resolved_by_hand:
        lines.append(f"  by hand, without a receipt: {_listed(action.resolved_by_hand)}")
    if action.worktrees_removed:
        lines.append(f"  {plural(len(action.worktrees_removed), 'worktree')} removed")
    lines += [f"  kept {clean(s.path)}: {clean(s.reason)}" for s in action.worktrees_skipped]
    return lines


def held(held: Held) -> str:
    """Whether an attempt is still the caller's."""
    lease = duration(held.lease.ttl_seconds)
    return f"{_bold(held.assignment)}  {_state(held.state)}  yours, lease {lease}"


# --- the worker --------------------------------------------------------------------------------


def checks(results: Sequence[Any]) -> str:
    """One line a check; its output has been shown while it ran."""
    lines: list[str] = []
    for result in map(msgspec.to_builtins, results):
        green = result["exit_code"] == 0
        word = click.style("ok " if green else "red", fg="green" if green else "red")
        code = "" if green else f"  exit {result['exit_code']}"
        seconds = f"{result['duration_ms'] / 1000:.1f}s"
        lines.append(f"{word}  {clean(result['command'])}  {_dim(seconds)}{code}")
    return _joined(lines)


def sealed(result: SealResult) -> str:
    """The receipt in three lines."""
    origin = "signed" if result.signed else "unsigned: integrity, not origin"
    return _joined(
        (
            f"{_bold(result.assignment)}  {_state('sealed')}  {_short(result.commit)}",
            f"  {plural(len(result.changed_files), 'file')} changed, "
            f"{plural(len(result.checks), 'check')} green in the {result.sealed_in}",
            f"  receipt {_short(result.receipt_sha256)} ({origin})",
        )
    )


# --- steering ----------------------------------------------------------------------------------


def abandoned(result: Abandoned) -> str:
    return _joined(
        (
            f"{_bold(result.assignment)}  {_state(result.state)}",
            *(f"  destroyed  {clean(thing)}" for thing in result.destroys),
            *(f"  kept       {clean(thing)}" for thing in result.preserves),
            *_after(result.next),
        )
    )


def adopted(result: Adopted) -> str:
    merged = f", merged as {_short(result.merge_commit)}" if result.merge_commit else ""
    return _joined(
        (
            f"{_bold(result.assignment)}  {_state(result.state)}  was {result.adopted_from}",
            f"  commit {_short(result.commit)}{merged}",
            *_after(result.follow_up),
        )
    )


def _after(hint: str) -> list[str]:
    return wrapped(f"next: {hint}", 2) if hint else []


def steered(result: Steered) -> str:
    ticket = f"  ticket {clean(result.ticket)}" if result.ticket else ""
    return f"{_bold(result.run)}  {_state(result.mode or result.state)}{ticket}"


def moved(result: Moved) -> str:
    checked = "checked" if result.checked else "no checks ran"
    how = "fast-forward" if result.fast_forward else checked
    if not result.moved:
        how = "nothing to do"
    return f"{_bold(result.run)}  {_branch(result.onto)} is at {_short(result.commit)}  ({how})"


def cleaned(result: Cleaned) -> str:
    return _gone("removed", result.removed, result.skipped)


def would_remove(result: WouldRemove) -> str:
    return _gone("would remove", result.would_remove, result.skipped)


def deleted(result: Deleted) -> str:
    return _gone("would remove" if result.dry_run else "removed", result.removed, ())


def _gone(word: str, names: Sequence[str], skipped: Sequence[Skipped]) -> str:
    lines = [f"{word} {clean(name)}" for name in names] or ["nothing to remove"]
    return _joined((*lines, *(f"kept {clean(s.path)}: {clean(s.reason)}" for s in skipped)))


# --- the plan ----------------------------------------------------------------------------------


def plan(view: PlanView) -> str:
    """What was read: tickets by section, the commands that would run, remarks with their lines."""
    head = f"{_bold(view.run)}  {plural(len(view.tickets), 'ticket')}"
    lines = [f"{head}  order={view.order} unit={view.unit}"]
    frontier = set(view.frontier)
    section: object = None
    group: list[tuple[str, ...]] = []
    for ticket in view.tickets:
        if ticket.section != section:
            lines += table(group, indent=2)
            group = []
            section = ticket.section
            lines += ["", _bold(str(section)) if section else "(no section)"]
        needs = f"after {_listed(ticket.needs, 4)}" if ticket.needs else ""
        state = "may start" if ticket.key in frontier else ticket.state
        group.append((clean(ticket.key), state, clean(ticket.title), _dim(needs) if needs else ""))
    lines += table(group, indent=2)
    lines += _commands(view)
    boxes = view.boxes
    lines += [
        "",
        f"{plural(boxes.total, 'box').replace('boxs', 'boxes')}: {boxes.tickets} tickets, "
        f"{boxes.criteria} criteria, {boxes.umbrellas} umbrellas, {boxes.reported} reported",
    ]
    for title, remarks, colour in (
        ("warnings", view.warnings, "yellow"),
        ("errors", view.errors, "red"),
    ):
        if remarks:
            lines += ["", click.style(f"{title}:", fg=colour)]
            for r in remarks:
                where = f"line {r.line}: " if r.line else ""
                lines += _bullet(f"{where}{r.message} ({r.code})")
    return _joined(lines)


def _commands(view: PlanView) -> list[str]:
    if not view.commands:
        return ["", "no checks: name them with --verify, or git config --add baton.verify CMD"]
    return ["", "checks that will run:", *(f"  {clean(command)}" for command in view.commands)]


def flipped(flip: TaskFlip) -> str:
    would = "would " if flip.dry_run else ""
    return f"{would}{flip.action} {clean(flip.key)}; undo: {_do(clean(flip.reverse))}"


# --- settings and health -----------------------------------------------------------------------


def changes(changes: Changes) -> str:
    return _joined([clean(change) for change in changes.changes] or ["nothing to change"])


def settings(shown: Shown) -> str:
    """Key, value and origin; below it the meaning."""
    lines: list[str] = []
    for setting in shown.settings:
        value = _value(setting.value)
        origin = "" if setting.origin == "default" else f"  ({setting.origin})"
        key = f"baton.{setting.key}"
        lines.append(f"{_bold(key)} = {clean(value)}{origin}")
        lines += [_dim(line) for line in wrapped(setting.meaning, 4)]
    return _joined(lines)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return " | ".join(map(str, value))
    return str(value)


def doctor(report: Report) -> str:
    """One line a check; below what is wrong, what to do."""
    wide = max(len(check.name) for check in report.checks)
    lines: list[str] = []
    for check in report.checks:
        word = click.style("ok     ", fg="green") if check.ok else click.style("problem", fg="red")
        lines.append(f"{word}  {clean(check.name):{wide}}  {clean(check.message)}")
        if check.fix and not check.ok:
            lines.append(f"{'':{wide + 11}}-> {clean(check.fix)}")
    return _joined(lines)


def rebuilt(result: dict[str, Any]) -> str:
    how = "made anew" if result["changed"] else "agreed with the state already"
    return f"{_bold(result['run'])}  notes {how}"


def demonstrated(result: dict[str, Any]) -> str:
    return f"the repository stays in {clean(result['directory'])}"
