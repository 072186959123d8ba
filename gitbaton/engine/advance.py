"""Moving the integration branch, so that a kill at any moment loses nothing and does nothing twice.

First the intent is recorded with everything that becomes true once the branch has moved; then the
branch moves, by compare-and-swap; then the state says so. Whoever finds an intent looks where the
branch is: beyond the old tip by the intended commit - finish, else drop. All of this happens under
the run's integration lock, so an intent that is found there belongs to somebody who is dead.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from gitbaton.engine import holding, trust
from gitbaton.engine.context import Context
from gitbaton.errors import BatonError, Busy, Conflict, Refused
from gitbaton.evidence.examine import named
from gitbaton.evidence.ticks import ticked_keys
from gitbaton.git import ancestry, checked_out, checkout, durable, objects, refs, worktree
from gitbaton.lock import Lock
from gitbaton.model.action import Blocked
from gitbaton.model.ids import AttemptId
from gitbaton.model.run import (
    INTENT,
    Advance,
    Event,
    Land,
    Merged,
    PlanSource,
    Recorded,
    RunRecord,
    RunState,
)
from gitbaton.plan import write
from gitbaton.rules import settle
from gitbaton.rules.state import with_intent
from gitbaton.store import notes, runs


@contextmanager
def exclusively(ctx: Context, run: str) -> Iterator[None]:
    """The integration lock, waited for; raises `Busy` ``integrating`` after a minute."""
    lock = integration_lock(ctx, run)
    try:
        lock.acquire(timeout=60)
    except Busy as error:
        raise Busy("integrating", f"another process integrates {run}", "try again") from error
    with lock:
        yield


def integration_lock(ctx: Context, run: str) -> Lock:
    """Held by whoever moves the integration branch or a landing target, checks included."""
    return ctx.run_lock(run, "integrate")


def new_advance(
    ctx: Context,
    loaded: runs.Loaded,
    new: str,
    *,
    merges: tuple[Merged, ...] = (),
    recorded: tuple[Recorded, ...] = (),
    receipts: Mapping[str, str] | None = None,
    reopened: tuple[str, ...] = (),
    plan_source: PlanSource | None = None,
) -> Advance:
    """The intent to move the integration branch from the recorded tip to ``new``; its ``receipts``
    (by object id) are signed."""
    now = ctx.clock.now()
    run = loaded.state.run
    where = worktree.checked_out_at(ctx.repo, run.branch)
    return Advance(
        id=secrets.token_hex(8),
        machine=now.machine,
        boot=now.boot,
        started_at=now.stamp,
        branch=run.branch,
        old=run.tip,
        new=new,
        worktree=str(where) if where else None,
        merges=merges,
        recorded=recorded,
        receipts=dict(receipts or {}),
        signatures=trust.sign_all(ctx, receipts or {}),
        reopened=reopened,
        source=plan_source,
    )


def carry_out(
    ctx: Context,
    run: str,
    intent: Advance,
    event: Event,
    also: Callable[[RunState], RunState] | None = None,
) -> runs.Loaded:
    """Intent, branch, state, notes. ``also`` is applied to the state together with the intent (the
    new plan of a plan commit).

    Raises `Conflict` when the branch moved meanwhile, and `Refused` when a receipt changed or the
    branch is checked out where it cannot be moved; the intent is void then.
    """

    def begin(loaded: runs.Loaded) -> tuple[RunState, Event]:
        state = loaded.state
        if state.run.tip != intent.old:
            raise Conflict("tip-moved", f"{intent.branch} was moved meanwhile", "try again")
        state = settle.begin(also(state) if also else state, intent)
        state = replace(with_intent(state, intent), parents=(*state.parents, intent.new))
        return state, _intended(event)

    return _carry_out(ctx, run, intent, begin, event)


def carry_out_landing(ctx: Context, run: str, intent: Land, event: Event) -> runs.Loaded:
    """The same for a landing target."""

    def begin(loaded: runs.Loaded) -> tuple[RunState, Event]:
        state = with_intent(loaded.state, intent)
        state = replace(state, parents=(*state.parents, intent.new))
        return state, _intended(event)

    return _carry_out(ctx, run, intent, begin, event)


def _carry_out(
    ctx: Context,
    run: str,
    intent: Advance | Land,
    begin: Callable[[runs.Loaded], tuple[RunState, Event]],
    event: Event,
) -> runs.Loaded:
    _require_movable(ctx, run, intent)
    durable.sync_commits(ctx.repo, _made(intent))
    ctx.transact(run, begin)
    try:
        _move_branch(ctx, run, intent)
    except BatonError:
        _drop(ctx, run, intent, event)
        raise
    return _settled(ctx, run, intent, event)


def _made(intent: Advance | Land) -> list[str]:
    """The commits that the branch gets."""
    if isinstance(intent, Land):
        return [intent.new]
    return [*(m.commit for m in intent.merges), *(r.commit for r in intent.recorded), intent.new]


def recover(ctx: Context, run: str) -> None:
    """Finish or drop what a dead process left. Called under the integration lock."""
    for intent in runs.load(ctx.repo, run).state.intents.values():
        if isinstance(intent, Advance | Land):
            what = f"an interrupted move of {short(intent.branch)}"
            if _is_moved(ctx, run, intent):
                _settled(ctx, run, intent, Event(event="recover", message=f"finish {what}"))
            else:
                _drop(ctx, run, intent, Event(event="recover", message=what))


def _is_moved(ctx: Context, run: str, intent: Advance | Land) -> bool:
    """Whether the branch holds the intended commit on its first-parent chain.

    A branch that is checked out is brought there if it was not: its files may have been written
    before the kill, so going on is the only way that loses nothing.
    """
    tip = refs.read(ctx.repo, intent.branch)
    if tip is None or not objects.exists(ctx.repo, intent.new):
        return False
    chain = ancestry.first_parent_chain(ctx.repo, tip, intent.old)
    moved = any(commit.oid == intent.new for commit in chain)
    there = intent.worktree is not None and Path(intent.worktree).is_dir()
    if intent.worktree is not None and there and (moved or tip == intent.old):
        try:
            if checkout.remove_leftover_lock(ctx.repo, Path(intent.worktree)):
                ctx.warn(f"removed a lock of the index left behind in {intent.worktree}")
            _move_branch(ctx, run, intent)
        except BatonError as error:
            ctx.warn(f"{intent.worktree} was not brought up to date: {error.message}")
            return moved
        return True
    return moved


def heal_branch(ctx: Context, loaded: runs.Loaded) -> None:
    """Make the integration branch where it does not exist (yet, or any more): its recorded tip is
    kept by the state."""
    run = loaded.state.run
    if refs.read(ctx.repo, run.branch) is None:
        refs.cas(ctx.repo, run.branch, None, run.tip, f"git-baton: branch of {run.id}", ours=True)


def foreign_tip(ctx: Context, loaded: runs.Loaded) -> str | None:
    """The tip of the integration branch if it is not the one that the state last recorded."""
    while True:
        state = loaded.state
        tip = refs.read(ctx.repo, state.run.branch)
        moving = {i.new for i in state.intents.values() if isinstance(i, Advance)}
        if tip is None or tip == state.run.tip or tip in moving:
            return None
        # The branch and the state cannot be read at once: another process may have moved both
        # since. It is foreign only if the state stood still.
        fresh = runs.load(ctx.repo, state.run.id)
        if fresh.oid == loaded.oid:
            return tip
        loaded = fresh


def astray(ctx: Context, record: RunRecord, tip: str) -> Blocked:
    """What is said of a `foreign_tip`: it is behind when a state was fetched without its branch."""
    branch = short(record.branch)
    back = f"`git branch -f {branch} {record.tip[:12]}`"
    if ancestry.is_ancestor(ctx.repo, tip, record.tip):
        return Blocked(
            code="foreign-commit",
            reason=f"{branch} is at {tip[:12]}, behind the recorded {record.tip[:12]}",
            hint=f"{back} brings it there",
        )
    return Blocked(
        code="foreign-commit",
        reason=f"{branch} is at {tip[:12]}, which git-baton did not put there "
        f"(recorded: {record.tip[:12]})",
        hint=f"`git baton update {record.id} --accept` checks and records it; {back} undoes it",
    )


def _require_movable(ctx: Context, run: str, intent: Advance | Land) -> None:
    if intent.worktree is None:
        return
    top = Path(intent.worktree)
    begun = checkout.under_way(checkout.place_of(top))
    if begun is not None:
        raise _in_the_way(
            intent,
            f"{begun} is under way in {top}, where {short(intent.branch)} is checked out",
            "finish or abort it",
        )
    dirty = checked_out.dirty_paths(ctx.repo, top, intent.old or "", intent.new)
    lost = [path for path in dirty if path not in _saved_plan_files(ctx, run, intent)]
    if lost:
        raise _in_the_way(
            intent,
            f"{short(intent.branch)} is checked out in {top} with changes that would be lost: "
            + named(lost),
            "commit, stash or discard them there, or check out another branch",
        )


def _in_the_way(intent: Advance | Land, message: str, hint: str) -> Refused:
    if isinstance(intent, Advance):
        return Refused("integration-checked-out", message, hint)
    return Refused("target-checked-out", message, hint)


def _move_branch(ctx: Context, run: str, intent: Advance | Land) -> None:
    if intent.worktree is None:
        if refs.read(ctx.repo, intent.branch) == intent.new:
            return  # a commit that somebody put there is only recorded
        message = f"git-baton: move to {intent.new[:12]}"
        refs.cas(ctx.repo, intent.branch, intent.old, intent.new, message, ours=True)
        return
    top = Path(intent.worktree)
    for path, data in _saved_plan_files(ctx, run, intent).items():
        # In place, as git would: half of it is recognised, a temporary file would stay.
        (top / path).write_bytes(data)
    checked_out.move(ctx.repo, top, intent.branch, intent.old or "", intent.new, ours=True)


def _saved_plan_files(ctx: Context, run: str, intent: Advance | Land) -> dict[str, bytes]:
    """Files of the change folder in the worktree that hold nothing but what a plan commit recorded,
    ticks aside, with what they become: overwriting them loses nothing."""
    assert intent.worktree is not None
    record = runs.load(ctx.repo, run).state.run
    recorded = [r.commit for r in record.recorded if r.kind == "plan"] + [record.base.commit]
    saved: dict[str, bytes] = {}
    for path in objects.changed_paths(ctx.repo, intent.old or "", intent.new):
        after = objects.blob_at(ctx.repo, intent.new, path)
        file = Path(intent.worktree) / path
        if after is None or not path.startswith(record.target.folder + "/") or not file.is_file():
            continue
        now = file.read_bytes()
        known = [objects.blob_at(ctx.repo, commit, path) for commit in recorded]
        ticks_kept = ticked_keys(now) <= ticked_keys(after)
        if now != after and any(
            text == now or (text and ticks_kept and write.marks_only_difference(text, now))
            for text in known
        ):
            saved[path] = after
    return saved


def _settled(ctx: Context, run: str, intent: Advance | Land, event: Event) -> runs.Loaded:
    """The branch has moved; now a queue learns what is fixed, and then the state."""
    if isinstance(intent, Advance) and intent.merges:
        holding.settle(ctx, run, intent)
    return finish(ctx, run, intent, event)


def finish(ctx: Context, run: str, intent: Advance | Land, event: Event) -> runs.Loaded:
    """The branch has moved; now the state and the notes say so. Idempotent."""

    def step(loaded: runs.Loaded) -> tuple[RunState, Event] | None:
        if intent.id not in loaded.state.intents:
            return None
        if isinstance(intent, Land):
            return settle.landed(loaded.state, intent), event
        return settle.finish(loaded.state, intent, ctx.clock.now()), event

    return ctx.transact(run, step, lambda before: _texts(before, intent), notes_first=True)


def _intended(event: Event) -> Event:
    return replace(event, event=event.event + INTENT, message=f"about to {event.message}")


def _drop(ctx: Context, run: str, intent: Advance | Land, event: Event) -> None:
    def step(loaded: runs.Loaded) -> tuple[RunState, Event] | None:
        if intent.id not in loaded.state.intents:
            return None
        voided = replace(event, event="void", message=f"void: {event.message}")
        return settle.drop(loaded.state, intent), voided

    ctx.transact(run, step)


def _texts(loaded: runs.Loaded, intent: Advance | Land) -> dict[str, bytes]:
    """The receipts of what moved, as notes of their commits."""
    texts = {oid: text.encode() for oid, text in intent.receipts.items()}
    for merged in intent.merges if isinstance(intent, Advance) else ():
        attempt = loaded.attempt(AttemptId(merged.ticket, merged.number))
        receipt = loaded.receipt(AttemptId(merged.ticket, merged.number))
        if attempt is None or receipt is None or attempt.sealed is None:
            continue
        own = merged.receipt.encode() if merged.receipt is not None else None
        texts[attempt.sealed.commit] = receipt
        texts[merged.commit] = notes.of_merge(receipt, own)
    return texts


def short(ref: str) -> str:
    """A branch as people write it."""
    return ref.removeprefix("refs/heads/")
