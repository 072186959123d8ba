"""Landing: the integration branch reaches its target, by fast-forward or by one checked merge.

A target that is checked out moves together with its files, and only when nothing of anybody's would
be lost. Nothing is pushed unless that is asked for.
"""

from __future__ import annotations

import secrets

from gitbaton.engine import advance, integrate, trust
from gitbaton.engine.context import Context, attempt_here, require_outside, resolve_run
from gitbaton.engine.membership import descriptor_of
from gitbaton.engine.merging import merge_workspace
from gitbaton.engine.prepare import tasks_path_of
from gitbaton.engine.proof import prove
from gitbaton.engine.update import Moved, require_green, with_plan_text
from gitbaton.errors import Refused
from gitbaton.evidence.at_hand import refs_of
from gitbaton.evidence.examine import named
from gitbaton.git import ancestry, merge, objects, refs, remote, worktree
from gitbaton.model.ids import assignment_id
from gitbaton.model.run import Event, Land, Recorded, RunRecord
from gitbaton.store import runs


def land(
    ctx: Context,
    run_name: str | None,
    *,
    onto: str | None = None,
    partial: bool = False,
    no_ff: bool = False,
    push_branch: bool = False,
) -> Moved:
    """Move ``onto`` (a branch; default: the run's base) to hold all integrated work."""
    run = resolve_run(ctx, run_name)
    if onto is not None or not _is_below_here(ctx, run):
        require_outside(ctx, "landing a run")
    with advance.exclusively(ctx, run):
        advance.recover(ctx, run)
        loaded = runs.load(ctx.repo, run)
        _require_landable(ctx, loaded, partial)
        target = _target(ctx, loaded.state.run, onto)
        moved = _land(ctx, loaded, target, no_ff)
    if push_branch:
        _push(ctx, loaded.state.run)
    return moved


def _is_below_here(ctx: Context, run: str) -> bool:
    """Whether a worker opened the run below its attempt, whose branch is then the run's base: what
    it lands there, it will have to seal."""
    here = attempt_here(ctx)
    descriptor = descriptor_of(runs.load_live(ctx.repo, run)[1])
    below = descriptor.parent if descriptor else None
    return here is not None and below == assignment_id(*here)


def _push(ctx: Context, run: RunRecord) -> None:
    """Push the integration branch, with the record that makes its commits count as covered."""
    descriptor = descriptor_of(run)
    record = refs_of(run.id, descriptor.queue if descriptor else None)
    there = [ref for ref in record if refs.read(ctx.repo, ref) is not None]
    # A batch that arrives without its queue would hold items that nobody there knows to be held.
    together = descriptor is not None
    remote.push(ctx.repo, _remote(ctx), (run.branch, *there), together=together)


def _require_landable(ctx: Context, loaded: runs.Loaded, partial: bool) -> None:
    run, live = loaded.state.run, loaded.state.live
    obstacle = integrate.obstacle(ctx, loaded)
    if obstacle is not None:
        raise Refused(obstacle.code, obstacle.reason, obstacle.hint)
    if not live.complete and not partial:
        raise Refused(
            "not-complete",
            f"{run.id} is not complete: {len(live.missing)} of {live.total} tickets are open",
            "--partial lands what is integrated",
        )


def _target(ctx: Context, run: RunRecord, onto: str | None) -> str:
    ref = run.base.ref if onto is None else f"refs/heads/{onto.removeprefix('refs/heads/')}"
    if not ref.startswith("refs/heads/") or refs.read(ctx.repo, ref) is None:
        raise Refused(
            "unknown-target",
            f"there is no local branch {advance.short(ref)} to land on",
            "name one: --onto BRANCH",
        )
    return ref


def _land(ctx: Context, loaded: runs.Loaded, target: str, no_ff: bool) -> Moved:
    state = loaded.state
    run, tip = state.run.id, state.run.tip
    old = refs.read(ctx.repo, target)
    assert old is not None
    onto = advance.short(target)
    if ancestry.is_ancestor(ctx.repo, tip, old):
        return Moved(run=run, onto=onto, commit=old, checked=False, fast_forward=False, moved=False)
    receipts: dict[str, str] = {}
    record = None
    new, fast_forward = tip, not no_ff and ancestry.is_ancestor(ctx.repo, old, tip)
    if not fast_forward:
        new, receipts = _merge(ctx, loaded, target, old)
        record = Recorded(commit=new, kind="land", onto=target)
    now = ctx.clock.now()
    where = worktree.checked_out_at(ctx.repo, target)
    intent = Land(
        id=secrets.token_hex(8),
        machine=now.machine,
        boot=now.boot,
        started_at=now.stamp,
        branch=target,
        old=old,
        new=new,
        worktree=str(where) if where else None,
        record=record,
        receipts=receipts,
        signatures=trust.sign_all(ctx, receipts),
    )

    event = Event(event="land", message=f"land {new[:12]} on {onto}")
    advance.carry_out_landing(ctx, run, intent, event)
    return Moved(run=run, onto=onto, commit=new, checked=bool(receipts), fast_forward=fast_forward)


def _merge(ctx: Context, loaded: runs.Loaded, target: str, old: str) -> tuple[str, dict[str, str]]:
    """The landing merge and, when its tree is not the integration branch's, its receipt."""
    record = loaded.state.run
    tasks = tasks_path_of(ctx, loaded)
    with merge_workspace(ctx) as workspace:
        result = merge.merge(ctx.repo, old, record.tip, workspace=workspace, keep=[tasks])
    if result.tree is None:
        raise Refused(
            "land-conflict",
            f"{advance.short(record.branch)} conflicts with {advance.short(target)} in "
            f"{named(list(result.conflicts))}",
            f"`git baton update {record.id}` takes the base in first",
        )
    tree = with_plan_text(ctx, loaded.state, result.tree, record.tip, old, tasks)
    commit = objects.create_commit(
        ctx.repo,
        tree,
        [old, record.tip],
        f"Land {record.id}\n\nBaton-Run: {record.id}\nBaton-Event: land\n",
        author=ctx.require_identity(),
        when=ctx.clock.now().wall,
    )
    if tree == objects.tree_of(ctx.repo, record.tip) or ctx.settings.verify_merged == "never":
        return commit, {}
    proof = require_green(prove(ctx, loaded, commit, record.checks), "the landing merge")
    receipt = proof.receipt(ctx, loaded, subject=(commit, tree), recipe=result.recipe)
    return commit, {commit: receipt.decode()}


def _remote(ctx: Context) -> str:
    names = list(remote.remotes(ctx.repo))
    if ctx.settings.remote:
        return ctx.settings.remote
    if len(names) == 1:
        return names[0]
    raise Refused(
        "which-remote",
        "there is no remote to push to" if not names else "which remote is meant?",
        "git config baton.remote NAME",
    )
