"""Keeping a run's plan in step with what people write.

A new reading of the source becomes a new plan revision, and whatever of the change folder the
integration branch lacks becomes a plan commit on it. Packets already handed out never change.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from gitbaton.engine import membership, source
from gitbaton.engine.advance import carry_out, new_advance
from gitbaton.engine.context import Context
from gitbaton.errors import BatonError
from gitbaton.evidence.ticks import ticked_keys
from gitbaton.git import objects
from gitbaton.model.ids import natural_key
from gitbaton.model.root import ChangeTarget
from gitbaton.model.run import Event, PlanSource, Recorded, RunState
from gitbaton.plan import write
from gitbaton.rules.revise import note_ticks, resolved_by_receipt, revise
from gitbaton.store import runs

_FILE = 0o100644


def synchronise(ctx: Context, run: str, *, plan_from: str | None = None) -> runs.Loaded:
    """Read the source of the plan again; called under the integration lock.

    A source that is gone or cannot be read leaves the plan as it is, with a warning: the run goes
    on by what was approved.
    """
    loaded = runs.load(ctx.repo, run)
    record = loaded.state.run
    if not isinstance(record.target, ChangeTarget):
        return membership.synchronise(ctx, run)
    try:
        if plan_from is None:
            found = source.again(ctx, record.target, record.source)
        else:
            found = source.find(
                ctx,
                record.target.change,
                project=record.target.project or None,
                branch=record.branch,
                base=record.base.ref,
                plan_from=plan_from,
            )
        if found is None:
            ctx.warn(f"the plan is no longer at {record.source.at}; its last revision stands")
            return loaded
        reading = source.read(ctx, found, record.order, record.unit)
    except BatonError as error:
        if plan_from is not None:
            raise
        ctx.warn(f"{error.message}; the last revision of the plan stands")
        return loaded
    return adopt_reading(ctx, loaded, reading, found.source)


def adopt_reading(
    ctx: Context, loaded: runs.Loaded, reading: source.Reading, place: PlanSource
) -> runs.Loaded:
    """Make ``reading`` the plan of the run: new revision, plan commit, both or neither."""
    run = loaded.state.run
    own_branch = place.kind == "revision" and place.at == run.branch
    remembered = replace(place, files={} if own_branch else reading.files)
    before, now = _ticked_last_time(ctx, loaded.state, reading), ticked_keys(reading.text)

    def also(state: RunState) -> RunState:
        return note_ticks(revise(state, reading.plan), before, now)

    def all_of_it(state: RunState) -> RunState:
        state = also(state)
        return replace(state, run=replace(state.run, source=remembered))

    after = all_of_it(loaded.state)
    tree = objects.tree_of(ctx.repo, run.tip)
    resolved = resolved_by_receipt(after)
    new_tree = tree if own_branch else _tree_with(ctx, loaded.state, reading, resolved)
    if new_tree == tree:
        if after == loaded.state:
            return loaded
        event = Event(event="plan", message=f"plan revision {after.plan.revision}")
        return ctx.transact(run.id, lambda fresh: (all_of_it(fresh.state), event))
    revision = after.plan.revision
    message = f"Plan of {run.id}, revision {revision}\n\nBaton-Run: {run.id}\nBaton-Event: plan\n"
    commit = objects.create_commit(
        ctx.repo,
        new_tree,
        [run.tip],
        message,
        author=ctx.require_identity(),
        when=ctx.clock.now().wall,
    )
    # What was read counts as read only when it is on the branch: were the move cut off or refused,
    # it has to be committed all the same.
    record = Recorded(commit=commit, kind="plan")
    intent = new_advance(ctx, loaded, commit, recorded=(record,), plan_source=remembered)
    event = Event(event="plan", message=f"plan revision {revision}, committed as {commit[:12]}")
    return carry_out(ctx, run.id, intent, event, also)


def _ticked_last_time(ctx: Context, state: RunState, reading: source.Reading) -> Collection[str]:
    """The tickets whose boxes were ticked when the source was read last, in the order of the
    file."""
    last = state.run.source.files.get(reading.tasks_path)
    if last is None or last == reading.files.get(reading.tasks_path):
        return ()
    if not objects.exists(ctx.repo, last):  # never committed, and pruned since
        return ()
    return sorted(ticked_keys(objects.read_blob(ctx.repo, last)), key=natural_key)


def _tree_with(
    ctx: Context, state: RunState, reading: source.Reading, resolved: Collection[str]
) -> str:
    """The tip's tree with what people changed in the change folder since the last reading; boxes of
    tickets that the run ``resolved`` stay ticked."""
    changed = source.edits(state.run.source.files, reading.files)
    edits: dict[str, bytes | tuple[str, int] | None] = {}
    for path, oid in changed.items():
        if path == reading.tasks_path:
            edits[path] = write.carry_ticks(reading.text, resolved, unit=state.run.unit)
        elif oid is None:
            edits[path] = None
        else:
            before = objects.entry_at(ctx.repo, state.run.tip, path)
            edits[path] = (oid, before[1] if before else _FILE)
    return objects.edit_tree(ctx.repo, objects.tree_of(ctx.repo, state.run.tip), edits)
