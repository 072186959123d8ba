"""Making the worktrees of claimed attempts, and finishing what a killed process left half made.

A claim records a `Prepare` intent and holds its kernel lock until the worktrees are there. Whoever
gets that lock later knows that the claimer is dead; as nobody can have been told of the worktree
yet, it is made anew.
"""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

from gitbaton.engine.context import LOG, Context
from gitbaton.engine.disk import write_synced
from gitbaton.engine.parallel import side_by_side
from gitbaton.errors import BatonError
from gitbaton.evidence import ticks
from gitbaton.evidence.prepare import prepare_worktree
from gitbaton.git import merge, refs, worktree
from gitbaton.lock import Lock
from gitbaton.model.ids import AttemptId
from gitbaton.model.run import Attempt, Event, Failure, Prepare, RunState
from gitbaton.rules.settle import end, exhaust
from gitbaton.rules.state import without_intent
from gitbaton.store import runs, transact

PREPARED, CHECKED = "prepared", "checked"
_NO_FAULT = ("disk-full", "directory-exists")
"""What is the environment's: it counts as no attempt of the ticket's."""


def new_prepare(ctx: Context, attempts: list[AttemptId], intent_id: str) -> Prepare:
    """The intent to make the worktrees of ``attempts``."""
    now = ctx.clock.now()
    return Prepare(
        id=intent_id,
        machine=now.machine,
        boot=now.boot,
        started_at=now.stamp,
        attempts=tuple(str(a) for a in attempts),
    )


def new_intent_id() -> str:
    return secrets.token_hex(8)


def recorded_paths(ctx: Context, run: str, attempt: AttemptId, which: str) -> frozenset[str]:
    """Untracked paths of the attempt's worktree that are no dirt: `PREPARED` by copy and setup
    (never to be committed either), or made by checks that ran there (`CHECKED`)."""
    try:
        data = (ctx.attempt_dir(run, attempt) / which).read_bytes()
    except OSError:
        return frozenset()
    return frozenset(p.decode(errors="surrogateescape") for p in data.split(b"\0") if p)


def record_paths(
    ctx: Context, run: str, attempt: AttemptId, which: str, paths: tuple[str, ...]
) -> None:
    """Remember further paths that are not the worker's."""
    every = recorded_paths(ctx, run, attempt, which) | set(paths)
    data = b"\0".join(p.encode(errors="surrogateescape") for p in sorted(every))
    write_synced(ctx.attempt_dir(run, attempt) / which, data)


def carry_out(ctx: Context, run: str, intent_id: str, attempts: list[Attempt]) -> runs.Loaded:
    """Make the worktrees, then take the intent back. An attempt whose worktree cannot be made is
    ``unknown`` with the reason; the others go on. The intent's lock is held by the caller."""
    tasks = [attempt for attempt in attempts if attempt.state == "leased"]
    if ctx.settings.setup:  # may take long, and an interrupt is to reach it
        found = [_try(ctx, run, attempt) for attempt in tasks]
    else:
        found = side_by_side(tasks, lambda attempt: _try(ctx, run, attempt))
    failures = {task.id: failure for task, failure in zip(tasks, found, strict=True) if failure}

    def step(loaded: runs.Loaded) -> tuple[RunState, Event] | None:
        state = loaded.state
        if intent_id not in state.intents:
            return None
        state = without_intent(state, intent_id)
        for attempt_id, failure in failures.items():
            current = state.attempt(attempt_id)
            if current is not None and current.state == "leased":
                state = end(state, current, failure.code, failure.message, ctx.clock.now())
        state, _ = exhaust(state, ctx.settings.max_attempts)
        made = ", ".join(str(a.id) for a in tasks if a.id not in failures) or "nothing"
        failed = ", ".join(str(a) for a in failures)
        text = f"prepared {made}" + (f"; failed: {failed}" if failed else "")
        return state, Event(event="prepare", message=text)

    return ctx.transact(run, step)


def _try(ctx: Context, run: str, attempt: Attempt) -> Failure | None:
    """Why the worktree could not be made, if it is the attempt's own trouble; anything else is
    raised: the intent stands then, and the next call goes on."""
    try:
        _make(ctx, run, attempt)
    except BatonError as error:
        if error.code in _NO_FAULT:
            raise
        tail = str(error.payload.get("output_tail", "")).strip()
        message = f"{error.message}\n{tail}" if tail else error.message
        return Failure(code=error.code, message=message)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        return Failure(code="preparation-failed", message=str(error))
    return None


def recover(ctx: Context, run: str) -> None:
    """Finish every preparation whose claimer is dead."""
    for intent in runs.load(ctx.repo, run).state.intents.values():
        if not isinstance(intent, Prepare):
            continue
        lock = intent_lock(ctx, intent.id)
        if not lock.try_acquire():
            continue
        with lock:
            loaded = runs.load(ctx.repo, run)
            if intent.id not in loaded.state.intents:
                continue
            found = [loaded.attempt(AttemptId.parse(name)) for name in intent.attempts]
            leased = [a for a in found if a is not None and a.state == "leased"]
            carry_out(ctx, run, intent.id, leased)


def in_preparation(state: RunState) -> frozenset[str]:
    """Attempts (``TICKET@N``) that some process is preparing."""
    return frozenset(
        name
        for intent in state.intents.values()
        if isinstance(intent, Prepare)
        for name in intent.attempts
    )


def intent_lock(ctx: Context, intent_id: str) -> Lock:
    """Held by whoever carries the intent out."""
    return transact.intent_lock(ctx.repo, intent_id)


def remake(ctx: Context, run: str, attempt: Attempt) -> None:
    """A worktree that somebody deleted, made again from its branch."""
    path = Path(attempt.worktree)
    worktree.require_available(ctx.repo, path)
    worktree.remove(ctx.repo, path, force=True)
    worktree.add(
        ctx.repo,
        path,
        attempt.branch,
        refs.read(ctx.repo, attempt.branch) or attempt.base_commit,
    )


def _make(ctx: Context, run: str, attempt: Attempt) -> None:
    """Worktree and branch of one attempt; for a resolution, the merge begun in it."""
    path = Path(attempt.worktree)
    if os.path.lexists(path):
        worktree.require_available(ctx.repo, path)
        worktree.remove(ctx.repo, path, force=True)
    worktree.add(ctx.repo, path, attempt.branch, attempt.base_commit)
    loaded = runs.load(ctx.repo, run)
    project = loaded.state.run.target.project
    log = ctx.attempt_dir(run, attempt.id) / LOG
    made = prepare_worktree(ctx.repo, path, ctx.settings, project_dir=project, log=log)
    if made:
        record_paths(ctx, run, attempt.id, PREPARED, made)
    if attempt.resolved_commit is not None:
        keep = [tasks_path_of(ctx, loaded)]
        merge.start_merge(path, attempt.resolved_commit, keep=keep)


def tasks_path_of(ctx: Context, loaded: runs.Loaded) -> str:
    """The tasks file of a run's change, as a path in the tree of the integration branch."""
    run = loaded.state.run
    return ticks.tasks_path(ctx.repo, run.tip, run.target.folder)
