"""Taking in the base branch, and recording what people put on the integration branch themselves.

Both end in a commit that the state knows and that has a receipt of its own, so that nothing lies on
the integration branch that nobody checked.
"""

from __future__ import annotations

import msgspec

from gitbaton.engine import advance
from gitbaton.engine.context import Context, require_outside, resolve_run
from gitbaton.engine.merging import merge_workspace
from gitbaton.engine.prepare import tasks_path_of
from gitbaton.engine.proof import Proof, prove
from gitbaton.errors import Refused
from gitbaton.evidence import ticks
from gitbaton.evidence.examine import named
from gitbaton.git import ancestry, merge, objects, refs
from gitbaton.model.run import Event, Recorded, RunState
from gitbaton.rules.revise import resolved_by_receipt
from gitbaton.rules.state import with_live
from gitbaton.store import runs


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """Where a branch is now; ``moved`` says whether this call put it there, ``checked`` whether
    checks ran on exactly this commit."""

    run: str
    onto: str
    commit: str
    checked: bool
    fast_forward: bool
    moved: bool = True


def update(ctx: Context, run_name: str | None, accept: bool = False) -> Moved:
    """Merge the base branch into the integration branch; with ``accept``, first check and record
    commits that somebody put there."""
    if accept:
        require_outside(ctx, "accepting commits")
    run = resolve_run(ctx, run_name)
    with advance.exclusively(ctx, run):
        advance.recover(ctx, run)
        loaded = runs.load(ctx.repo, run)
        advance.heal_branch(ctx, loaded)
        foreign = advance.foreign_tip(ctx, loaded)
        if foreign is not None:
            if not accept:
                astray = advance.astray(ctx, loaded.state.run, foreign)
                raise Refused(astray.code, astray.reason, astray.hint)
            return _accept(ctx, loaded, foreign)
        moved = merge_base_branch(ctx, run)
        if not moved.moved and loaded.state.live.halt is not None:
            ctx.transact(run, _look_again)
        return moved


def _look_again(loaded: runs.Loaded) -> tuple[RunState, Event]:
    event = Event(event="update", message="nothing to take in; what halted is to be tried again")
    return with_live(loaded.state, halt=None), event


def merge_base_branch(ctx: Context, run: str) -> Moved:
    """The base branch merged into the integration branch, checked; nothing if it is in already.
    Called under the integration lock. Raises `Refused` for a conflict or red checks."""
    loaded = runs.load(ctx.repo, run)
    record = loaded.state.run
    onto = advance.short(record.branch)
    base = refs.read(ctx.repo, record.base.ref)
    if base is None:
        raise Refused(
            "missing-base",
            f"the base branch {advance.short(record.base.ref)} is gone",
            "bring it back; it is what the run started from",
        )
    if ancestry.is_ancestor(ctx.repo, base, record.tip):
        return Moved(
            run=run, onto=onto, commit=record.tip, checked=False, fast_forward=False, moved=False
        )
    tasks = tasks_path_of(ctx, loaded)
    with merge_workspace(ctx) as workspace:
        result = merge.merge(ctx.repo, record.tip, base, keep=[tasks], workspace=workspace)
    if result.tree is None:
        raise Refused(
            "update-conflict",
            f"{advance.short(record.base.ref)} conflicts with {onto} in "
            f"{named(list(result.conflicts))}",
            f"merge it by hand (git switch {onto} && git merge {advance.short(record.base.ref)}), "
            f"then `git baton update {run} --accept`",
        )
    tree = with_plan_text(ctx, loaded.state, result.tree, record.tip, base, tasks)
    commit = objects.create_commit(
        ctx.repo,
        tree,
        [record.tip, base],
        f"Update from {advance.short(record.base.ref)}\n\nBaton-Run: {run}\nBaton-Event: update\n",
        author=ctx.require_identity(),
        when=ctx.clock.now().wall,
    )
    receipts = {}
    checked = ctx.settings.verify_merged != "never"
    if checked:
        proof = require_green(prove(ctx, loaded, commit, record.checks), "the update")
        receipt = proof.receipt(ctx, loaded, subject=(commit, tree), recipe=result.recipe)
        receipts[commit] = receipt.decode()
    intent = advance.new_advance(
        ctx,
        loaded,
        commit,
        recorded=(Recorded(commit=commit, kind="update"),),
        receipts=receipts,
    )
    message = f"update from {advance.short(record.base.ref)} at {base[:12]}"
    advance.carry_out(ctx, run, intent, Event(event="update", message=message))
    return Moved(run=run, onto=onto, commit=commit, checked=checked, fast_forward=False)


def with_plan_text(
    ctx: Context, state: RunState, tree: str, ours: str, theirs: str, tasks: str
) -> str:
    """``tree`` with the tasks file that belongs there when a person's branch meets git-baton's
    ticks."""
    resolved = resolved_by_receipt(state)
    text = ticks.met_text(ctx.repo, ours, theirs, tasks, resolved, state.run.unit)
    return ticks.with_text(ctx.repo, tree, tasks, text)


def _accept(ctx: Context, loaded: runs.Loaded, foreign: str) -> Moved:
    """Check the foreign tip and record every commit up to it."""
    record = loaded.state.run
    onto = advance.short(record.branch)
    chain = [c.oid for c in ancestry.first_parent_chain(ctx.repo, foreign, record.tip)]
    if not chain or objects.commit_info(ctx.repo, chain[-1]).parents[:1] != (record.tip,):
        raise Refused(
            "foreign-mutation",
            f"{onto} at {foreign[:12]} does not descend from the recorded {record.tip[:12]}",
            f"put it back: git update-ref {record.branch} {record.tip}",
        )
    proof = require_green(prove(ctx, loaded, foreign, record.checks), "what was put there")
    subject = (foreign, objects.tree_of(ctx.repo, foreign))
    receipt = proof.receipt(ctx, loaded, subject=subject, covers=tuple(reversed(chain)))
    intent = advance.new_advance(
        ctx,
        loaded,
        foreign,
        recorded=tuple(Recorded(commit=oid, kind="accept") for oid in reversed(chain)),
        receipts={foreign: receipt.decode()},
    )
    event = Event(event="accept", message=f"accept {len(chain)} commits up to {foreign[:12]}")
    advance.carry_out(ctx, record.id, intent, event)
    return Moved(run=record.id, onto=onto, commit=foreign, checked=True, fast_forward=True)


def require_green(proof: Proof, what: str) -> Proof:
    """``proof`` if every check is green; raises `Refused` ``checks-failed``."""
    if not proof.green:
        raise Refused(
            "checks-failed",
            f"the checks are red on {what}: {proof.failure_text()}",
            "mend it, or give other checks: git baton actions --verify CMD",
            {"checks": msgspec.to_builtins(proof.checks)},
        )
    return proof
