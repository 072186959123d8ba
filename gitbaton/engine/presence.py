"""Whether a runner is still there.

Each holds a kernel lock for as long as it lives, so its death is known at once, while the leases of
its attempts look good for minutes. Callers of other kinds hold none: of them nothing is known.
"""

from __future__ import annotations

import re
from pathlib import Path

from gitbaton.engine.context import Context
from gitbaton.errors import RepositoryError
from gitbaton.lock import Lock
from gitbaton.model.run import Attempt
from gitbaton.model.transitions import WORKING


def presence_path(ctx: Context, session: str) -> Path:
    """The lock file of a runner's session."""
    # A session's name is what its caller chose, so it may hold anything.
    name = re.sub(r"[^A-Za-z0-9._-]", "_", session)
    return ctx.repo.baton_dir / "runners" / f"{name}.lock"


def has_lost_its_runner(ctx: Context, attempt: Attempt) -> bool:
    """Whether a runner on this machine was to work on ``attempt``, and is no more."""
    if attempt.state not in WORKING or attempt.lease.machine != ctx.clock.now().machine:
        return False
    path = presence_path(ctx, attempt.session)
    if not path.exists():
        return False  # no runner, or one that left nothing
    lock = Lock(path)
    try:
        free = lock.try_acquire()
    except RepositoryError:  # not ours to write
        return False
    lock.release()
    return free
