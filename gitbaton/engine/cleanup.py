"""Removing what a run no longer needs, and never what somebody may still want.

Worktrees are removed by the paths that attempts recorded, not by what a folder's name looks like.
What is dirty, leased, or has commits that are neither integrated nor kept by the state is skipped,
with the reason.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gitbaton.engine import advance, prepare
from gitbaton.engine.context import Context, attempt_of_slug, resolve_run
from gitbaton.engine.parallel import side_by_side
from gitbaton.errors import BatonError
from gitbaton.evidence import slots
from gitbaton.evidence.examine import printable
from gitbaton.evidence.prepare import within
from gitbaton.git import ancestry, checkout, refs, worktree
from gitbaton.model.action import Skipped
from gitbaton.model.ids import is_number
from gitbaton.model.run import Attempt
from gitbaton.store import runs


class Cleaned(msgspec.Struct, frozen=True, kw_only=True):
    """Directories removed, and those left with the reason."""

    removed: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()


class WouldRemove(msgspec.Struct, frozen=True, kw_only=True):
    dry_run: bool = True
    would_remove: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()


def cleanup(
    ctx: Context,
    run_name: str | None,
    *,
    include_integration: bool = False,
    dry_run: bool = False,
) -> Cleaned | WouldRemove:
    """Remove the worktrees of finished attempts; ``include_integration`` adds those in which merge
    conflicts were resolved and the pool of verification worktrees."""
    run = resolve_run(ctx, run_name)
    loaded = runs.load(ctx.repo, run)
    if dry_run:
        found = judged(ctx, loaded, include_integration)
        pool = []
        if include_integration:
            pool = slots.remove_slots(ctx.repo, ctx.settings, dry_run=True)
        paths = [a.worktree for a, reason in found if reason is None] + [str(p) for p in pool]
        skipped = tuple(Skipped(path=a.worktree, reason=why) for a, why in found if why)
        return WouldRemove(would_remove=tuple(paths), skipped=skipped)
    cleaned = _clean(ctx, loaded, include_integration)
    if include_integration:
        pool = slots.remove_slots(ctx.repo, ctx.settings)
        cleaned = Cleaned(
            removed=(*cleaned.removed, *(str(path) for path in pool)), skipped=cleaned.skipped
        )
    return cleaned


def cleanup_finished(ctx: Context, loaded: runs.Loaded) -> Cleaned:
    """What a complete run does by itself."""
    return _clean(ctx, loaded, include_integration=True)


def _clean(ctx: Context, loaded: runs.Loaded, include_integration: bool) -> Cleaned:
    # Several callers see a run complete at the same time; one of them cleans, then the next finds
    # nothing left to do.
    with ctx.run_lock(loaded.state.run.id, "cleanup"):
        return _clean_alone(ctx, loaded, include_integration)


def _clean_alone(ctx: Context, loaded: runs.Loaded, include_integration: bool) -> Cleaned:
    kept: dict[str, str] = {}
    removed: list[Attempt] = []
    for attempt, why in judged(ctx, loaded, include_integration):
        reason = why or _remove(ctx, attempt)
        if reason is None:
            removed.append(attempt)
        else:
            kept[attempt.worktree] = reason
    tips = ((each, refs.read(ctx.repo, each.branch)) for each in removed)
    doomed = {a.branch: tip for a, tip in tips if tip and is_kept(ctx, loaded, a, tip)}
    failed = worktree.delete_branches(ctx.repo, doomed)
    kept |= {a.worktree: failed[a.branch].message for a in removed if a.branch in failed}
    gone = tuple(a.worktree for a in removed if a.worktree not in kept)
    for folder in {Path(path).parent for path in gone}:
        remove_if_empty(folder)
    return Cleaned(removed=gone, skipped=tuple(Skipped(path=p, reason=r) for p, r in kept.items()))


def _remove(ctx: Context, attempt: Attempt) -> str | None:
    """Remove a worktree that was judged clean just now; returns why that cannot be."""
    top = Path(attempt.worktree)
    try:
        # What is not ours is for `remove` to refuse.
        worktree.remove(ctx.repo, top, force=_is_ours(ctx, top))
    except BatonError as error:
        return error.message
    return None


def judged(
    ctx: Context, loaded: runs.Loaded, include_integration: bool
) -> list[tuple[Attempt, str | None]]:
    """Each attempt that has a worktree, and why that has to stay (None: it may go)."""
    attempts = list(with_worktree(ctx, loaded))
    reasons = side_by_side(attempts, lambda a: _reason(ctx, loaded, a, include_integration))
    return list(zip(attempts, reasons, strict=True))


def _reason(
    ctx: Context, loaded: runs.Loaded, attempt: Attempt, include_integration: bool
) -> str | None:
    """Why the worktree of an attempt has to stay; None: it may go."""
    reason = _reason_to_keep(ctx, loaded, attempt, include_integration)
    return reason or _dirt(ctx, loaded, attempt)


def with_worktree(ctx: Context, loaded: runs.Loaded) -> Iterator[Attempt]:
    """The attempts made on this machine whose worktree is still there or still registered, or whose
    branch outlived it: a kill may come between the two."""
    root = ctx.attempts_dir(loaded.state.run.id)
    registered = worktree.registered(ctx.repo)
    branches = refs.list_refs(ctx.repo, ctx.attempt_branches(loaded.state.run.id))
    try:
        names = sorted(path.name for path in root.iterdir() if path.is_dir())
    except OSError:
        return
    for name in names:
        attempt = attempt_named(loaded, name)
        if attempt is not None:
            path = Path(attempt.worktree)
            tip = None if attempt.state == "closed" else branches.get(attempt.branch)
            left = tip is not None and is_kept(ctx, loaded, attempt, tip)
            if path.exists() or path in registered or left:
                yield attempt


def attempt_named(loaded: runs.Loaded, slug: str) -> Attempt | None:
    """The attempt of this slug, if it is one: others may have made folders and branches there."""
    if not slug.isascii() or not is_number(slug.rpartition("-a")[2]):
        return None
    attempt = attempt_of_slug(slug)
    return loaded.attempt(attempt) if attempt.slug == slug else None


def _reason_to_keep(
    ctx: Context, loaded: runs.Loaded, attempt: Attempt, include_integration: bool
) -> str | None:
    if attempt.active:
        return f"{attempt.id} is {attempt.state}"
    if attempt.state == "blocked-review":
        return f"{attempt.id} waits for a decision"
    if attempt.resolves is not None and not include_integration:
        return f"{attempt.id} resolved a merge; --include-integration removes it"
    if attempt.state == "closed":
        return None  # it was returned: its branch stays, with whatever is on it
    tip = refs.read(ctx.repo, attempt.branch)
    if tip is not None and not is_kept(ctx, loaded, attempt, tip):
        branch = advance.short(attempt.branch)
        drop = f"git worktree remove -f {shlex.quote(attempt.worktree)} && git branch -D {branch}"
        return f"{branch} has commits that are not integrated; to drop them: {drop}"
    return None


def _is_ours(ctx: Context, top: Path) -> bool:
    """Whether a directory is a worktree of this repository."""
    try:
        return checkout.place_of(top).common_dir == ctx.repo.common_dir
    except BatonError:
        return False


def _dirt(ctx: Context, loaded: runs.Loaded, attempt: Attempt) -> str | None:
    """What would be lost with the files of a worktree, if anything."""
    top = Path(attempt.worktree)
    try:
        place = checkout.place_of(top)
        locked = place.git_dir / "locked"
        if locked.exists():
            interrupted = locked.read_text(errors="replace").strip() in worktree.INTERRUPTED
            return None if interrupted else f"{top} is locked"
        entries = checkout.differences(place)
    except BatonError:
        return None  # half removed or deleted by hand: `worktree.remove` finishes or refuses it
    made = made_in(ctx, loaded, attempt)
    dirty = [path for letters, path in entries if letters != "??" or not within(path, made)]
    return f"not committed: {', '.join(map(printable, dirty[:3]))}" if dirty else None


def made_in(ctx: Context, loaded: runs.Loaded, attempt: Attempt) -> frozenset[str]:
    """Paths in the worktree that setup, copy and checks made."""
    run = loaded.state.run.id
    return prepare.recorded_paths(ctx, run, attempt.id, prepare.PREPARED) | prepare.recorded_paths(
        ctx, run, attempt.id, prepare.CHECKED
    )


def is_kept(ctx: Context, loaded: runs.Loaded, attempt: Attempt, tip: str) -> bool:
    """Whether the commits of the branch are integrated, or kept by the state as sealed; of what was
    returned to its queue, somebody else may want them."""
    if attempt.state != "closed" and attempt.sealed is not None and attempt.sealed.commit == tip:
        return True
    return ancestry.is_ancestor(ctx.repo, tip, loaded.state.run.tip)


def remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return
