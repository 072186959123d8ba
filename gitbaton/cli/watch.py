"""`watch`: a run that others drive, seen live. Nothing is claimed, reported or changed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from gitbaton.cli import verb as common
from gitbaton.cli.output import Answer, context, current
from gitbaton.cli.verb import verb
from gitbaton.errors import BatonError, NeedsPerson
from gitbaton.model.transitions import WORKING

if TYPE_CHECKING:
    from gitbaton.engine.context import Context
    from gitbaton.engine.look import EventView, Status

POLL_SECONDS = 0.5
"""Between two looks at the one ref that tells whether anything has happened."""

REFRESH_SECONDS = 5.0
"""After which what no ref tells - leases, worktrees - is looked at again."""

SETTLE_SECONDS = 2.0
"""How long a run must stand still before it needs a person: between two transitions of a caller it
may look so for a moment."""

_EVENTS = 6


@verb("watch")
@common.run_argument
def watch(run: str | None) -> Answer:
    """Watch a run that others drive, live, until it ends.

    Ends when the run is complete (exit 0) or a person is needed (exit 3). Not in a terminal: a line
    for each event. With --json, only the status at the end.
    """
    from gitbaton.report import look
    from gitbaton.report import watch as report

    ctx, out = context(), current()
    shown: _Shown = _Nothing() if out.json else _screen(ctx) or _Lines()
    with shown:
        status = _until_it_ends(ctx, run, shown.show)
    text = look.status if isinstance(shown, _Screen) else report.state
    return Answer(status, text, _needs_person(status))


def _until_it_ends(
    ctx: Context, name: str | None, show: Callable[[Status, list[EventView]], None]
) -> Status:
    """The last status. ``show`` is given each, with the events since the one before."""
    from gitbaton.engine import look
    from gitbaton.git import refs
    from gitbaton.model import layout

    run = look.status(ctx, name).run
    ref = layout.run_ref(run)
    known: str | None = None
    while True:
        # Read before the rest: what moves meanwhile is seen next time.
        tip = refs.read(ctx.repo, ref)
        status = look.status(ctx, run)
        events: list[EventView] = []
        if tip not in (None, known):
            known, events = look.since(ctx, run, known, None if known else _EVENTS)
        show(status, events)
        if status.complete:
            return status
        stands = _stands(status)
        pause = SETTLE_SECONDS if stands else REFRESH_SECONDS
        if not _has_moved(ctx, ref, tip, pause) and stands:
            return status


def _has_moved(ctx: Context, ref: str, known: str | None, seconds: float) -> bool:
    """Wait until the ref is another than ``known``, or for that long."""
    from gitbaton.git import refs

    for _ in range(max(1, round(seconds / POLL_SECONDS))):
        if refs.read(ctx.repo, ref) != known:
            return True
        time.sleep(POLL_SECONDS)
    return refs.read(ctx.repo, ref) != known


def _stands(status: Status) -> bool:
    """Whether nothing more happens by itself, unless this is between two transitions."""
    working = any(attempt.state in WORKING for attempt in status.attempts)
    return status.state in ("blocked", "paused") and not working


def _needs_person(status: Status) -> BatonError | None:
    if status.complete:
        return None
    hint = f"see `git baton status {status.run}`"
    if status.halt is not None:
        return NeedsPerson(status.halt.code, status.halt.message, status.halt.hint or hint)
    if status.state == "paused":
        return NeedsPerson("paused", f"run {status.run} is paused: {status.paused}", hint)
    return NeedsPerson("blocked", f"run {status.run} cannot go on", hint)


# --- how it is shown ---------------------------------------------------------------------------


class _Shown(Protocol):
    def __enter__(self) -> object: ...

    def __exit__(self, *_: object) -> None: ...

    def show(self, status: Status, events: list[EventView]) -> None: ...


class _Nothing:
    """Where only the end counts."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, status: Status, events: list[EventView]) -> None:
        pass


class _Lines(_Nothing):
    """A line for each event, oldest first."""

    def show(self, status: Status, events: list[EventView]) -> None:
        from gitbaton.report import watch as report

        for event in reversed(events):
            click.echo(report.event(event))


class _Screen:
    """The terminal, drawn anew."""

    def __init__(self, ctx: Context, console: Any) -> None:
        from rich.live import Live

        self._ctx, self._console = ctx, console
        self._status: Status | None = None
        self._events: list[EventView] = []
        self._live = Live(
            console=console,
            get_renderable=self._drawn,
            refresh_per_second=1,
            transient=True,
            redirect_stdout=False,
        )

    def __enter__(self) -> None:
        self._live.__enter__()

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def show(self, status: Status, events: list[EventView]) -> None:
        self._status = status
        self._events = [*events, *self._events][:_EVENTS]
        self._live.refresh()

    def _drawn(self) -> Any:
        from rich.text import Text

        from gitbaton.report import watch as report

        if self._status is None:
            return Text()
        outputs = dict(self._outputs(self._status))
        drawn = report.screen(self._status, self._events, outputs, self._console.width)
        return Text.from_ansi(drawn, no_wrap=True, overflow="ellipsis")

    def _outputs(self, status: Status) -> Iterator[tuple[str, str]]:
        from gitbaton.engine.context import LOG
        from gitbaton.model.ids import AttemptId
        from gitbaton.runner.live import last_line

        for attempt in status.attempts:
            if attempt.state in WORKING:
                name = AttemptId(attempt.ticket, attempt.attempt)
                log: Path = self._ctx.attempt_dir(status.run, name) / LOG
                yield str(name), last_line(log)


def _screen(ctx: Context) -> _Screen | None:
    """The terminal, if there is one that can be drawn on."""
    if not sys.stdout.isatty() or current().color is False:
        return None
    from rich.console import Console

    console = Console(highlight=False)
    return _Screen(ctx, console) if console.is_terminal and not console.is_dumb_terminal else None
