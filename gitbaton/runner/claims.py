"""What a run claims, and what it may: beside everything else, one batch at a time.

Making worktrees takes as long as integrating, so both go on side by side. What this thread is at
when the run is stopped must not go on record: its children are killed then, and what became of them
says nothing about a ticket.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from gitbaton.engine import dispatch
from gitbaton.engine.batch import Outlook
from gitbaton.engine.context import Context
from gitbaton.errors import Interrupted
from gitbaton.model.action import ActionBatch
from gitbaton.model.ids import AttemptId
from gitbaton.runner.attempt import Terms
from gitbaton.runner.session import LEASE
from gitbaton.store import runs, transact


class Limits(NamedTuple):
    """What ends a run that burns: ``deadline`` in monotonic seconds, ``attempts`` claimed."""

    minutes: float | None
    deadline: float | None
    attempts: int | None

    @classmethod
    def of(cls, minutes: float | None, attempts: int | None) -> Limits:
        """Limits that count from now."""
        deadline = None if minutes is None else time.monotonic() + minutes * 60
        return cls(minutes, deadline, attempts)

    def seconds_left(self) -> float | None:
        """Until the deadline, at least 0; None without one."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


class Claimed(NamedTuple):
    """What came of claiming: the next batch, or what went wrong."""

    batch: ActionBatch | None
    error: BaseException | None = None


@dataclass(frozen=True)
class _Stoppable(Context):
    """A context in which nothing is recorded any more once the run is being stopped; the next run
    does it again."""

    stopping: threading.Event

    def transact(
        self,
        run: str,
        step: transact.Step,
        texts: Callable[[runs.Loaded], Mapping[str, bytes]] | None = None,
        *,
        notes_first: bool = False,
    ) -> runs.Loaded:
        if self.stopping.is_set():
            raise Interrupted("interrupted", "the run is being stopped")
        return super().transact(run, step, texts, notes_first=notes_first)


class Claims:
    """The claims of one `run`. ``thread`` is the one that makes a batch just now; ``made`` counts
    the attempts that were handed out."""

    def __init__(self, terms: Terms, jobs: int, limits: Limits) -> None:
        self._terms = terms
        self._jobs = jobs
        self._limits = limits
        self._wanted: Outlook | None = None
        self.thread: threading.Thread | None = None
        self.made = 0

    @property
    def exhausted(self) -> bool:
        """Whether as many attempts were started as may be."""
        return self._limits.attempts is not None and self.made >= self._limits.attempts

    def capacity(self) -> int:
        """How many attempts this session may hold. Toward the limit of attempts that is less than
        it could be: whatever is integrated meanwhile makes room for as many claims."""
        if self._limits.attempts is None:
            return self._jobs
        return min(self._jobs, max(0, self._limits.attempts - self.made))

    def actions(self, run: str) -> ActionBatch:
        """What there is to do now, by this thread."""
        context, capacity = self._allowance()
        return dispatch.actions(
            context, run, session=self._terms.session, capacity=capacity, lease=LEASE
        )

    def want(self, retired: tuple[AttemptId, ...] = ()) -> None:
        """Something has happened after which there may be more to claim."""
        before = self._wanted.retired if self._wanted else ()
        self._wanted = Outlook(retired=(*before, *retired))

    def begin(self, run: str, report: Callable[[Claimed], None]) -> None:
        """Make the next batch beside everything else, if one is wanted and none is being made."""
        if self._wanted is None or self.thread is not None:
            return
        context, capacity = self._allowance()
        outlook, self._wanted = self._wanted, None

        def claim() -> None:
            try:
                batch = dispatch.next_batch(
                    context, run, session=self._terms.session, capacity=capacity, outlook=outlook
                )
                report(Claimed(batch))
            except BaseException as error:
                report(Claimed(None, error))

        self.thread = threading.Thread(target=claim, name="claims", daemon=True)
        self.thread.start()

    def take(self, claimed: Claimed) -> ActionBatch:
        """The batch that was reported; raises what went wrong."""
        self.thread = None
        if claimed.batch is None:
            assert claimed.error is not None
            raise claimed.error
        return claimed.batch

    def _allowance(self) -> tuple[Context, int]:
        """Context and capacity for a call that may claim. A session's capacity is at least one, so
        nothing is claimed by allowing the run nothing."""
        ctx, capacity = self._terms.ctx, self.capacity()
        settings = ctx.settings if capacity > 0 else replace(ctx.settings, max_active=0)
        stopping = self._terms.crew.stopping
        context = _Stoppable(ctx.repo, settings, ctx.clock, ctx.cwd, ctx.warn, stopping)
        return context, max(1, capacity)
