"""Virtual batches, rule by rule: membership x mode x disposition, freezing, closing, the plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from gitbaton.errors import BatonError
from gitbaton.model.batch import (
    Batch,
    Child,
    Closeout,
    Disposition,
    DispositionKind,
    Member,
    Outcome,
    Pause,
)
from gitbaton.model.queue import Claim, Filters, Item
from gitbaton.model.receipt import CheckResult
from gitbaton.model.root import Membership, Mode, Provenance, VirtualBatchDescriptor
from gitbaton.model.run import Attempt, Lease, Sealed
from gitbaton.rules import batch as rules
from gitbaton.rules.dispose import dispose, require
from gitbaton.rules.members import HEAD, admit, leave, lost, plan_of
from rules.batches import NOW, descriptor, item, said

MEMBERSHIPS: tuple[Membership, ...] = get_args(Membership)
MODES: tuple[Mode, ...] = get_args(Mode)
CELLS = [(membership, mode) for membership in MEMBERSHIPS for mode in MODES]
BY: dict[DispositionKind, tuple[str, ...]] = {"blocked": ("x",), "owned": ("run-2",)}


def lookup(*items: Item) -> Callable[[str], Item | None]:
    return {i.id: i for i in items}.get


def ids(batch: Batch) -> list[str]:
    return [m.id for m in batch.members]


def numbered(n: int) -> list[str]:
    return [f"i{k}" for k in range(n)]


def opened(cell: VirtualBatchDescriptor, selected: list[str]) -> Batch:
    return admit(cell, rules.opening(cell, "q1", selected), selected, ())


def check(command: str, code: int = 0, tail: str = "") -> CheckResult:
    return CheckResult(
        command=command, exit_code=code, duration_ms=1, output_sha256="0", output_tail=tail
    )


# -- Requests


def test_the_run_follows_from_the_request_alone() -> None:
    assert rules.request_run_id("r-1") == rules.request_run_id("r-1")
    assert rules.request_run_id("r-1") != rules.request_run_id("r-2")
    assert len(rules.request_run_id("r-1")) == len("batch-") + 12


def test_no_two_capabilities_read_the_same() -> None:
    told = [("a", "b", 1, "c"), ("ab", "", 1, "c"), ("a", "b", 11, "c"), ("a", "b1", 1, "c")]
    assert len({rules.capability_id(*each) for each in told}) == len(told)
    assert rules.capability_id(*told[0]) == rules.capability_id(*told[0])


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("command", "else"),
        ("queue", "else"),
        ("filters", Filters(labels=("x",))),
        ("order", ("-id",)),
        ("membership", "live"),
        ("mode", "one-item"),
        ("gates", ("true",)),
        ("parent", "r/a@1"),
    ],
)
def test_another_request_is_told_by_its_first_difference(field: str, other: Any) -> None:
    assert rules.same_request(descriptor(), replace(descriptor(), **{field: other})) == field


def test_who_asks_makes_no_other_request() -> None:
    someone = Provenance(who="b", tool="u", request_id="r", at="later")
    assert rules.same_request(descriptor(), descriptor(provenance=someone, batch_id="b2")) is None


def test_a_newer_descriptor_is_refused() -> None:
    rules.require_schema(descriptor())
    with pytest.raises(BatonError, match="schema 9") as refused:
        rules.require_schema(descriptor(schema=9))
    assert refused.value.code == "newer-schema"


# -- Membership


@pytest.mark.parametrize(
    ("membership", "mode", "members", "pending"),
    [
        ("snapshot", "autopilot", ["b", "a", "c"], []),
        ("snapshot", "one-item", ["b"], ["a", "c"]),
        ("live", "autopilot", ["b", "a", "c"], []),
        ("live", "one-item", ["b"], []),
    ],
)
def test_who_belongs_to_it_at_first(
    membership: Membership, mode: Mode, members: list[str], pending: list[str]
) -> None:
    batch = opened(descriptor(membership, mode), ["b", "a", "c"])
    assert (ids(batch), list(batch.pending)) == (members, pending)


@pytest.mark.parametrize(
    ("membership", "mode", "members"),
    [
        ("snapshot", "autopilot", ["b", "a"]),
        ("snapshot", "one-item", ["b"]),
        ("live", "autopilot", ["n", "a"]),
        ("live", "one-item", ["n"]),
    ],
)
def test_who_belongs_to_it_when_the_queue_changes(
    membership: Membership, mode: Mode, members: list[str]
) -> None:
    cell = descriptor(membership, mode)
    assert ids(admit(cell, opened(cell, ["b", "a"]), ["n", "a"], ())) == members


@pytest.mark.parametrize(("membership", "mode"), CELLS)
def test_who_was_started_stays(membership: Membership, mode: Mode) -> None:
    cell = descriptor(membership, mode)
    batch = admit(cell, opened(cell, ["b", "a"]), ["n"], {"b"})
    assert ids(batch)[0] == "b"
    assert ("n" in ids(batch)) == (membership == "live" and mode == "autopilot")


@pytest.mark.parametrize(("membership", "mode"), CELLS)
def test_a_closed_batch_admits_nobody(membership: Membership, mode: Mode) -> None:
    cell = descriptor(membership, mode)
    batch = rules.close(opened(cell, []), "queue-empty")
    assert admit(cell, batch, ["n"], ()) == batch


def test_a_frozen_set_comes_in_by_windows() -> None:
    cell = descriptor("snapshot")
    names = numbered(1000)
    batch = opened(cell, names)
    assert ids(batch) == names[: rules.WINDOW]
    half = rules.WINDOW // 2
    assert admit(cell, batch, [], set(names[:half])) == batch
    later = admit(cell, batch, [], set(names[: half + 1]))
    assert len(ids(later)) == rules.WINDOW + half + 1
    assert [*ids(later), *later.pending] == names


def test_a_live_window_stands_while_its_head_is_right() -> None:
    cell = descriptor("live")
    names = numbered(1000)
    batch = opened(cell, names)
    assert ids(batch) == names[: rules.WINDOW]
    claimed = rules.WINDOW - HEAD
    same = admit(cell, batch, names[claimed:], set(names[:claimed]))
    assert same == batch
    later = admit(cell, batch, names[claimed + 1 :], set(names[: claimed + 1]))
    assert ids(later) == names[: claimed + 1 + rules.WINDOW]


def test_a_live_window_follows_the_selection() -> None:
    cell = descriptor("live")
    names = numbered(200)
    batch = opened(cell, names)
    assert ids(admit(cell, batch, ["new", *names], ()))[:2] == ["new", "i0"]
    assert "i150" not in ids(admit(cell, batch, [n for n in names if n != "i150"], ()))


# -- Returns

# What a return of ``a``, whose blocker may be ``x``, does: who belongs to the batch then, who left,
# and the pause.
EFFECTS: dict[tuple[Mode, DispositionKind], tuple[list[str], bool, str | None]] = {
    ("autopilot", "obe"): (["a", "b"], True, None),
    ("autopilot", "blocked"): (["a", "b", "x"], False, None),
    ("autopilot", "owned"): (["a", "b"], True, None),
    ("autopilot", "local-gate"): (["a", "b"], False, "local-gate"),
    ("autopilot", "unresolved"): (["a", "b"], False, "unresolved"),
    ("autopilot", "eligibility-lost"): (["a", "b"], True, None),
    ("one-item", "obe"): (["a"], True, None),
    ("one-item", "blocked"): (["a"], False, "blocked"),
    ("one-item", "owned"): (["a"], True, None),
    ("one-item", "local-gate"): (["a"], False, "local-gate"),
    ("one-item", "unresolved"): (["a"], False, "unresolved"),
    ("one-item", "eligibility-lost"): (["a"], True, None),
}
OUTCOMES: dict[DispositionKind, Outcome] = {
    "obe": "obe",
    "owned": "owned",
    "eligibility-lost": "eligibility-lost",
}


@pytest.mark.parametrize("membership", MEMBERSHIPS)
@pytest.mark.parametrize(("mode", "kind"), EFFECTS)
def test_returns(membership: Membership, mode: Mode, kind: DispositionKind) -> None:
    cell = descriptor(membership, mode)
    known = lookup(item("a"), item("b"), item("x"))
    word = said(kind, "a@1", BY.get(kind, ()))
    batch = dispose(cell, opened(cell, ["a", "b"]), "a", word, known, ())
    members, left, pause = EFFECTS[mode, kind]
    member = batch.member("a")
    assert member is not None
    assert (ids(batch), member.left) == (members, left)
    assert (batch.pause and batch.pause.code) == pause
    assert member.history == (word,)
    assert admit(cell, batch, ["a", "b"], {"a"}) == batch  # nobody is admitted twice, or instead
    missing = [m.id for m in batch.members if not m.left]
    assert rules.exhausted(cell, batch, missing, []) == (not missing)
    if mode == "one-item":
        assert rules.outcome(cell, batch) == OUTCOMES.get(kind, "done")
    else:
        assert rules.outcome(cell, batch) == "done"


@pytest.mark.parametrize("kind", [k for k in get_args(DispositionKind) if k != "fixed"])
def test_the_same_return_twice_and_a_second_one(kind: DispositionKind) -> None:
    cell, known = descriptor(), lookup(item("a"), item("x"), item("y"))
    word = said(kind, "a@1", BY.get(kind, ()))
    batch = dispose(cell, opened(cell, ["a"]), "a", word, known, ())
    assert dispose(cell, batch, "a", replace(word, reason="in other words"), known, ()) == batch
    other = said("obe" if kind != "obe" else "unresolved", "a@1")
    for second in (other, said("blocked", "a@1", ("y",)), said("fixed", "a@1")):
        with pytest.raises(BatonError) as refused:
            dispose(cell, batch, "a", second, known, ())
        assert refused.value.code == "already-returned"


def test_another_attempt_may_return_otherwise_unless_the_member_left() -> None:
    cell, known = descriptor(), lookup(item("a"), item("x"))
    batch = dispose(cell, opened(cell, ["a"]), "a", said("blocked", "a@1", ("x",)), known, ())
    batch = dispose(cell, batch, "a", said("obe", "a@2"), known, ())
    assert [d.kind for d in batch.members[0].history] == ["blocked", "obe"]
    with pytest.raises(BatonError, match="returned as obe"):
        dispose(cell, batch, "a", said("owned", "a@3", ("r",)), known, ())


def test_only_a_receipt_says_fixed() -> None:
    cell, known = descriptor(), lookup(item("a"))
    batch = opened(cell, ["a"])
    assert dispose(cell, batch, "a", replace(said("fixed"), reason=""), known, {"a"}) == batch
    with pytest.raises(BatonError) as refused:
        dispose(cell, batch, "a", said("fixed", "a@1"), known, ())
    assert refused.value.code == "fixed-needs-receipt"
    with pytest.raises(BatonError) as refused:
        dispose(cell, batch, "a", said("obe", "a@1"), known, {"a"})
    assert refused.value.code == "already-returned"


@pytest.mark.parametrize(
    ("name", "word", "code"),
    [
        ("z", said("obe"), "not-a-member"),
        ("a", replace(said("obe"), reason=" "), "reason-missing"),
        ("a", said("blocked"), "wrong-by"),
        ("a", said("owned"), "wrong-by"),
        ("a", said("owned", by=("r", "s")), "wrong-by"),
        ("a", said("obe", by=("x",)), "wrong-by"),
        ("a", said("unresolved", by=("x",)), "wrong-by"),
    ],
)
def test_what_a_return_must_say(name: str, word: Disposition, code: str) -> None:
    cell = descriptor()
    with pytest.raises(BatonError) as refused:
        dispose(cell, opened(cell, ["a"]), name, word, lookup(item("a"), item("x")), ())
    assert refused.value.code == code


def test_the_first_pause_is_the_one_that_is_told() -> None:
    cell, known = descriptor(), lookup(item("a"), item("b"))
    batch = dispose(cell, opened(cell, ["a", "b"]), "a", said("unresolved", "a@1"), known, ())
    batch = dispose(cell, batch, "b", said("local-gate", "b@1"), known, ())
    assert batch.pause == Pause(code="unresolved", reason="because", member="a")


# -- Blocked

CLAIM = Claim(run="other", attempt="x@1", capability="c")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("others", "by", "pause", "told"),
    [
        ((), "x", "blocker-missing", "x"),
        ((), "a", "blocker-cycle", "a -> a"),
        ((item("x", depends_on=("a",)),), "x", "blocker-cycle", "a -> x -> a"),
        (
            (item("x", depends_on=("y",)), item("y", depends_on=("x",))),
            "x",
            "blocker-cycle",
            "x -> y -> x",
        ),
        ((item("x", state="owned", owner="r"),), "x", "blocker-unavailable", "left to r"),
        ((item("x", state="deferred"),), "x", "blocker-unavailable", "deferred"),
        (
            (item("x", depends_on=("y",)), item("y", state="deferred")),
            "x",
            "blocker-unavailable",
            "y",
        ),
        ((item("x", state="claimed", claimed_by=CLAIM),), "x", None, ""),
        ((item("x", state="blocked", depends_on=("y",)), item("y", state="obe")), "x", None, ""),
    ],
)
def test_blockers_that_never_end(
    mode: Mode, others: tuple[Item, ...], by: str, pause: str | None, told: str
) -> None:
    cell = descriptor(mode=mode)
    word = said("blocked", "a@1", (by,))
    batch = dispose(cell, opened(cell, ["a"]), "a", word, lookup(item("a"), *others), ())
    member = batch.member("a")
    assert member is not None
    if mode == "one-item" and pause in (None, "blocker-unavailable"):
        assert batch.pause is not None and batch.pause.code == "blocked"
        assert member.blockers == (by,)
    elif pause is None:
        assert batch.pause is None
        assert member.blockers == (by,)
    else:
        assert batch.pause is not None
        assert (batch.pause.code, batch.pause.member) == (pause, "a")
        assert told in batch.pause.reason
        assert member.blockers == ()
    assert ("x" in ids(batch)) == (mode == "autopilot" and pause is None)


def test_a_blocker_that_has_left_is_unavailable() -> None:
    cell, known = descriptor(), lookup(item("a"), item("b"))
    batch = dispose(cell, opened(cell, ["a", "b"]), "b", said("owned", "b@1", ("r",)), known, ())
    batch = dispose(cell, batch, "a", said("blocked", "a@1", ("b",)), known, ())
    assert batch.pause is not None and batch.pause.code == "blocker-unavailable"


def test_descendants_of_descendants_are_required_and_closed_ones_are_not() -> None:
    cell = descriptor()
    known = lookup(
        item("a"),
        item("x", depends_on=("y", "z", "b")),
        item("y"),
        item("z", state="fixed"),
        item("b"),
        item("c", state="obe"),
    )
    batch = dispose(
        cell, opened(cell, ["a", "b"]), "a", said("blocked", "a@1", ("x", "c")), known, ()
    )
    assert [(m.id, m.blocks) for m in batch.members] == [
        ("a", None),
        ("b", None),
        ("x", "a"),
        ("y", "x"),
    ]
    assert [t.key for t in plan_of(batch, known, lambda i: i in "zc").tickets] == list("yxab")


def test_whom_somebody_waits_for_stays_whatever_is_selected() -> None:
    cell = descriptor("live")
    known = lookup(item("a"), item("b"), item("c"), item("x", depends_on=("y",)), item("y"))
    word = said("blocked", "a@1", ("x", "b"))
    batch = dispose(cell, opened(cell, ["a", "b", "c"]), "a", word, known, ())
    assert ids(admit(cell, batch, [], {"a"})) == ["a", "b", "x", "y"]
    gone = leave(opened(cell, ["a", "b"]), "b", "gone", NOW)
    assert ids(admit(cell, gone, ["b"], ())) == ["b"]


def test_a_blocker_of_the_frozen_set_is_no_longer_pending() -> None:
    cell = descriptor()
    names = numbered(300)
    known = lookup(*map(item, names))
    batch = dispose(cell, opened(cell, names), "i0", said("blocked", "i0@1", ("i299",)), known, ())
    assert batch.members[-1] == Member(id="i299", blocks="i0")
    assert "i299" not in batch.pending


def test_what_the_queue_says_a_member_waits_for_is_required() -> None:
    cell = descriptor()
    known = lookup(item("a", depends_on=("x",)), item("b", depends_on=("a",)), item("x"))
    batch = opened(cell, ["a", "b"])
    assert require(cell, batch, (), known, NOW, ()) == batch  # while it is worked on
    batch = require(cell, batch, ("a", "b"), known, NOW, ())
    assert [(m.id, m.blocks, m.blockers) for m in batch.members] == [
        ("a", None, ("x",)),
        ("b", None, ()),
        ("x", "a", ()),
    ]
    assert require(cell, batch, ("a", "b"), known, "later", ()) == batch


def test_what_nobody_will_fix_pauses_until_somebody_does() -> None:
    cell, free = descriptor(), lookup(item("a", depends_on=("x",)), item("x", state="deferred"))
    batch = require(cell, opened(cell, ["a"]), ("a",), free, NOW, ())
    assert batch.pause is not None and batch.pause.code == "blocker-unavailable"
    again = require(cell, rules.resume(cell, batch, lambda _: False), ("a",), free, "later", ())
    assert again == batch
    done = lookup(item("a", depends_on=("x",)), item("x", state="wontfix"))
    batch = rules.resume(cell, batch, lambda _: False)
    assert require(cell, batch, ("a",), done, "later", ()).pause is None


def test_what_was_fixed_here_and_is_open_again_is_for_a_person() -> None:
    cell = descriptor()
    batch = opened(cell, ["a", "b"])
    for state, pause in [("claimed", None), ("fixed", None), ("open", "blocker-unavailable")]:
        known = lookup(item("a", depends_on=("b",)), item("b", state=state))
        after = require(cell, batch, ("a",), known, NOW, ("b",))
        assert (after.pause and after.pause.code) == pause


def test_a_one_item_root_goes_on_when_its_blockers_are_closed() -> None:
    cell, known = descriptor(mode="one-item"), lookup(item("a"), item("x"), item("y"))
    batch = dispose(
        cell, opened(cell, ["a", "x"]), "a", said("blocked", "a@1", ("x", "y")), known, ()
    )
    again = rules.resume(cell, batch, lambda i: i == "x")
    assert again.pause == Pause(code="blocked", reason="a waits for y", member="a")
    assert rules.resume(cell, again, lambda _: True).pause is None
    assert ids(again) == ["a"]


# -- Lost


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (item("a"), None),
        (item("a", state="claimed", claimed_by=CLAIM), None),
        (item("a", depends_on=("x",)), None),
        (None, "not in the queue"),
        (item("a", state="fixed"), "fixed"),
        (item("a", state="obe", reason="no longer reported by s"), "obe: no longer reported by s"),
        (item("a", state="wontfix"), "wontfix"),
        (item("a", state="deferred"), "deferred"),
        (item("a", state="owned", owner="r"), "left to r"),
        (item("a", state="blocked"), "blocked"),
        (item("a", severity="low"), "filters"),
    ],
)
def test_how_a_member_is_lost(found: Item | None, told: str | None) -> None:
    cell = descriptor(filters=Filters(severity="medium"))
    batch = opened(cell, ["a"])
    reason = lost(cell, batch, "a", lambda _: found)
    assert reason is None if told is None else reason is not None and told in reason
    gone = leave(batch, "a", "gone", NOW)
    assert gone.members[0].left
    assert lost(cell, gone, "a", lambda _: found) is None
    assert leave(gone, "a", "again", NOW) == gone
    assert lost(cell, batch, "z", lambda _: found) is None


def test_filters_do_not_apply_to_descendants() -> None:
    cell = descriptor(filters=Filters(severity="high"))
    known = lookup(item("a", severity="high"), item("x", severity="info"))
    batch = dispose(cell, opened(cell, ["a"]), "a", said("blocked", "a@1", ("x",)), known, ())
    assert lost(cell, batch, "x", known) is None


# -- The end


@pytest.mark.parametrize(("membership", "mode"), CELLS)
def test_an_empty_one_is_exhausted(membership: Membership, mode: Mode) -> None:
    cell = descriptor(membership, mode)
    batch = opened(cell, [])
    assert rules.exhausted(cell, batch, [], [])
    assert rules.exhausted(cell, batch, [], ["n"]) == (membership == "snapshot")
    assert rules.outcome(cell, batch) == "queue-empty"


@pytest.mark.parametrize(
    ("membership", "mode", "over"),
    [
        ("snapshot", "autopilot", True),
        ("snapshot", "one-item", True),
        ("live", "autopilot", False),
        ("live", "one-item", True),
    ],
)
def test_what_comes_late(membership: Membership, mode: Mode, over: bool) -> None:
    cell = descriptor(membership, mode)
    batch = rules.freeze(opened(cell, ["a"]), "q1", "t")
    assert not rules.exhausted(cell, batch, ["a"], [])
    assert rules.exhausted(cell, batch, [], ["a"])  # reported again: for another batch
    assert rules.exhausted(cell, batch, [], ["n"]) == over
    assert admit(cell, batch, ["n"], {"a"}).frozen == over


def test_a_frozen_set_is_exhausted_with_its_last() -> None:
    cell = descriptor()
    assert not rules.exhausted(cell, opened(cell, numbered(300)), [], [])


def test_freezes_count_and_keep_green_gates_of_their_tip() -> None:
    green = (check("make"),)
    batch = rules.freeze(Batch(queue_revision="q0"), "q1", "t1")
    assert rules.freeze(batch, "q1", "t1") == batch
    batch = rules.gates_done(batch, green)
    for revision, tip, thawed, gates in [
        ("q2", "t1", False, green),
        ("q2", "t1", True, green),
        ("q3", "t2", True, None),
    ]:
        before = batch.freeze
        batch = rules.freeze(rules.thaw(batch) if thawed else batch, revision, tip)
        assert before is not None and batch.freeze is not None
        assert batch.freeze.count == before.count + 1
        assert batch.freeze.gates == gates
        assert batch.frozen


def test_a_red_gate_pauses_and_runs_again() -> None:
    cell = descriptor(gates=("make",))
    batch = rules.freeze(opened(cell, ["a"]), "q1", "t1")
    batch = rules.gates_done(batch, [check("true"), check("make", 2, "no rule"), check("x", 1)])
    assert batch.pause is not None and batch.pause.code == "gate-failed"
    assert batch.pause.reason == "gate `make` exited with 2\nno rule"
    assert rules.gates_done(batch, [check("make")]) == batch
    batch = rules.freeze(rules.resume(cell, batch, lambda _: True), "q1", "t1")
    assert batch.pause is None
    assert batch.freeze is not None
    assert (batch.freeze.count, batch.freeze.gates) == (2, None)


def test_gates_of_a_batch_that_thawed_pause_nothing() -> None:
    batch = rules.thaw(rules.freeze(Batch(queue_revision="q0"), "q1", "t1"))
    assert rules.gates_done(batch, [check("make", 2)]).pause is None


def test_closing_twice() -> None:
    batch = rules.close(Batch(queue_revision="q"), "done")
    assert rules.close(batch, "queue-empty") == batch


@pytest.mark.parametrize(
    ("pause", "result"),
    [
        (Pause(code="blocked", reason=""), "blocked"),
        (Pause(code="unresolved", reason=""), "paused"),
        (None, "paused"),
    ],
)
def test_what_a_nested_one_returns_that_is_open(pause: Pause | None, result: str) -> None:
    assert rules.result(Batch(queue_revision="q", pause=pause)) == result


@pytest.mark.parametrize(
    ("outcome", "came_to", "result"),
    [
        ("queue-empty", (), "empty"),
        ("obe", ("obe",), "accepted"),
        ("owned", ("owned",), "blocked"),
        ("eligibility-lost", ("eligibility-lost",), "blocked"),
        ("done", ("fixed",), "accepted"),
        ("done", ("owned", "fixed"), "accepted"),
        ("done", ("owned", "obe"), "accepted"),
        ("done", ("owned", "eligibility-lost"), "blocked"),
    ],
)
def test_what_a_nested_one_returns_that_has_closed(
    outcome: Outcome, came_to: tuple[DispositionKind, ...], result: str
) -> None:
    """Of which nothing was accepted, whose members have all left, is blocked in either mode."""
    members = tuple(
        Member(
            id=str(at),
            history=() if kind == "fixed" else (Disposition(kind=kind, reason="r", at="t"),),
        )
        for at, kind in enumerate(came_to)
    )
    assert rules.result(Batch(queue_revision="q", members=members, closed=outcome)) == result


def test_a_child_is_folded_once() -> None:
    paused = Child(run="c", parent="r/a@1", result="paused")
    other = Child(run="d", parent="r/a@1", result="empty")
    done = replace(paused, result="accepted", closeout="0")
    batch = rules.fold(rules.fold(Batch(queue_revision="q"), paused), other)
    assert rules.fold(batch, paused) == batch
    batch = rules.fold(rules.fold(batch, done), done)
    assert batch.children == (done, other)


def succeeded(name: str) -> Attempt:
    return Attempt(
        ticket=name,
        number=2,
        state="succeeded",
        session="s",
        lease=Lease(
            holder="s",
            machine="m",
            boot="b",
            token_sha256="0",
            ttl_seconds=1,
            deadline=0.0,
            renewed_at=NOW,
        ),
        base_commit="0",
        branch="b",
        worktree="w",
        packet_sha256="0",
        ticket_digest="0",
        plan_revision=1,
        sealed=Sealed(
            receipt_sha256=f"r-{name}", commit="c", tree="t", sealed_in="worktree", sealed_at=NOW
        ),
        merge_commit=f"m-{name}",
        merged_receipt_sha256=f"rr-{name}",
        claimed_at=NOW,
    )


def told(batch: Batch, *children: Closeout, **fields: Any) -> Closeout:
    known = lookup(*(item(m.id) for m in batch.members))
    given: dict[str, Any] = {
        "run": "r",
        "outcome": "done",
        "queue_revision": "q9",
        "base_commit": "b",
        "tip": "t",
        "branch": "r",
        "plan": plan_of(batch, known, lambda _: True),
        "fixed": {},
        "work": (),
        "opened_at": NOW,
        "closed_at": NOW,
    }
    return rules.closeout(descriptor(), batch, children=children, **(given | fields))


def test_the_closeout_tells_of_every_member_once() -> None:
    cell, known = descriptor(), lookup(item("a"), item("b"), item("x"))
    batch = dispose(cell, opened(cell, ["a", "b"]), "a", said("blocked", "a@1", ("x",)), known, ())
    batch = dispose(cell, batch, "b", said("owned", "b@1", ("run-2",)), known, ())
    batch = leave(batch, "x", "taken", NOW)
    with pytest.raises(BatonError, match="a has come to no end"):
        told(batch)
    closeout = told(batch, fixed={"a": succeeded("a")}, work=["z", "y"])
    assert [(r.item, r.disposition, r.accepted, r.blocks) for r in closeout.members] == [
        ("a", "fixed", True, None),
        ("b", "owned", False, None),
        ("x", "eligibility-lost", False, "a"),
    ]
    first, second, _ = closeout.members
    assert (first.title, first.attempt, first.merge_commit) == ("fix a", "a@2", "m-a")
    assert (second.by, second.attempt, second.reason) == (("run-2",), "b@1", "because")
    assert (closeout.work, closeout.evidence) == (("y", "z"), ("r-a", "rr-a"))
    assert (closeout.queue_revision, closeout.admitted) == ("q9", ("a", "b", "x"))


def test_the_closeout_of_a_root_holds_those_below_it() -> None:
    one = opened(descriptor(), ["a"])
    fixed = {"a": succeeded("a")}
    lowest = told(one, run="c2", fixed=fixed, work=["c"])
    lower = told(one, lowest, run="c1", fixed=fixed, work=["b"])
    root = told(one, lower, fixed=fixed, work=["a", "b"])
    assert root.work == ("a", "b", "c")
    assert root.evidence == ("r-a", "rr-a")
    assert root.admitted == ("a", "c1/a", "c2/a")


# -- The plan


def test_members_become_tickets() -> None:
    known = lookup(
        item("a", section="api", body=" text\r\nof\x1b it ", paths=("src/a.py",)),
        item("b", section="ui", depends_on=("a", "gone", "z")),
        Item(id="c", title="two\nlines \x1b[31m", section="api"),
    )
    plan = plan_of(opened(descriptor(), ["a", "b", "c"]), known, lambda _: False)
    a, b, c = plan.tickets
    assert [s.title for s in plan.sections] == ["api", "ui"]
    assert (a.section, b.section, c.section) == (0, 1, 0)
    assert (a.body, a.paths, a.context) == ("text\nof\ufffd it", (), ("src/a.py",))
    assert (b.needs, c.title) == (("a",), "two lines \ufffd[31m")
    assert (plan.order, plan.unit) == ("explicit", "task")
    assert len(plan_of(Batch(queue_revision="q"), known, lambda _: False).sections) == 1


def test_what_is_over_keeps_its_ticket() -> None:
    batch = opened(descriptor(), ["a", "b", "c"])
    first = plan_of(batch, lookup(item("a"), item("b", section="s"), item("c")), lambda _: False)
    batch = leave(batch, "c", "gone", NOW)
    changed = lookup(
        Item(id="a", title="another"),
        Item(id="b", title="another", section="t", depends_on=("a",)),
    )
    plan = plan_of(batch, changed, lambda i: i == "a", first)
    a, b, c = plan.tickets
    assert a == first.tickets[0]
    assert (b.title, b.needs, plan.sections[b.section].title) == ("another", (), "t")
    assert c == replace(first.tickets[2], mark="canceled")
    removed = plan_of(batch, lookup(), lambda i: i == "a", first)
    assert [t.title for t in removed.tickets] == ["fix a", "fix b", "fix c"]
    assert [t.title for t in plan_of(batch, lookup(), lambda _: False).tickets] == ["a", "b", "c"]


def test_the_plan_has_no_circle() -> None:
    """What the queue says goes before what a return has said earlier."""
    cell = descriptor()
    batch = opened(cell, ["a", "b"])
    before = lookup(item("a"), item("b"))
    batch = dispose(cell, batch, "a", said("blocked", "a@1", ("b",)), before, ())
    needs = {t.key: t.needs for t in plan_of(batch, before, lambda _: False).tickets}
    assert needs == {"a": ("b",), "b": ()}
    after = lookup(item("a"), item("b", depends_on=("a",)))
    needs = {t.key: t.needs for t in plan_of(batch, after, lambda _: False).tickets}
    assert needs == {"a": (), "b": ("a",)}
