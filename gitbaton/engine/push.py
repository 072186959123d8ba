"""What the hooks of a push do: read what git tells them, and have the guard judge it.

A hook stands between a person and a push, so it never waits for what may never come: no input, a
program that hangs, a remote. And it fails closed: what cannot be judged does not pass.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import msgspec

from gitbaton.engine.context import Context
from gitbaton.errors import Refused, UsageError
from gitbaton.evidence import guard
from gitbaton.git import objects
from gitbaton.git.remote import remotes
from gitbaton.model.push import Refusal, Update

_ACTIVE = 0.02
"""Seconds of processor time in one second of a process that does something."""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """How many refs were judged, and what is refused."""

    updates: int
    refused: tuple[Refusal, ...] = ()

    @property
    def hints(self) -> list[str]:
        """What to do about it, each thing once."""
        return list(dict.fromkeys(r.hint for r in self.refused if r.hint))


def pre_push(ctx: Context, remote: str | None, url: str | None) -> Judged:
    """Judge what is about to be pushed to ``remote``: a name or, if it has none, its address."""
    name = remote if remote in remotes(ctx.repo) else ""
    if remote is None and url is None and "PRE_COMMIT_REMOTE_BRANCH" in os.environ:
        name = os.environ.get("PRE_COMMIT_REMOTE_NAME", "")
        return _judge(ctx, [_of_pre_commit(ctx)], remote=name)
    with _bounded(ctx):
        lines = _lines()
    return _judge(ctx, [_pushed(line) for line in lines], remote=name or "")


def pre_receive(ctx: Context) -> Judged:
    """Judge what a server has received and not accepted yet; writes nothing."""
    with _bounded(ctx):
        lines = _lines()
    return _judge(ctx, [_received(line) for line in lines])


def _judge(ctx: Context, updates: Sequence[Update], remote: str | None = None) -> Judged:
    with _bounded(ctx):
        found = guard.judge(
            ctx.repo,
            ctx.settings,
            updates,
            quarantined=remote is None,
            remote=remote or "",
        )
    return Judged(updates=len(updates), refused=tuple(found))


# --- what git tells ----------------------------------------------------------------------------


def _lines() -> list[str]:
    if sys.stdin.isatty():
        raise UsageError(
            "no-input",
            "git calls this, with the refs that are pushed as its input",
            "have it called: git baton hook install",
        )
    text = sys.stdin.buffer.read().decode(errors="surrogateescape")
    return [line for line in text.split("\n") if line.strip()]


def _pushed(line: str) -> Update:
    """``<local ref> <local oid> <remote ref> <remote oid>``; the first may be any expression, also
    one with spaces."""
    words = line.rsplit(" ", 3)
    if len(words) != 4:
        raise _unreadable(line)
    return Update(words[2], _oid(words[3], line), _oid(words[1], line))


def _received(line: str) -> Update:
    """``<old oid> <new oid> <ref>``"""
    words = line.split(" ", 2)
    if len(words) != 3:
        raise _unreadable(line)
    return Update(words[2], _oid(words[0], line), _oid(words[1], line))


def _of_pre_commit(ctx: Context) -> Update:
    """What pre-commit tells its hooks in place of git's input: the first ref that is pushed. Of a
    first push it tells no more than what the user called the commit."""
    names = (os.environ.get(f"PRE_COMMIT_{name}", "") for name in ("TO_REF", "LOCAL_BRANCH"))
    new = next(filter(None, names), "")
    commit = objects.resolve(ctx.repo, new)
    if commit is None:
        raise _unreadable(new)
    return Update(os.environ["PRE_COMMIT_REMOTE_BRANCH"], None, commit)


def _oid(text: str, line: str) -> str | None:
    if len(text) != 40 or not set(text) <= set("0123456789abcdef"):
        raise _unreadable(line)
    return text if text.strip("0") else None


def _unreadable(line: str) -> UsageError:
    return UsageError("bad-input", f"not a line of what git tells this hook: {line!r}")


# --- bounds ------------------------------------------------------------------------------------


class _Hangs(Exception):
    """Nothing has happened for too long."""


@contextmanager
def _bounded(ctx: Context) -> Iterator[None]:
    """Give up what is done inside when neither this process nor any that it started has done
    anything for ``baton.remoteTimeout`` seconds. Raises `Refused` ``hook-hangs``."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seconds = ctx.settings.remote_timeout
    before = signal.signal(signal.SIGALRM, _watch(seconds))
    signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)
    try:
        yield
    except _Hangs as error:
        raise Refused(
            "hook-hangs",
            f"nothing has happened for {seconds} seconds, so the push was not judged",
            "try again; git config baton.remoteTimeout allows for more",
        ) from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _watch(seconds: int) -> Callable[[int, FrameType | None], None]:
    """What looks, once a second, whether something goes on; it goes on raising until it is heard,
    because what it interrupts may take it for a failure of its own."""
    active_at, used = time.monotonic(), _used()

    def look(_: int, __: FrameType | None) -> None:
        nonlocal active_at, used
        now, spent = time.monotonic(), _used()
        if spent - used > _ACTIVE:
            active_at = now
        used = spent
        if now - active_at > seconds:
            raise _Hangs

    return look


def _used() -> float:
    """Seconds of processor time of this process and of those that it started and that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
