"""One transition of a run, judged without trusting who made it: what it says against what it did.

A state commit names an event; a table says what each event may change. So a transition that
no verb makes - an attempt that goes back, a receipt that appears without a seal, a recorded commit
that is gone - is told from the two states alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from gitbaton.evidence.events import EVENTS, Allowed
from gitbaton.model import layout
from gitbaton.model.batch import Batch
from gitbaton.model.ids import AttemptId
from gitbaton.model.run import Attempt, Event, Intent, RunRecord
from gitbaton.model.transitions import MOVES, AttemptState

RECORD, LIVE, PLAN, MESSAGE = layout.RUN, layout.LIVE, layout.PLAN, "message"


class Finding(NamedTuple):
    """What is wrong with a step: code, path in the state's tree (or `MESSAGE`), field, and why."""

    code: str
    path: str
    field: str
    message: str


class View(NamedTuple):
    """A state as far as steps are judged. ``attempts`` are those of ``live.json``; ``archived``
    reads one that lies at its own place in the tree; ``plan`` and ``closeout`` are the object ids
    of the plan and of the record of a batch's end ("": there is none)."""

    record: RunRecord
    attempts: Mapping[str, Attempt]
    plan: str
    intents: Sequence[Intent]
    archived: Callable[[AttemptId], Attempt | None]
    batch: Batch | None = None
    closeout: str = ""

    def attempt(self, attempt: AttemptId) -> Attempt | None:
        return self.attempts.get(str(attempt)) or self.archived(attempt)


_FIXED = ("id", "schema", "target", "base", "branch", "created_at")
_COUNTED = ("generation", "updated_at")


class Change(NamedTuple):
    """One attempt before (None: it was just claimed) and after (None: it is gone)."""

    id: AttemptId
    old: Attempt | None
    new: Attempt | None


def judge_first(state: View, event: Event) -> Iterator[Finding]:
    """What is wrong with the first state of a run."""
    if event.event != "start":
        yield Finding("bad-start", MESSAGE, "Baton-Event", f"is {event.event}, not start")
    if state.record.generation != 0:
        found = state.record.generation
        yield Finding("bad-start", RECORD, "generation", f"is {found} in the first state")
    if state.attempts:
        yield Finding("bad-start", LIVE, "attempts", "the first state has attempts already")


class Written(NamedTuple):
    """A file of an attempt, or the receipt of a commit, in which two states differ; ``name`` is the
    file's, or the folder's of what lies in no attempt's place."""

    path: str
    attempt: AttemptId | None
    name: str

    @classmethod
    def at(cls, path: str) -> Written:
        parsed = layout.attempt_of(path)
        return cls(path, *parsed) if parsed else cls(path, None, path.partition("/")[0])


def judge(
    before: View,
    after: View,
    event: Event,
    written: Sequence[Written],
    changed: Sequence[Change],
) -> Iterator[Finding]:
    """What is wrong with the step ``before`` -> ``after``, which wrote files and changed
    attempts."""
    allowed = EVENTS.get(event.event)
    if allowed is None:
        yield Finding(
            "unknown-event", MESSAGE, "Baton-Event", f"no verb writes the event {event.event!r}"
        )
        return
    yield from _record(before.record, after.record, event, allowed)
    if before.plan != after.plan and not allowed.plan:
        yield _unexpected(PLAN, "", event)
    yield from _files(written, event, allowed)
    for change in changed:
        yield from _attempt(change, event, allowed)
    yield from _named(after, event, allowed, changed)


def changes(before: View | None, after: View, written: Iterable[Written]) -> Iterator[Change]:
    """The attempts that a step changes."""
    old, new = before.attempts if before else {}, after.attempts
    found = {
        (old.get(key) or new[key]).id: None
        for key in old.keys() | new.keys()
        if old.get(key) is not new.get(key) and old.get(key) != new.get(key)
    }
    for _, attempt, name in written:
        if attempt is not None and name == layout.ATTEMPT:
            found[attempt] = None
    for each in found:
        yield Change(each, before.attempt(each) if before else None, after.attempt(each))


def _record(old: RunRecord, new: RunRecord, event: Event, allowed: Allowed) -> Iterator[Finding]:
    if new.generation != old.generation + 1:
        yield Finding(
            "bad-generation",
            RECORD,
            "generation",
            f"is {new.generation}, after {old.generation}",
        )
    for field in RunRecord.__struct_fields__:
        if getattr(old, field) == getattr(new, field) or field in _COUNTED:
            continue
        if field in _FIXED:
            yield Finding("illegal-change", RECORD, field, "changed, though it is fixed at start")
        elif field not in allowed.record:
            yield _unexpected(RECORD, field, event)
    if new.recorded[: len(old.recorded)] != old.recorded:
        yield Finding("illegal-change", RECORD, "recorded", "lost a commit that was recorded")


def _files(written: Iterable[Written], event: Event, allowed: Allowed) -> Iterator[Finding]:
    named = AttemptId(event.ticket, event.attempt)
    for path, attempt, name in written:
        foreign = attempt is not None and name.startswith("receipt") and attempt != named
        if foreign or name not in allowed.files:
            yield _unexpected(path, "", event)


def _attempt(change: Change, event: Event, allowed: Allowed) -> Iterator[Finding]:
    attempt, old, new = change
    where, prefix = _place(attempt, new)

    def field(name: str) -> str:
        return f"{prefix}.{name}".strip(".")

    if new is None:
        yield Finding("attempt-lost", LIVE, prefix, f"{attempt} is gone without having ended")
        return
    if new.id != attempt:
        yield Finding("illegal-change", where, prefix, f"{new.id} lies in the place of {attempt}")
    start = old.state if old else "leased"
    moved = old is None or old.state != new.state
    if moved and new.state not in _reachable(start):
        yield Finding(
            "illegal-transition",
            where,
            field("state"),
            f"{attempt} was {start if old else 'nothing'} and cannot become {new.state}",
        )
    elif moved and new.state not in allowed.enters:
        yield Finding(
            "illegal-transition",
            where,
            field("state"),
            f"{attempt} cannot become {new.state} by the event {event.event}",
        )
    if old is None:
        return
    for name in Attempt.__struct_fields__:
        if name not in allowed.fields and getattr(old, name) != getattr(new, name):
            yield _unexpected(where, field(name), event)


def _named(
    after: View, event: Event, allowed: Allowed, changed: Iterable[Change]
) -> Iterator[Finding]:
    """Whether the trailers name what changed."""
    by_id = {change.id: change for change in changed}
    named = AttemptId(event.ticket, event.attempt) if event.attempt else None
    if allowed.one:
        if named not in by_id:
            yield Finding(
                "bad-trailer",
                MESSAGE,
                "Baton-Attempt",
                f"{named} is not what {event.event} changed",
            )
        for other in by_id.values():
            if other.id != named and (not other.new or other.new.state not in allowed.beside):
                yield _unexpected(LIVE, f"attempts.{other.id}", event)
    elif named is not None and after.attempt(named) is None:
        yield Finding("bad-trailer", MESSAGE, "Baton-Attempt", f"there is no attempt {named}")
    holder = after.attempt(named) if named else None
    session = event.event in ("claim", "seal", "redeliver", "usage")
    if session and holder is not None and event.session != holder.session:
        yield Finding(
            "bad-trailer",
            MESSAGE,
            "Baton-Session",
            f"is {event.session!r}, but {named} belongs to {holder.session!r}",
        )


@cache
def _reachable(state: AttemptState) -> frozenset[AttemptState]:
    """Where an attempt can be after one transition, which may make several moves at once."""
    found: set[AttemptState] = {state}
    pending = [state]
    while pending:
        for following in MOVES[pending.pop()] - found:
            found.add(following)
            pending.append(following)
    return frozenset(found)


def _unexpected(path: str, field: str, event: Event) -> Finding:
    return Finding("illegal-change", path, field, f"changed by the event {event.event}")


def named_commits(
    before: View | None, after: View, changed: Iterable[Change]
) -> Iterator[tuple[str, str, str]]:
    """(path, field, object id) of every commit that a state names and the one before did not."""
    old, new = before.record if before else None, after.record
    if old is None or old.tip != new.tip:
        yield RECORD, "tip", new.tip
    for at in range(len(old.recorded) if old else 0, len(new.recorded)):
        yield RECORD, f"recorded[{at}].commit", new.recorded[at].commit
    for change in changed:
        if change.new is not None:
            where, prefix = _place(change.id, change.new)
            for field, oid in commits_of(change.new):
                yield where, f"{prefix}.{field}".strip("."), oid


def _place(attempt: AttemptId, value: Attempt | None) -> tuple[str, str]:
    """The file in which an attempt lies, and the field of it there."""
    if value is not None and value.terminal:
        return layout.path_of(attempt, layout.ATTEMPT), ""
    return LIVE, f"attempts.{attempt}"


def commits_of(attempt: Attempt) -> Iterator[tuple[str, str]]:
    """(field, object id) of every commit that an attempt names."""
    yield "base_commit", attempt.base_commit
    if attempt.sealed is not None:
        yield "sealed.commit", attempt.sealed.commit
    for field in ("merge_commit", "tested_by", "resolved_commit"):
        oid = getattr(attempt, field)
        if oid is not None:
            yield field, oid
