"""`reconcile`: a caller reports that a worker has ended; the state decides what that means.

With a valid receipt the attempt is integrated, whatever the word was; without one its outcome is
unknown. Repeated and concurrent reports of one assignment agree; a late one changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from gitbaton.engine import integrate
from gitbaton.engine.batch import Outlook
from gitbaton.engine.context import Context, resolve_attempt
from gitbaton.engine.dispatch import next_batch, require_terms
from gitbaton.engine.remains import last_red_check, usage
from gitbaton.errors import Refused
from gitbaton.model.action import ActionBatch
from gitbaton.model.ids import AttemptId
from gitbaton.model.run import Attempt, Event, RunState
from gitbaton.model.transitions import WORKING
from gitbaton.model.usage import Usage
from gitbaton.rules.lease import require_token
from gitbaton.rules.settle import ENDED, end, exhaust
from gitbaton.rules.state import put
from gitbaton.rules.usage import with_usage
from gitbaton.store import runs

Outcome = Literal["completed", "failed", "canceled"]


def reconcile(
    ctx: Context,
    assignment: str,
    *,
    outcome: Outcome,
    session: str,
    capacity: int | None = None,
    token: str | None = None,
    message: str = "",
) -> ActionBatch:
    """Consume the end of a worker and return the next batch for ``session``.

    ``message`` is what a person or the next packet should know of a failure.
    """
    require_terms(session, capacity)
    run, _ = resolve_attempt(ctx, assignment)
    outlook = conclude(
        ctx, assignment, outcome=outcome, session=session, token=token, message=message
    )
    return next_batch(ctx, run, session=session, capacity=capacity, outlook=outlook)


def conclude(
    ctx: Context,
    assignment: str,
    *,
    outcome: Outcome,
    session: str,
    token: str | None = None,
    message: str = "",
    landed: Callable[[], None] = lambda: None,
) -> Outlook:
    """`reconcile` without the next batch: the end of a worker is on record, and what is sealed is
    integrated. ``landed`` is that of `integrate`."""
    run, attempt_id = resolve_attempt(ctx, assignment)
    ended = _end(ctx, run, attempt_id, outcome, session, token, message)
    integrate.integrate(ctx, run, read_plan=True, landed=landed)
    return Outlook(retired=(attempt_id,) if ended else ())


def _end(
    ctx: Context,
    run: str,
    attempt_id: AttemptId,
    outcome: Outcome,
    session: str,
    token: str | None,
    message: str,
) -> bool:
    """An attempt without a receipt is ``unknown`` now; True if this call made it so."""
    ended = False
    used = usage(ctx, run, attempt_id)

    def step(loaded: runs.Loaded) -> tuple[RunState, Event] | None:
        nonlocal ended
        ended = False
        attempt = loaded.attempt(attempt_id)
        if attempt is None or attempt.state not in WORKING:
            return _used(loaded, attempt, used)
        if token is not None:
            require_token(loaded.state, attempt, token)
        elif attempt.session != session:
            raise Refused(
                "foreign-session",
                f"{run}/{attempt_id} belongs to session {attempt.session}, not {session}",
                "pass its --token if you act for it",
            )
        said = (
            message
            or last_red_check(ctx, run, attempt_id)
            or f"the worker {outcome}, nothing was sealed"
        )
        state, attempt = with_usage(loaded.state, attempt, used or attempt.usage)
        state = end(state, attempt, ENDED[outcome], said, ctx.clock.now())
        state, _ = exhaust(state, ctx.settings.max_attempts)
        ended = True
        return state, Event(
            event="end",
            message=f"{attempt_id} {outcome} without a receipt",
            ticket=attempt_id.ticket,
            attempt=attempt_id.number,
            session=session,
        )

    if step(runs.load(ctx.repo, run)) is not None:
        ctx.transact(run, step)
    return ended


def _used(
    loaded: runs.Loaded, attempt: Attempt | None, used: Usage | None
) -> tuple[RunState, Event] | None:
    """What a worker wrote of its usage after it had sealed; a batch that has closed has its sum."""
    batch = loaded.state.batch
    if batch is not None and batch.closed is not None:
        return None
    if attempt is None or attempt.state not in ("sealed", "integrating", "succeeded"):
        return None
    if used in (None, attempt.usage):
        return None
    event = Event(
        event="usage",
        message=f"what {attempt.id} used",
        ticket=attempt.ticket,
        attempt=attempt.number,
        session=attempt.session,
    )
    return put(*with_usage(loaded.state, attempt, used)), event
