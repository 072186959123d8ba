"""How text for people looks: colour by meaning, short ids, wrapped lines; one place for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from gitbaton.report.lines import clean, clean_block, duration, wrapped

if TYPE_CHECKING:
    from gitbaton.model.usage import Usage

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
    return click.style(clean(text), dim=True) if text else ""


def coloured(text: str, colour: str) -> str:
    return click.style(text, fg=colour) if text else ""


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
    said = _lines(failure.message)
    said = said[-most:] if most else said
    if len(said) == 1:
        return wrapped(f"{failure.code}: {said[0]}", indent)
    return [f"{' ' * indent}{clean(failure.code)}", *_barred(said, indent)]


def quoted(text: str, indent: int) -> list[str]:
    """What somebody said, wrapped if it is one line, else line by line as it was."""
    said = _lines(text)
    if len(said) == 1:
        return wrapped(said[0], indent)
    return _barred(said, indent)


def _barred(said: Sequence[str], indent: int) -> list[str]:
    return [f"{' ' * indent}| {line}" for line in said]


def _lines(text: str) -> list[str]:
    return [line for line in clean_block(text).splitlines() if line.strip()]


def bullet(text: str) -> list[str]:
    first, *rest = wrapped(text, 4) or [""]
    return [f"  - {first.strip()}", *rest]


def used(usage: Usage | None) -> str:
    """What workers told of tokens, money and time; "" if nothing."""
    if usage is None:
        return ""
    said = (
        f"{usage.input_tokens:,} tokens in" if usage.input_tokens is not None else "",
        f"{usage.output_tokens:,} tokens out" if usage.output_tokens is not None else "",
        f"{usage.cost_usd} USD" if usage.cost_usd is not None else "",
        duration(usage.seconds) if usage.seconds is not None else "",
    )
    return ", ".join(filter(None, said))
