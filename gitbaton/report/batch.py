"""What the verbs of batches say to people, and other verbs of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gitbaton.report import style
from gitbaton.report.lines import clean, plural, table, wrapped

if TYPE_CHECKING:
    from gitbaton.engine.dispose import Disposed
    from gitbaton.engine.look import Status
    from gitbaton.engine.opening import Opened
    from gitbaton.engine.rootview import BatchView
    from gitbaton.model.batch import Pause

_MOST = 10
"""Lines of a list or an output at most."""


def opened(opened: Opened) -> str:
    """The root, and how to go on."""
    word = "opened" if opened.created else "found"
    count = len(opened.members)
    lines = [f"{style.bold(opened.run)}  {word}, {plural(count, 'member')}, {clean(opened.state)}"]
    if count:
        lines.append(f"  {style.listed(opened.members[:10])}{' ...' if count > 10 else ''}")
    lines.append(f"  request id {clean(opened.request_id)}: the same one finds this batch again")
    return style.joined(lines)


def disposed(disposed: Disposed) -> str:
    """What became of the attempt."""
    word = "accepted" if disposed.accepted else "returned"
    return style.joined(
        [
            f"{style.bold(disposed.assignment)}  {word} as {clean(disposed.disposition)}; "
            f"the batch is {clean(disposed.state)}"
        ]
    )


# --- a batch in status -------------------------------------------------------------------------


def came_to(kind: str, by: Sequence[str]) -> str:
    """A disposition with whom it names: ``owned by X``."""
    return f"{kind} by {style.listed(by)}" if by else kind


def facts(batch: BatchView, mode: str | None) -> Iterator[tuple[str, str]]:
    """What a batch has that other runs have not, by name."""
    yield "queue", f"{clean(batch.queue)} at {style.short(batch.queue_revision)}"
    yield (
        "batch",
        f"{batch.membership}, {mode}" + (f", below {clean(batch.parent)}" if batch.parent else ""),
    )
    yield "waiting", _some([f"{clean(w.item)} for {style.listed(w.by, 3)}" for w in batch.waiting])


def below(batch: BatchView) -> list[str]:
    """Members that left, and batches that were opened below this one."""
    left = [
        (clean(each.item), came_to(each.disposition, each.by), clean(each.reason))
        for each in batch.left
    ]
    lines = ["", "left the batch:", *table(left[:_MOST], indent=2)] if left else []
    if len(left) > _MOST:
        lines.append(f"  and {len(left) - _MOST} more; {style.do('git baton status --json')}")
    children = [(clean(c.run), c.result, f"for {clean(c.parent)}") for c in batch.children]
    return lines + (["", "batches below it:", *table(children, indent=2)] if children else [])


def stopped(pause: Pause) -> list[str]:
    """Why git-baton paused a batch; of a gate's output, the end."""
    about = f" ({clean(pause.member)})" if pause.member else ""
    first, *output = pause.reason.splitlines() or [""]
    lines = wrapped(f"paused: {pause.code}{about}: {first}", 2)
    return lines + [f"  | {clean(line)}" for line in output[-_MOST:] if line.strip()]


def after(status: Status) -> list[str]:
    """What may be done about a batch that is paused by itself or closed; [] says nothing of it."""
    batch, run = status.batch, status.run
    if batch is None:
        return []
    if batch.closed is not None:
        told = [f"{style.do(f'git baton report {run}')} tells what it came to"]
        if status.tickets.resolved and not status.landed:
            told.append(f"{style.do(f'git baton land {run}')} brings it to its target")
        return told
    pause = batch.pause
    return [] if pause is None else [f"{style.do(f'git baton resume {run}')} {_then(batch, pause)}"]


def _then(batch: BatchView, pause: Pause) -> str:
    """What resuming does, or what is to be done before."""
    if pause.code == "gate-failed":
        return "runs the gates again"
    if pause.code in ("local-gate", "unresolved"):
        return f"tries {clean(pause.member)} again"
    waits = next((w.by for w in batch.waiting if w.item == pause.member), ())
    if pause.code == "blocked" and waits:
        return f"goes on once {style.listed(waits, 3)} {'is' if len(waits) == 1 else 'are'} closed"
    return f"tries again once the queue is set right ({style.do('git baton queue set')})"


def _some(told: Sequence[str]) -> str:
    shown = "; ".join(told[:3])
    return f"{shown} and {len(told) - 3} more" if len(told) > 3 else shown
