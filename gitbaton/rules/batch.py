"""The life of a virtual batch: asked for, frozen when nothing is left, gates run, closed once.

Who belongs to it later is decided in ``members``, what a return does in ``dispose``. All of it is
values: a `VirtualBatchDescriptor` that never changes, and a `Batch` that each function maps to the
next.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec.structs import fields, replace

from gitbaton.errors import BatonError, Refused
from gitbaton.model.batch import (
    Batch,
    Child,
    ChildResult,
    Closeout,
    Freeze,
    Member,
    Outcome,
    Pause,
    Returned,
)
from gitbaton.model.plan import Plan
from gitbaton.model.receipt import CheckResult
from gitbaton.model.root import SCHEMA, VirtualBatchDescriptor
from gitbaton.model.run import Attempt
from gitbaton.model.usage import Usage

WINDOW = 256
"""As many members at most wait in the plan without ever having been started."""

_OWN_TO_A_REQUEST = ("batch_id", "provenance")
_ONE_ITEM: dict[str, Outcome] = {
    "obe": "obe",
    "owned": "owned",
    "eligibility-lost": "eligibility-lost",
}


# -- Asking for one


def request_run_id(request_id: str) -> str:
    """The run that a request opens: a function of the request's id alone."""
    return f"batch-{hashlib.sha256(request_id.encode()).hexdigest()[:12]}"


def capability_id(root: str, member: str, attempt: int, token: str) -> str:
    """What an attempt holds an item by: SHA-256 hex over root, member, attempt and token, each with
    its length before it, so that no two of them read the same."""
    digest = hashlib.sha256()
    for part in (root, member, str(attempt), token):
        data = part.encode()
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()


def same_request(a: VirtualBatchDescriptor, b: VirtualBatchDescriptor) -> str | None:
    """The first field in which two descriptors ask for something else, or None. Their own names and
    who asked do not count; what people call it, which may be made of the rest, comes last."""
    names = [f.name for f in fields(a) if f.name not in _OWN_TO_A_REQUEST]
    names.sort(key=lambda name: name == "command")
    return next((name for name in names if getattr(a, name) != getattr(b, name)), None)


def require_schema(descriptor: VirtualBatchDescriptor) -> None:
    """Raise `BatonError` ``newer-schema`` for a descriptor that says more than can be read here."""
    if descriptor.schema > SCHEMA:
        raise BatonError(
            "newer-schema",
            f"batch {descriptor.batch_id} has schema {descriptor.schema}, known is {SCHEMA}",
            "upgrade git-baton",
        )


def opening(
    descriptor: VirtualBatchDescriptor, queue_revision: str, selected: Sequence[str]
) -> Batch:
    """What a batch begins with. A snapshot freezes the order of ``selected``; of a one-item one,
    only the first is ever a member and the rest is kept for the record. A live batch has admitted
    nobody yet."""
    if descriptor.membership == "live":
        return Batch(queue_revision=queue_revision)
    first = 1 if descriptor.mode == "one-item" else WINDOW
    return Batch(
        queue_revision=queue_revision,
        members=tuple(Member(id=item) for item in selected[:first]),
        pending=tuple(selected[first:]),
    )


# -- Coming to its end


def exhausted(
    descriptor: VirtualBatchDescriptor,
    batch: Batch,
    missing: Collection[str],
    selected: Sequence[str],
) -> bool:
    """Whether nothing is left to do: no member is ``missing`` (neither resolved nor left), and
    there is nobody to admit. ``selected`` counts in live membership only; what was a member once
    comes back in no batch."""
    if missing:
        return False
    if descriptor.mode == "one-item":
        return bool(batch.members) or descriptor.membership == "snapshot" or not selected
    if descriptor.membership == "snapshot":
        return not batch.pending
    members = {m.id for m in batch.members}
    return all(item in members for item in selected)


def freeze(batch: Batch, revision: str, tip: str) -> Batch:
    """Frozen at a queue revision and an integration tip. Each freeze counts; green gates of the
    same tip are kept. The same freeze again changes nothing."""
    last = batch.freeze or Freeze(count=0, queue_revision="", tip="", thawed=True)
    if not last.thawed and not last.red and (last.queue_revision, last.tip) == (revision, tip):
        return batch
    kept = last.gates if last.tip == tip and not last.red else None
    frozen = Freeze(count=last.count + 1, queue_revision=revision, tip=tip, gates=kept)
    return replace(batch, queue_revision=revision, freeze=frozen)


def thaw(batch: Batch) -> Batch:
    """There is something to do again; the count of freezes and the gates' results stay."""
    if batch.freeze is None or batch.freeze.thawed:
        return batch
    return replace(batch, freeze=replace(batch.freeze, thawed=True))


def gates_done(batch: Batch, results: Sequence[CheckResult]) -> Batch:
    """The gates' results recorded, once in a freeze; a red one pauses, unless the batch has thawed
    while they ran."""
    frozen = batch.freeze
    if frozen is None or frozen.gates is not None:
        return batch
    batch = replace(batch, freeze=replace(frozen, gates=tuple(results)))
    red = next((r for r in results if not r.green), None)
    if red is None or frozen.thawed:
        return batch
    reason = f"gate `{red.command}` exited with {red.exit_code}\n{red.output_tail}".strip()
    return paused(batch, Pause(code="gate-failed", reason=reason))


def outcome(descriptor: VirtualBatchDescriptor, batch: Batch) -> Outcome:
    """How an exhausted batch ends. A one-item root whose item left ends with its disposition."""
    if not batch.members:
        return "queue-empty"
    last = batch.members[0].disposition
    if descriptor.mode == "one-item" and last is not None:
        return _ONE_ITEM.get(last.kind, "done")
    return "done"


def close(batch: Batch, outcome: Outcome) -> Batch:
    """Closed, once: closing again changes nothing."""
    return batch if batch.closed is not None else replace(batch, closed=outcome)


def paused(batch: Batch, pause: Pause) -> Batch:
    """Paused; the reason that came first stays."""
    return batch if batch.pause is not None else replace(batch, pause=pause)


def resume(
    descriptor: VirtualBatchDescriptor, batch: Batch, closed: Callable[[str], bool]
) -> Batch:
    """The pause is over: who was returned may be tried again, gates that were red run again. A
    one-item root whose item still waits pauses once more. ``closed`` says of an item that it
    holds nobody up."""
    if batch.pause is None:
        return batch
    batch = thaw(replace(batch, pause=None))
    if descriptor.mode == "autopilot":
        return batch
    for member in batch.members:
        waits = [i for i in member.blockers if not closed(i)]
        if waits and not member.left:
            why = f"{member.id} waits for {', '.join(waits)}"
            return paused(batch, Pause(code="blocked", reason=why, member=member.id))
    return batch


# -- Telling what became of it


def result(batch: Batch) -> ChildResult:
    """What a nested batch returns to the attempt that it was opened below; while it is at work, it
    has paused for that attempt. Accepted is one of which something was."""
    if batch.closed == "queue-empty":
        return "empty"
    if batch.closed is not None:
        left = (m.disposition if m.left else None for m in batch.members)
        return "accepted" if any(d is None or d.accepted for d in left) else "blocked"
    return "blocked" if batch.pause is not None and batch.pause.code == "blocked" else "paused"


def fold(batch: Batch, child: Child) -> Batch:
    """A child's latest result in its parent; the same one twice changes nothing."""
    if any(known.run == child.run for known in batch.children):
        children = tuple(child if k.run == child.run else k for k in batch.children)
    else:
        children = (*batch.children, child)
    return replace(batch, children=children)


def closeout(
    descriptor: VirtualBatchDescriptor,
    batch: Batch,
    *,
    run: str,
    outcome: Outcome,
    queue_revision: str,
    base_commit: str,
    tip: str,
    branch: str,
    plan: Plan,
    fixed: Mapping[str, Attempt],
    work: Iterable[str],
    children: Sequence[Closeout],
    usage: Usage | None = None,
    opened_at: str,
    closed_at: str,
) -> Closeout:
    """The terminal record of a batch.

    ``fixed`` are the attempts whose receipts were integrated, by item, ``work`` the files in which
    the tip differs from the base, ``children`` the closeouts of nested batches. Raises `Refused`
    ``not-returned`` for a member that has come to no end.
    """
    titles = {t.key: t.title for t in plan.tickets}
    members = (_returned(m, titles.get(m.id, m.id), fixed.get(m.id)) for m in batch.members)
    return Closeout(
        run=run,
        batch_id=descriptor.batch_id,
        command=descriptor.command,
        outcome=outcome,
        mode=descriptor.mode,
        membership=descriptor.membership,
        queue=descriptor.queue,
        queue_revision=queue_revision,
        freezes=batch.freeze.count if batch.freeze else 0,
        base_commit=base_commit,
        tip=tip,
        branch=branch,
        members=tuple(members),
        admitted=(*(m.id for m in batch.members), *_admitted_below(children)),
        work=_set(work, *(c.work for c in children)),
        evidence=_set(_receipts(fixed.values()), *(c.evidence for c in children)),
        gates=(batch.freeze and batch.freeze.gates) or (),
        children=batch.children,
        usage=usage,
        opened_at=opened_at,
        closed_at=closed_at,
    )


def _returned(member: Member, title: str, fixed: Attempt | None) -> Returned:
    """A receipt that was integrated tells more than any word."""
    last = member.disposition
    if fixed is not None:
        return Returned(
            item=member.id,
            title=title,
            disposition="fixed",
            accepted=True,
            blocks=member.blocks,
            attempt=str(fixed.id),
            merge_commit=fixed.merge_commit,
            receipt_sha256=fixed.sealed.receipt_sha256 if fixed.sealed else None,
        )
    if last is None or not member.left:
        raise Refused("not-returned", f"member {member.id} has come to no end", "")
    return Returned(
        item=member.id,
        title=title,
        disposition=last.kind,
        accepted=last.accepted,
        blocks=member.blocks,
        reason=last.reason,
        by=last.by,
        attempt=last.attempt,
    )


def _admitted_below(children: Iterable[Closeout]) -> Iterator[str]:
    """Admissions of nested batches as ``RUN/ITEM``, whatever their depth."""
    for child in children:
        own = len(child.members)
        yield from (f"{child.run}/{item}" for item in child.admitted[:own])
        yield from child.admitted[own:]


def _receipts(attempts: Iterable[Attempt]) -> Iterator[str]:
    """SHA-256 of their receipts, and of those of their merges."""
    for attempt in attempts:
        if attempt.sealed is not None:
            yield attempt.sealed.receipt_sha256
        if attempt.merged_receipt_sha256 is not None:
            yield attempt.merged_receipt_sha256


def _set(*parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(chain.from_iterable(parts))))
