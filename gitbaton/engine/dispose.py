"""`dispose`: a worker returns the item that it was given, other than by fixing it.

Only a receipt fixes an item; everything else is a disposition with a reason, made once.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gitbaton.engine import holding, integrate, returning
from gitbaton.engine.context import Context, resolve_attempt, token_for
from gitbaton.engine.membership import descriptor_of
from gitbaton.engine.view import state_of
from gitbaton.errors import Refused
from gitbaton.model.batch import Disposition, DispositionKind
from gitbaton.model.ids import AttemptId, assignment_id
from gitbaton.store import runs


class Disposed(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt came to; ``state`` is that of the run now."""

    assignment: str
    disposition: DispositionKind
    accepted: bool
    state: str


def dispose(
    ctx: Context,
    assignment: str | None,
    kind: DispositionKind,
    *,
    by: Sequence[str] = (),
    reason: str = "",
    token: str | None = None,
) -> Disposed:
    """Return the item of an attempt. The same return again changes nothing; raises `Refused` for a
    different one, for one that lacks what its kind needs, and for an attempt that is over."""
    run, attempt_id = resolve_attempt(ctx, assignment)
    loaded = runs.load(ctx.repo, run)
    descriptor = descriptor_of(loaded.state.run)
    if descriptor is None:
        raise Refused(
            "not-a-batch",
            f"{run} executes a change: its tickets are resolved by receipts, or not at all",
            "`git baton reconcile --outcome failed` reports that a worker gave up",
        )
    secret = token_for(ctx, run, attempt_id, token)
    if kind == "fixed":
        return _fixed(ctx, run, attempt_id)
    wanted = Disposition(
        kind=kind, reason=reason, by=tuple(by), attempt=str(attempt_id), at=ctx.clock.now().stamp
    )
    with holding.locked(ctx, descriptor.queue):
        returning.give_back(ctx, run, attempt_id, wanted, secret)
    integrate.integrate(ctx, run, read_plan=True)
    return _disposed(ctx, run, attempt_id, wanted)


def _fixed(ctx: Context, run: str, attempt_id: AttemptId) -> Disposed:
    """What is sealed is integrated; only that fixes an item."""
    integrate.integrate(ctx, run, read_plan=True)
    attempt = runs.load(ctx.repo, run).attempt(attempt_id)
    assert attempt is not None
    if attempt.state != "succeeded":
        sealed = attempt.sealed is not None
        raise Refused(
            "not-integrated" if sealed else "no-receipt",
            f"{run}/{attempt_id} is {attempt.state}: "
            + ("its receipt is not integrated" if sealed else "nothing shows that it is fixed"),
            f"see `git baton status {run}`" if sealed else "`git baton seal` records the evidence",
        )
    loaded = runs.load(ctx.repo, run)
    return Disposed(
        assignment=assignment_id(run, attempt_id),
        disposition="fixed",
        accepted=True,
        state=state_of(loaded.state.run, loaded.state.live),
    )


def _disposed(ctx: Context, run: str, attempt_id: AttemptId, wanted: Disposition) -> Disposed:
    loaded = runs.load(ctx.repo, run)
    return Disposed(
        assignment=assignment_id(run, attempt_id),
        disposition=wanted.kind,
        accepted=wanted.accepted,
        state=state_of(loaded.state.run, loaded.state.live),
    )
