"""`run`: what its options mean, what it starts from, and how it ends.

The main thread schedules and integrates (`loop`), each attempt has a thread that waits for its
worker and seals (`attempt`). What they know is gone with the process: all that counts is in the
repository, so that running the same command again goes on from there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from msgspec.structs import replace

from gitbaton.engine import dispatch, notify
from gitbaton.engine.context import Context
from gitbaton.errors import Interrupted, Refused, UsageError
from gitbaton.model.action import ActionBatch, Wait
from gitbaton.model.plan import Order, Unit
from gitbaton.runner import live, process
from gitbaton.runner.agents import agent_command, fill, missing_program
from gitbaton.runner.attempt import Crew, Terms
from gitbaton.runner.claims import Limits
from gitbaton.runner.loop import Loop
from gitbaton.runner.session import LEASE, Leases, Presence

PAUSES = (5.0, 15.0, 45.0, 120.0)  # seconds before a worker that died at once is tried again
MOST_JOBS = 64


def run_loop(
    ctx: Context,
    run: str | None,
    *,
    agent: str | None,
    command: str | None,
    jobs: int,
    checks: Sequence[str] = (),
    retries: int = 2,
    commit: bool = True,
    max_minutes: float | None = None,
    max_total_attempts: int | None = None,
    dry_run: bool = False,
    base: str | None = None,
    order: Order | None = None,
    unit: Unit | None = None,
    project: str | None = None,
    plan_from: str | None = None,
    plain: bool = False,
    pauses: Sequence[float] = PAUSES,
    heartbeat: float = LEASE / 3,
    view: live.View | None = None,
) -> ActionBatch:
    """Work on ``run`` with ``jobs`` workers at once; the last action batch.

    ``retries`` is how often a worker is started again inside one attempt after a refused seal;
    ``max_minutes`` and ``max_total_attempts`` (claims made by this call) end it ``blocked``. Raises
    `Interrupted` after Ctrl-C, and what the engine raises. An interrupted process is to end: in its
    main thread further signals are ignored from then on.
    """
    template = _template(ctx, agent, command)
    if not 1 <= jobs <= MOST_JOBS:
        raise UsageError("bad-jobs", f"-j takes 1 to {MOST_JOBS}, not {jobs}", "try -j 3")
    if dry_run:
        return _preview(ctx, run, template, jobs, order, unit, project, plan_from)
    # Claims made while integrating have no lease of their own choice.
    ctx = dataclasses.replace(ctx, settings=replace(ctx.settings, lease_seconds=LEASE))
    leases, crew = Leases(ctx, heartbeat), Crew()
    first = functools.partial(
        dispatch.actions,
        ctx,
        run,
        checks=checks,
        base=base,
        lease=LEASE,
        order=order,
        unit=unit,
        project=project,
        plan_from=plan_from,
    )
    with Presence(ctx) as presence, view or live.view(plain) as shown:
        terms = Terms(
            ctx, template, retries, commit, presence.session, tuple(pauses), shown, leases, crew
        )
        loop = Loop(terms, run, jobs, Limits.of(max_minutes, max_total_attempts), first)
        with _signals(loop) as signals:
            try:
                batch = _to_its_end(loop, shown, signals)
            finally:
                leases.close()
                presence.clean = loop.nothing_left()
    notify.saw(ctx, batch)
    return batch


def _to_its_end(loop: Loop, shown: live.View, signals: _Signals) -> ActionBatch:
    """The last batch of ``loop``; whatever ends it before leaves no worker behind."""
    try:
        return loop.go()
    except KeyboardInterrupt:
        signals.stopping = True  # first of all: from here on nothing is raised
        shown.say("stopping the workers; once more: at once")
        loop.stop()
        raise Interrupted(
            "interrupted",
            f"interrupted with {loop.left_text()}",
            "the same command goes on from here",
        ) from None
    except BaseException:
        signals.stopping = True
        loop.stop()
        raise


def _template(ctx: Context, agent: str | None, command: str | None) -> str:
    """The command of the workers, refused here if it could not be started later."""
    if (agent is None) == (command is None):
        raise UsageError(
            "which-worker",
            "say what works on the tickets: --agent NAME or --command CMD",
            "for example --agent claude, or --command 'sh worker.sh'",
        )
    template = command if command is not None else agent_command(agent or "", ctx.settings.agents)
    if not template.strip():
        raise UsageError("which-worker", "the worker's command is empty", "--command CMD")
    fill(template, "", Path("prompt.md"))
    if missing := missing_program(template):
        raise Refused("agent-not-found", missing, "or use --command CMD")
    return template


def _preview(
    ctx: Context,
    run: str | None,
    template: str,
    jobs: int,
    order: Order | None,
    unit: Unit | None,
    project: str | None,
    plan_from: str | None,
) -> ActionBatch:
    """What would start; nothing is touched."""
    from gitbaton.engine import planview

    view = planview.plan(ctx, run, order=order, unit=unit, project=project, plan_from=plan_from)
    titles = {ticket.key: ticket.title for ticket in view.tickets}
    starting = list(view.frontier)[:jobs]
    shown = live.View()
    for key in starting:
        shown.say(f"would start {key}: {titles.get(key, '')}")
    if starting:
        shown.say(f"each with: {template}")
    waiting = len(view.frontier) - len(starting)
    reason = f"dry run: would start {', '.join(starting) or 'nothing'}"
    if waiting:
        reason += f", {waiting} more when these are done"
    return ActionBatch(
        run=view.run,
        generation=0,
        revision=0,
        state="waiting",
        actions=(Wait(reason=reason, active=()),),
    )


class _Signals:
    """What Ctrl-C does: the first ends the work, the second the wait for the workers, and the third
    the process, should even that not be over.

    While the workers are ``stopping`` nothing is raised, wherever the main thread is.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.count = 0
        self.stopping = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.stopping and self.count > 2:
            process.kill_children()
            os._exit(Interrupted.exit_status)
        if self.stopping or self.count > 1:
            self._loop.hurry()
        if not self.stopping:
            raise KeyboardInterrupt


@contextlib.contextmanager
def _signals(loop: Loop) -> Iterator[_Signals]:
    """SIGTERM and SIGHUP interrupt as Ctrl-C does; what was ignored stays ignored."""
    handler = _Signals(loop)
    kept: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                kept[number] = signal.signal(number, handler)
    try:
        yield handler
    finally:
        for number, before in kept.items():
            # One more Ctrl-C must not end by itself a process that is about to say how it ended.
            signal.signal(number, signal.SIG_IGN if handler.count else before)
