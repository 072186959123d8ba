"""The verbs by which a worker, or whoever started it, proves its work: verify and seal.

Sealing is fenced: the token decides, inside the compare-and-swap, whether the attempt is still the
caller's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import asdict

from gitbaton.engine import contract, lease, prepare, remains, trust
from gitbaton.engine.context import Context, resolve_attempt, token_for
from gitbaton.errors import Refused
from gitbaton.evidence import examine as examination
from gitbaton.evidence import seal as sealing
from gitbaton.evidence import statement
from gitbaton.evidence.checks import OnOutput, require_green
from gitbaton.git import durable
from gitbaton.model.ids import AttemptId, assignment_id
from gitbaton.model.packet import Packet
from gitbaton.model.receipt import CheckResult, Predicate, SealedIn
from gitbaton.model.run import Attempt, Event, Note, RunState, Sealed
from gitbaton.model.transitions import ACTIVE
from gitbaton.rules import lease as leases
from gitbaton.rules import settle
from gitbaton.rules.usage import with_usage
from gitbaton.store import runs


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    assignment: str
    checks: tuple[CheckResult, ...]


class SealResult(msgspec.Struct, frozen=True, kw_only=True):
    assignment: str
    commit: str
    receipt_sha256: str
    changed_files: tuple[str, ...]
    checks: tuple[CheckResult, ...]
    signed: bool
    sealed_in: SealedIn


def verify(
    ctx: Context,
    assignment: str | None,
    token: str | None = None,
    on_output: OnOutput | None = None,
) -> Verified:
    """Run the attempt's checks in its worktree: feedback for the worker, no evidence. Raises
    `Refused` ``checks-failed`` with the results when one is red."""
    run, attempt_id = resolve_attempt(ctx, assignment)
    try:
        lease.heartbeat(ctx, assignment_id(run, attempt_id), token)
    except Refused as error:
        ctx.warn(error.message)
    attempt, packet = _contract(ctx, run, attempt_id)
    result = sealing.verify_in_place(
        attempt,
        packet,
        ctx.settings,
        logs=ctx.attempt_dir(run, attempt_id) / "checks",
        on_output=on_output,
    )
    if result.made:
        prepare.record_paths(ctx, run, attempt_id, prepare.CHECKED, result.made)
    remains.keep_checks(ctx, run, attempt_id, result.checks)
    name = assignment_id(run, attempt_id)
    require_green(result.checks, {"assignment": name})
    return Verified(assignment=name, checks=result.checks)


def seal(
    ctx: Context,
    assignment: str | None,
    token: str | None = None,
    followups: Sequence[str] = (),
    findings: Sequence[str] = (),
    on_output: OnOutput | None = None,
    *,
    noted: bool = True,
) -> SealResult:
    """Bind a receipt to the attempt's commit: conditions, checks in a clean worktree, record.

    Whoever integrates right away may leave it to that to write the note (``noted``).
    Raises `Refused` with the first condition that does not hold, ``checks-failed``, or - the
    receipt is kept - ``attempt-retired``.
    """
    run, attempt_id = resolve_attempt(ctx, assignment)
    secret = token_for(ctx, run, attempt_id, token)
    attempt, packet = _contract(ctx, run, attempt_id)
    _require_sealable(ctx, run, attempt, secret)
    loaded = runs.load(ctx.repo, run)
    examined = _examine(ctx, loaded, attempt, packet)
    for warning in examined.warnings:
        ctx.warn(warning)
    again = _sealed_before(ctx, loaded, attempt, examined.commit, followups, findings)
    if again is not None:
        return again
    trust.require_ready(ctx)
    durable.sync_objects(ctx.repo, examined.commit, attempt.base_commit)
    made = _make(ctx, run, attempt, packet, examined, followups, findings, on_output)
    texts = {made.sealed.commit: made.receipt} if noted else {}
    again = _record(ctx, run, attempt_id, secret, made, followups, findings, texts)
    return again or _result(run, attempt_id, made.sealed, statement.parse(made.receipt).predicate)


class _Made(NamedTuple):
    """A receipt as it is about to be recorded."""

    sealed: Sealed
    receipt: bytes
    signature: bytes | None


def _examine(
    ctx: Context, loaded: runs.Loaded, attempt: Attempt, packet: Packet
) -> examination.Examined:
    """The commit to be sealed, judged with what this machine knows of the worktree."""
    run = loaded.state.run.id
    return examination.examine(
        ctx.repo,
        attempt,
        packet,
        ctx.settings,
        prepared=prepare.recorded_paths(ctx, run, attempt.id, prepare.PREPARED),
        made_by_checks=prepare.recorded_paths(ctx, run, attempt.id, prepare.CHECKED),
        tasks_paths=(prepare.tasks_path_of(ctx, loaded),),
        integrated=loaded.state.run.tip,
    )


def _make(
    ctx: Context,
    run: str,
    attempt: Attempt,
    packet: Packet,
    examined: examination.Examined,
    followups: Sequence[str],
    findings: Sequence[str],
    on_output: OnOutput | None,
) -> _Made:
    """Run the checks, and make the receipt of what they said, signed if there is a key."""
    checks = sealing.seal_checks(
        ctx.repo,
        attempt,
        packet,
        examined,
        ctx.settings,
        logs=ctx.attempt_dir(run, attempt.id) / "checks",
        on_output=on_output,
    )
    remains.keep_checks(ctx, run, attempt.id, checks)
    receipt = sealing.make_receipt(
        run,
        attempt,
        packet,
        examined,
        checks,
        ctx.settings,
        ctx.clock.now(),
        findings=findings,
        followups=followups,
    )
    signature = trust.sign(ctx, receipt)
    sealed = Sealed(
        receipt_sha256=statement.digest(receipt),
        signature_sha256=None if signature is None else statement.digest(signature),
        commit=examined.commit,
        tree=examined.tree,
        sealed_in=ctx.settings.seal_in,
        sealed_at=ctx.clock.now().stamp,
    )
    return _Made(sealed, receipt, signature)


def _record(
    ctx: Context,
    run: str,
    attempt_id: AttemptId,
    secret: str,
    made: _Made,
    followups: Sequence[str],
    findings: Sequence[str],
    texts: Mapping[str, bytes],
) -> SealResult | None:
    """Write the receipt into the state; or the one that another process wrote, while the checks
    ran here, for the same commit."""
    sealed, receipt, signature = made
    name = assignment_id(run, attempt_id)
    remarks = tuple(Note(assignment=name, kind="followup", text=t) for t in followups) + tuple(
        Note(assignment=name, kind="finding", text=t) for t in findings
    )
    late: Attempt | None = None
    again: SealResult | None = None
    used = remains.usage(ctx, run, attempt_id)

    def step(loaded: runs.Loaded) -> tuple[RunState, Event] | None:
        nonlocal late, again
        late = None
        attempt = loaded.attempt(attempt_id)
        assert attempt is not None
        leases.require_token(loaded.state, attempt, secret)
        again = _sealed_before(ctx, loaded, attempt, sealed.commit, followups, findings)
        if again is not None:
            return None
        event = Event(
            event="seal",
            message=f"seal {attempt_id} at {sealed.commit[:12]}",
            ticket=attempt_id.ticket,
            attempt=attempt_id.number,
            session=attempt.session,
        )
        if attempt.state in ACTIVE:
            now = ctx.clock.now()
            state, attempt = with_usage(loaded.state, attempt, used or attempt.usage)
            state = settle.seal(state, attempt, sealed, receipt, signature, remarks, now)
            return state, event
        late = attempt
        return settle.seal_late(loaded.state, attempt, sealed, receipt, signature), event

    ctx.transact(run, step, lambda _: texts)
    if again is not None:
        return again
    if late is not None:
        raise Refused(
            "attempt-retired",
            f"{name} is {late.state}; its receipt is kept, but resolves nothing by itself",
            f"`git baton adopt {name}` makes it count",
            asdict(_result(run, attempt_id, sealed, statement.parse(receipt).predicate)),
        )
    return None


def _require_sealable(ctx: Context, run: str, attempt: Attempt, secret: str) -> None:
    state = runs.load(ctx.repo, run).state
    leases.require_token(state, attempt, secret)
    if attempt.state == "closed":
        name = assignment_id(run, attempt.id)
        raise Refused("attempt-retired", f"{name} is closed", f"see `git baton show {name}`")


def _sealed_before(
    ctx: Context,
    loaded: runs.Loaded,
    attempt: Attempt,
    commit: str,
    followups: Sequence[str],
    findings: Sequence[str],
) -> SealResult | None:
    """The receipt of the same commit, if it was sealed already (and nothing new is to be noted)."""
    run = loaded.state.run.id
    if attempt.state == "succeeded" and attempt.sealed and attempt.sealed.commit != commit:
        raise Refused(
            "already-integrated",
            f"{run}/{attempt.id} is integrated at {attempt.sealed.commit[:12]}, without what came "
            "after",
            f"`git baton reopen {attempt.ticket} --reason R` makes the ticket claimable again",
        )
    if attempt.sealed is None or attempt.sealed.commit != commit:
        return None
    receipt = loaded.receipt(attempt.id)
    if receipt is None or statement.digest(receipt) != attempt.sealed.receipt_sha256:
        if attempt.state == "succeeded":
            raise Refused(
                "receipt-damaged",
                f"the receipt that {run}/{attempt.id} was integrated with is not as recorded",
                f"see `git baton show {attempt.id}`; it is not replaced",
            )
        return None
    predicate = statement.parse(receipt).predicate
    changed = (tuple(followups), tuple(findings)) != (predicate.followups, predicate.findings)
    if attempt.state == "sealed" and changed and (followups or findings):
        return None
    if attempt.state not in ACTIVE and attempt.state != "succeeded":
        return None
    unsigned = attempt.sealed.signature_sha256 is None
    if unsigned and ctx.settings.require_signature and attempt.state == "sealed":
        return None
    return _result(run, attempt.id, attempt.sealed, predicate)


def _result(run: str, attempt_id: AttemptId, sealed: Sealed, predicate: Predicate) -> SealResult:
    return SealResult(
        assignment=assignment_id(run, attempt_id),
        commit=sealed.commit,
        receipt_sha256=sealed.receipt_sha256,
        changed_files=predicate.changed_files,
        checks=predicate.checks,
        signed=sealed.signature_sha256 is not None,
        sealed_in=predicate.sealed_in,
    )


def _contract(ctx: Context, run: str, attempt_id: AttemptId) -> tuple[Attempt, Packet]:
    """Attempt and packet; the packet's stored bytes must be the ones recorded at the claim."""
    loaded = runs.load(ctx.repo, run)
    attempt = loaded.attempt(attempt_id)
    assert attempt is not None
    stored = loaded.packet(attempt_id)
    if stored is None or hashlib.sha256(stored).hexdigest() != attempt.packet_sha256:
        raise Refused(
            "packet-damaged",
            f"the packet of {run}/{attempt_id} is not the one recorded at the claim",
            f"`git baton abandon {attempt_id} --force` and claim the ticket again",
        )
    return attempt, contract.read_packet(ctx, run, attempt_id, stored)
