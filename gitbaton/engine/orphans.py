"""Worktrees that are not what their record says: half made, deleted by hand, of no attempt, or of
the pool in which commits are verified.

What holds work, or may, is named and left to a person.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gitbaton.engine import prepare
from gitbaton.engine.context import Context
from gitbaton.engine.health import FIX, Check, repaired
from gitbaton.errors import BatonError
from gitbaton.evidence import slots
from gitbaton.evidence.prepare import worktree_root
from gitbaton.git import running, worktree
from gitbaton.git.worktree import INTERRUPTED, WorktreeInfo
from gitbaton.model.ids import assignment_id
from gitbaton.model.run import Attempt
from gitbaton.store import runs

_NAME = "worktrees"


def worktrees(ctx: Context, fix: bool) -> Iterator[Check]:
    """Worktrees below our folder that are in no order."""
    root = worktree_root(ctx.repo, ctx.settings)
    unreadable, known = _attempts(ctx)
    wrong = False
    for path, info in worktree.registered(ctx.repo).items():
        if not path.is_relative_to(root) or slots.is_slot(root, path):
            continue
        if path.relative_to(root).parts[0] in unreadable:
            continue  # the check of the run speaks of it
        run, attempt = known.get(path, ("", None))
        if found := _judge(ctx, info, run, attempt, fix):
            wrong = True
            yield found
    if not wrong:
        yield Check(name=_NAME, ok=True, message="each belongs to an attempt")


def _attempts(ctx: Context) -> tuple[set[str], dict[Path, tuple[str, Attempt]]]:
    """The runs that cannot be read, and run and attempt of every worktree on record."""
    unreadable: set[str] = set()
    known: dict[Path, tuple[str, Attempt]] = {}
    for run in runs.list_runs(ctx.repo):
        try:
            found = list(runs.load(ctx.repo, run).all_attempts())
        except BatonError:
            unreadable.add(run)
        else:
            known.update({Path(attempt.worktree): (run, attempt) for attempt in found})
    return unreadable, known


def _judge(
    ctx: Context, info: WorktreeInfo, run: str, attempt: Attempt | None, fix: bool
) -> Check | None:
    path = info.path
    if info.locked in INTERRUPTED:
        return _half_made(ctx, info, run, attempt, fix)
    if not path.exists():
        if info.locked is not None:
            said = f"{path} is gone, and is locked{f': {info.locked}' if info.locked else ''}"
            return _wrong(said, f"bring it back, or: git worktree unlock '{path}'")
        if not fix:
            return _wrong(f"{path} was deleted by hand", FIX)
        worktree.remove(ctx.repo, path, force=True)
        return repaired(_NAME, f"{path} was deleted by hand: removed git's record of it")
    if attempt is None:
        said = f"{path} belongs to no attempt"
        return _wrong(said, f"look for work in it, then: git worktree remove '{path}'")
    return None


def _half_made(
    ctx: Context, info: WorktreeInfo, run: str, attempt: Attempt | None, fix: bool
) -> Check | None:
    """A worktree whose maker or remover did not get to its end, unless one is at it."""
    said = f"{info.path} is half {'made' if info.locked == INTERRUPTED[0] else 'removed'}"
    if attempt is not None and attempt.active:
        if fix:
            prepare.recover(ctx, run)
            now = worktree.registered(ctx.repo).get(info.path)
            if now is not None and now.locked not in INTERRUPTED:
                return repaired(_NAME, f"{said}: made it anew for {assignment_id(run, attempt.id)}")
        return _wrong(said, f"git baton actions {run} --session S finishes it")
    if running.git_runs_in(info.path):
        return _wrong(said, f"if no git runs there: git worktree remove -f -f '{info.path}'")
    if not fix:
        return _wrong(said, FIX)
    worktree.remove(ctx.repo, info.path, force=True)
    return repaired(_NAME, f"{said}: removed the rest of it")


def pool(ctx: Context, fix: bool) -> Check:
    """Verification worktrees that the next check would have to make anew."""
    stale = slots.stale(ctx.repo, ctx.settings, remove=fix)
    if not stale:
        return Check(name="verification", ok=True, message="its worktrees are whole")
    names = ", ".join(map(str, stale))
    if fix:
        return repaired("verification", f"removed what is no whole worktree: {names}")
    said = f"no whole worktree any more: {names}"
    return Check(name="verification", ok=False, message=said, fix=FIX)


def _wrong(message: str, fix: str) -> Check:
    return Check(name=_NAME, ok=False, message=message, fix=fix)
