"""What the verbs say to people, one function a verb, from the same values as the JSON documents.

Plain text in at most the terminal's width; colours only emphasize and never carry a meaning of
their own. First comes what somebody who looks wants to know: how is it, and what do I do next?
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
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
from gitbaton.report import style
from gitbaton.report.lines import clean, duration, facts, plural, table, wrapped

if TYPE_CHECKING:
    from gitbaton.engine.cleanup import Cleaned, WouldRemove
    from gitbaton.engine.delete import Deleted
    from gitbaton.engine.doctor import Report
    from gitbaton.engine.lease import Held
    from gitbaton.engine.planview import PlanView, TaskFlip, TicketView
    from gitbaton.engine.setup import Changes, Shown
    from gitbaton.engine.steer import Abandoned, Adopted, Steered
    from gitbaton.engine.update import Moved
    from gitbaton.engine.worker import SealResult


_MARKERS = (" ", "", "x", "X", "-")
"""What the boxes of a plan hold as a rule: open, done, canceled."""


def batch(batch: ActionBatch) -> str:
    """What to do next, for somebody who drives the loop by hand."""
    lines = [f"{style.bold(batch.run)}  {style.state(batch.state)}"]
    stopped = batch.state in ("blocked", "paused")
    for action in batch.actions:
        if stopped and isinstance(action, Blocked):
            # This is what the error says, which is printed below.
            stopped = False
            continue
        lines += ["", *_action(action, batch)]
    return style.joined(lines)


def _action(action: Action, batch: ActionBatch) -> list[str]:
    match action:
        case Dispatch() | ResolveMerge():
            return _dispatch(action)
        case Recover():
            then = f"tried again as {action.retried_as}" if action.retried_as else action.next
            head = (
                f"recover  {style.bold(action.assignment)}  {clean(action.reason)}: {clean(then)}"
            )
            return [head, *style.quoted(action.message, 2)]
        case Wait():
            lines = [f"wait  {clean(action.reason)}"]
            if action.active:
                lines.append(f"  at work: {style.listed(action.active)}")
            if action.undelivered:
                lines.append(f"  no worker was started for: {style.listed(action.undelivered)}")
            return lines + wrapped(action.hint, 2)
        case Blocked():
            name = f"  {style.bold(action.assignment)}" if action.assignment else ""
            head = f"{style.state('blocked')}{name}  {clean(action.code)}"
            return [head, *wrapped(action.reason, 2), *wrapped(action.hint, 2)]
        case Complete():
            return _complete(action, batch)


def _dispatch(action: Dispatch | ResolveMerge) -> list[str]:
    kind = "dispatch" if isinstance(action, Dispatch) else "resolve merge"
    again = "  (again)" if action.redelivered else ""
    lines = [f"{kind}  {style.bold(action.assignment)}{again}  {clean(action.title)}"]
    rows = [
        ("in", clean(action.cwd)),
        ("branch", style.branch(action.branch)),
        ("packet", clean(action.packet)),
        ("lease", duration(action.lease.ttl_seconds)),
    ]
    if isinstance(action, ResolveMerge):
        rows.append(("conflicts", style.listed(action.conflicts)))
    return lines + facts(rows)


def _complete(action: Complete, batch: ActionBatch) -> list[str]:
    count = len(action.resolved)
    lines = [
        f"{style.state('complete')}  {plural(count, 'ticket')} resolved on "
        f"{style.branch(action.branch)} at {style.short(action.commit)}"
    ]
    if action.resolved_by_hand:
        lines.append(f"  by hand, without a receipt: {style.listed(action.resolved_by_hand)}")
    if action.worktrees_removed:
        lines.append(f"  {plural(len(action.worktrees_removed), 'worktree')} removed")
    lines += [f"  kept {clean(s.path)}: {clean(s.reason)}" for s in action.worktrees_skipped]
    if batch.mode:
        lines.append(f"  {style.do(f'git baton report {batch.run}')} tells what it came to")
    if count:
        lines.append(f"  {style.do(f'git baton land {batch.run}')} brings it to its target")
    return lines


def held(held: Held) -> str:
    """Whether an attempt is still the caller's."""
    lease = duration(held.lease.ttl_seconds)
    return f"{style.bold(held.assignment)}  {style.state(held.state)}  yours, lease {lease}"


def checks(results: Sequence[Any]) -> str:
    """One line a check; its output has been shown while it ran."""
    lines: list[str] = []
    for result in map(msgspec.to_builtins, results):
        green = result["exit_code"] == 0
        word = click.style("ok " if green else "red", fg="green" if green else "red")
        code = "" if green else f"  exit {result['exit_code']}"
        seconds = f"{result['duration_ms'] / 1000:.1f}s"
        lines.append(f"{word}  {clean(result['command'])}  {style.dim(seconds)}{code}")
    return style.joined(lines)


def sealed(result: SealResult) -> str:
    """The receipt in three lines."""
    origin = "signed" if result.signed else "unsigned: integrity, not origin"
    return style.joined(
        (
            f"{style.bold(result.assignment)}  {style.state('sealed')}  "
            f"{style.short(result.commit)}",
            f"  {plural(len(result.changed_files), 'file')} changed, "
            f"{plural(len(result.checks), 'check')} green in the {result.sealed_in}",
            f"  receipt {style.short(result.receipt_sha256)} ({origin})",
        )
    )


def abandoned(result: Abandoned) -> str:
    return style.joined(
        (
            f"{style.bold(result.assignment)}  {style.state(result.state)}",
            *(f"  destroyed  {clean(thing)}" for thing in result.destroys),
            *(f"  kept       {clean(thing)}" for thing in result.preserves),
            *_after(result.next),
        )
    )


def adopted(result: Adopted) -> str:
    merged = f", merged as {style.short(result.merge_commit)}" if result.merge_commit else ""
    return style.joined(
        (
            f"{style.bold(result.assignment)}  {style.state(result.state)}  "
            f"was {result.adopted_from}",
            f"  commit {style.short(result.commit)}{merged}",
            *_after(result.follow_up),
        )
    )


def _after(hint: str) -> list[str]:
    return wrapped(f"next: {hint}", 2) if hint else []


def steered(result: Steered) -> str:
    ticket = f"ticket {clean(result.ticket)}" if result.ticket else ""
    told = style.bold(result.run), style.state(result.state), result.mode, ticket
    return "  ".join(filter(None, told))


def moved(result: Moved) -> str:
    checked = "checked" if result.checked else "no checks ran"
    how = "fast-forward" if result.fast_forward else checked
    if not result.moved:
        how = "nothing to do"
    place = f"{style.branch(result.onto)} is at {style.short(result.commit)}"
    return f"{style.bold(result.run)}  {place}  ({how})"


def cleaned(result: Cleaned) -> str:
    return _gone("removed", result.removed, result.skipped)


def would_remove(result: WouldRemove) -> str:
    return _gone("would remove", result.would_remove, result.skipped)


def deleted(result: Deleted) -> str:
    if result.dry_run:
        return _gone("would remove", result.would_remove, ())
    return _gone("removed", result.removed, ())


def _gone(word: str, names: Sequence[str], skipped: Sequence[Skipped]) -> str:
    lines = [f"{word} {clean(name)}" for name in names] or ["nothing to remove"]
    return style.joined((*lines, *(f"kept {clean(s.path)}: {clean(s.reason)}" for s in skipped)))


def plan(view: PlanView) -> str:
    """What was read: tickets by section, the commands that would run, remarks with their lines."""
    head = f"{style.bold(view.run)}  {plural(len(view.tickets), 'ticket')}"
    lines = [f"{head}  order={view.order} unit={view.unit}"]
    titled = any(ticket.section for ticket in view.tickets)
    frontier = set(view.frontier)
    for section, members in groupby(view.tickets, key=lambda ticket: ticket.section):
        tickets = list(members)
        # What all of a section wait for is said once, in its heading.
        shared = [need for need in tickets[0].needs if all(need in t.needs for t in tickets)]
        if titled:
            head = style.bold(section or "(no section)")
            lines += ["", *table([(head, _waiting(shared))])]
        lines += table([_planned(t, shared if titled else [], frontier) for t in tickets], indent=2)
    lines += _commands(view)
    boxes = view.boxes
    if boxes.total or not view.tickets:
        lines += [
            "",
            f"{plural(boxes.total, 'box', 'boxes')}: {plural(boxes.tickets, 'ticket')}, "
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
                lines += style.bullet(f"{where}{r.message} ({r.code})")
    return style.joined(lines)


def _planned(ticket: TicketView, shared: list[str], frontier: set[str]) -> tuple[str, ...]:
    free = ticket.key in frontier and ticket.state in ("open", "ready")
    state = "may start" if free else ticket.state
    # An open box may hold anything else than a space; most people mean something by it.
    odd = ticket.marker not in _MARKERS
    title = f"[{ticket.marker}] {ticket.title}" if odd else ticket.title
    own = [need for need in ticket.needs if need not in shared]
    return clean(ticket.key), style.state(state), clean(title), _waiting(own)


def _waiting(needs: list[str]) -> str:
    return style.dim(f"after {style.listed(needs, 4)}") if needs else ""


def _commands(view: PlanView) -> list[str]:
    if not view.commands:
        return []
    return ["", "checks that will run:", *(f"  {clean(command)}" for command in view.commands)]


def flipped(flip: TaskFlip) -> str:
    would = "would " if flip.dry_run else ""
    return f"{would}{flip.action} {clean(flip.key)}; undo: {style.do(clean(flip.reverse))}"


def changes(changes: Changes) -> str:
    return style.joined([clean(change) for change in changes.changes] or ["nothing to change"])


def settings(shown: Shown) -> str:
    """Key, value and origin; below it the meaning."""
    lines: list[str] = []
    for setting in shown.settings:
        value = _value(setting.value)
        origin = "" if setting.origin == "default" else f"  ({setting.origin})"
        key = f"baton.{setting.key}"
        lines.append(f"{style.bold(key)} = {clean(value)}{origin}")
        if setting.error:
            lines += [click.style(line, fg="red") for line in wrapped(f"error: {setting.error}", 4)]
        lines += [style.dim(line) for line in wrapped(setting.meaning, 4)]
    return style.joined(lines)


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
        name, colour = ("fixed", "yellow") if check.fixed else ("ok", "green")
        if not check.ok:
            name, colour = "problem", "red"
        word = click.style(f"{name:7}", fg=colour)
        lines.append(f"{word}  {clean(check.name):{wide}}  {clean(check.message)}")
        if check.fix and not check.ok:
            lines.append(f"{'':{wide + 11}}-> {clean(check.fix)}")
    return style.joined(lines)


def rebuilt(result: dict[str, Any]) -> str:
    how = "made anew" if result["changed"] else "agreed with the state already"
    return f"{style.bold(result['run'])}  notes {how}"


def demonstrated(result: dict[str, Any]) -> str:
    return f"the repository stays in {clean(result['directory'])}"
