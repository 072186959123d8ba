"""Deleting a run: its branches, its worktrees and its record, unless something would be lost."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gitbaton.engine import advance, cleanup
from gitbaton.engine.closing import children_of
from gitbaton.engine.context import Context, require_outside, resolve_run
from gitbaton.engine.holding import released
from gitbaton.engine.membership import descriptor_of
from gitbaton.engine.view import has_landed
from gitbaton.errors import Refused
from gitbaton.evidence import slots
from gitbaton.git import refs, worktree
from gitbaton.model import layout
from gitbaton.rules.revise import resolved_by_receipt
from gitbaton.store import queues, runs, transact

_NAMED = 5


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """Refs that are gone, or would be."""

    run: str
    dry_run: bool
    removed: tuple[str, ...] = ()
    would_remove: tuple[str, ...] = ()


def delete(ctx: Context, run: str, *, force: bool = False, dry_run: bool = False) -> Deleted:
    """Remove all refs of a landed run. Repeating it after a kill finishes it; the state goes last.

    Raises `Refused` for a run that has not landed, or whose worktrees hold what would be lost,
    unless forced.
    """
    require_outside(ctx, "deleting a run")
    resolve_run(ctx, run)
    loaded = runs.load(ctx.repo, run)
    _require_not_checked_out(ctx, loaded)
    if not force:
        _require_landed(ctx, loaded)
        _require_nothing_below(ctx, run)
        for attempt, reason in cleanup.judged(ctx, loaded, include_integration=True):
            if reason is None:
                continue
            raise Refused(
                "work-left",
                f"{attempt.worktree} stays: {reason}",
                f"`git baton cleanup {run}` shows all of them; --force deletes the run anyway",
            )
    branches = _attempt_branches(ctx, loaded)
    if not force:
        _require_returned_work_elsewhere(ctx, loaded, branches)
    branch = loaded.state.run.branch
    if (tip := refs.read(ctx.repo, branch)) is not None:
        branches[branch] = tip
    doomed = [layout.notes_ref(run), *branches, layout.run_ref(run)]
    if dry_run:
        return Deleted(run=run, dry_run=True, would_remove=tuple(doomed))
    with ctx.run_lock(run, "cleanup"):
        for attempt in list(cleanup.with_worktree(ctx, loaded)):
            only_made = bool(cleanup.made_in(ctx, loaded, attempt))
            worktree.remove(ctx.repo, Path(attempt.worktree), force=force or only_made)
            cleanup.remove_if_empty(Path(attempt.worktree).parent)
    _let_go(ctx, loaded)
    for error in worktree.delete_branches(ctx.repo, branches).values():
        raise error
    transact.delete(ctx.repo, run)
    ctx.seen.pop(run, None)
    shutil.rmtree(ctx.attempts_dir(run), ignore_errors=True)
    if not runs.list_runs(ctx.repo):
        slots.remove_slots(ctx.repo, ctx.settings)
    if loaded.state.live.resolved:
        ctx.warn(f"what {run} integrated can no longer be audited: its record was in the state")
        _tell_what_stays_fixed(ctx, loaded)
    return Deleted(run=run, dry_run=False, removed=tuple(doomed))


def _attempt_branches(ctx: Context, loaded: runs.Loaded) -> dict[str, str]:
    """The branches of attempts, and not what others have made beside them."""
    prefix = ctx.attempt_branches(loaded.state.run.id)
    found = refs.list_refs(ctx.repo, prefix).items()
    return {r: tip for r, tip in found if cleanup.attempt_named(loaded, r.removeprefix(prefix))}


def _let_go(ctx: Context, loaded: runs.Loaded) -> None:
    """What the run holds of its queue is free again."""
    record = loaded.state.run
    descriptor = descriptor_of(record)
    if descriptor is None or refs.read(ctx.repo, queues.queue_ref(descriptor.queue)) is None:
        return

    def step(queue: queues.Queue) -> tuple[queues.Changes, queues.QueueEvent] | None:
        stamp = ctx.clock.now().stamp
        held = {
            item.id: released(item, stamp)
            for item in queue.items.values()
            if item.claimed_by is not None and item.claimed_by.run == record.id
        }
        message = f"{record.id} is deleted"
        event = queues.QueueEvent(event="release", message=message, run=record.id)
        return (held, event) if held else None

    queues.transact(ctx.repo, descriptor.queue, step, ctx.clock)


def _tell_what_stays_fixed(ctx: Context, loaded: runs.Loaded) -> None:
    """Items that are fixed in the queue, and perhaps nowhere else: work may also have gone to its
    base by ways that ancestry does not tell, such as a squash."""
    descriptor = descriptor_of(loaded.state.run)
    if descriptor is None or has_landed(ctx, loaded.state.run):
        return
    items = sorted(resolved_by_receipt(loaded.state))
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    ctx.warn(
        f"{', '.join(items[:_NAMED])}{more} stay fixed in queue {descriptor.queue}, and had not "
        "landed; if they are not, `git baton queue set ITEM --state open`"
    )


def _require_nothing_below(ctx: Context, run: str) -> None:
    """No batch below an attempt is open: it starts from that attempt's branch, and lands there."""
    below = [child.run for child in children_of(ctx, run) if child.closeout is None]
    if below:
        raise Refused(
            "batches-below",
            f"below {run} there is still open: {', '.join(below)}",
            f"end or delete that first; --force deletes {run} and leaves it without a base",
        )


def _require_returned_work_elsewhere(
    ctx: Context, loaded: runs.Loaded, branches: Mapping[str, str]
) -> None:
    """The branches of what was returned to its queue hold nothing that is nowhere else."""
    for ref, tip in branches.items():
        attempt = cleanup.attempt_named(loaded, ref.rpartition("/")[2])
        if attempt and attempt.state == "closed" and not cleanup.is_kept(ctx, loaded, attempt, tip):
            raise Refused(
                "work-left",
                f"{advance.short(ref)} has commits that are not integrated: {attempt.id} was "
                "returned",
                "--force deletes the run and them",
            )


def _require_not_checked_out(ctx: Context, loaded: runs.Loaded) -> None:
    branch = loaded.state.run.branch
    where = worktree.checked_out_at(ctx.repo, branch)
    if where is not None:
        raise Refused(
            "integration-checked-out",
            f"{advance.short(branch)} is checked out in {where}",
            "check out another branch there",
        )
    for attempt in loaded.all_attempts():
        own = Path(attempt.worktree)
        worktree.require_not_checked_out(ctx.repo, attempt.branch, but=own)


def _require_landed(ctx: Context, loaded: runs.Loaded) -> None:
    """The integrated work is part of the base branch or of where it was landed."""
    record = loaded.state.run
    if has_landed(ctx, record):
        return
    raise Refused(
        "not-landed",
        f"{record.id} has not landed on {advance.short(record.base.ref)}",
        f"`git baton land {record.id}`, or --force to delete it all the same",
    )
