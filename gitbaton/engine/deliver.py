"""Delivering: what a worker is told of its attempt, the first time and whenever it is asked again.

The state keeps only the digest of a token, so each delivery makes a new one, and the one before is
worth nothing from then on.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import asdict

from gitbaton.engine import contract, prepare
from gitbaton.engine.context import Context
from gitbaton.errors import Refused
from gitbaton.model.action import Dispatch, LeaseTerms, ResolveMerge
from gitbaton.model.ids import AttemptId, assignment_id
from gitbaton.model.run import Attempt, Event, RunState
from gitbaton.rules import lease as leases
from gitbaton.store import runs


def take_over(
    ctx: Context, run: str, attempt_id: AttemptId, session: str
) -> Dispatch | ResolveMerge:
    """Hand out again an attempt whose worker is known to be dead, to ``session``: fresh token, same
    packet and prompt. Raises `Refused` unless its work is not finished."""
    state = runs.load(ctx.repo, run).state
    attempt = state.attempt(attempt_id)
    if attempt is None or attempt.state not in ("leased", "spawned", "running"):
        raise Refused("attempt-retired", f"{run}/{attempt_id} is not being worked on", "")
    return _hand_out_again(ctx, run, attempt_id, session)


def redeliver(ctx: Context, run: str, session: str) -> list[Dispatch | ResolveMerge]:
    """Every attempt that is still leased and that nobody is preparing, handed out again."""
    state = runs.load(ctx.repo, run).state
    busy = prepare.in_preparation(state)
    waiting = [
        a for name, a in state.live.attempts.items() if a.state == "leased" and name not in busy
    ]
    waiting.sort(key=lambda a: (a.claimed_at, a.ticket))
    return [_hand_out_again(ctx, run, attempt.id, session) for attempt in waiting]


def _hand_out_again(
    ctx: Context, run: str, attempt_id: AttemptId, session: str
) -> Dispatch | ResolveMerge:
    token = contract.new_token()

    def step(loaded: runs.Loaded) -> tuple[RunState, Event]:
        packet = loaded.packet(attempt_id)
        if packet is not None:
            contract.restore_contract(ctx, run, attempt_id, packet)
        contract.write_token(ctx.attempt_dir(run, attempt_id), token)
        state = leases.redeliver(loaded.state, attempt_id, token, session, ctx.clock.now())
        return state, Event(
            event="redeliver",
            message=f"hand out {attempt_id} again, to {session}",
            ticket=attempt_id.ticket,
            attempt=attempt_id.number,
            session=session,
        )

    loaded = ctx.transact(run, step)
    attempt = loaded.attempt(attempt_id)
    assert attempt is not None
    if not Path(attempt.worktree).is_dir():
        prepare.remake(ctx, run, attempt)
    return dispatch_of(ctx, loaded, attempt, token, redelivered=True)


def dispatch_of(
    ctx: Context, loaded: runs.Loaded, attempt: Attempt, token: str, *, redelivered: bool
) -> Dispatch | ResolveMerge:
    run = loaded.state.run.id
    packet_bytes = loaded.packet(attempt.id)
    assert packet_bytes is not None
    packet = contract.read_packet(ctx, run, attempt.id, packet_bytes)
    folder = ctx.attempt_dir(run, attempt.id)
    ticket = loaded.state.plan.ticket(attempt.ticket)
    dispatch = Dispatch(
        assignment=assignment_id(run, attempt.id),
        ticket=attempt.ticket,
        attempt=attempt.number,
        title=packet.title,
        cwd=attempt.worktree,
        branch=packet.branch,
        base_commit=attempt.base_commit,
        prompt=contract.prompt_of(packet),
        token=token,
        packet=str(folder / contract.PACKET),
        packet_sha256=attempt.packet_sha256,
        redelivered=redelivered,
        lease=LeaseTerms(
            ttl_seconds=attempt.lease.ttl_seconds, expires_at=leases.expires_at(attempt.lease)
        ),
        agent=ticket.agent if ticket else None,
    )
    if attempt.resolves is None:
        return dispatch
    return ResolveMerge(conflicts=attempt.conflicts, **asdict(dispatch))
