"""All that a board shows, gathered: every ticket and attempt of one run or of all, as one value.

A board is made once and read elsewhere, so nothing in it may need the repository again: receipts
are opened here, and the commands that a reader may want are written out. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from gitbaton.engine.boardparts import (
    AttemptCard,
    TicketCard,
    attempt_card,
    for_run,
    ticket_card,
)
from gitbaton.engine.context import Context, resolve_run
from gitbaton.engine.rootview import BatchView
from gitbaton.engine.rootview import view as batch_view
from gitbaton.engine.view import (
    FOREIGN,
    Counts,
    HaltView,
    counts_of,
    halt_of,
    is_seen_landed,
    relay_of,
    state_of,
)
from gitbaton.errors import BatonError, NotFound, RepositoryError
from gitbaton.git import ancestry, objects, refs
from gitbaton.model import layout
from gitbaton.model.ids import natural_key
from gitbaton.model.receipt import CheckResult
from gitbaton.model.root import BatchTarget, VirtualBatchDescriptor
from gitbaton.model.run import Attempt, Note, RunState
from gitbaton.model.usage import Usage
from gitbaton.rules.frontier import ticket_states
from gitbaton.store import runs


class SectionCard(msgspec.Struct, frozen=True, kw_only=True):
    title: str


class BatchCard(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch was asked to do, how it stands, and the gates as they last ran."""

    descriptor: VirtualBatchDescriptor
    view: BatchView
    gates: tuple[CheckResult, ...]


class RunCard(msgspec.Struct, frozen=True, kw_only=True):
    """One run. ``commit`` is the state that is shown, ``as_of`` its time; a run that cannot be read
    has its ``error`` and nothing else."""

    run: str
    error: str | None = None
    type: str = ""
    name: str = ""
    state: str = "unreadable"
    complete: bool = False
    landed: bool = False
    paused: str | None = None
    halt: HaltView | None = None
    base: str = ""
    branch: str = ""
    tip: str = ""
    commit: str = ""
    as_of: str = ""
    created_at: str = ""
    generation: int = 0
    revision: int = 0
    order: str = ""
    checks: tuple[str, ...] = ()
    counts: Counts = Counts()
    sections: tuple[SectionCard, ...] = ()
    tickets: tuple[TicketCard, ...] = ()
    attempts: tuple[AttemptCard, ...] = ()
    followups: tuple[Note, ...] = ()
    warnings: tuple[str, ...] = ()
    usage: Usage | None = None
    batch: BatchCard | None = None
    commands: tuple[str, ...] = ()


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """``made_at`` is the time up to which what goes on has lasted: of a board of an earlier state
    that state's (``at`` is its commit). ``rests_on`` are the refs that were read."""

    repository: str
    made_at: str
    at: str | None
    runs: tuple[RunCard, ...]
    rests_on: dict[str, str | None]


def board(
    ctx: Context, run_name: str | None, *, every: bool = False, at: str | None = None
) -> Board:
    """The board of one run, of ``every`` run, or of a run as of the state commit ``at``.

    Of all runs, one that cannot be read is there with its error. Raises `NotFound` for a run or
    state that is not there.
    """
    made_at, commit, rests_on = ctx.clock.now().stamp, None, dict[str, str | None]()
    cards: tuple[RunCard, ...]
    if at is not None:
        loaded = _state_at(ctx, run_name, at)
        commit = loaded.oid
        cards = (_card(ctx, loaded, None),)
        made_at = cards[0].as_of
    elif every:
        rests_on = dict(_refs_of_all(ctx))
        cards = tuple(_card_or_error(ctx, run, rests_on) for run in runs.list_runs(ctx.repo))
    else:
        run = resolve_run(ctx, run_name)
        rests_on[layout.run_ref(run)] = runs.tip(ctx.repo, run)
        cards = (_card(ctx, runs.load(ctx.repo, run, rests_on[layout.run_ref(run)]), rests_on),)
    place = ctx.repo.main_worktree or ctx.repo.common_dir
    return Board(repository=place.name, made_at=made_at, at=commit, runs=cards, rests_on=rests_on)


def has_moved(ctx: Context, made: Board, *, every: bool) -> bool:
    """Whether a board that is made now would show something else than ``made``."""
    if every and _refs_of_all(ctx).keys() != {r for r in made.rests_on if _is_state(r)}:
        return True
    return any(refs.read(ctx.repo, ref) != oid for ref, oid in made.rests_on.items())


def _is_state(ref: str) -> bool:
    return ref.startswith(layout.RUNS)


def _refs_of_all(ctx: Context) -> Mapping[str, str | None]:
    return {layout.run_ref(run): oid for run, oid in runs.list_runs(ctx.repo).items()}


def _state_at(ctx: Context, run_name: str | None, at: str) -> runs.Loaded:
    """The state that a revision names; raises `NotFound` unless it lies on the run's chain."""
    run = resolve_run(ctx, run_name) if run_name else None
    commit = objects.resolve(ctx.repo, at)
    if commit is not None:
        try:
            loaded = runs.load(ctx.repo, run or "", commit)
        except RepositoryError:
            loaded = None
        if loaded is not None and run in (None, loaded.state.run.id):
            tip = runs.tip(ctx.repo, loaded.state.run.id)
            chain = ancestry.first_parent_chain(ctx.repo, tip, None)
            if any(info.oid == commit for info in chain):
                return loaded
    whose = f"of {run}" if run else "of any run"
    raise NotFound("not-a-state", f"{at} is no state {whose}", "`git baton log` lists them")


def _card_or_error(ctx: Context, run: str, rests_on: dict[str, str | None]) -> RunCard:
    try:
        return _card(ctx, runs.load(ctx.repo, run, rests_on[layout.run_ref(run)]), rests_on)
    except BatonError as error:
        return RunCard(run=run, error=error.message)


def _card(ctx: Context, loaded: runs.Loaded, rests_on: dict[str, str | None] | None) -> RunCard:
    """One run; as it is now, if the refs that this takes can be added to ``rests_on``."""
    state = loaded.state
    record, live = state.run, state.live
    halt, landed = _halt_then(state), False
    if rests_on is not None:
        halt = halt_of(ctx, record, live)
        for ref in (record.base.ref, record.branch):
            rests_on[ref] = refs.read(ctx.repo, ref)
        landed = live.complete and is_seen_landed(ctx, record)
    attempts = sorted(loaded.all_attempts(), key=lambda a: (natural_key(a.ticket), a.number))
    return RunCard(
        run=record.id,
        type=str(record.target.__struct_config__.tag),
        name=record.target.name,
        state="blocked" if halt and halt.code == FOREIGN else state_of(record, live),
        complete=live.complete,
        landed=landed,
        paused=record.paused,
        halt=halt,
        base=record.base.ref.removeprefix("refs/heads/"),
        branch=record.branch.removeprefix("refs/heads/"),
        tip=record.tip,
        commit=loaded.oid,
        as_of=record.updated_at or record.created_at,
        created_at=record.created_at,
        generation=record.generation,
        revision=live.revision,
        order=state.plan.order,
        checks=record.checks,
        counts=counts_of(live),
        sections=tuple(SectionCard(title=s.title) for s in state.plan.sections),
        tickets=tuple(_tickets(state)),
        attempts=tuple(_attempts(ctx, loaded, attempts, now=rests_on is not None)),
        followups=live.notes,
        warnings=live.warnings,
        usage=live.usage,
        batch=_batch(state),
        commands=tuple(for_run(record, live, landed=landed)),
    )


def _halt_then(state: RunState) -> HaltView | None:
    halt = state.live.halt
    if halt is None or halt.tip != state.run.tip:
        return None
    return HaltView(code=halt.code, message=halt.reason, hint=halt.hint)


def _tickets(state: RunState) -> Iterator[TicketCard]:
    states = ticket_states(state)
    for ticket in state.plan.tickets:
        yield ticket_card(state, ticket, states[ticket.key])


def _attempts(
    ctx: Context, loaded: runs.Loaded, attempts: Sequence[Attempt], *, now: bool
) -> Iterator[AttemptCard]:
    following = {a.ticket: dict[int, str]() for a in attempts}
    for attempt in attempts:
        following[attempt.ticket][attempt.number - 1] = attempt.claimed_at
    for attempt in attempts:
        advice = ""
        if now and not attempt.terminal:
            relay = relay_of(ctx, loaded.state.run.id, attempt, loaded.state.live)
            advice = relay.suggested_action
        yield attempt_card(loaded, attempt, advice, following[attempt.ticket].get(attempt.number))


def _batch(state: RunState) -> BatchCard | None:
    target, batch = state.run.target, state.batch
    if not isinstance(target, BatchTarget) or batch is None:
        return None
    return BatchCard(
        descriptor=target.descriptor,
        view=batch_view(target.descriptor, batch, state.live),
        gates=(batch.freeze.gates if batch.freeze else None) or (),
    )
