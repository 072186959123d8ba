"""`batch open`: a virtual root over a queue.

The run's id follows from the request's, and creating it is one compare-and-swap from absent: so
whoever repeats a request after a crash, or while another process makes the same, finds the one root
that there is.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import msgspec

import gitbaton
from gitbaton.engine import integrate, membership, start, trust
from gitbaton.engine.context import Context, known_run, resolve_attempt
from gitbaton.engine.membership import descriptor_of
from gitbaton.engine.view import state_of
from gitbaton.errors import Conflict, NotFound, Refused, UsageError
from gitbaton.git import process, refs
from gitbaton.model.ids import assignment_id
from gitbaton.model.plan import Plan
from gitbaton.model.queue import ORDER, Filters, OrderKey
from gitbaton.model.root import (
    BatchTarget,
    Membership,
    Mode,
    Provenance,
    VirtualBatchDescriptor,
)
from gitbaton.model.run import Base, Event, PlanSource, RunRecord, RunState
from gitbaton.rules import batch as rules
from gitbaton.rules.frontier import recount
from gitbaton.rules.revise import opening
from gitbaton.rules.state import with_live
from gitbaton.store import queues, runs, transact


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A root, whether this call ``created`` it or found it. ``state`` is the run's; of a batch
    below an attempt it is what it returns to that: ``accepted blocked empty paused``, or
    ``executing`` as long as there is something to do."""

    run: str
    request_id: str
    created: bool
    state: str
    members: tuple[str, ...]


def open_batch(
    ctx: Context,
    *,
    queue: str,
    membership: Membership,
    mode: Mode,
    request_id: str | None = None,
    command: str = "",
    filters: Filters | None = None,
    order: Sequence[OrderKey] = ORDER,
    gates: Sequence[str] = (),
    checks: Sequence[str] = (),
    base: str | None = None,
    parent: str | None = None,
) -> Opened:
    """Open a batch, or find the one that this request opened before.

    Raises before anything is changed when it could not work, and `Conflict`
    ``request-id-conflict`` if the request opened another batch.
    """
    request = request_id if request_id is not None else secrets.token_hex(8)
    if not request.strip():
        raise UsageError("bad-request-id", "the request id is empty", "leave it out, or name one")
    run = rules.request_run_id(request)
    descriptor = VirtualBatchDescriptor(
        batch_id=run,
        command=command or f"{mode} over {queue}",
        queue=queue,
        filters=filters or Filters(),
        order=tuple(order),
        membership=membership,
        mode=mode,
        gates=start.usable(gates),
        provenance=Provenance(
            who=" ".join(ctx.repo.identity() or ()),
            tool=f"git-baton {gitbaton.__version__}",
            request_id=request,
            at=ctx.clock.now().stamp,
        ),
        parent=_parent(ctx, run, parent),
    )
    created = False
    if not known_run(ctx, run):
        created = _create(ctx, descriptor, checks, base)
    _require_same(ctx, run, descriptor)
    # Whatever was cut off after the root was made is done now; an empty one closes at once.
    integrate.integrate(ctx, run, read_plan=True)
    return _opened(runs.load(ctx.repo, run), request, created)


def _parent(ctx: Context, run: str, given: str | None) -> str | None:
    """The attempt above, which may be gone when its request is repeated."""
    if given is None:
        return None
    try:
        return assignment_id(*resolve_attempt(ctx, given))
    except NotFound:
        if not known_run(ctx, run):
            raise
        return given


def _create(
    ctx: Context, descriptor: VirtualBatchDescriptor, checks: Sequence[str], base: str | None
) -> bool:
    """Make the root; False if somebody else was faster."""
    process.require_git()
    ctx.repo.require_history()
    view = membership.look(ctx, descriptor)
    base_ref, base_commit = _base(ctx, descriptor.parent, base)
    commands = start.require_checks(ctx, checks)
    ctx.require_identity()
    trust.require_ready(ctx)
    run = descriptor.batch_id
    branch = ctx.branch(run)
    start.require_free_branch(ctx, run, branch, base_commit)
    start.require_worktree_root(ctx)
    ctx.repo.writable_or_refuse()
    record = RunRecord(
        id=run,
        target=BatchTarget(descriptor=descriptor),
        base=Base(ref=base_ref, commit=base_commit),
        branch=branch,
        tip=base_commit,
        checks=commands,
        source=PlanSource(kind="queue", at=queues.queue_ref(descriptor.queue)),
        created_at=ctx.clock.now().stamp,
    )
    batch = rules.opening(descriptor, view.queue.oid, view.selected(descriptor))
    plan = Plan(order="explicit")
    state = RunState(run=record, plan=plan, live=opening(plan), batch=batch)
    state = membership.revised(with_live(state, unclosed=True), view, record.created_at)
    message = f"start {run}: {descriptor.command}, {len(state.plan.tickets)} members"
    try:
        transact.create(ctx.repo, recount(state), Event(event="start", message=message), ctx.clock)
    except Conflict:
        if not known_run(ctx, run):
            raise
        return False
    return True


def _base(ctx: Context, parent: str | None, given: str | None) -> tuple[str, str]:
    """The base branch: below an attempt, which must be under way, the attempt's own."""
    if parent is None:
        return start.find_base(ctx, given)
    run, attempt_id = resolve_attempt(ctx, parent)
    attempt = runs.load(ctx.repo, run).attempt(attempt_id)
    commit = refs.read(ctx.repo, attempt.branch) if attempt else None
    if attempt is None or commit is None or not attempt.active:
        raise Refused(
            "attempt-retired",
            f"{parent} is not being worked on, so nothing can be opened below it",
            f"see `git baton status {run}`",
        )
    return start.find_base(ctx, given) if given is not None else (attempt.branch, commit)


def _require_same(ctx: Context, run: str, asked: VirtualBatchDescriptor) -> None:
    known = descriptor_of(runs.load_live(ctx.repo, run)[1])
    if known is None:
        raise Conflict("request-id-conflict", f"{run} is no batch", "use another --request-id")
    field = rules.same_request(known, asked)
    if field is not None:
        raise Conflict(
            "request-id-conflict",
            f"request {asked.provenance.request_id} opened {run} with another {field}",
            "use another --request-id, or repeat the request as it was",
        )


def _opened(loaded: runs.Loaded, request: str, created: bool) -> Opened:
    state = loaded.state
    descriptor, batch = descriptor_of(state.run), state.batch
    assert descriptor is not None and batch is not None
    told = state_of(state.run, state.live)
    if descriptor.parent is not None:
        told = rules.result(batch) if batch.closed or batch.pause else told
    own = tuple(m.id for m in batch.members)
    if descriptor.mode == "autopilot":
        own += batch.pending
    return Opened(run=state.run.id, request_id=request, created=created, state=told, members=own)
