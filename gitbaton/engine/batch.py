"""Putting an action batch together: from the state, and from what this call has just done."""

from __future__ import annotations

from dataclasses import dataclass, field

from gitbaton.engine import cleanup, integrate, membership, prepare
from gitbaton.engine.context import Context
from gitbaton.model.action import (
    Action,
    ActionBatch,
    BatchState,
    Blocked,
    Complete,
    Dispatch,
    Recover,
    ResolveMerge,
    Wait,
)
from gitbaton.model.ids import AttemptId, assignment_id
from gitbaton.model.run import Attempt
from gitbaton.rules.frontier import claimable, exhausted
from gitbaton.rules.revise import resolved_by_receipt
from gitbaton.rules.state import active_attempts
from gitbaton.store import runs

POLL_SECONDS = 2
_CLOSING = "another process closes the batch"


@dataclass
class Outlook:
    """What one call did: whom it handed out, and which attempts it saw end without a receipt."""

    retired: tuple[AttemptId, ...] = ()
    dispatches: list[Dispatch | ResolveMerge] = field(default_factory=list)


def compose(ctx: Context, run: str, outlook: Outlook) -> ActionBatch:
    """The batch for the run as it is now."""
    loaded = runs.load(ctx.repo, run)
    live = loaded.state.live
    active = active_attempts(live)
    found: list[Action] = [*outlook.dispatches, *_recoveries(loaded, outlook)]
    obstacles = _obstacles(ctx, loaded)
    state: BatchState
    if loaded.state.run.paused is not None:
        state = "paused"
        found.append(_paused(loaded))
    elif live.complete and not obstacles:
        state = "complete"
        found.append(_complete(ctx, loaded))
    elif outlook.dispatches:
        state = "executing"
        found.extend(obstacles)
    elif live.exhausted and not obstacles:
        state = "waiting"
        found.append(Wait(reason=_CLOSING, active=(), poll_after_seconds=POLL_SECONDS))
    elif _under_way(ctx, loaded, active) or (not obstacles and claimable(loaded.state)):
        state = "waiting"
        found.extend((_wait(ctx, loaded, active), *obstacles))
    else:
        state = "blocked"
        found.extend(obstacles or [_stuck(loaded)])
    return ActionBatch(
        run=run,
        generation=loaded.state.run.generation,
        revision=live.revision,
        state=state,
        mode=loaded.state.run.target.mode,
        actions=tuple(found),
        warnings=live.warnings,
    )


def _recoveries(loaded: runs.Loaded, outlook: Outlook) -> list[Recover]:
    """Every attempt of unknown outcome or waiting for a decision, and those just retired."""
    live = loaded.state.live
    retried = {d.ticket: d.assignment for d in outlook.dispatches if not d.redelivered}
    waiting = [a.id for a in live.attempts.values() if a.state in ("unknown", "blocked-review")]
    found: list[Recover] = []
    for attempt_id in dict.fromkeys((*outlook.retired, *waiting)):
        attempt = loaded.attempt(attempt_id)
        if attempt is None or attempt.failure is None or _is_conflict(attempt):
            continue
        retry = attempt.state in ("unknown", "superseded")
        found.append(
            Recover(
                assignment=assignment_id(loaded.state.run.id, attempt.id),
                ticket=attempt.ticket,
                reason=attempt.failure.code,
                next="retry" if retry else "decide",
                retried_as=retried.get(attempt.ticket) if retry else None,
                message=attempt.failure.message,
            )
        )
    return found


def _is_conflict(attempt: Attempt) -> bool:
    return attempt.failure is not None and attempt.failure.code == "merge-conflict"


def _under_way(ctx: Context, loaded: runs.Loaded, active: list[Attempt]) -> list[Attempt]:
    """The attempts that go on by themselves: while something keeps integration from going on, what
    is sealed waits for a person."""
    halted = integrate.obstacle(ctx, loaded) is not None
    return [a for a in active if not (halted and a.state == "sealed")]


def _wait(ctx: Context, loaded: runs.Loaded, active: list[Attempt]) -> Wait:
    run = loaded.state.run.id
    names = tuple(assignment_id(run, a.id) for a in active)
    busy = prepare.in_preparation(loaded.state)
    undelivered = tuple(
        assignment_id(run, a.id) for a in active if a.state == "leased" and str(a.id) not in busy
    )
    under_way = _under_way(ctx, loaded, active)
    integrating = any(a.state in ("sealed", "integrating") for a in under_way)
    if integrating or not active:
        held = None if integrating else membership.elsewhere(ctx, loaded.state)
        reason = held or (
            "another process integrates" if integrating else "the run has just moved on"
        )
        return Wait(reason=reason, active=names, poll_after_seconds=POLL_SECONDS)
    hint = ""
    if undelivered:
        hint = "not bound yet; if their caller died, `git baton actions --redeliver` returns them"
    return Wait(reason=f"{len(active)} in flight", active=names, undelivered=undelivered, hint=hint)


def _obstacles(ctx: Context, loaded: runs.Loaded) -> list[Blocked]:
    """What a person has to do something about."""
    run, live = loaded.state.run.id, loaded.state.live
    found = []
    obstacle = integrate.obstacle(ctx, loaded)
    if obstacle is not None:
        found.append(obstacle)
    for attempt in live.attempts.values():
        failure = attempt.failure
        if attempt.state == "blocked-review" and failure and failure.code != "merge-conflict":
            found.append(
                Blocked(
                    code=failure.code,
                    reason=f"{attempt.ticket}: {failure.message}",
                    hint=f"`git baton show {attempt.id}`; then `git baton abandon {attempt.id}` "
                    f"to have it done anew, or `git baton adopt {attempt.id}` to try it again",
                    assignment=assignment_id(run, attempt.id),
                )
            )
    for key in exhausted(live):
        record = live.records[key]
        last = record.failure
        found.append(
            Blocked(
                code="attempts-exhausted",
                reason=f"{key} failed {record.counted} times"
                + (f", last: {last.code}" if last else ""),
                hint=f"`git baton show {key}` tells more; `git baton reopen {key} --reason R` "
                "allows more attempts",
                assignment=assignment_id(run, AttemptId(key, record.last)),
            )
        )
    return found


def _stuck(loaded: runs.Loaded) -> Blocked:
    """Nothing active, nothing to claim, and no obstacle on record: open tickets wait for each
    other, which only a plan that changed in between can bring about."""
    keys = ", ".join(loaded.state.live.missing[:5])
    return Blocked(
        code="nothing-startable",
        reason=f"no open ticket can start: {keys}",
        hint="`git baton plan` shows what they wait for",
    )


def _paused(loaded: runs.Loaded) -> Blocked:
    run = loaded.state.run
    return Blocked(
        code="paused",
        reason=f"{run.id} is paused: {run.paused}",
        hint=f"`git baton resume {run.id}` goes on",
    )


def _complete(ctx: Context, loaded: runs.Loaded) -> Complete:
    state = loaded.state
    by_receipt = resolved_by_receipt(state)
    cleaned = cleanup.cleanup_finished(ctx, loaded)
    return Complete(
        revision=state.live.revision,
        resolved=tuple(t.key for t in state.plan.tickets if t.key in by_receipt),
        resolved_by_hand=state.live.by_hand,
        branch=state.run.branch.removeprefix("refs/heads/"),
        commit=state.run.tip,
        worktrees_removed=cleaned.removed,
        worktrees_skipped=cleaned.skipped,
    )
