"""A run as somebody sees it who watches: what `status` says, and what happens.

A terminal gets all of it anew each time; anything else gets a line for each event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gitbaton.report import look, style
from gitbaton.report.lines import ago, clean, table

if TYPE_CHECKING:
    from gitbaton.engine.look import EventView, Status


def screen(
    status: Status, events: Sequence[EventView], outputs: Mapping[str, str], width: int
) -> str:
    """State, attempts, the last line of each worker's ``outputs`` (by ``TICKET@N``), and the last
    ``events``, newest first."""
    lines = [_bar(status, width), look.status(status)]
    said = [(style.bold(name), style.dim(line)) for name, line in outputs.items() if line]
    lines += ["", "workers say:", *table(said, indent=2)] if said else []
    lines += ["", "lately:", *happened(events)] if events else []
    return style.joined(lines)


def happened(events: Sequence[EventView]) -> list[str]:
    return table([(style.dim(ago(e.at)), clean(e.message)) for e in events], indent=2)


def event(event: EventView) -> str:
    """One line of a log: when, and what."""
    return f"{event.at}  {clean(event.message)}"


def state(status: Status) -> str:
    """How a run stands, in one line."""
    tickets = status.tickets
    done = tickets.resolved + tickets.resolved_by_hand
    return f"{clean(status.run)}  {style.state(status.state)}  {done} of {tickets.total} resolved"


def _bar(status: Status, width: int) -> str:
    """What is done, under way and to do, as parts of a line."""
    tickets = status.tickets
    done, room = tickets.resolved + tickets.resolved_by_hand, min(width, 60)
    total = max(tickets.total, 1)
    full = room * done // total
    begun = min(room - full, -(-room * tickets.active // total))
    rest = "─" * (room - full - begun)
    return style.coloured("━" * full, "green") + style.coloured("━" * begun, "cyan") + rest
