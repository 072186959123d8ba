"""`plan` shows what was read from the tasks file; `tasks` flips a box in the working tree."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec

from gitbaton.engine import source
from gitbaton.engine.context import Context, known_run, nearest, resolve_run
from gitbaton.engine.disk import write_synced
from gitbaton.engine.start import find_base, run_of_change
from gitbaton.errors import BatonError, NotFound, PlanError, Refused
from gitbaton.model.plan import Boxes, Order, Plan, Remark, Unit
from gitbaton.model.root import BatchTarget, ChangeTarget
from gitbaton.model.run import RunState
from gitbaton.plan import openspec, tasksmd, write
from gitbaton.rules.frontier import all_predecessors, startable, ticket_states
from gitbaton.rules.revise import revise
from gitbaton.store import runs


class TicketView(msgspec.Struct, frozen=True, kw_only=True):
    """``marker`` is the raw character in its box, a space for one that is open as usual."""

    key: str
    alias: str
    title: str
    section: str
    state: str
    marker: str
    needs: tuple[str, ...]
    checks: tuple[str, ...]
    paths: tuple[str, ...]
    criteria: tuple[str, ...]
    line: int


class PlanView(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as read. ``commands`` are all that would run, ``source`` where it was read."""

    run: str
    order: Order
    unit: Unit
    tickets: tuple[TicketView, ...]
    frontier: tuple[str, ...]
    warnings: tuple[Remark, ...]
    errors: tuple[Remark, ...]
    boxes: Boxes
    commands: tuple[str, ...]
    source: str


class TaskFlip(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    action: str
    dry_run: bool
    reverse: str


def plan(
    ctx: Context,
    run_name: str | None,
    *,
    order: Order | None = None,
    unit: Unit | None = None,
    project: str | None = None,
    plan_from: str | None = None,
) -> PlanView:
    """The plan of a run or change, an archived one included; nothing is written."""
    name = resolve_run(ctx, run_name, must_exist=False)
    run = run_of_change(ctx, name, project)
    state = runs.load(ctx.repo, run).state if known_run(ctx, run) else None
    if state is not None:
        if isinstance(state.run.target, BatchTarget):
            return _view(run, state.plan, state, state.run.checks, (), (), state.run.source.at)
        order, unit = order or state.run.order, unit or state.run.unit
    path, text = _text(ctx, name, state, project, plan_from)
    read = tasksmd.read(text, order=order, unit=unit)
    strict = tasksmd.check_errors(read)
    warnings = [w for w in read.warnings if w not in strict]
    if state is not None and not strict:
        state = revise(state, read)  # as if it had been taken over already
    checks = state.run.checks if state is not None else ctx.settings.verify
    if not checks:
        warnings.append(
            Remark(
                line=0,
                code="no-checks",
                message="no check is configured for this run: name it with --verify, or "
                "git config --add baton.verify CMD",
            )
        )
    return _view(run, read, state, checks, tuple(warnings), strict, path)


def _text(
    ctx: Context,
    name: str,
    state: RunState | None,
    project: str | None,
    plan_from: str | None,
) -> tuple[str, bytes]:
    """Path and bytes of the tasks file, from where the run would read it."""
    found, change = None, name
    if state is not None:
        target = _change(state)
        change = target.change
        if plan_from is None:
            found = source.again(ctx, target, state.run.source)
    if found is None:
        try:
            found = source.find(
                ctx,
                change,
                project=project,
                branch=ctx.branch(name),
                base=_base(ctx),
                plan_from=plan_from,
            )
        except NotFound as error:
            if error.code != "change-archived":
                raise
            folder, where = source.find_archived(ctx, change, project)
            path = openspec.tasks_path(folder, where)
            return path, _required(folder.read(path), path)
    return found.tasks_path, _required(found.folder.read(found.tasks_path), found.tasks_path)


def _change(state: RunState) -> ChangeTarget:
    """The change that a run executes; raises `Refused` for one that has no plan to be written."""
    if not isinstance(state.run.target, ChangeTarget):
        raise Refused(
            "plan-write-refused",
            f"{state.run.id} is a virtual root: it has no tasks file",
            "`git baton queue set ITEM` changes an item of its queue",
        )
    return state.run.target


def _base(ctx: Context) -> str | None:
    try:
        return find_base(ctx, None)[0]
    except BatonError:
        return None


def _required(text: bytes | None, path: str) -> bytes:
    if text is None:
        raise PlanError("no-tasks", f"{path} does not exist", "write the tasks of the change there")
    return text


def _view(
    run: str,
    read: Plan,
    state: RunState | None,
    checks: tuple[str, ...],
    warnings: tuple[Remark, ...],
    errors: tuple[Remark, ...],
    path: str,
) -> PlanView:
    states = dict(ticket_states(state)) if state is not None else {}
    own = [command for ticket in read.tickets for command in ticket.checks]
    missing = (
        state.live.missing
        if state is not None
        else [t.key for t in read.tickets if t.mark == "open"]
    )
    return PlanView(
        run=run,
        order=read.order,
        unit=read.unit,
        tickets=tuple(
            TicketView(
                key=t.key,
                alias=t.alias,
                title=t.title,
                section=read.sections[t.section].title,
                state=states.get(t.key, t.mark),
                marker=t.marker,
                needs=needs,
                checks=tuple(dict.fromkeys((*checks, *t.checks))),
                paths=t.paths,
                criteria=tuple(c.text for c in t.criteria),
                line=t.line,
            )
            for t, needs in all_predecessors(read)
        ),
        frontier=tuple(t.key for t in startable(read, missing)),
        warnings=warnings,
        errors=errors,
        boxes=read.boxes,
        commands=tuple(dict.fromkeys((*checks, *own))),
        source=path,
    )


def check_box(ctx: Context, run_name: str | None, key: str, done: bool, dry_run: bool) -> TaskFlip:
    """Tick or untick a box in the working tree; changes nothing but marker characters."""
    name = resolve_run(ctx, run_name, must_exist=False)
    run = run_of_change(ctx, name, None)
    state = runs.load(ctx.repo, run).state if known_run(ctx, run) else None
    target = _change(state) if state is not None else None
    if state is not None and target is not None and state.run.source.kind == "worktree":
        found = source.again(ctx, target, state.run.source)
    else:
        found = source.find(ctx, name, project=None, branch=ctx.branch(name), base=_base(ctx))
    if found is None or not isinstance(found.folder, openspec.DiskFolder):
        raise Refused(
            "no-working-tree",
            f"the plan of {name} is not in a working tree",
            "check out a branch that holds it",
        )
    text = _required(found.folder.read(found.tasks_path), found.tasks_path)
    unit = state.run.unit if state is not None else None
    read = tasksmd.read(text, unit=unit)
    ticket = read.ticket(key)
    if ticket is None:
        raise NotFound(
            "unknown-ticket",
            f"{found.tasks_path} has no ticket {key}",
            nearest(key, [t.key for t in read.tickets]),
        )
    changed = write.set_marks(text, [ticket.key], done, unit=unit)
    if not dry_run and changed != text:
        write_synced(Path(found.source.at) / found.tasks_path, changed)
    action, reverse = ("check", "uncheck") if done else ("uncheck", "check")
    return TaskFlip(
        key=ticket.key,
        action=action,
        dry_run=dry_run,
        reverse=f"git baton tasks {reverse} {shlex.quote(name)} {shlex.quote(ticket.key)}",
    )
