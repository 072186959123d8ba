"""What a person sees while a run goes on: what happened as lines, what happens as a live table.

A terminal gets one line for each attempt under way and a bar; anything else gets plain lines that
read well in a log. Both go to stderr: stdout belongs to the result. rich is imported only for a
terminal.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

_TAIL = 4096  # bytes of a log that are looked at for its last line
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")
_GOOD, _BAD, _PLAIN = "green", "yellow", ""


class View:
    """Plain lines; threads may share it. Attempts are named ``TICKET@N``."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._lock = threading.Lock()
        self.done, self.total = 0, 0

    def __enter__(self) -> View:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is left on the screen but lines."""

    def started(self, name: str, text: str, log: Path) -> None:
        """A worker is at work on an attempt; its output goes to ``log``."""
        self._print(f"[{name}] started: {text}")

    def phase(self, name: str, text: str) -> None:
        """What is done with an attempt now; only a live table shows it."""

    def event(self, name: str, text: str, *, good: bool = False, bad: bool = False) -> None:
        """Something happened to an attempt."""
        self._print(f"[{name}] {text}", _style(good, bad))

    def ended(self, name: str) -> None:
        """An attempt is no longer under way here."""

    def say(self, text: str, *, good: bool = False, bad: bool = False) -> None:
        """Something about the run."""
        self._print(text, _style(good, bad))

    def progress(self, done: int, total: int) -> None:
        """How many tickets of how many are resolved."""
        self.done, self.total = done, total

    def _print(self, text: str, style: str = _PLAIN) -> None:
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._stream.write(clean(text) + "\n")
            self._stream.flush()


class LiveView(View):
    """Lines above, a table of what is under way and a bar below; needs a terminal."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        super().__init__()
        self._console = console
        self._rows: dict[str, _Row] = {}
        self._began = time.monotonic()
        self._live = Live(
            console=console,
            get_renderable=self._render,
            refresh_per_second=8,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> View:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, value, trace)

    def started(self, name: str, text: str, log: Path) -> None:
        with self._lock:
            self._rows[name] = _Row(text, log)

    def phase(self, name: str, text: str) -> None:
        with self._lock:
            if name in self._rows:
                self._rows[name].phase = text

    def ended(self, name: str) -> None:
        with self._lock:
            self._rows.pop(name, None)

    def _print(self, text: str, style: str = _PLAIN) -> None:
        from rich.text import Text

        self._console.print(Text(clean(text), style=style))

    def _render(self) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        with self._lock:
            rows = list(self._rows.items())
        table = Table.grid(padding=(0, 1), expand=True)  # else ratio means nothing
        for column in ({"no_wrap": True}, {"no_wrap": True}, {"justify": "right"}):
            table.add_column(**column)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for name, row in rows:
            table.add_row(
                Text(name, style="cyan"),
                Text(row.phase),
                elapsed(time.monotonic() - row.began),
                Text(last_line(row.log) or row.title, style="dim"),
            )
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            ProgressBar(total=max(self.total, 1), completed=self.done, width=30),
            Text(f"{self.done}/{self.total}"),
            Text(elapsed(time.monotonic() - self._began), style="dim"),
        )
        return Group(table, bar)


class _Row:
    """An attempt as the table shows it."""

    def __init__(self, title: str, log: Path) -> None:
        self.title = clean(title)
        self.log = log
        self.phase = "at work"
        self.began = time.monotonic()


def view(plain: bool = False) -> View:
    """A live view if stderr is a terminal that can show one and ``plain`` is false."""
    if plain or not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return View()
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    return LiveView(console) if console.is_terminal else View()


def elapsed(seconds: float) -> str:
    """``4s``, ``3:07`` or ``1:02:03``."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def last_line(log: Path) -> str:
    """The last line of a log that holds anything, free of control characters."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    lines = (clean(line).strip() for line in reversed(re.split(r"[\r\n]+", text)))
    return next((line for line in lines if line), "")


def clean(text: str) -> str:
    """``text`` on one line, without what could steer a terminal or turn the text round."""
    return "".join(char if char.isprintable() else " " for char in _ESCAPE.sub("", text))


def _style(good: bool, bad: bool) -> str:
    return _GOOD if good else _BAD if bad else _PLAIN
