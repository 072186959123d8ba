"""What an attempt leaves in its directory besides its work: its last red check, and what it used.

Both are written while a worker is at it, for a worker that dies says nothing. They become part of
the state when the attempt ends.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from gitbaton.engine.context import Context
from gitbaton.engine.disk import write_synced
from gitbaton.model import codec
from gitbaton.model.ids import AttemptId
from gitbaton.model.receipt import CheckResult
from gitbaton.model.run import Failure, Usage

FAILURE, USAGE = "failure.json", "usage.json"
MOST_TOKENS = 2**53  # what every reader of JSON can hold
MOST_DIGITS = 12


def red_check(checks: Sequence[CheckResult]) -> str:
    """The first red check as text: command, exit status and end of its output; "" if all are
    green."""
    for check in checks:
        if not check.green:
            said = f"`{check.command}` exits with {check.exit_code}\n{check.output_tail}"
            return said.rstrip()
    return ""


def keep_checks(ctx: Context, run: str, attempt: AttemptId, checks: Sequence[CheckResult]) -> None:
    """Remember what the checks of a worker said last; green ones make a red one forgotten."""
    path = ctx.attempt_dir(run, attempt) / FAILURE
    said = red_check(checks)
    if said:
        write_synced(path, codec.encode(Failure(code="checks-failed", message=said)))
    else:
        path.unlink(missing_ok=True)


def last_red_check(ctx: Context, run: str, attempt: AttemptId) -> str:
    """What `keep_checks` remembers, or ""."""
    try:
        data = (ctx.attempt_dir(run, attempt) / FAILURE).read_bytes()
        return codec.decode(data, Failure).message
    except (OSError, msgspec.MsgspecError):
        return ""


def usage(ctx: Context, run: str, attempt: AttemptId) -> Usage | None:
    """What the worker wrote to ``usage.json``, as far as it can be understood; None if nothing."""
    try:
        data = (ctx.attempt_dir(run, attempt) / USAGE).read_bytes()
        document = json.loads(data, parse_float=str)
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    found = Usage(
        input_tokens=_tokens(document.get("input_tokens")),
        output_tokens=_tokens(document.get("output_tokens")),
        cost_usd=_dollars(document.get("cost_usd")),
    )
    return None if found == Usage() else found


def _tokens(value: Any) -> int | None:
    usable = type(value) is int and 0 <= value <= MOST_TOKENS
    return value if usable else None


def _dollars(value: Any) -> str | None:
    if type(value) not in (int, str):
        return None
    try:
        amount = Decimal(value)
    except InvalidOperation:
        return None
    if not amount.is_finite() or amount < 0 or abs(amount.adjusted()) > MOST_DIGITS:
        return None
    return f"{round(amount, MOST_DIGITS).normalize():f}"
