"""Lines for people: columns that fit, times as one says them, nothing that takes over a terminal.

Texts come from plans, workers and branch names. Whatever of them is shown goes through `clean`, so
that no escape sequence in a ticket's title reaches the terminal of who looks at it.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from datetime import datetime

WIDTH = 80
_CONTROL = dict.fromkeys((*range(32), *range(127, 160)), "\N{REPLACEMENT CHARACTER}")
_CONTROL.update({ord("\n"): " ", ord("\t"): " ", ord("\r"): " "})
# Characters that change the direction of what follows: what is read would not be what is there.
_CONTROL.update(dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), ""))


def clean(text: str) -> str:
    """``text`` as one line without control characters."""
    return text.translate(_CONTROL)


def clean_block(text: str) -> str:
    """``text`` with its lines, without other control characters."""
    return "\n".join(clean(line) for line in text.splitlines())


def terminal_width() -> int:
    """Columns of the terminal; 80 where there is none."""
    return _columns() or WIDTH


def _columns() -> int:
    """Columns of the terminal; 0 where there is none."""
    try:
        # shutil has this too, and loads every archive format on the way.
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return 0


def width_of(text: str) -> int:
    """Columns that ``text`` takes, styles not counted."""
    plain = click.unstyle(text)
    if plain.isascii():
        return len(plain)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in plain
    )


def cut(text: str, columns: int) -> str:
    """Unstyled ``text``, shortened to at most ``columns``."""
    if columns < 1 or width_of(text) <= columns:
        return text
    while text and width_of(text) > columns - 1:
        text = text[:-1]
    return text.rstrip() + "…"


def table(rows: Iterable[Sequence[str]], indent: int = 0, gap: int = 2) -> list[str]:
    """Rows of (styled) cells as aligned lines; the last cell of a row is cut to the terminal, if
    there is one, and it is unstyled. A column that is empty throughout takes no room."""
    columns = _columns()
    listed = [list(row) for row in rows]
    count = max((len(row) for row in listed), default=0)
    widths = [max(width_of(row[i]) for row in listed if i < len(row)) for i in range(count)]
    lines: list[str] = []
    for row in listed:
        line = " " * indent
        used = indent
        last = max((i for i, cell in enumerate(row) if cell), default=-1)
        for i, cell in enumerate(row[: last + 1]):
            if not widths[i]:
                continue
            if i == last:
                whole = not columns or "\x1b" in cell
                line += cell if whole else cut(cell, max(columns - used, 20))
            else:
                pad = widths[i] - width_of(cell) + gap
                line += cell + " " * pad
                used += widths[i] + gap
        lines.append(line.rstrip())
    return lines


def wrapped(text: str, indent: int) -> list[str]:
    """``text`` broken into lines that fit the terminal."""
    import textwrap

    return textwrap.wrap(
        clean(text),
        max(terminal_width(), 40),
        initial_indent=" " * indent,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


def duration(seconds: float) -> str:
    """``45s``, ``12m``, ``1h 05m``, ``3d 4h``."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d {whole % 86400 // 3600}h"


def ago(stamp: str, now: datetime | None = None) -> str:
    """How long ago an RFC 3339 time was, e.g. ``12m ago``; after a month, the local date."""
    from datetime import UTC, datetime

    if not stamp:
        return ""
    then = datetime.fromisoformat(stamp)
    seconds = ((now or datetime.now(UTC)) - then).total_seconds()
    if seconds > 30 * 86400:
        return then.astimezone().strftime("%Y-%m-%d")
    return "just now" if seconds < 1 else f"{duration(seconds)} ago"


def plural(count: int, noun: str, many: str = "") -> str:
    """``1 ticket``, ``2 tickets``; ``many`` for what does not just take an s."""
    return f"{count} {noun if count == 1 else many or noun + 's'}"
