"""A step of a batch, judged without trusting who made it: who belongs to it, what was returned, how
it came to its end.

`steps` tells what an event may do to any run; here is what it may do to ``batch.json``, and what no
event may: a snapshot never widens, a return is never taken back, and nothing follows the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from gitbaton.evidence.steps import MESSAGE, Change, Finding, View
from gitbaton.model import layout
from gitbaton.model.batch import Batch, Disposition, Freeze, Member
from gitbaton.model.ids import AttemptId
from gitbaton.model.root import BatchTarget, VirtualBatchDescriptor
from gitbaton.model.run import Attempt, Close, Event, Hold, Return, RunRecord
from gitbaton.rules import batch as rules

BATCH, CLOSEOUT, LIVE, RUN = layout.BATCH, layout.CLOSEOUT, layout.LIVE, layout.RUN
I = TypeVar("I", Hold, Return, Close)  # noqa: E741


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FIELDS: dict[str, frozenset[str]] = {
    "admit": _words("queue_revision members pending freeze pause"),
    "dispose": _words("queue_revision members pending freeze pause"),
    "freeze": _words("queue_revision freeze"),
    "gates": _words("freeze pause"),
    "fold": _words("children"),
    "resume": _words("freeze pause"),
    "close": _words("closed"),
}
"""What of ``batch.json`` an event may change; any other event nothing."""

_BEFORE_THE_END = frozenset(
    ("claim", "claim-intent", "dispose-intent", "integrate", "integrate-intent", "close-intent")
) | (FIELDS.keys() - {"resume"})
"""What there is nothing left for once a batch has closed."""


def descriptor_of(record: RunRecord) -> VirtualBatchDescriptor | None:
    """What a batch is to do; None for a run whose plan is a change."""
    return record.target.descriptor if isinstance(record.target, BatchTarget) else None


def judge_first(state: View) -> Iterator[Finding]:
    """What is wrong with the batch in the first state of a run."""
    yield from _sound(state)
    batch = state.batch
    if batch is None:
        return
    if batch.closed is not None:
        yield Finding("bad-start", BATCH, "closed", f"is {batch.closed} in the first state")
    for field in ("freeze", "children"):
        if getattr(batch, field):
            yield Finding("bad-start", BATCH, field, "is set in the first state")
    for member in batch.members:
        if any(d.attempt for d in member.history):
            where = f"members.{member.id}.history"
            yield Finding("bad-start", BATCH, where, "holds a return in the first state")


def judge(before: View, after: View, event: Event, changed: Sequence[Change]) -> Iterator[Finding]:
    """What is wrong with the step ``before`` -> ``after``, which ``changed`` attempts."""
    yield from _sound(after)
    yield from _claims(before, after, [c.new for c in changed if c.new and not c.old])
    old, new, descriptor = before.batch, after.batch, descriptor_of(after.record)
    if old is None or new is None or descriptor is None:
        if old is not new:
            yield Finding("illegal-change", BATCH, "", "appeared or went")
        elif event.event == "resume" and before.plan != after.plan:
            yield Finding("illegal-change", layout.PLAN, "", "changed by the event resume")
        return
    if old.closed is not None:
        yield from _over(before, after, event)
        return
    allowed = FIELDS.get(event.event, frozenset())
    for field in Batch.__struct_fields__:
        if field not in allowed and getattr(old, field) != getattr(new, field):
            yield Finding("illegal-change", BATCH, field, f"changed by the event {event.event}")
    yield from _members(before, old, new, descriptor)
    yield from _returns(old, new, before, event)
    yield from _freeze(old.freeze, new.freeze, after, event)
    for child in old.children:
        if not any((c.run, c.parent) == (child.run, child.parent) for c in new.children):
            yield Finding("illegal-change", BATCH, f"children.{child.run}", "is gone")
    if new.closed is not None or event.event == "close":
        yield from _closes(before, after, descriptor, new)


# --- what holds in every state -----------------------------------------------------------------


def _sound(state: View) -> Iterator[Finding]:
    batch, descriptor = state.batch, descriptor_of(state.record)
    if (batch is None) != (descriptor is None):
        yield Finding("bad-batch", BATCH, "", "only a batch has it, and every batch")
    if bool(state.closeout) != (batch is not None and batch.closed is not None):
        yield Finding("bad-batch", CLOSEOUT, "", "only a closed batch has it, and every one")
    if batch is None or descriptor is None:
        return
    if batch.pause is not None and state.record.paused is None:
        yield Finding("bad-batch", RUN, "paused", "is not set, though the batch has paused")
    ids = [m.id for m in batch.members]
    for item in {item for item in ids if ids.count(item) > 1} if len(set(ids)) < len(ids) else ():
        yield Finding("bad-batch", BATCH, f"members.{item}", "is there twice")
    own = [m.id for m in batch.members if m.blocks is None]
    if descriptor.mode == "one-item" and len(own) > 1:
        said = f"{', '.join(own)} are members of a batch of one item"
        yield Finding("membership-widened", BATCH, "members", said)


def _claims(before: View, after: View, claimed: Sequence[Attempt]) -> Iterator[Finding]:
    """An attempt at an item is made by an intent that holds it; no other attempt holds one."""
    holds = [i for i in _gone(before, after, Hold) if isinstance(i, Hold)]
    for attempt in claimed:
        where = f"attempts.{attempt.id}.capability"
        if descriptor_of(after.record) is None:
            if attempt.capability or attempt.queue_revision:
                yield Finding("illegal-change", LIVE, where, "is set, but there is no queue")
            continue
        terms = attempt.capability, attempt.queue_revision
        if not any(
            (hold.capabilities.get(str(attempt.id)), hold.queue_revision) == terms for hold in holds
        ):
            yield Finding("claim-without-intent", LIVE, where, "is not what was about to be taken")
        if after.batch is not None and after.batch.member(attempt.ticket) is None:
            said = f"is an attempt at {attempt.ticket}, which is no member"
            yield Finding("not-a-member", LIVE, f"attempts.{attempt.id}", said)


def _gone(before: View, after: View, kind: type[I]) -> list[I]:
    """The intents of a kind that a step carried out or dropped."""
    standing = {i.id for i in after.intents}
    return [i for i in before.intents if isinstance(i, kind) and i.id not in standing]


# --- who belongs to it -------------------------------------------------------------------------


def _members(
    state: View, old: Batch, new: Batch, descriptor: VirtualBatchDescriptor
) -> Iterator[Finding]:
    if old.members == new.members and old.pending == new.pending:
        return
    before, now = {m.id: m for m in old.members}, {m.id: m for m in new.members}
    needed = {item for m in old.members for item in m.blockers}
    for item, member in before.items():
        where = f"members.{item}"
        if item in now:
            yield from _member(member, now[item], where)
        elif descriptor.membership == "snapshot" or _stays(state, member, needed):
            yield Finding("member-lost", BATCH, where, "is gone")
    joined = [m for item, m in now.items() if item not in before]
    for member in joined:
        where = f"members.{member.id}"
        if member.blocks is not None and member.blocks not in now:
            yield Finding("bad-batch", BATCH, f"{where}.blocks", "names no member")
        if member.blocks is not None and descriptor.mode == "one-item":
            yield Finding("membership-widened", BATCH, where, "joined a batch of one item")
        elif member.blocks is None and not _may_join(member.id, old, descriptor):
            yield Finding("membership-widened", BATCH, where, "joined a frozen set")
    left = tuple(item for item in old.pending if item not in now)
    if descriptor.membership == "snapshot" and new.pending != left:
        yield Finding("illegal-change", BATCH, "pending", "is not what was left of it")


def _may_join(item: str, batch: Batch, descriptor: VirtualBatchDescriptor) -> bool:
    if descriptor.membership == "live":
        return True
    return descriptor.mode == "autopilot" and item in batch.pending


def _stays(state: View, member: Member, needed: Collection[str]) -> bool:
    """Whether a member of a live batch stays one, whatever is selected."""
    started = state.attempt(AttemptId(member.id, 1)) is not None
    return bool(member.history or member.blocks or member.id in needed or started)


def _member(old: Member, new: Member, where: str) -> Iterator[Finding]:
    if old.blocks != new.blocks:
        yield Finding("illegal-change", BATCH, f"{where}.blocks", "changed")
    for field in ("blockers", "history"):
        was, now = getattr(old, field), getattr(new, field)
        if now[: len(was)] != was:
            yield Finding("illegal-change", BATCH, f"{where}.{field}", "lost what was in it")


# --- what was returned -------------------------------------------------------------------------


def _returns(old: Batch, new: Batch, before: View, event: Event) -> Iterator[Finding]:
    """A worker's return is the one that was intended; git-baton's own name no attempt."""
    if old.members == new.members:
        return
    meant = {(i.item, i.disposition) for i in before.intents if isinstance(i, Return)}
    named = AttemptId(event.ticket, event.attempt)
    for item, disposition in _added(old, new):
        where = f"members.{item}.history"
        if event.event == "dispose" and disposition.attempt:
            if (item, disposition) not in meant or disposition.attempt != str(named):
                yield Finding("bad-disposition", BATCH, where, "is not the return that was meant")
        elif disposition.attempt or disposition.kind not in ("blocked", "eligibility-lost"):
            said = f"holds {disposition.kind}, which nobody returned"
            yield Finding("bad-disposition", BATCH, where, said)


def _added(old: Batch, new: Batch) -> Iterator[tuple[str, Disposition]]:
    before = {m.id: len(m.history) for m in old.members}
    for member in new.members:
        for disposition in member.history[before.get(member.id, 0) :]:
            yield member.id, disposition


# --- how it came to its end --------------------------------------------------------------------


def _freeze(old: Freeze | None, new: Freeze | None, after: View, event: Event) -> Iterator[Finding]:
    if old == new:
        return
    meant = old
    if new is not None and event.event == "freeze":
        count = old.count if old else 0
        kept = old.gates if old and not old.red and old.tip == new.tip else None
        meant = replace(new, count=count + 1, tip=after.record.tip, thawed=False, gates=kept)
    elif old is not None and new is not None and event.event == "gates":
        meant = replace(old, gates=new.gates if old.gates is None else old.gates)
    elif old is not None:
        meant = replace(old, thawed=True)
    for field in Freeze.__struct_fields__:
        if getattr(new, field, None) != getattr(meant, field, None):
            said = f"cannot become so by the event {event.event}"
            yield Finding("bad-freeze", BATCH, f"freeze.{field}", said)


def _closes(
    before: View, after: View, descriptor: VirtualBatchDescriptor, batch: Batch
) -> Iterator[Finding]:
    """It was meant to be closed, nothing is at work, and the gates are green on the tip."""
    frozen = batch.freeze
    if not _gone(before, after, Close):
        yield Finding("bad-close", BATCH, "closed", "without an intent to close")
    if frozen is None or frozen.thawed or frozen.tip != after.record.tip:
        yield Finding("bad-close", BATCH, "freeze", "does not speak of the tip")
    else:
        ran = [gate.command for gate in frozen.gates or ()]
        wanted = list(descriptor.gates) if batch.members else []
        if frozen.gates is None or frozen.red or ran != wanted:
            yield Finding("bad-close", BATCH, "freeze.gates", "are not green, or not all of them")
    if batch.pause is not None or after.record.paused is not None:
        yield Finding("bad-close", BATCH, "pause", "stands")
    if any(attempt.active for attempt in after.attempts.values()):
        yield Finding("bad-close", LIVE, "attempts", "there is work under way")
    if batch.closed != (meant := rules.outcome(descriptor, batch)):
        yield Finding("bad-close", BATCH, "closed", f"is {batch.closed}, and should be {meant}")


def _over(before: View, after: View, event: Event) -> Iterator[Finding]:
    """Nothing but landing, taking in the base, and what has no effect, follows the end."""
    if event.event in _BEFORE_THE_END:
        said = f"is {event.event}, but the batch has closed"
        yield Finding("changed-after-close", MESSAGE, "Baton-Event", said)
    for path, was, now in (
        (BATCH, before.batch, after.batch),
        (CLOSEOUT, before.closeout, after.closeout),
        (layout.PLAN, before.plan, after.plan),
    ):
        if was != now:
            yield Finding("changed-after-close", path, "", "changed, but the batch has closed")
