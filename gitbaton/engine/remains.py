"""What an attempt leaves in its directory besides its work: its last red check, and what it used.

Both are written while a worker is at it, for a worker that dies says nothing. They become part of
the state when the attempt ends.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import msgspec

from gitbaton.engine.context import Context
from gitbaton.engine.disk import write_synced
from gitbaton.model import codec
from gitbaton.model.ids import AttemptId
from gitbaton.model.receipt import CheckResult
from gitbaton.model.run import Failure
from gitbaton.model.usage import Usage

FAILURE, USAGE = "failure.json", "usage.json"
MOST_TOKENS = 2**53  # what every reader of JSON can hold
MOST_DIGITS = 12
MOST_BYTES = 1 << 16


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
    """What the worker wrote to ``usage.json``, as far as it can be understood; None if nothing. A
    warning names what cannot be."""
    path = ctx.attempt_dir(run, attempt) / USAGE
    try:
        document = json.loads(_small_file(path), parse_float=str)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        ctx.warn(f"{path} is left out: {error}")
        return None
    given = document if isinstance(document, dict) else {}
    found = Usage(
        input_tokens=_count(given.get("input_tokens")),
        output_tokens=_count(given.get("output_tokens")),
        cost_usd=_dollars(given.get("cost_usd")),
        seconds=_seconds(given.get("seconds")),
    )
    bad = [key for key in found.__struct_fields__ if given.get(key) is not None]
    bad = [key for key in bad if getattr(found, key) is None]
    if bad or found == Usage():
        ctx.warn(f"{path} has no usable {' and '.join(bad) or 'figure'}")
    return None if found == Usage() else found


def _small_file(path: Path) -> bytes:
    """A regular file of a size that makes sense; a worker can put anything there."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError("it is no file")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError("it is too large")
    return data


def _count(value: Any) -> int | None:
    usable = type(value) is int and 0 <= value <= MOST_TOKENS
    return value if usable else None


def _seconds(value: Any) -> int | None:
    amount = _decimal(value)
    return None if amount is None else round(amount)


def _dollars(value: Any) -> str | None:
    amount = _decimal(value)
    return None if amount is None else f"{round(amount, MOST_DIGITS).normalize():f}"


def _decimal(value: Any) -> Decimal | None:
    if type(value) not in (int, str):
        return None
    try:
        amount = Decimal(value)
    except InvalidOperation:
        return None
    if not amount.is_finite() or amount < 0 or abs(amount.adjusted()) > MOST_DIGITS:
        return None
    return amount
