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
LEAST = 16
"""Columns below which a text says nothing any more."""
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
    """``text``, shortened to at most ``columns``; one whole style around it stays."""
    if columns < 1 or width_of(text) <= columns:
        return text
    plain = click.unstyle(text)
    kept = plain
    while kept and width_of(kept) > columns - 1:
        kept = kept[:-1]
    kept = kept.rstrip() + "…"
    before, styled, after = text.partition(plain)
    return before + kept + after if styled else kept


def table(rows: Iterable[Sequence[str]], indent: int = 0, gap: int = 2) -> list[str]:
    """Rows of (styled) cells as aligned lines. In a terminal they fit: the widest column but the
    first gives way, and where that leaves too little of it, the last ones, which tell least, are
    left out. A column that is empty throughout takes no room."""
    listed = [list(row) for row in rows]
    count = max((len(row) for row in listed), default=0)
    widths = [max(width_of(row[i]) for row in listed if i < len(row)) for i in range(count)]
    if columns := _columns():
        widths = _fitting(widths, columns - indent, gap)
    lines: list[str] = []
    for row in listed:
        line = " " * indent
        cells = [(cut(cell, wide), wide) for cell, wide in zip(row, widths, strict=False) if wide]
        for cell, wide in cells:
            line += cell + " " * (wide - width_of(cell) + gap)
        lines.append(line.rstrip())
    return lines


def _fitting(widths: Sequence[int], columns: int, gap: int) -> list[int]:
    """``widths`` made to fit; 0 leaves a column out. The first names the row, so it stays whole, if
    that can be."""
    used = [at for at, wide in enumerate(widths) if wide]
    while True:
        room = columns - gap * (len(used) - 1)
        kept = [wide if at in used else 0 for at, wide in enumerate(widths)]
        capped = _capped(kept, room, 1)
        if sum(capped) <= room:
            return capped
        if len(used) <= 2:
            return _capped(kept, room, 0)
        used.pop()


def _capped(widths: Sequence[int], room: int, first: int) -> list[int]:
    """``widths`` from the ``first`` on no wider than fits, but wide enough to say something."""
    most = max(widths, default=0)
    while most > LEAST and sum(widths[:first]) + sum(min(w, most) for w in widths[first:]) > room:
        most -= 1
    return [*widths[:first], *(min(wide, most) for wide in widths[first:])]


def facts(rows: Iterable[tuple[str, str]], indent: int = 2) -> list[str]:
    """Names and values, one below the other, without those that have no value; in a terminal, long
    values go on below themselves."""
    import textwrap

    found = [(name, value) for name, value in rows if value]
    wide = max((len(name) for name, _ in found), default=0) + 2
    columns = _columns()
    lines: list[str] = []
    for name, value in found:
        head = " " * indent + name.ljust(wide)
        room = max(columns - len(head), LEAST)
        parts = [value]
        if columns and width_of(value) > room and "\x1b" not in value:
            parts = textwrap.wrap(value, room, break_long_words=False, break_on_hyphens=False)
        lines += [(head if at == 0 else " " * len(head)) + part for at, part in enumerate(parts)]
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
