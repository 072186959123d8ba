"""What a process that was killed leaves lying, and how doctor tells it from what is in use.

Locks of git have no owner that could be asked, so they must have been there for a while, and no git
may be at work where they lie. Folders and locks of our own are in use as long as a kernel lock is
held for them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from gitbaton.engine import advance
from gitbaton.engine.context import Context
from gitbaton.engine.health import FIX, Check, is_free, repaired
from gitbaton.engine.rerun import FOLDER, IN_USE, TREE
from gitbaton.errors import BatonError
from gitbaton.git import refs, running, worktree
from gitbaton.lock import Lock
from gitbaton.store import runs

SECONDS = 30.0
"""A lock that is older was left behind, most likely: a ref is locked for milliseconds."""

DAY = 86400.0
_SCRATCH = ("baton-merge-*", "baton-objects-*", "baton-index-*", "baton-sign-*")
"""Folders in the system's temporary one that nobody locks; none is of use for a day."""


def locks(ctx: Context, fix: bool) -> Iterator[Check]:
    """Lock files of git that nobody seems to hold, and what was written under such a lock."""
    left = [path for path in _lock_files(ctx) if _age(path) > SECONDS]
    for path in left:
        idle = path.name != "index.lock" or not running.git_runs_in(*_places(ctx, path))
        if fix and idle and refs.remove_leftover_lock(ctx.repo, str(path)):
            yield repaired("locks", f"removed {path}")
            continue
        yield Check(
            name="locks",
            ok=False,
            message=f"{path} has been there for {_age(path) / 60:.0f} minutes",
            fix=FIX if idle else f"end the git that runs there; if there is none: rm '{path}'",
        )
    if not left:
        yield Check(name="locks", ok=True, message="none left behind")


def _lock_files(ctx: Context) -> Iterator[Path]:
    common = ctx.repo.common_dir
    for folder, _, names in os.walk(common / "refs"):
        yield from (Path(folder, name) for name in names if name.endswith(".lock"))
    yield from common.glob("*.lock")
    yield from common.glob("packed-refs.new")
    yield from common.glob("worktrees/*/*.lock")


def _places(ctx: Context, lock: Path) -> list[Path]:
    """Where a git that holds the lock of an index would be at work."""
    linked = worktree.registered(ctx.repo).values()
    tops = [info.path for info in linked if info.git_dir == lock.parent]
    return [lock.parent, *(tops or filter(None, (ctx.repo.main_worktree,)))]


def temporary(ctx: Context, fix: bool) -> Iterator[Check]:
    """Temporary folders and locks whose process is gone."""
    with ExitStack() as held:
        left = [*_of_repository(ctx, held), *_of_audits(ctx), *_of_system()]
        if left and fix:
            for path in left:
                _remove(ctx, path)
                yield repaired("temporary", f"removed {path}")
        elif left:
            more = f" and {len(left) - 1} more" if len(left) > 1 else ""
            said = f"{left[0]}{more} left behind by a process that was killed"
            yield Check(name="temporary", ok=False, message=said, fix=FIX)
        else:
            yield Check(name="temporary", ok=True, message="no folder left behind")


def _of_repository(ctx: Context, held: ExitStack) -> Iterator[Path]:
    """Ours in the git directory. ``held`` keeps others from making new ones meanwhile."""
    baton = ctx.repo.baton_dir
    merges = list(baton.glob("tmp/merge-*"))
    if merges and all(
        _keep_out(advance.integration_lock(ctx, run), held) for run in runs.list_runs(ctx.repo)
    ):
        yield from merges
    for pattern in ("making/*", "cache/queues/*/tmp-*"):
        yield from (path for path in baton.glob(pattern) if _age(path) > SECONDS)
    yield from _intent_locks(ctx)


def _keep_out(lock: Lock, held: ExitStack) -> bool:
    if not lock.path.exists():
        return True
    taken = lock.try_acquire()
    if taken:
        held.callback(lock.release)
    return taken


def _intent_locks(ctx: Context) -> Iterator[Path]:
    """Locks of intents that no run has any more: an id never comes again."""
    try:
        loaded = [runs.load(ctx.repo, run) for run in runs.list_runs(ctx.repo)]
    except BatonError:
        return  # the check of the run speaks of it
    standing = {f"intent-{name}.lock" for each in loaded for name in each.state.intents}
    for path in (ctx.repo.baton_dir / "locks").glob("intent-*.lock"):
        if path.name not in standing and _age(path) > SECONDS and is_free(Lock(path)):
            yield path


def _of_audits(ctx: Context) -> Iterator[Path]:
    """Folders of audits that ran checks again in worktrees of this repository."""
    registered = worktree.registered(ctx.repo)
    for folder in _mine(f"{FOLDER}*"):
        if _age(folder) < SECONDS or not is_free(Lock(folder / IN_USE)):
            continue
        tree = folder / TREE
        if Path(os.path.realpath(tree)) in registered or not tree.exists():
            yield folder
    for path in registered:  # the system may have cleared the folder away
        if path.parent.name.startswith(FOLDER) and not path.parent.exists():
            yield path.parent


def _of_system() -> Iterator[Path]:
    for pattern in _SCRATCH:
        yield from (path for path in _mine(pattern) if _age(path) > DAY)


def _mine(pattern: str) -> Iterator[Path]:
    for path in Path(tempfile.gettempdir()).glob(pattern):
        if not path.is_symlink() and path.is_dir() and path.stat().st_uid == os.getuid():
            yield path


def _remove(ctx: Context, path: Path) -> None:
    if path.name.startswith(FOLDER):
        worktree.remove(ctx.repo, path / TREE, force=True)
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _age(path: Path) -> float:
    try:
        return time.time() - path.lstat().st_mtime
    except OSError:
        return 0.0
