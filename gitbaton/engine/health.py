"""One thing that doctor looked at, and how a look that fails becomes a finding itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from gitbaton.errors import BatonError
from gitbaton.lock import Lock

FIX = "git baton doctor --fix"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at; ``fix`` is what to do when it is not ok. ``fixed``: it was not,
    and the message says what was done."""

    name: str
    ok: bool
    message: str
    fix: str = ""
    fixed: bool = False


def repaired(name: str, message: str) -> Check:
    return Check(name=name, ok=True, message=message, fixed=True)


def guarded(name: str, look: Callable[[], Check]) -> Check:
    """What ``look`` finds; or that it could not be looked at, and why."""
    return all_guarded(name, lambda: [look()])[0]


def all_guarded(name: str, look: Callable[[], Iterable[Check]]) -> list[Check]:
    """All that ``look`` finds, up to what could not be looked at."""
    found: list[Check] = []
    try:
        for check in look():
            found.append(check)
    except BatonError as error:
        found.append(refused(name, error))
    except OSError as error:
        said = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
        found.append(Check(name=name, ok=False, message=said, fix="check its permissions"))
    return found


def refused(name: str, error: BatonError) -> Check:
    fix = error.hint or "put right what it names, then: git baton doctor"
    return Check(name=name, ok=False, message=error.message, fix=fix)


def is_free(lock: Lock) -> bool:
    """Whether nobody holds a lock; a lock that never was is not made."""
    if not lock.path.exists():
        return True
    try:
        return lock.try_acquire()
    finally:
        lock.release()
