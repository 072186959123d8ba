"""The rules of batches, driven at random against dictionaries.

Hypothesis plays workers, people and other roots on one queue of a few items: claims, receipts,
every kind of return, items that come, close, are owned, put off, removed or made to wait for each
other. A naive model remembers who was frozen in, who was started and what was returned. At the end
the ordinary loop, with a person who decides whatever a pause is about, brings every batch to its
closeout.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from gitbaton.errors import BatonError
from gitbaton.model.batch import ACCEPTED, LEAVES, Batch, Closeout, Disposition, DispositionKind
from gitbaton.model.plan import Plan
from gitbaton.model.queue import (
    CLOSED,
    SEVERITIES,
    Claim,
    Filters,
    Item,
    ItemState,
    Severity,
)
from gitbaton.model.receipt import CheckResult
from gitbaton.model.run import Attempt, Lease
from gitbaton.rules import batch as rules
from gitbaton.rules import members as membership
from gitbaton.rules.dispose import dispose, require
from gitbaton.rules.frontier import startable
from gitbaton.rules.select import available, select
from rules.batches import NOW, descriptor, item, said

NAMES = [f"i{n}" for n in range(9)]
names = st.sampled_from(NAMES)
some = st.lists(names, min_size=1, max_size=2, unique=True).map(tuple)
severities = st.sampled_from(SEVERITIES)
ends = st.sampled_from(
    ["fixed", "fixed", "blocked", "blocked", "obe", "owned", "local-gate", "unresolved", None]
)
OURS, OTHERS = "r", "other"
END = 60
"""So many rounds are enough for any batch of nine items."""


@dataclass
class Model:
    """What a person with a sheet of paper would know."""

    frozen: list[str] = field(default_factory=list)
    started: dict[str, int] = field(default_factory=dict)
    active: set[str] = field(default_factory=set)
    fixed: dict[str, int] = field(default_factory=dict)
    returns: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)


class Batches(RuleBasedStateMachine):
    """One root on one queue."""

    @initialize(
        live=st.booleans(),
        alone=st.booleans(),
        gated=st.booleans(),
        known=st.lists(names, unique=True) | st.just(NAMES[:6]),
    )
    def open(self, live: bool, alone: bool, gated: bool, known: list[str]) -> None:
        self.cell = descriptor(
            "live" if live else "snapshot",
            "one-item" if alone else "autopilot",
            filters=Filters(severity="medium"),
            gates=("make",) if gated else (),
        )
        self.queue: dict[str, Item] = {name: item(name) for name in known}
        self.revision = 0
        self.model = Model()
        chosen = self.selected()
        self.batch: Batch = rules.opening(self.cell, "0", chosen)
        self.plan = Plan()
        if not live:
            self.model.frozen = chosen[:1] if alone else chosen
        self.look()

    # -- As an engine does it

    def selected(self) -> list[str]:
        return select(self.queue, self.cell.filters, self.cell.order)

    def closed(self, name: str) -> bool:
        found = self.queue.get(name)
        return found is None or found.state in CLOSED

    def missing(self) -> list[str]:
        return [m.id for m in self.batch.members if not m.left and m.id not in self.model.fixed]

    def change(self, name: str, **fields: Any) -> None:
        self.queue[name] = replace(self.queue[name], **fields)
        self.revision += 1

    def look(self) -> None:
        """Members and plan brought up to date with the queue."""
        if self.batch.closed is not None:
            return
        batch = membership.admit(self.cell, self.batch, self.selected(), self.model.started)
        for name in [m.id for m in batch.members]:
            if name in self.model.active or name in self.model.fixed:
                continue
            why = membership.lost(self.cell, batch, name, self.queue.get)
            if why is not None:
                batch = membership.leave(batch, name, why, NOW)
                self.model.left.add(name)
                self.free(name)
        idle = {m.id for m in batch.members} - self.model.active - self.model.fixed.keys()
        batch = require(self.cell, batch, idle, self.queue.get, NOW, self.model.fixed)
        self.batch = batch
        self.plan = membership.plan_of(batch, self.queue.get, self.closed, self.plan)

    def free(self, name: str) -> None:
        found = self.queue.get(name)
        if found and found.claimed_by and found.claimed_by.run == OURS:
            self.change(name, state="open", claimed_by=None)

    def attempt(self, name: str) -> str:
        return f"{name}@{self.model.started[name]}"

    def holds(self, name: str) -> bool:
        found = self.queue.get(name)
        claim = found.claimed_by if found else None
        return claim == Claim(run=OURS, attempt=self.attempt(name), capability="c")

    def claimable(self) -> Iterator[str]:
        for ticket in startable(self.plan, self.missing()):
            found = self.queue.get(ticket.key)
            ours = found and found.claimed_by and found.claimed_by.run == OURS
            if found is None or ticket.key in self.model.active:
                continue
            if ours or available(found, self.queue.get) is None:
                yield ticket.key

    def going(self) -> bool:
        return self.batch.closed is None and self.batch.pause is None

    def working(self) -> bool:
        return bool(self.model.active)

    @precondition(going)
    @rule(which=st.integers(0, 3), end=ends, by=some)
    def work(self, which: int, end: DispositionKind | None, by: tuple[str, ...]) -> None:
        """Claim an item, and most often return it at once."""
        name = self.claim(which)
        if name is not None and end is not None:
            self.give_back(name, end, by)

    @precondition(working)
    @rule(which=st.integers(0, 3), end=ends.filter(bool), by=some)
    def finish_work(self, which: int, end: DispositionKind, by: tuple[str, ...]) -> None:
        self.give_back(self.any_active(which), end, by)

    def claim(self, which: int) -> str | None:
        self.look()
        free = list(self.claimable())
        if not free or not self.going():
            return None
        name = free[which % len(free)]
        self.model.started[name] = self.model.started.get(name, 0) + 1
        self.model.active.add(name)
        claim = Claim(run=OURS, attempt=self.attempt(name), capability="c")
        self.change(name, state="claimed", claimed_by=claim)
        return name

    def give_back(self, name: str, kind: DispositionKind, by: tuple[str, ...]) -> None:
        if not self.holds(name):
            self.dispose(name, "eligibility-lost", ())
        elif kind == "fixed":
            self.fix(name)
        else:
            who = {"blocked": by, "owned": (OTHERS,)}
            self.dispose(name, kind, who.get(kind, ()))

    def fix(self, name: str) -> None:
        self.model.active.discard(name)
        self.model.fixed[name] = self.model.started[name]
        self.change(name, state="fixed", claimed_by=None)
        word = said("fixed")
        same = dispose(self.cell, self.batch, name, word, self.queue.get, self.model.fixed)
        assert same == self.batch
        self.look()

    def any_active(self, which: int) -> str:
        active = sorted(self.model.active)
        return active[which % len(active)]

    def dispose(self, name: str, kind: DispositionKind, by: tuple[str, ...]) -> None:
        held = self.holds(name)
        word = said(kind, self.attempt(name), by)
        before = self.batch
        after = dispose(self.cell, before, name, word, self.queue.get, self.model.fixed)
        self.check_dispose(before, after, name, word)
        self.model.active.discard(name)
        self.model.returns.setdefault(name, []).append((word.attempt, kind))
        if kind in LEAVES:
            self.model.left.add(name)
        member = after.member(name)
        assert member is not None
        if held and kind == "blocked" and set(by) <= set(member.blockers):
            waits = tuple(dict.fromkeys((*self.queue[name].depends_on, *by)))
            self.change(name, state="blocked", claimed_by=None, depends_on=waits)
        elif held:
            into: dict[str, ItemState] = {"obe": "obe", "owned": "owned"}
            owner = by[0] if kind == "owned" else None
            self.change(name, state=into.get(kind, "open"), claimed_by=None, owner=owner)
        self.batch = after
        self.check_second_return(name, word)
        self.look()

    # -- What the naive model expects of a return

    def check_dispose(self, before: Batch, after: Batch, name: str, word: Disposition) -> None:
        old, new = {m.id for m in before.members}, {m.id for m in after.members}
        pause = after.pause.code if after.pause else None
        expected: str | None = None
        if word.kind in ("local-gate", "unresolved"):
            expected = word.kind
        elif word.kind == "blocked":
            expected = self.trouble(before, name, word.by)
        if before.pause is None:
            assert pause == expected
        required = set()
        if word.kind == "blocked" and expected is None:
            required = self.reached(before, word.by)
        assert new == old | required

    def waits(self, batch: Batch, name: str) -> set[str]:
        member, found = batch.member(name), self.queue.get(name)
        said_of_it = set(member.blockers if member else ()) | set(found.depends_on if found else ())
        return {i for i in said_of_it if not self.closed(i)}

    def reached(self, batch: Batch, by: tuple[str, ...]) -> set[str]:
        found = {i for i in by if not self.closed(i)}
        while True:
            more = {other for i in found for other in self.waits(batch, i)} - found
            if not more:
                return found
            found |= more

    def trouble(self, batch: Batch, name: str, by: tuple[str, ...]) -> str | None:
        reached = self.reached(batch, by)
        if any(i not in self.queue for i in by):
            return "blocker-missing"
        if name in reached or any(
            i in self.reached(batch, tuple(self.waits(batch, i))) for i in reached
        ):
            return "blocker-cycle"
        if self.cell.mode == "one-item":
            return "blocked"
        barred = {i for i in reached if self.queue[i].state in ("owned", "deferred")}
        by_hand = {
            i for i in reached if self.queue[i].state == "blocked" and not self.queue[i].depends_on
        }
        gone = self.model.left | self.model.fixed.keys()
        return "blocker-unavailable" if barred | by_hand | (reached & gone) else None

    def check_second_return(self, name: str, word: Disposition) -> None:
        again = dispose(self.cell, self.batch, name, word, self.queue.get, self.model.fixed)
        assert again == self.batch
        with pytest.raises(BatonError, match="already"):
            second = said("obe" if word.kind != "obe" else "unresolved", word.attempt)
            dispose(self.cell, self.batch, name, second, self.queue.get, self.model.fixed)

    # -- What others do in between

    @rule(data=st.data(), name=names)
    def meddle(self, data: st.DataObject, name: str) -> None:
        found = self.queue.get(name)
        if found is None:
            self.add(name, data.draw(severities))
        else:
            data.draw(st.sampled_from(MEDDLING))(self, data, found)
            self.revision += 1

    def add(self, name: str, severity: Severity) -> None:
        self.queue[name] = item(name, severity=severity)
        self.revision += 1

    def set_state(self, data: st.DataObject, found: Item) -> None:
        state = data.draw(st.sampled_from(["open", "fixed", "obe", "deferred", "blocked"]))
        self.change(found.id, state=state, claimed_by=None, owner=None)

    def set_severity(self, data: st.DataObject, found: Item) -> None:
        self.change(found.id, severity=data.draw(severities))

    def own(self, _: st.DataObject, found: Item) -> None:
        self.change(found.id, state="owned", claimed_by=None, owner=OTHERS)

    def remove(self, _: st.DataObject, found: Item) -> None:
        if found.claimed_by is None:
            del self.queue[found.id]

    def set_depends_on(self, data: st.DataObject, found: Item) -> None:
        """Refused where the queue would have a circle, as the queue does it."""
        on = data.draw(st.lists(names.filter(self.queue.get), max_size=2, unique=True))
        reached, left = set(on), list(on)
        while left:
            known = self.queue.get(left.pop())
            new = set(known.depends_on if known else ()) - reached
            reached |= new
            left.extend(new)
        if found.id not in reached:
            self.change(found.id, depends_on=tuple(on))

    def claim_elsewhere(self, _: st.DataObject, found: Item) -> None:
        if available(found, self.queue.get) is None:
            claim = Claim(run=OTHERS, attempt=f"{found.id}@1", capability="d")
            self.change(found.id, state="claimed", claimed_by=claim)

    def return_elsewhere(self, data: st.DataObject, found: Item) -> None:
        if found.claimed_by is not None and found.claimed_by.run == OTHERS:
            state = data.draw(st.sampled_from(["open", "fixed"]))
            self.change(found.id, state=state, claimed_by=None)

    @precondition(working)
    @rule(which=st.integers(0, 3))
    def die(self, which: int) -> None:
        name = self.any_active(which)
        self.model.active.discard(name)
        self.free(name)

    @rule()
    def look_again(self) -> None:
        """Looking comes to rest: whoever leaves makes room for the rest of a frozen set."""
        for _ in NAMES:
            self.look()
        before = self.batch, self.plan
        self.look()
        assert (self.batch, self.plan) == before

    @precondition(lambda self: self.batch.closed is None and self.model.fixed)
    @rule(which=st.integers(0, 3))
    def reopen(self, which: int) -> None:
        """A person wants an item that was fixed here fixed once more."""
        fixed = sorted(self.model.fixed)
        name = fixed[which % len(fixed)]
        del self.model.fixed[name]
        self.batch = rules.thaw(self.batch)
        if name in self.queue and self.closed(name):
            self.change(name, state="open")
        self.look()

    # -- Pause, resume, the end

    @precondition(lambda self: self.batch.pause is not None)
    @rule()
    def resume(self) -> None:
        self.batch = rules.resume(self.cell, self.batch, self.closed)
        again = self.batch.pause
        if self.cell.mode == "autopilot":
            assert again is None
        elif again is not None:
            assert again.code == "blocked"
            assert any(not self.closed(i) for m in self.batch.members for i in m.blockers)
        self.look()

    @precondition(going)
    @rule(green=st.booleans(), late=st.none() | names)
    def finish(self, green: bool, late: str | None) -> None:
        """Freeze, gates, close; ``late`` comes while the gates run."""
        self.look()
        if not self.going() or self.model.active or not self.over():
            return
        seen, tip = str(self.revision), str(len(self.model.fixed))
        before = self.batch.freeze
        self.batch = rules.freeze(self.batch, seen, tip)
        frozen = self.batch.freeze
        assert frozen is not None and self.batch.frozen
        assert frozen.count - (before.count if before else 0) in (0, 1)
        if frozen.gates is None:
            gates = self.cell.gates if self.batch.members else ()
            code = 0 if green else 1
            results = [
                CheckResult(
                    command=g, exit_code=code, duration_ms=1, output_sha256="0", output_tail=""
                )
                for g in gates
            ]
            self.batch = rules.gates_done(self.batch, results)
            assert (self.batch.pause is not None) == bool(gates and not green)
        else:
            assert before is not None and before.tip == tip and not frozen.red
        if late is not None and late not in self.queue:
            self.add(late, "high")
        self.look()
        moved = self.cell.membership == "live" and seen != str(self.revision)
        if self.batch.pause is None and not moved:
            assert self.over()
            self.close()

    def over(self) -> bool:
        return rules.exhausted(self.cell, self.batch, self.missing(), self.selected())

    def close(self) -> None:
        outcome = rules.outcome(self.cell, self.batch)
        self.batch = rules.close(self.batch, outcome)
        assert rules.close(self.batch, "done") == self.batch
        closeout = self.closeout()
        told = [r.item for r in closeout.members]
        assert len(told) == len(set(told))
        assert set(told) == {m.id for m in self.batch.members}
        for returned in closeout.members:
            fixed = returned.item in self.model.fixed
            assert (returned.disposition == "fixed") == fixed
            assert returned.accepted == (returned.disposition in ACCEPTED)
            assert fixed != (returned.item in self.model.left)
        if not told:
            assert outcome == "queue-empty"
        elif self.cell.mode == "one-item":
            only = closeout.members[0].disposition
            assert outcome == ("done" if only == "fixed" else only)
        else:
            assert outcome == "done"

    def closeout(self) -> Closeout:
        return rules.closeout(
            self.cell,
            self.batch,
            run=OURS,
            outcome=self.batch.closed or "done",
            queue_revision=str(self.revision),
            base_commit="b",
            tip="t",
            branch="r",
            plan=self.plan,
            fixed={name: succeeded(name, n) for name, n in self.model.fixed.items()},
            work=(),
            children=(),
            opened_at=NOW,
            closed_at=NOW,
        )

    # -- What holds at any time

    @invariant()
    def membership_is_what_it_was_opened_for(self) -> None:
        own = [m.id for m in self.batch.members if m.blocks is None]
        ids = [m.id for m in self.batch.members]
        assert len(ids) == len(set(ids))
        if self.cell.mode == "one-item":
            assert len(ids) <= 1 and own == ids
        if self.cell.membership == "snapshot":
            assert set(own) <= set(self.model.frozen)
            if self.cell.mode == "autopilot":
                assert {*ids, *self.batch.pending} >= set(self.model.frozen)
                assert not set(ids) & set(self.batch.pending)
            else:
                assert ids == self.model.frozen
        needed = {i for m in self.batch.members for i in m.blockers}
        waiting = [m.id for m in self.batch.members if not m.history and m.blocks is None]
        assert len(set(waiting) - needed - self.model.started.keys()) <= membership.WINDOW

    @invariant()
    def members_that_were_started_stay(self) -> None:
        ids = {m.id for m in self.batch.members}
        assert set(self.model.started) | self.model.left <= ids

    @invariant()
    def history_is_what_was_returned(self) -> None:
        for member in self.batch.members:
            returned = [(d.attempt, d.kind) for d in member.history if d.attempt]
            assert returned == self.model.returns.get(member.id, [])
            assert member.left == (member.id in self.model.left)
            assert not member.left or member.id not in self.model.fixed

    @invariant()
    def nothing_closes_too_early(self) -> None:
        if self.batch.closed is not None:
            assert not self.missing() and not self.model.active
            assert self.batch.pause is None

    @invariant()
    def the_plan_is_the_members(self) -> None:
        if self.batch.closed is not None:
            return
        tickets = {t.key: t for t in self.plan.tickets}
        assert len(tickets) == len(self.plan.tickets)
        for ticket in tickets.values():
            assert 0 <= ticket.section < len(self.plan.sections)
            assert all(need in tickets for need in ticket.needs)
        missing = [m for m in self.missing() if m in tickets]
        assert not missing or startable(self.plan, missing)

    def teardown(self) -> None:
        """With a person who decides what a pause is about, every batch comes to its end."""
        if not hasattr(self, "batch"):
            return
        for found in list(self.queue.values()):
            if found.claimed_by is not None and found.claimed_by.run == OTHERS:
                self.change(found.id, state="open", claimed_by=None)
        for _ in range(END):
            if self.batch.closed is not None:
                return
            self.look()
            if self.batch.pause is not None:
                self.decide()
            elif self.model.active:
                self.give_back(self.any_active(0), "fixed", ())
            elif self.claim(0) is None:
                self.finish(True, None)
        raise AssertionError(f"never closes: {self.batch}, {self.queue}")

    def decide(self) -> None:
        """Whatever holds somebody up, or is in the way, is given up."""
        mine = self.missing()
        for name, found in list(self.queue.items()):
            if name not in mine and found.state not in CLOSED:
                self.change(name, state="wontfix", claimed_by=None, owner=None)
        self.resume()


MEDDLING = (
    Batches.set_state,
    Batches.set_severity,
    Batches.own,
    Batches.remove,
    Batches.set_depends_on,
    Batches.set_depends_on,
    Batches.claim_elsewhere,
    Batches.return_elsewhere,
)


def succeeded(name: str, number: int) -> Attempt:
    lease = Lease(
        holder="s",
        machine="m",
        boot="b",
        token_sha256="0",
        ttl_seconds=1,
        deadline=0.0,
        renewed_at=NOW,
    )
    return Attempt(
        ticket=name,
        number=number,
        state="succeeded",
        session="s",
        lease=lease,
        base_commit="0",
        branch="b",
        worktree="w",
        packet_sha256="0",
        ticket_digest="0",
        plan_revision=1,
        claimed_at=NOW,
    )


def test_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    # Small windows, so that nine items fill them.
    for module in (rules, membership):
        monkeypatch.setattr(module, "WINDOW", 4)
    monkeypatch.setattr(membership, "HEAD", 2)
    run_state_machine_as_test(
        Batches,
        settings=settings(
            max_examples=60,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
