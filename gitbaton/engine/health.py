"""One thing that doctor looked at, and how a look that fails becomes a finding itself."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gitbaton.errors import BatonError


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at; ``fix`` is what to do when it is not ok."""

    name: str
    ok: bool
    message: str
    fix: str = ""


def guarded(name: str, look: Callable[[], Check]) -> Check:
    """What ``look`` finds; or that it could not be looked at, and why."""
    try:
        return look()
    except BatonError as error:
        return refused(name, error)
    except OSError as error:
        said = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
        return Check(name=name, ok=False, message=said, fix="check its permissions")


def refused(name: str, error: BatonError) -> Check:
    return Check(name=name, ok=False, message=error.message, fix=error.hint)
