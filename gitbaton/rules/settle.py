"""How an attempt ends: sealed, integrated, blocked, or of unknown outcome.

Only a receipt resolves a ticket. What a worker or its caller says decides nothing: with a valid
receipt the attempt is integrated, without one its outcome is unknown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from msgspec.structs import replace

from gitbaton.clock import Moment
from gitbaton.errors import Refused
from gitbaton.model.ids import AttemptId, assignment_id
from gitbaton.model.layout import (
    MERGED,
    MERGED_SIGNATURE,
    RECEIPT,
    RECEIPT_SIGNATURE,
    commit_path,
    path_of,
)
from gitbaton.model.run import (
    Advance,
    Attempt,
    Failure,
    Halt,
    Land,
    Merged,
    Note,
    Recorded,
    RunState,
    Sealed,
)
from gitbaton.model.transitions import WORKING
from gitbaton.rules.lease import Sighting, is_expired
from gitbaton.rules.state import (
    attempts_of,
    move,
    put,
    record,
    remember_failure,
    stays_resolved,
    with_live,
    without_intent,
)

ENDED = {
    "completed": "ended-without-receipt",
    "failed": "ended-failed",
    "canceled": "ended-canceled",
}


def seal(
    state: RunState,
    attempt: Attempt,
    sealed: Sealed,
    receipt: bytes,
    signature: bytes | None,
    notes: tuple[Note, ...],
    now: Moment,
) -> RunState:
    """The receipt and its signature recorded, bound to one commit; another commit replaces it
    unless it is being integrated. The commit is kept from pruning."""
    if attempt.state == "integrating":
        raise Refused(
            "being-integrated",
            f"{state.run.id}/{attempt.id} is being integrated and cannot be sealed anew",
            f"see `git baton status {state.run.id}`",
        )
    changed = replace(attempt, sealed=sealed, failure=None, ended_at=now.stamp)
    state = put(state, changed) if attempt.state == "sealed" else move(state, changed, "sealed")
    state = _keep_receipt(state, attempt.id, sealed, receipt, signature)
    assignment = assignment_id(state.run.id, attempt.id)
    kept = tuple(n for n in state.live.notes if n.assignment != assignment)
    return with_live(state, notes=kept + notes)


def seal_late(
    state: RunState, attempt: Attempt, sealed: Sealed, receipt: bytes, signature: bytes | None
) -> RunState:
    """The receipt of an attempt that is over is kept; its state does not change."""
    state = put(state, replace(attempt, sealed=sealed))
    return _keep_receipt(state, attempt.id, sealed, receipt, signature)


def _keep_receipt(
    state: RunState, attempt: AttemptId, sealed: Sealed, receipt: bytes, signature: bytes | None
) -> RunState:
    # An unsigned receipt removes the signature of the one that it replaces.
    kept = {path_of(attempt, RECEIPT): receipt, path_of(attempt, RECEIPT_SIGNATURE): signature}
    return replace(
        state,
        files={**state.files, **kept},
        parents=(*state.parents, sealed.commit),
    )


def end(state: RunState, attempt: Attempt, code: str, message: str, now: Moment) -> RunState:
    """The attempt is ``unknown``; what happened goes into the next packet."""
    failure = Failure(code=code, message=message)
    state = move(state, attempt, "unknown", failure=failure, ended_at=now.stamp)
    return remember_failure(state, attempt.ticket, failure)


def expire(
    state: RunState, now: Moment, sightings: Mapping[str, Sighting], said: Mapping[AttemptId, str]
) -> tuple[RunState, tuple[AttemptId, ...]]:
    """Every working attempt whose lease has run out is ``unknown: lease-expired``; ``said`` is what
    else the next worker should know of it."""
    expired = [
        a
        for a in state.live.attempts.values()
        if a.state in WORKING and is_expired(a.lease, now, sightings.get(str(a.id)))
    ]
    for attempt in expired:
        message = f"no heartbeat for {attempt.lease.ttl_seconds} seconds"
        message = "\n".join(filter(None, (message, said.get(attempt.id))))
        state = end(state, attempt, "lease-expired", message, now)
    return state, tuple(a.id for a in expired)


def exhaust(state: RunState, max_attempts: int) -> tuple[RunState, tuple[AttemptId, ...]]:
    """Tickets whose counted attempts are used up have failed, as their last attempt has."""
    spent: list[AttemptId] = []
    for attempt in tuple(state.live.attempts.values()):
        known = state.live.records.get(attempt.ticket)
        if attempt.state == "unknown" and known and known.counted >= max_attempts:
            state = move(state, attempt, "failed")
            state = record(state, attempt.ticket, failed=True)
            spent.append(attempt.id)
    return state, tuple(spent)


def review(state: RunState, attempt: Attempt, code: str, message: str) -> RunState:
    """The attempt waits for a decision (``blocked-review``), with the reason."""
    failure = Failure(code=code, message=message)
    state = move(state, attempt, "blocked-review", failure=failure)
    return remember_failure(state, attempt.ticket, failure)


def conflict(state: RunState, attempt: Attempt, paths: tuple[str, ...]) -> RunState:
    """The attempt's branch conflicts with the landed tip in ``paths``."""
    state = review(state, attempt, "merge-conflict", "conflicts in " + ", ".join(paths))
    blocked = state.live.attempts[str(attempt.id)]
    return put(state, replace(blocked, conflicts=paths))


def begin(state: RunState, intent: Advance) -> RunState:
    """The members of an `Advance` are ``integrating``; only if their receipts are still current."""
    for merged in intent.merges:
        attempt = current_member(state, merged)
        if attempt.state != "integrating":
            state = move(state, attempt, "integrating")
    return state


def current_member(state: RunState, merged: Merged) -> Attempt:
    """The attempt a merge was computed for; raises `Refused` when it is another story by now."""
    attempt = state.attempt(AttemptId(merged.ticket, merged.number))
    if (
        attempt is None
        or attempt.state not in ("sealed", "integrating")
        or attempt.sealed is None
        or attempt.sealed.receipt_sha256 != merged.receipt_sha256
    ):
        raise Refused(
            "receipt-changed",
            f"{merged.ticket}@{merged.number} was sealed anew or retired while it was merged",
            "run the same command again",
        )
    return attempt


def finish(state: RunState, intent: Advance, now: Moment) -> RunState:
    """The branch has moved: what the intent says is now true."""
    for merged in intent.merges:
        attempt = current_member(state, merged)
        if attempt.state != "integrating":
            state = move(state, attempt, "integrating")
            attempt = current_member(state, merged)
        state = move(
            state,
            attempt,
            "succeeded",
            merge_commit=merged.commit,
            tested_by=merged.tested_by,
            merged_receipt_sha256=_sha256(merged.receipt),
            merged_signature_sha256=_sha256(merged.signature),
            failure=None,
            ended_at=now.stamp,
        )
        files = {MERGED: merged.receipt, MERGED_SIGNATURE: merged.signature}
        own = {path_of(attempt.id, n): text.encode() for n, text in files.items() if text}
        state = replace(state, files={**state.files, **own})
        state = resolve(state, merged.ticket, attempt.accepted_digest or attempt.ticket_digest)
    recorded = tuple(_with_digests(each, intent) for each in intent.recorded)
    state = replace(
        state,
        run=replace(
            state.run,
            tip=intent.new,
            recorded=(*state.run.recorded, *recorded),
            source=intent.source or state.run.source,
        ),
        files={**state.files, **_receipts(intent)},
        parents=(*state.parents, intent.new),
    )
    for key in intent.reopened:
        state = reopen_ticket(state, key)
    return without_intent(with_live(state, halt=None), intent.id)


def resolve(state: RunState, key: str, digest: str) -> RunState:
    """The ticket is resolved by a receipt for the text of that digest; one that is no longer in the
    plan is ``dropped``."""
    live = state.live
    if state.plan.ticket(key) is None:
        dropped = tuple(dict.fromkeys((*live.dropped, key)))
        return _forget(with_live(state, dropped=dropped, gone={**live.gone, key: digest}), key)
    if key in live.missing:
        missing = tuple(k for k in live.missing if k != key)
        state = with_live(state, missing=missing, resolved=live.resolved + 1)
    return _forget(state, key)


def drop(state: RunState, intent: Advance | Land) -> RunState:
    """The branch has not moved: the intent is void and its members are sealed again."""
    for merged in intent.merges if isinstance(intent, Advance) else ():
        attempt = state.attempt(AttemptId(merged.ticket, merged.number))
        if attempt is not None and attempt.state == "integrating":
            state = move(state, attempt, "sealed")
    return without_intent(state, intent.id)


def halt(state: RunState, code: str, reason: str, hint: str, *, passing: bool) -> RunState:
    """Integration stops at the present tip until that is another (or is tried again: passing)."""
    stop = Halt(code=code, reason=reason, hint=hint, tip=state.run.tip, passing=passing)
    return with_live(state, halt=stop)


def landed(state: RunState, intent: Land) -> RunState:
    """The target branch has moved."""
    run = state.run
    record = intent.record and _with_digests(intent.record, intent)
    if record is not None and record not in run.recorded:
        run = replace(run, recorded=(*run.recorded, record))
    return without_intent(
        replace(
            state,
            run=run,
            files={**state.files, **_receipts(intent)},
            parents=(*state.parents, intent.new),
        ),
        intent.id,
    )


def reopen_ticket(state: RunState, key: str) -> RunState:
    """A ticket is claimable again and its count of attempts starts anew."""
    live = state.live
    told = tuple(w for w in live.warnings if not w.endswith(stays_resolved(key)))
    state = with_live(state, warnings=told)
    if key not in live.missing:
        order = {t.key: n for n, t in enumerate(state.plan.tickets)}
        missing = tuple(sorted((*live.missing, key), key=lambda k: order.get(k, len(order))))
        was_by_hand = key in live.by_hand
        state = with_live(
            state,
            missing=missing,
            by_hand=tuple(k for k in live.by_hand if k != key),
            resolved=live.resolved - (0 if was_by_hand else 1),
        )
        # Its box may be ticked where the plan is read, by the run or by hand: a tick that was there
        # before is no new word of a person.
        tickets = tuple(replace(t, mark="done") if t.key == key else t for t in state.plan.tickets)
        state = replace(state, plan=replace(state.plan, tickets=tickets))
    return record(state, key, counted=0, failed=False)


def _forget(state: RunState, key: str) -> RunState:
    """The record of a resolved ticket is dropped, unless something of it is still in flight."""
    if attempts_of(state.live, key):
        return state
    return with_live(state, records={k: r for k, r in state.live.records.items() if k != key})


def _receipts(intent: Advance | Land) -> dict[str, bytes]:
    """The files that hold the receipts of commits that no ticket made, and their signatures."""
    found = {commit_path(oid): text for oid, text in intent.receipts.items()}
    found |= {commit_path(oid, "sig"): text for oid, text in intent.signatures.items()}
    return {path: text.encode() for path, text in found.items()}


def _with_digests(recorded: Recorded, intent: Advance | Land) -> Recorded:
    return replace(
        recorded,
        receipt_sha256=_sha256(intent.receipts.get(recorded.commit)),
        signature_sha256=_sha256(intent.signatures.get(recorded.commit)),
    )


def _sha256(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()
