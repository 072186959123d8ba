"""The scheduler of `run`: hand out, collect, integrate, and again.

It runs in the main thread and is the only one that integrates. Attempts that were sealed while it
did so are integrated together in the next chain; new ones are claimed, and their worktrees made,
beside it. Nothing here ever waits by looking again, but for what other processes do.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from gitbaton.engine import reconcile
from gitbaton.engine.context import known_run, resolve_run
from gitbaton.errors import BatonError, NeedsPerson
from gitbaton.model.action import ActionBatch, Blocked, Dispatch, Recover, ResolveMerge, Wait
from gitbaton.model.ids import AttemptId, assignment_id
from gitbaton.model.transitions import WORKING
from gitbaton.rules.lease import expires_at
from gitbaton.runner import process
from gitbaton.runner.attempt import Ended, Terms, Work, attend
from gitbaton.runner.claims import Claimed, Claims, Limits
from gitbaton.runner.session import GRACE, Resumed, attempt_lock, resume
from gitbaton.store import runs

POLL = 2.0  # seconds between two looks at what others are doing
LOOK = 0.1  # seconds between two looks at threads that have reported
MOMENT = 0.1  # seconds within which attempts that end are integrated together
WORTHWHILE = 0.5  # seconds of integrating after which free seats are filled before it goes on
HURRY = 1.0  # seconds for a killed worker to be gone when somebody is impatient


class Loop:
    """One `run`. ``busy`` are the attempts whose threads have not reported yet."""

    def __init__(
        self,
        terms: Terms,
        run: str | None,
        jobs: int,
        limits: Limits,
        first: Callable[..., ActionBatch],
    ) -> None:
        self._terms = terms
        self._ctx = terms.ctx
        self._wanted = run
        self._run = ""
        self._jobs = jobs
        self._limits = limits
        self._claims = Claims(terms, jobs, limits)
        self._first = first
        self._batch: ActionBatch
        self._busy: dict[str, threading.Thread] = {}
        self._backlog: deque[Resumed] = deque()
        self._late: list[Ended] = []
        self._integrating = 0.0
        self._reports: queue.SimpleQueue[Ended | Claimed | None] = queue.SimpleQueue()
        self._hurried = False
        self._sealed: dict[str, Work] = {}
        self._told: set[str] = set()

    def go(self) -> ActionBatch:
        """Until nothing is left to do, or nothing can be done."""
        self._resume(resolve_run(self._ctx, self._wanted, must_exist=False))
        self._accept(self._first(session=self._terms.session, capacity=self._claims.capacity()))
        while True:
            if self._limits.seconds_left() == 0:
                self.stop()
                over = f"{self._limits.minutes:g} minutes are over"
                return self._limit("max-minutes", over)
            if self._busy or self._claims.thread:
                ended = self._collect()
                stuck = next((r for r in ended if isinstance(r.error, NeedsPerson)), None)
                if stuck is not None:
                    self.stop()
                    return self._stuck(stuck)
                self._settle(ended)
                self._claims.begin(self._run, self._reports.put)
            elif self._batch.state in ("complete", "blocked", "paused"):
                return self._batch
            elif self._claims.exhausted:
                return self._limit(
                    "max-total-attempts", f"{self._limits.attempts} attempts were started"
                )
            else:
                self._wait_for_others()
                self._resume(self._run)
                self._accept(self._claims.actions(self._run))

    def stop(self) -> None:
        """Stop all workers and leave everything resumable; `hurry` shortens the wait."""
        crew = self._terms.crew
        crew.stop(signal.SIGTERM)
        self._join(GRACE, lambda: self._hurried)
        crew.stop(signal.SIGKILL)
        process.kill_children()  # checks of seals; the main thread's own have ended
        self._join(HURRY if self._hurried else GRACE)
        for resumed in self._backlog:
            resumed.lock.release()

    def hurry(self) -> None:
        """Let `stop` wait for no worker; a signal handler may call this."""
        self._hurried = True
        self._reports.put(None)  # of all that could wake a thread, this alone is reentrant

    def nothing_left(self) -> bool:
        """Whether no attempt of this session waits to be resumed."""
        try:
            return not self._left()
        except BatonError:
            return False

    def left_text(self) -> str:
        """How many attempts can be resumed, as the end of a sentence."""
        number = len(self._left())
        return f"{number or 'no'} attempt{'' if number == 1 else 's'} under way"

    def _left(self) -> list[str]:
        if not self._run or not known_run(self._ctx, self._run):
            return []
        attempts = runs.load_live(self._ctx.repo, self._run)[2].attempts
        mine = self._terms.session
        return [key for key, a in attempts.items() if a.session == mine and a.state in WORKING]

    # --- asking the engine ----------------------------------------------------------------------

    def _conclude(self, ended: Ended) -> None:
        self._integrating = time.monotonic()
        outlook = reconcile.conclude(
            self._ctx,
            ended.work.assignment,
            outcome="completed" if ended.outcome == "completed" else "failed",
            session=self._terms.session,
            token=ended.work.token,
            message=ended.message,
            landed=self._landed,
        )
        self._claims.want(outlook.retired)
        self._tell_integrated()

    def _landed(self) -> None:
        """Some of what is sealed is integrated and makes room, while the rest goes on. If that took
        no time, it is cheaper to go on and claim for all at once."""
        if time.monotonic() - self._integrating < WORTHWHILE:
            return
        self._claims.want()
        self._tell_integrated()
        self._late += self._arrived()
        self._claims.begin(self._run, self._reports.put)

    def _resume(self, run: str) -> None:
        if not known_run(self._ctx, run):
            return
        self._run = run
        for resumed in resume(self._ctx, run, self._terms.session):
            self._terms.leases.add(resumed.work.assignment, resumed.work.token)
            self._backlog.append(resumed)
        self._fill()

    # --- scheduling -----------------------------------------------------------------------------

    def _accept(self, batch: ActionBatch) -> None:
        """Take what a batch hands out; tell what it says."""
        self._batch = batch
        self._run = batch.run
        self._tell_integrated()
        for action in batch.actions:
            if isinstance(action, Dispatch | ResolveMerge):
                self._claims.made += 1
                lock = attempt_lock(self._ctx, batch.run, _id(action))
                lock.acquire()
                self._terms.leases.add(action.assignment, action.token)
                self._backlog.append(Resumed(action, lock, bound=False))
            elif isinstance(action, Recover):
                self._tell_recovery(action)
        for warning in batch.warnings:
            self._tell_once(f"warning: {warning}")
        self._fill()
        self._show_progress()

    def _fill(self) -> None:
        """Give each free seat an attempt."""
        while self._backlog and len(self._busy) < self._jobs:
            resumed = self._backlog.popleft()
            work = resumed.work
            self._terms.view.started(
                str(_id(work)),
                _headline(work),
                Path(work.packet).with_name("log"),
            )
            thread = threading.Thread(
                target=self._attend, args=(resumed,), name=work.assignment, daemon=True
            )
            self._busy[work.assignment] = thread
            thread.start()

    def _attend(self, resumed: Resumed) -> None:
        ended = attend(self._terms, self._run, resumed.work, resumed.lock, bound=resumed.bound)
        self._reports.put(ended)

    def _collect(self) -> list[Ended]:
        """Attempts that ended; waits for a report, at most until the deadline."""
        ended, self._late = self._late, []
        return ended or self._arrived(wait=True)

    def _arrived(self, *, wait: bool = False) -> list[Ended]:
        """Take what was reported: the next batch is accepted, attempts that ended are returned."""
        reports: list[Ended | Claimed | None] = []
        with contextlib.suppress(queue.Empty):
            if wait:
                reports.append(self._reports.get(timeout=self._limits.seconds_left()))
                until = time.monotonic() + MOMENT
                # Attempts that end in the same moment go into one chain, which costs half of two.
                while isinstance(reports[-1], Ended) and len(reports) < len(self._busy):
                    reports.append(self._reports.get(timeout=max(0.0, until - time.monotonic())))
            while True:
                reports.append(self._reports.get_nowait())
        for report in reports:
            if isinstance(report, Claimed):
                self._accept(self._claims.take(report))
        return [report for report in reports if isinstance(report, Ended)]

    def _settle(self, ended: Sequence[Ended]) -> None:
        """Put on record what ended; the sealed ones are integrated together."""
        for report in ended:
            del self._busy[report.work.assignment]
            if report.outcome == "completed":
                self._sealed[report.work.assignment] = report.work
                self._terms.view.phase(str(_id(report.work)), "integrates")
            else:
                self._terms.view.ended(str(_id(report.work)))
        for report in ended:
            if report.error is not None:
                raise report.error
        for report in ended:
            if report.outcome == "failed":
                self._conclude(report)
            elif report.outcome == "lost":
                self._terms.view.event(str(_id(report.work)), self._how_lost(report.work))
                self._claims.want()
        for report in ended:
            # The first integrates all that are sealed by then.
            if report.work.assignment in self._sealed:
                self._conclude(report)

    def _how_lost(self, work: Work) -> str:
        batch = runs.load(self._ctx.repo, self._run).state.batch
        returned = batch.returned(_id(work)) if batch else None
        if returned is None:
            return "taken over by another session"
        return f"{returned.kind}: {returned.reason}"

    def _tell_integrated(self) -> None:
        """Tell what became of the attempts that were sealed here."""
        if not self._sealed:
            return
        self._show_progress()
        loaded = runs.load(self._ctx.repo, self._run)
        for assignment, work in list(self._sealed.items()):
            attempt = loaded.attempt(_id(work))
            if attempt is None or attempt.state in ("sealed", "integrating"):
                continue
            del self._sealed[assignment]
            name = str(attempt.id)
            if attempt.state == "succeeded":
                self._terms.view.event(name, "integrated", good=True)
            elif attempt.failure is not None and attempt.state == "blocked-review":
                self._terms.view.event(name, _first_line(attempt.failure.message), bad=True)
            self._terms.view.ended(name)

    def _wait_for_others(self) -> None:
        pause = POLL
        for action in self._batch.actions:
            if isinstance(action, Wait):
                pause = action.poll_after_seconds or POLL
                if action.active:
                    self._tell_whose(action.active)
                    self._tell_once(f"waiting: {action.reason} ({', '.join(action.active)})")
                if action.undelivered:
                    self._tell_once(action.hint)
        left = self._limits.seconds_left()
        time.sleep(pause if left is None else min(pause, left))

    def _tell_whose(self, names: Sequence[str]) -> None:
        """Whose the work is that this waits for, and how long that may take if they are dead."""
        for key, attempt in runs.load_live(self._ctx.repo, self._run)[2].attempts.items():
            if assignment_id(self._run, attempt.id) in names and attempt.state in WORKING:
                ends = datetime.fromisoformat(expires_at(attempt.lease)).astimezone()
                said = f"{key} is held by session {attempt.session}, whose lease ends at {ends:%X}"
                self._tell_once(f"{said} unless it is renewed", key)

    def _limit(self, name: str, reason: str) -> ActionBatch:
        blocked = Blocked(
            code=name,
            reason=f"--{name}: {reason}",
            hint="the same command goes on; work that was stopped is resumed",
        )
        return replace(self._batch, state="blocked", actions=(blocked,))

    def _stuck(self, report: Ended) -> ActionBatch:
        """What is said when an attempt met with something that none of its successors can mend."""
        error = report.error
        assert isinstance(error, NeedsPerson)
        blocked = Blocked(
            code=error.code,
            reason=error.message,
            hint=error.hint,
            assignment=report.work.assignment,
        )
        return replace(self._batch, state="blocked", actions=(blocked,))

    def _join(self, seconds: float, enough: Callable[[], bool] = lambda: False) -> None:
        """Wait until all threads have ended, or it is ``enough``."""
        deadline = time.monotonic() + seconds
        claiming = self._claims.thread
        threads = [*self._busy.values(), *([claiming] if claiming else [])]
        while not enough() and any(thread.is_alive() for thread in threads):
            left = deadline - time.monotonic()
            if left <= 0:
                return
            with contextlib.suppress(queue.Empty):
                # A thread reports just before it ends, so the last report is not quite the end.
                self._reports.get(timeout=min(left, LOOK))

    # --- telling --------------------------------------------------------------------------------

    def _tell_recovery(self, action: Recover) -> None:
        then = "waits for a decision"
        if action.next == "retry":
            then = f"again as {action.retried_as}" if action.retried_as else "to be tried again"
        if (told := f"{action.assignment}: {action.reason}") not in self._told:
            self._told.add(told)
            name = action.assignment.partition("/")[2]
            self._terms.view.event(name, f"{action.reason}, {then}", bad=True)

    def _tell_once(self, text: str, about: str = "") -> None:
        if text and (about or text) not in self._told:
            self._told.add(about or text)
            self._terms.view.say(text)

    def _show_progress(self) -> None:
        found = runs.load_live(self._ctx.repo, self._run)[2]
        self._terms.view.progress(found.total - len(found.missing), found.total)


def _id(work: Work) -> AttemptId:
    return AttemptId(work.ticket, work.attempt)


def _headline(work: Work) -> str:
    if isinstance(work, ResolveMerge):
        return f"resolve the conflict in {', '.join(work.conflicts)}"
    return work.title + (" (again)" if work.redelivered else "")


def _first_line(message: str) -> str:
    return next((line for line in message.splitlines() if line.strip()), "waits for a decision")
