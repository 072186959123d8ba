"""Store and engine, driven at random against a dictionary, with crashes between any two steps.

Hypothesis picks what callers, workers and people do next: claim, work, seal, report, let a lease
run out, abandon, adopt, reopen, pause, edit the plan. Any of it may die before or after any ref it
moves and any git process it starts. The invariants hold after every step, and at the end the
ordinary loop brings every run to completion.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
import scene
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import asdict

from gitbaton.clock import Moment
from gitbaton.engine import dispatch, lease, look, steer, worker
from gitbaton.engine.context import Context, open_context
from gitbaton.engine.reconcile import reconcile
from gitbaton.errors import BatonError
from gitbaton.git import checkout, process, refs
from gitbaton.model.action import ActionBatch, Blocked, Complete, Dispatch, ResolveMerge
from gitbaton.model.ids import AttemptId
from gitbaton.model.run import Advance
from gitbaton.rules.frontier import ticket_states
from gitbaton.rules.revise import resolved_by_receipt
from gitbaton.store import runs

T = TypeVar("T")

LEASE = 1000
# Green alone and red together: whoever comes second needs a decision.
CHECK = "test ! -e broken && ! { test -e half-a && test -e half-b; }"
# What the verbs may answer, and why it is no fault of theirs.
ANSWERS = {
    "abandon-refused",
    "already-integrated",
    "attempt-retired",
    "being-integrated",
    "checks-failed",
    "foreign-session",
    "illegal-transition",
    "lease-lost",
    "merge-in-progress",
    "newer-attempt",
    "no-commits",
    "no-receipt",
    "no-tasks",
    "nothing-committed",
    "nothing-changed",
    "packet-damaged",
    "stale-token",
    "ticket-open",
    "ticket-resolved",
    "unknown-ticket",
    "already-bound",
    "not-a-worktree",
    "worktree-missing",
}


class Killed(BaseException):
    """The process ends here."""


class FakeClock:
    """A second passes whenever somebody looks."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> Moment:
        self.seconds += 1
        wall = datetime(2030, 1, 2, tzinfo=UTC) + timedelta(seconds=self.seconds)
        return Moment(wall, self.seconds, "machine", "boot")


class Fuse:
    """Ends the process at the n-th ref moved or git started, just before or just after it."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.after = False

    def wrap(self, function: Callable[..., T]) -> Callable[..., T]:
        def wrapped(*args: Any, **kwargs: Any) -> T:
            if self.left is None:
                return function(*args, **kwargs)
            self.left -= 1
            if self.left < 0 and not self.after:
                raise Killed
            done = function(*args, **kwargs)
            if self.left < 0:
                raise Killed
            return done

        return wrapped


FUSE = Fuse()
crashes = st.none() | st.tuples(st.integers(0, 12), st.booleans())
sessions = st.sampled_from(["a", "b"])
manners = st.sampled_from(["own", "own", "shared", "shared", "half-a", "half-b", "red"])


class Runs(RuleBasedStateMachine):
    """One repository with one run, what was handed out, and what was acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = Path(tempfile.mkdtemp(prefix="baton-model-", dir=where))
        self.top = self.folder / "repo"
        self.clock = FakeClock()
        self.handed: dict[str, Dispatch | ResolveMerge] = {}
        self.sealed: dict[str, str] = {}
        self.plan: dict[str, tuple[str, str]] = {}
        self.removed: dict[str, tuple[str, str]] = {}
        self.ticked: set[str] = set()
        self.merged_at_reopen: dict[str, int] = {}
        scene.make_repository(self.top, [2, 1])
        scene.git(self.top, "config", "baton.verify", CHECK)
        scene.git(self.top, "config", "baton.fsync", "false")
        self.plan = {key: (" ", f"Ticket {key}") for key in ("1.1", "1.2", "2.1")}
        self._write_plan()
        self.ctx = self._open()
        self.begun = False

    def teardown(self) -> None:
        try:
            if self.begun:
                self._finish()
        finally:
            FUSE.left = None
            shutil.rmtree(self.folder, ignore_errors=True)

    # --- what people, callers and workers do ----------------------------------------------

    @initialize()
    def begin(self) -> None:
        self._take(self._actions("a", 2))
        self.begun = True

    @rule(session=sessions, capacity=st.integers(1, 4), crash=crashes, again=st.booleans())
    def claim(self, session: str, capacity: int, crash: Any, again: bool) -> None:
        self._try(lambda: self._take(self._actions(session, capacity, redeliver=again)), crash)

    @precondition(lambda self: self.handed)
    @rule(data=st.data(), manner=manners)
    def work(self, data: st.DataObject, manner: str) -> None:
        given = self.handed[self._pick(data)]
        if Path(given.cwd).is_dir():
            _work(given, manner)

    @precondition(lambda self: self.handed)
    @rule(data=st.data(), crash=crashes)
    def seal(self, data: st.DataObject, crash: Any) -> None:
        self._try(lambda: self._seal(self._pick(data)), crash)

    @precondition(lambda self: self.handed)
    @rule(data=st.data(), manner=manners, crash=crashes)
    def work_seal_and_report(self, data: st.DataObject, manner: str, crash: Any) -> None:
        name = self._pick(data)
        given = self.handed[name]
        if not Path(given.cwd).is_dir():
            return
        _work(given, manner)
        self._try(lambda: self._seal(name), None)
        self._try(lambda: self._report(name, "completed"), crash)

    @precondition(lambda self: self.handed)
    @rule(
        data=st.data(),
        outcome=st.sampled_from(["completed", "completed", "failed", "canceled"]),
        crash=crashes,
    )
    def report(self, data: st.DataObject, outcome: str, crash: Any) -> None:
        self._try(lambda: self._report(self._pick(data), outcome), crash)

    @precondition(lambda self: self.handed)
    @rule(data=st.data(), crash=crashes)
    def bind_or_beat(self, data: st.DataObject, crash: Any) -> None:
        given = self.handed[self._pick(data)]
        if data.draw(st.booleans()):
            self._try(lambda: lease.bind(self.ctx, given.assignment, "w", given.token), crash)
        else:
            self._try(lambda: lease.heartbeat(self.ctx, given.assignment, given.token), crash)

    @rule()
    def time_passes(self) -> None:
        self.clock.seconds += LEASE * 10

    @precondition(lambda self: self.handed)
    @rule(data=st.data(), force=st.booleans(), crash=crashes)
    def abandon(self, data: st.DataObject, force: bool, crash: Any) -> None:
        name = self._pick(data)
        self._try(lambda: steer.abandon(self.ctx, name, "no use", force), crash)

    @precondition(lambda self: self.handed)
    @rule(data=st.data(), crash=crashes)
    def adopt(self, data: st.DataObject, crash: Any) -> None:
        name = self._pick(data)
        self._try(lambda: steer.adopt(self.ctx, name), crash)

    @rule(data=st.data(), crash=crashes)
    def reopen(self, data: st.DataObject, crash: Any) -> None:
        key = data.draw(st.sampled_from(sorted(self.plan)))
        self.merged_at_reopen[key] = self._merges()[key]
        self._try(lambda: steer.reopen(self.ctx, scene.RUN, key, "again"), crash)

    @rule(crash=crashes)
    def pause_and_resume(self, crash: Any) -> None:
        self._try(lambda: steer.pause(self.ctx, scene.RUN, "lunch"), crash)
        self._try(lambda: self._take(self._actions("a", 4)), crash)
        steer.resume(self.ctx, scene.RUN)

    @precondition(lambda self: len(self.plan) < 6)
    @rule()
    def add_ticket(self) -> None:
        number = 1 + len(self.plan) + len(self.removed)
        self.plan[f"3.{number}"] = (" ", f"Another {number}")
        self._write_plan()

    @precondition(lambda self: len(self.plan) > 1)
    @rule(data=st.data())
    def remove_ticket(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.plan)))
        self.removed[key] = self.plan.pop(key)
        self._write_plan()

    @precondition(lambda self: self.removed)
    @rule(data=st.data())
    def bring_ticket_back(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.removed)))
        self.plan[key] = self.removed.pop(key)
        self._write_plan()

    @rule(data=st.data())
    def change_text(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.plan)))
        self.plan[key] = (self.plan[key][0], self.plan[key][1] + " more")
        self._write_plan()

    @rule(data=st.data())
    def tick(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.plan)))
        marker = " " if self.plan[key][0] == "x" else "x"
        self.plan[key] = (marker, self.plan[key][1])
        self.ticked.add(key)
        self._write_plan()

    # --- what must be true at any time -----------------------------------------------------

    @invariant()
    def everything_adds_up(self) -> None:
        if not self.begun:
            return
        loaded = runs.load(self.ctx.repo, scene.RUN)
        state, live = loaded.state, loaded.state.live
        attempts = list(loaded.all_attempts())
        active = [a.ticket for a in attempts if a.active]
        assert len(active) == len(set(active)), attempts
        assert live.total == len(state.plan.tickets)
        counted = live.resolved + live.canceled + len(live.by_hand) + len(live.missing)
        assert counted == live.total, live
        done = resolved_by_receipt(state)
        assert len(done) == live.resolved, (done, live)
        merges = self._merges()
        won = Counter(a.ticket for a in attempts if a.state == "succeeded")
        moved = [
            m.ticket
            for intent in state.intents.values()
            if isinstance(intent, Advance) and self._tip() == intent.new
            for m in intent.merges
        ]
        assert merges == won + Counter(moved), (merges, won, moved)
        assert done <= set(merges), (done, merges)
        for name, receipt in self.sealed.items():
            attempt = next(a for a in attempts if f"{scene.RUN}/{a.id}" == name)
            assert attempt.sealed is not None and attempt.sealed.receipt_sha256 == receipt, name
            assert loaded.receipt(attempt.id) is not None
        shown = look.status(self.ctx, scene.RUN).tickets
        parts = (shown.resolved, shown.resolved_by_hand, shown.active, shown.ready)
        assert shown.total == sum((*parts, shown.waiting, shown.failed, shown.canceled)), shown
        states = Counter(ticket_states(state).values())
        assert (shown.active, shown.failed) == (states["active"], states["failed"]), (shown, states)
        assert min(asdict(shown).values()) >= 0, shown

    # --- the end ---------------------------------------------------------------------------

    def _finish(self) -> None:
        """Nobody crashes any more, and people decide what they are asked: the run completes."""
        steer.resume(self.ctx, scene.RUN)
        # What somebody unticked, or what is to be done again, waits for no one.
        self.clock.seconds += LEASE * 10
        batch = self._actions("end", 8, redeliver=True)
        for _ in range(60):
            if batch.state == "complete":
                break
            todo = scene.dispatches(batch)
            for given in todo:
                self.handed[given.assignment] = given
                _work(given, "own")
                self._seal(given.assignment)
                batch = self._report(given.assignment, "completed", session="end")
            for action in batch.actions:
                if isinstance(action, Blocked) and action.assignment is not None:
                    self._decide(action.code, action.assignment)
            if not todo:
                self.clock.seconds += LEASE * 10
            batch = self._actions("end", 8, redeliver=True)
        else:
            raise AssertionError(f"never complete: {batch}")
        self._check_complete(batch)
        loaded = runs.load(self.ctx.repo, scene.RUN)
        assert not loaded.state.intents
        self.everything_adds_up()
        scene.check_objects(self.top)
        assert not scene.leftover_locks(self.top)

    def _decide(self, code: str, assignment: str) -> None:
        if code == "attempts-exhausted":
            key = assignment.partition("/")[2].rpartition("@")[0]
            steer.reopen(self.ctx, scene.RUN, key, "once more")
        else:
            steer.abandon(self.ctx, assignment, "do it again", True)

    def _check_complete(self, batch: ActionBatch) -> None:
        done = [action for action in batch.actions if isinstance(action, Complete)]
        assert len(done) == 1
        merges = self._merges()
        assert {*done[0].resolved, *done[0].resolved_by_hand} == set(self.plan)
        for key in self.plan:
            fresh = merges[key] > self.merged_at_reopen.get(key, 0)
            assert fresh or key in self.ticked or key in done[0].resolved, (key, merges)
            assert merges[key] or key in self.ticked, (key, merges)
        assert done[0].commit == self._tip()

    # --- how it is done ----------------------------------------------------------------------

    def _open(self) -> Context:
        return open_context(self.top, clock=self.clock, warn=lambda _: None)

    def _try(self, step: Callable[[], object], crash: tuple[int, bool] | None) -> None:
        """Do it, or be refused for a good reason, or die of it and go on in a new process."""
        if crash is not None:
            FUSE.left, FUSE.after = crash
        try:
            step()
        except BatonError as error:
            assert error.code in ANSWERS, f"{error.code}: {error.message}"
        except Killed:
            self.ctx = self._open()
        finally:
            FUSE.left = None

    def _actions(self, session: str, capacity: int, redeliver: bool = False) -> ActionBatch:
        return dispatch.actions(
            self.ctx,
            scene.RUN,
            session=session,
            capacity=capacity,
            lease=LEASE,
            redeliver=redeliver,
        )

    def _take(self, batch: ActionBatch) -> ActionBatch:
        for given in scene.dispatches(batch):
            assert given.redelivered or given.assignment not in self.handed, "handed out twice"
            self.handed[given.assignment] = given
        if batch.state == "complete":
            self._check_complete(batch)
        return batch

    def _seal(self, name: str) -> None:
        try:
            done = worker.seal(self.ctx, name, token=self.handed[name].token)
            self.sealed[name] = done.receipt_sha256
        except (BatonError, Killed):
            # The receipt of an attempt that is over is kept, and so may be one of a dying process.
            ticket, _, number = name.partition("/")[2].rpartition("@")
            attempt = runs.load(self.ctx.repo, scene.RUN).attempt(AttemptId(ticket, int(number)))
            if attempt is not None and attempt.sealed is not None:
                self.sealed[name] = attempt.sealed.receipt_sha256
            raise

    def _report(self, name: str, outcome: Any, session: str = "a") -> ActionBatch:
        token = self.handed[name].token
        return self._take(
            reconcile(self.ctx, name, outcome=outcome, session=session, capacity=4, token=token)
        )

    def _pick(self, data: st.DataObject) -> str:
        return str(data.draw(st.sampled_from(sorted(self.handed))))

    def _tip(self) -> str | None:
        return refs.read(self.ctx.repo, f"refs/heads/baton/{scene.RUN}")

    def _merges(self) -> Counter[str]:
        if self._tip() is None:
            return Counter()
        return scene.merges_by_ticket(self.top, f"baton/{scene.RUN}", "trunk")

    def _write_plan(self) -> None:
        lines = []
        for section in ("1", "2", "3"):
            lines.append(f"## {section}. Section {section}\n")
            for key, (marker, text) in sorted(self.plan.items()):
                if key.startswith(section + "."):
                    lines.append(f"- [{marker}] {key} {text}")
            lines.append("")
        (self.top / scene.TASKS).write_text("\n".join(lines))


def _work(given: Dispatch | ResolveMerge, manner: str) -> None:
    """A worker's commit: in a file of its own, or one that gets in the way of others."""
    cwd = Path(given.cwd)
    name = f"{given.ticket}@{given.attempt}"
    (cwd / f"{given.ticket}.txt").write_text(f"{name}\n")
    (cwd / "broken").unlink(missing_ok=True)
    shared = cwd / "shared.txt"
    text = shared.read_text()
    if "<<<<<<<" in text:
        marks = ("<<<<<<<", "=======", ">>>>>>>")
        kept = [line for line in text.splitlines() if not line.startswith(marks)]
        shared.write_text("\n".join(kept) + "\n")
    elif manner == "shared":
        shared.write_text("\n".join([name, *text.splitlines()[1:]]) + "\n")
    if manner in ("half-a", "half-b"):
        (cwd / manner).write_text("")
    if manner == "red":
        (cwd / "broken").write_text("")
    checkout.commit_all(cwd, f"work on {given.ticket}")


@contextmanager
def fused() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refs, "cas", FUSE.wrap(refs.cas))
        patch.setattr(process, "git", FUSE.wrap(process.git))
        yield


def test_the_engine_agrees_with_a_dictionary() -> None:
    chosen = settings(
        max_examples=int(os.environ.get("MODEL_EXAMPLES", "12")),
        stateful_step_count=25,
        deadline=None,
        derandomize="MODEL_EXAMPLES" not in os.environ,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        phases=[Phase.generate],
    )
    with fused():
        run_state_machine_as_test(Runs, settings=chosen)
