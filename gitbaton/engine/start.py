"""The first claim of a run: everything that would fail later is checked now, then the run exists.

Until the state ref is created nothing has been changed; from then on the ordinary verbs heal
whatever is missing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from gitbaton.engine import source, trust
from gitbaton.engine.context import Context, known_run, not_taken_over
from gitbaton.errors import Conflict, Refused, RepositoryError, UsageError
from gitbaton.evidence.prepare import worktree_root
from gitbaton.git import checkout, objects, process, refs, remote
from gitbaton.model.ids import run_id
from gitbaton.model.plan import Order, Unit
from gitbaton.model.run import Base, Event, RunRecord, RunState
from gitbaton.rules.frontier import recount
from gitbaton.rules.revise import opening
from gitbaton.store import runs, transact


def run_of_change(ctx: Context, change: str, project: str | None) -> str:
    """The run id of a change: its own id, or ``<project>.<change>`` when the plain id belongs to a
    change of another project. ``project`` is a folder relative to the current directory."""
    run_id(change)
    if not known_run(ctx, change):
        return change
    here = source.project_of(ctx, change, project)
    if here is None or here == runs.load_live(ctx.repo, change)[1].target.project:
        return change
    return f"{here.replace('/', '.')}.{change}" if here else change


def require_tasks_file(ctx: Context, run: str, said: Mapping[str, str | None]) -> None:
    """Raise `UsageError` for options about a tasks file where the plan is none."""
    wrong = next((name for name, value in said.items() if value is not None), None)
    if wrong is None or not known_run(ctx, run):
        return
    if runs.load_live(ctx.repo, run)[1].target.state_authority == "virtual_root":
        raise UsageError(
            "no-tasks-file",
            f"{run} is a batch: there is no plan that --{wrong.replace('_', '-')} could be about",
            "leave it out; `git baton batch open` says which items are meant, in which order",
        )


def start(
    ctx: Context,
    change: str,
    *,
    checks: Sequence[str],
    base: str | None,
    order: Order | None,
    unit: Unit | None,
    project: str | None,
    plan_from: str | None,
) -> str:
    """Create the run of ``change``; returns its id. A concurrent start of the same run is fine."""
    process.require_git()
    ctx.repo.require_history()
    base_ref, base_commit = find_base(ctx, base)
    found = source.find(
        ctx,
        change,
        project=project,
        branch=ctx.branch(change),
        base=base_ref,
        plan_from=plan_from,
    )
    run = run_of_change(ctx, change, project)
    if known_run(ctx, run):
        return run
    _require_nowhere_else(ctx, run)
    commands = require_checks(ctx, checks)
    ctx.require_identity()
    trust.require_ready(ctx)
    plan = source.read(ctx, found, order, unit).plan
    branch = ctx.branch(run)
    require_free_branch(ctx, run, branch, base_commit)
    require_worktree_root(ctx)
    ctx.repo.writable_or_refuse()
    now = ctx.clock.now()
    record = RunRecord(
        id=run,
        target=found.target,
        base=Base(ref=base_ref, commit=base_commit),
        branch=branch,
        tip=base_commit,
        checks=commands,
        order=order,
        unit=unit,
        source=found.source,
        created_at=now.stamp,
    )
    state = RunState(run=record, plan=plan, live=opening(plan))
    event = Event(event="start", message=f"start {run}: {len(plan.tickets)} tickets")
    try:
        transact.create(ctx.repo, recount(state), event, ctx.clock)
    except Conflict:
        if not known_run(ctx, run):
            raise
    return run


def _require_nowhere_else(ctx: Context, run: str) -> None:
    """Refuse to begin anew what was done elsewhere and only fetched from there: two records under
    one name are what audit takes for a forgery."""
    taking_over = not_taken_over(ctx, run)
    if taking_over is not None:
        raise Refused("run-elsewhere", f"{run} has been run elsewhere", taking_over)


def require_checks(ctx: Context, given: Sequence[str]) -> tuple[str, ...]:
    """The checks of a run: those given, else the configured ones. Raises `Refused` for none."""
    commands = usable(given) or usable(ctx.settings.verify)
    if not commands:
        raise Refused(
            "no-checks",
            "no check is configured, so nothing could be verified",
            "pass --verify CMD, or: git config --add baton.verify CMD",
        )
    return commands


def usable(checks: Sequence[str]) -> tuple[str, ...]:
    """``checks``, none of which is empty: the shell calls that a success. Raises `UsageError`."""
    if not all(check.strip() for check in checks):
        raise UsageError(
            "empty-check", "a check is empty and would prove nothing", "--verify takes a command"
        )
    return tuple(checks)


def find_base(ctx: Context, given: str | None) -> tuple[str, str]:
    """The base branch (full ref) and its commit: ``--base``, ``baton.base``, the branch of the
    current or main working tree, the remote's default branch, the only branch. Raises `Refused`."""
    if not ctx.repo.has_commits():
        raise RepositoryError(
            "no-commit", "the repository has no commit yet", "commit something first"
        )
    named = given or ctx.settings.base
    if named:
        for ref in (named, f"refs/heads/{named}", f"refs/remotes/{named}"):
            if ref.startswith("refs/") and (commit := refs.read(ctx.repo, ref)):
                return ref, commit
        raise Refused(
            "unknown-base", f"there is no branch {named}", "--base takes an existing branch"
        )
    branches = refs.list_refs(ctx.repo, "refs/heads/")
    own = (f"refs/heads/{ctx.settings.branch_prefix}/", f"refs/heads/{ctx.settings.branch_prefix}-")
    candidates: list[str | None] = [ctx.repo.head_branch()]
    if ctx.repo.main_worktree is not None:
        candidates.append(checkout.head_ref(ctx.repo.main_worktree))
    candidates.append(remote.default_branch(ctx.repo))
    others = [ref for ref in branches if not ref.startswith(own)]
    if len(others) == 1:
        candidates.append(others[0])
    for ref in filter(None, candidates):
        if not ref.startswith(own) and (commit := refs.read(ctx.repo, ref)):
            return ref, commit
    raise Refused(
        "no-base",
        "no base branch could be found",
        "name it: --base BRANCH, or git config baton.base BRANCH",
    )


def require_free_branch(ctx: Context, run: str, branch: str, base_commit: str) -> None:
    """Raise `Refused` if the integration branch exists already, or something is in the way of its
    name."""
    existing = refs.read(ctx.repo, branch)
    if existing is not None and existing != base_commit:
        raise Refused(
            "branch-exists",
            f"branch {branch.removeprefix('refs/heads/')} exists, but run {run} does not",
            "rename or delete it, or choose another git config baton.branchPrefix",
        )
    parts = branch.split("/")
    for end in range(3, len(parts)):
        if refs.read(ctx.repo, "/".join(parts[:end])) is not None:
            name = "/".join(parts[2:end])
            raise Refused(
                "branch-in-the-way",
                f"a branch named {name} makes {'/'.join(parts[2:])} impossible",
                f"rename it, or: git config baton.branchPrefix {name}-runs",
            )
    if objects.resolve(ctx.repo, branch) is None and refs.list_refs(ctx.repo, f"{branch}/"):
        raise Refused(
            "branch-in-the-way",
            f"branches below {'/'.join(parts[2:])}/ make that name impossible",
            "rename them, or choose another git config baton.branchPrefix",
        )


def require_worktree_root(ctx: Context) -> None:
    """Raise `Refused` unless worktrees can be made where they are to lie."""
    root: Path = worktree_root(ctx.repo, ctx.settings)
    existing = root
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise Refused(
            "worktree-dir-unwritable",
            f"worktrees cannot be made in {root}: {existing} is not writable",
            "choose another folder: git config baton.worktreeDir DIR",
        )
