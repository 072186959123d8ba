"""Telling somebody that a run needs them, or needs nobody any more: the command ``baton.notify``.

It is told once for each change of state, whoever saw it; what was told is remembered on this
machine, as well as that can be done. The command is somebody else's program, so it gets a moment,
and whatever comes of it is a warning at most.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping

import msgspec

from gitbaton.engine.context import Context
from gitbaton.engine.disk import write_synced
from gitbaton.errors import BatonError
from gitbaton.git.process import clean_environment
from gitbaton.lock import Lock
from gitbaton.model.action import ActionBatch, Blocked, Complete
from gitbaton.store import runs

SECONDS = 10.0
"""How long the command may take before it is ended."""

_STATES = ("complete", "blocked", "paused")
_MEMORY = "notified.json"


def saw(ctx: Context, batch: ActionBatch) -> None:
    """Start ``baton.notify`` if the state of this batch is one to tell and was not told yet."""
    if not ctx.settings.notify:
        return
    code, reason = _reason(batch)
    if _is_news(ctx, batch.run, f"{batch.state} {code}" if batch.state in _STATES else ""):
        said = {"BATON_RUN": batch.run, "BATON_STATE": batch.state, "BATON_REASON": reason}
        if failure := _start(ctx, said):
            ctx.warn(f"baton.notify {failure}")


def _reason(batch: ActionBatch) -> tuple[str, str]:
    """Code and text of what a batch ended with."""
    for action in batch.actions:
        if isinstance(action, Blocked):
            return action.code, action.reason
        if isinstance(action, Complete):
            branch = action.branch.removeprefix("refs/heads/")
            return "", f"{len(action.resolved)} resolved on {branch} at {action.commit[:12]}"
    return "", ""


def _is_news(ctx: Context, run: str, state: str) -> bool:
    """Remember ``state`` (empty: nothing to tell); whether it is there to be told and new."""
    path = ctx.repo.baton_dir / _MEMORY
    try:
        with Lock(ctx.repo.baton_dir / "locks" / "notify.lock").acquire(timeout=SECONDS):
            known = _remembered(path.read_bytes() if path.exists() else b"{}")
            if known.get(run, "") == state:
                return False
            there = runs.list_runs(ctx.repo)
            kept = {name: told for name, told in {**known, run: state}.items() if name in there}
            write_synced(path, msgspec.json.encode(kept))
    except (BatonError, OSError) as error:
        ctx.warn(f"what was told to baton.notify cannot be remembered: {error}")
    return bool(state)


def _remembered(data: bytes) -> dict[str, str]:
    try:
        return msgspec.json.decode(data, type=dict[str, str])
    except msgspec.MsgspecError:
        return {}


def _start(ctx: Context, said: Mapping[str, str]) -> str:
    """What went wrong with the command; "" if nothing did."""
    mine = {k: v for k, v in clean_environment().items() if not k.startswith("BATON_")}
    try:
        process = subprocess.Popen(
            ["sh", "-c", ctx.settings.notify],
            cwd=ctx.repo.main_worktree or ctx.repo.common_dir,
            env={**mine, **said},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return f"could not be started: {error}"
    try:
        code = process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        return f"took longer than {SECONDS:.0f} seconds"
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return f"ended with exit {code}" if code else ""
