"""What may be wrong with the environment or the repository, and what to do about each.

Every check stands alone: one that cannot even be made is a finding of its own, and none keeps the
others from being made. Nothing is changed unless asked to, and then only what loses nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from gitbaton.config import of_unknown
from gitbaton.engine import advance, holdings, leftovers, orphans, outgoing, setup
from gitbaton.engine.context import Context, open_context, require_outside
from gitbaton.engine.health import FIX, Check, all_guarded, guarded, refused, repaired
from gitbaton.errors import BatonError, RepositoryError
from gitbaton.evidence.prepare import worktree_root
from gitbaton.git import process, refs
from gitbaton.model import layout
from gitbaton.store import notes, runs

LEAST_FREE = 500 * 1024 * 1024


class Report(msgspec.Struct, frozen=True, kw_only=True):
    checks: tuple[Check, ...]


def examine(warn: Callable[[str], None], *, fix: bool = False) -> Report:
    """Look at everything; with ``fix``, repair what loses nothing, which only who is outside of an
    attempt may. A check that cannot be made is a finding."""
    checks = [guarded("git", _git)]
    try:
        ctx = open_context(warn=warn)
    except BatonError as error:
        checks.append(refused("repository", error))
        return Report(checks=tuple(checks))
    if fix:
        require_outside(ctx, "repairing")
    for name, look in (
        ("repository", _repository),
        ("identity", _identity),
        ("settings", _settings),
        ("checks", _checks),
        ("branch-prefix", _branch_prefix),
        ("worktree-dir", _worktree_dir),
        ("disk-space", _disk_space),
        ("hooks", outgoing.hooks_check),
        ("signing", outgoing.signing),
        ("signers", outgoing.signers),
    ):
        checks.append(guarded(name, lambda look=look: look(ctx)))  # type: ignore[misc]
    # First the locks: what follows may need the refs.
    checks += all_guarded("locks", lambda: leftovers.locks(ctx, fix))
    checks += _runs(ctx, fix)
    checks += holdings.checks(ctx, fix)
    checks += all_guarded("worktrees", lambda: orphans.worktrees(ctx, fix))
    checks.append(guarded("verification", lambda: orphans.pool(ctx, fix)))
    checks += all_guarded("temporary", lambda: leftovers.temporary(ctx, fix))
    checks += outgoing.pushes(ctx, fix)
    return Report(checks=tuple(checks))


# --- the environment ---------------------------------------------------------------------------


def _git() -> Check:
    version = ".".join(map(str, process.require_git()))
    return Check(name="git", ok=True, message=f"git {version}")


def _repository(ctx: Context) -> Check:
    ctx.repo.writable_or_refuse()
    ctx.repo.require_history()
    if not ctx.repo.has_commits():
        raise RepositoryError("no-commit", "it has no commit yet", "commit something first")
    kind = "bare" if ctx.repo.main_worktree is None else "with a working tree"
    return Check(name="repository", ok=True, message=f"{ctx.repo.common_dir} ({kind})")


def _identity(ctx: Context) -> Check:
    name, email = ctx.require_identity()
    return Check(name="identity", ok=True, message=f"{name} <{email}>")


def _settings(ctx: Context) -> Check:
    if unknown := setup.unknown(ctx.repo):
        return Check(
            name="settings",
            ok=False,
            message="; ".join(map(of_unknown, unknown)),
            fix=f"git config --unset-all {unknown[0]}, or see `git baton config`",
        )
    return Check(name="settings", ok=True, message="all are known")


def _checks(ctx: Context) -> Check:
    configured = ctx.settings.verify
    if ctx.repo.worktree is None and not configured:
        return Check(name="checks", ok=True, message="none configured; judging pushes needs none")
    if not configured and not runs.list_runs(ctx.repo):
        return Check(
            name="checks",
            ok=False,
            message="no check is configured, and there is no run that has its own",
            fix="git config --add baton.verify CMD, or pass --verify CMD",
        )
    said = ", ".join(configured) or "none configured; each run has its own"
    return Check(name="checks", ok=True, message=said)


def _branch_prefix(ctx: Context) -> Check:
    prefix = ctx.settings.branch_prefix
    for whole in (prefix, f"{prefix}-attempt"):
        parts = whole.split("/")
        for end in range(1, len(parts) + 1):
            name = "/".join(parts[:end])
            if refs.read(ctx.repo, f"refs/heads/{name}") is not None:
                return Check(
                    name="branch-prefix",
                    ok=False,
                    message=f"a branch named {name} makes {whole}/<run> impossible",
                    fix="rename it, or: git config baton.branchPrefix PREFIX",
                )
    return Check(name="branch-prefix", ok=True, message=f"{prefix}/<run>")


def _worktree_dir(ctx: Context) -> Check:
    root = worktree_root(ctx.repo, ctx.settings)
    existing = _existing(root)
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return Check(
            name="worktree-dir",
            ok=False,
            message=f"worktrees cannot be made in {root}: {existing} is not writable",
            fix="choose another folder: git config baton.worktreeDir DIR",
        )
    return Check(name="worktree-dir", ok=True, message=str(root))


def _disk_space(ctx: Context) -> Check:
    places = (ctx.repo.common_dir, _existing(worktree_root(ctx.repo, ctx.settings)))
    free, place = min((shutil.disk_usage(place).free, place) for place in places)
    return Check(
        name="disk-space",
        ok=free >= LEAST_FREE,
        message=f"{free / 2**30:.1f} GiB free for {place}",
        fix="" if free >= LEAST_FREE else "free some space: git baton cleanup",
    )


def _existing(path: Path) -> Path:
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


# --- runs --------------------------------------------------------------------------------------


def _runs(ctx: Context, fix: bool) -> Iterator[Check]:
    found = runs.list_runs(ctx.repo)
    for run in found:
        yield guarded(f"run {run}", lambda run=run: _run(ctx, run))  # type: ignore[misc]
        yield guarded(f"notes {run}", lambda run=run: _notes(ctx, run, fix))  # type: ignore[misc]
    if not found:
        yield Check(name="runs", ok=True, message="there is none yet")


def _run(ctx: Context, run: str) -> Check:
    name = f"run {run}"
    loaded = runs.load(ctx.repo, run)
    count = sum(1 for _ in loaded.all_attempts())
    record = loaded.state.run
    tip = refs.read(ctx.repo, record.branch)
    started = count > 0 or bool(record.recorded)
    # One that is missing is made again by the next verb that needs it.
    if tip not in (None, record.tip) and started and not loaded.state.intents:
        astray = advance.astray(ctx, record, tip)
        return Check(name=name, ok=False, message=astray.reason, fix=astray.hint)
    return Check(name=name, ok=True, message=f"{count} attempts can be read")


def _notes(ctx: Context, run: str, fix: bool) -> Check:
    name = f"notes {run}"
    loaded = runs.load(ctx.repo, run)
    expected = dict(_expected(loaded))
    missing = sum(notes.read(ctx.repo, run, commit) != text for commit, text in expected.items())
    if not missing:
        return Check(name=name, ok=True, message="they agree with the state")
    if fix:
        notes.rebuild(ctx.repo, run, ctx.clock)
        return repaired(name, f"made {missing} anew")
    return Check(
        name=name,
        ok=False,
        message=f"{missing} of them disagree with the state",
        fix=f"{FIX}, or: git baton notes rebuild {run}",
    )


def _expected(loaded: runs.Loaded) -> Iterator[tuple[str, bytes]]:
    """Commit and text of each note; of two for one commit, the later."""
    for attempt in loaded.all_attempts():
        receipt = loaded.receipt(attempt.id)
        if receipt is None or attempt.sealed is None:
            continue
        yield attempt.sealed.commit, receipt
        if attempt.merge_commit:
            merged = loaded.merged_receipt(attempt.id)
            yield attempt.merge_commit, notes.of_merge(receipt, merged)
    closeout = loaded.file(layout.CLOSEOUT)
    if closeout is not None:
        yield notes.of_closeout(loaded, closeout)
