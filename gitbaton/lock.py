"""Kernel locks on files: released by the kernel when their holder dies, whatever killed it.

A lock is an open file description with ``flock``; the file's content never matters and the file
is never removed, so there is nothing stale to clean up. A child process that inherits the
descriptor keeps the lock, which is how an orphaned check keeps others out of its worktree.
The kernel wakes nobody within a time limit, so another process is waited for by looking again;
threads of one process queue up instead.
(The filelock package is not used: it costs 90 ms of imports a verb and hides the descriptor.)
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import threading
import time
from pathlib import Path
from types import TracebackType

from gitbaton.errors import Busy, RepositoryError

_turns: dict[str, threading.Lock] = {}
"""By path: held by the thread that has, or waits for, the lock."""


class Lock:
    """An exclusive lock on ``path``; use as a context manager or with `acquire` and `release`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None
        self._turn: threading.Lock | None = None

    @property
    def held(self) -> bool:
        return self._fd is not None

    @property
    def fd(self) -> int:
        """The descriptor that holds the lock, to be inherited by a child process."""
        if self._fd is None:
            raise AssertionError(f"lock {self.path} is not held")
        return self._fd

    def try_acquire(self) -> bool:
        """Take the lock if it is free; never waits."""
        if self._fd is not None:
            raise AssertionError(f"lock {self.path} is already held by this object")
        fd = _open(self.path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return False
            raise
        self._fd = fd
        return True

    def acquire(self, timeout: float = 60.0) -> Lock:
        """Take the lock, waiting at most ``timeout`` seconds; raises `Busy` after that."""
        deadline = time.monotonic() + timeout
        turn = _turns.setdefault(str(self.path), threading.Lock())
        if not turn.acquire(timeout=timeout):
            raise self._busy(timeout)
        try:
            pause = 0.0005
            while not self.try_acquire():
                if time.monotonic() > deadline:
                    raise self._busy(timeout)
                time.sleep(pause * (0.5 + random.random()))
                pause = min(pause * 2, 0.01)
        except BaseException:
            turn.release()
            raise
        self._turn = turn
        return self

    def _busy(self, timeout: float) -> Busy:
        return Busy(
            "lock-busy",
            f"another process has held {self.path.name} for {timeout:.0f} seconds",
            "see `git baton doctor`",
        )

    def release(self) -> None:
        """Give the lock up; it is free when no child that inherited it is left either."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        if self._turn is not None:
            self._turn.release()
            self._turn = None

    def __enter__(self) -> Lock:
        return self if self.held else self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise RepositoryError(
                "repository-read-only",
                f"the repository cannot be written: {error.strerror}: {path}",
                "check the permissions of the git directory",
            ) from error
        if error.errno == errno.ENOSPC:
            raise RepositoryError(
                "disk-full", f"no space left on the device of {path.parent}", "free some space"
            ) from error
        raise
