"""Who runs: one session per process, known to be alive by a kernel lock, and its leases.

A runner that was killed leaves attempts behind whose leases look good for minutes. Its lock says
at once that it is dead, so the next runner ends what it left running and goes on in the same
worktrees; while a runner lives, its attempts are nobody else's, even before their workers start.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import secrets
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from gitbaton.engine import deliver, lease, prepare
from gitbaton.engine.context import Context
from gitbaton.engine.presence import has_lost_its_runner, presence_path
from gitbaton.errors import BatonError, NotFound, Refused
from gitbaton.lock import Lock
from gitbaton.model.action import Dispatch, ResolveMerge
from gitbaton.model.ids import AttemptId
from gitbaton.model.run import Attempt
from gitbaton.model.transitions import WORKING
from gitbaton.runner import process
from gitbaton.store import runs

LEASE = 120  # seconds
BIND_AFTER = 1.0  # seconds
GRACE = 5.0  # seconds between SIGTERM and SIGKILL
RUNNER = "runner.json"
LOST = frozenset(("attempt-retired", "stale-token", "lease-lost", "unknown-attempt"))
"""Refusals that mean: the attempt is no longer ours."""


class Presence:
    """The lock that says this process is alive; a context manager around a whole `run`."""

    def __init__(self, ctx: Context) -> None:
        host = re.sub(r"[^A-Za-z0-9-]+", "-", platform.node().partition(".")[0]) or "host"
        self.session = f"run-{host}-{os.getpid()}-{secrets.token_hex(4)}"
        self._lock = Lock(presence_path(ctx, self.session))
        self.clean = False
        """Whether nothing of this session is left to be resumed: its lock file may go."""

    def __enter__(self) -> Presence:
        self._lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        if self.clean:
            self._lock.path.unlink(missing_ok=True)
            for folder in (self._lock.path.parent, self._lock.path.parent.parent):
                with contextlib.suppress(OSError):
                    folder.rmdir()
        self._lock.release()


class Resumed(NamedTuple):
    """An attempt of a dead runner that is ours now, with its runner lock held."""

    work: Dispatch | ResolveMerge
    lock: Lock
    bound: bool


def attempt_lock(ctx: Context, run: str, attempt: AttemptId) -> Lock:
    """Held while a runner has a worker at an attempt, or is about to."""
    return Lock(ctx.attempt_dir(run, attempt) / "runner.lock")


def resume(ctx: Context, run: str, session: str) -> list[Resumed]:
    """Take over what runners that are dead were working on, their orphaned workers ended."""
    left = _left_behind(ctx, run)
    if any(a.state == "leased" for a in left):
        prepare.recover(ctx, run)
        left = _left_behind(ctx, run)
    taken: list[Resumed] = []
    for attempt in left:
        lock = attempt_lock(ctx, run, attempt.id)
        if not lock.try_acquire():
            continue
        try:
            resumed = _take_over(ctx, run, attempt, session)
        except BaseException:
            lock.release()
            raise
        if resumed is None:
            lock.release()
        else:
            taken.append(Resumed(resumed, lock, bound=attempt.agent_id is not None))
    _forget_sessions(ctx, run, {a.session for a in left})
    return taken


def _take_over(
    ctx: Context, run: str, attempt: Attempt, session: str
) -> Dispatch | ResolveMerge | None:
    record = process.read_record(ctx.attempt_dir(run, attempt.id) / RUNNER)
    if record is not None:
        process.end_orphan(record, ctx.clock.now().boot, GRACE)
    now = runs.load_live(ctx.repo, run)[2].attempts.get(str(attempt.id))
    if now is None or now.session != attempt.session:
        return None  # another runner was quicker
    try:
        return deliver.take_over(ctx, run, attempt.id, session)
    except Refused:
        return None  # it was sealed or retired meanwhile


def _left_behind(ctx: Context, run: str) -> list[Attempt]:
    """Attempts on this machine that a dead runner was to work on, in the order of their claims."""
    _, record, live = runs.load_live(ctx.repo, run)
    working = [a for a in live.attempts.values() if a.state in WORKING]
    if any(a.state == "leased" for a in working):
        busy = prepare.in_preparation(runs.load(ctx.repo, record.id).state)
        working = [a for a in working if str(a.id) not in busy]
    dead = [attempt for attempt in working if has_lost_its_runner(ctx, attempt)]
    return sorted(dead, key=lambda a: (a.claimed_at, a.ticket))


def _forget_sessions(ctx: Context, run: str, sessions: set[str]) -> None:
    """Remove the lock files of dead sessions that hold nothing any more."""
    if not sessions:
        return
    held = {
        a.session for a in runs.load_live(ctx.repo, run)[2].attempts.values() if a.state in WORKING
    }
    for session in sessions - held:
        presence_path(ctx, session).unlink(missing_ok=True)


class _Held(NamedTuple):
    """``worker`` is an id that is not on record yet."""

    token: str
    due: float
    worker: str | None = None
    on_lost: Callable[[], None] | None = None


class Leases:
    """Renews the leases of all attempts under way, from a thread of its own.

    It also binds workers, those that live for a moment: a transition for each of a thousand
    workers that only write a file is time for nothing.
    """

    def __init__(self, ctx: Context, every: float) -> None:
        self._ctx = ctx
        self._every = every
        self._held: dict[str, _Held] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def add(self, assignment: str, token: str) -> None:
        """Keep this lease from now on."""
        with self._changed:
            self._held[assignment] = _Held(token, time.monotonic() + self._every)
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="leases", daemon=True)
                self._thread.start()
            self._changed.notify()

    def started(self, assignment: str, worker: str | None, on_lost: Callable[[], None]) -> None:
        """A worker is at it; ``worker`` is its id if that is to be recorded. ``on_lost`` is called
        if somebody else takes the attempt."""
        with self._changed:
            if held := self._held.get(assignment):
                due = min(held.due, time.monotonic() + BIND_AFTER) if worker else held.due
                self._held[assignment] = held._replace(due=due, worker=worker, on_lost=on_lost)
                self._changed.notify()

    def remove(self, assignment: str) -> None:
        with self._changed:
            self._held.pop(assignment, None)

    def close(self) -> None:
        """Renew nothing more."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _keep(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                now = time.monotonic()
                due = [(name, held) for name, held in self._held.items() if held.due <= now]
                if not due:
                    nearest = min((held.due for held in self._held.values()), default=None)
                    self._changed.wait(None if nearest is None else nearest - now)
                    continue
                for name, held in due:
                    self._held[name] = held._replace(due=now + self._every, worker=None)
            for name, held in due:
                self._renew(name, held)

    def _renew(self, name: str, held: _Held) -> None:
        try:
            if held.worker is None:
                lease.heartbeat(self._ctx, name, held.token)
            else:
                lease.bind(self._ctx, name, held.worker, held.token)
        except (Refused, NotFound) as error:
            if error.code not in LOST:
                return  # a worker that binds itself, say
            with self._changed:
                still = self._held.pop(name, None)
            if still is not None and still.on_lost is not None:
                still.on_lost()
        except BatonError as error:
            self._ctx.warn(f"{name}: its lease was not renewed: {error.message}")
