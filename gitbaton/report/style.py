"""How text for people looks: colour by meaning, short ids, wrapped lines; one place for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click

from gitbaton.report.lines import clean, clean_block, wrapped

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


def state(state: str) -> str:
    return click.style(state, fg=_STATE.get(state), bold=state in ("blocked", "complete"))


def bold(text: str) -> str:
    return click.style(clean(text), bold=True)


def dim(text: str) -> str:
    return click.style(clean(text), dim=True)


def do(command: str) -> str:
    return click.style(command, fg="green")


def short(oid: str | None) -> str:
    return (oid or "")[:12]


def branch(ref: str | None) -> str:
    return clean((ref or "").removeprefix("refs/heads/"))


def joined(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def listed(keys: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(clean(key) for key in keys[:most])
    return f"{shown} and {len(keys) - most} more" if len(keys) > most else shown


def failure(failure: Any, indent: int, most: int = 0) -> list[str]:
    """Code and message of a failure; of a long message, the last lines, where the cause is."""
    said = [line for line in clean_block(failure.message).splitlines() if line.strip()]
    said = said[-most:] if most else said
    if len(said) == 1:
        return wrapped(f"{failure.code}: {said[0]}", indent)
    pad = " " * indent
    return [f"{pad}{clean(failure.code)}", *(f"{pad}| {line}" for line in said)]


def bullet(text: str) -> list[str]:
    first, *rest = wrapped(text, 4) or [""]
    return [f"  - {first.strip()}", *rest]
