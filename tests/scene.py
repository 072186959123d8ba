"""A small run in a real repository, worked on to its end, and what must then be true.

Crash, race and model tests all need the same three things: a repository with a change of so many
tickets, a worker that does the next thing it is told, and the invariants of a run that is over.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import gitbaton
from gitbaton.clock import Clock
from gitbaton.engine import deliver, dispatch, worker
from gitbaton.engine.context import Context, open_context
from gitbaton.engine.reconcile import reconcile
from gitbaton.git import checkout
from gitbaton.model.action import ActionBatch, Dispatch, ResolveMerge
from gitbaton.store import runs

RUN = "add-login"
TASKS = f"openspec/changes/{RUN}/tasks.md"
SETTINGS = {
    "user.name": "Test User",
    "user.email": "test@example.com",
    "gc.auto": "0",
    "baton.verify": "test ! -e broken",
}


def git(where: Path, *args: str) -> str:
    """The output of git, which must succeed."""
    done = subprocess.run(
        ["git", "-C", str(where), *args], check=True, capture_output=True, text=True
    )
    return done.stdout.rstrip("\n")


def sealed_environment(home: Path) -> dict[str, str]:
    """Variables that keep the settings of whoever runs this out."""
    return {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "xdg"),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
    }


def with_package() -> dict[str, str]:
    """The environment of a process that is to find this very package."""
    return dict(os.environ, PYTHONPATH=str(Path(gitbaton.__file__).parent.parent))


def make_repository(top: Path, sections: Sequence[int]) -> None:
    """A repository at ``top`` with a change of so many tickets in each of its sections."""
    top.mkdir(parents=True)
    git(top, "init", "-q", "-b", "trunk", ".")
    for key, value in SETTINGS.items():
        git(top, "config", key, value)
    (top / "shared.txt").write_text("".join(f"line {n}\n" for n in range(20)))
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "first")
    tasks = top / TASKS
    tasks.parent.mkdir(parents=True)
    tasks.write_text(tasks_text(sections))
    (tasks.parent / "proposal.md").write_text("# Proposal\n")


def tasks_text(sections: Sequence[int]) -> str:
    parts = []
    for number, count in enumerate(sections, 1):
        parts.append(f"## {number}. Section {number}\n\n")
        parts += [f"- [ ] {number}.{n} Ticket {n}\n" for n in range(1, count + 1)]
        parts.append("\n")
    return "".join(parts)


def keys_of(sections: Sequence[int]) -> list[str]:
    return [f"{s}.{n}" for s, count in enumerate(sections, 1) for n in range(1, count + 1)]


# --- working -----------------------------------------------------------------------------------


def context(top: Path, clock: Clock | None = None) -> Context:
    return open_context(top, clock=clock, warn=lambda _: None)


def act(
    ctx: Context, session: str = "s", capacity: int = 4, redeliver: bool = False
) -> ActionBatch:
    return dispatch.actions(ctx, RUN, session=session, capacity=capacity, redeliver=redeliver)


def work(given: Dispatch | ResolveMerge) -> None:
    """What a worker does: one file named after the ticket, committed; the first of a section also
    changes a line of a file that was there."""
    name = f"{given.ticket}@{given.attempt}"
    (Path(given.cwd) / f"{given.ticket}.txt").write_text(f"{name}\n")
    section, _, number = given.ticket.partition(".")
    if number == "1":
        shared = Path(given.cwd) / "shared.txt"
        lines = shared.read_text().splitlines()
        lines[int(section) * 6] = name
        shared.write_text("\n".join(lines) + "\n")
    checkout.commit_all(Path(given.cwd), f"work on {given.ticket}")


def finish_one(
    ctx: Context, given: Dispatch | ResolveMerge, session: str = "s", capacity: int = 4
) -> ActionBatch:
    """Work on what was handed out, seal it, and report it; what is to be done next."""
    work(given)
    worker.seal(ctx, given.assignment, token=given.token)
    return reconcile(ctx, given.assignment, outcome="completed", session=session, capacity=capacity)


def dispatches(batch: ActionBatch) -> list[Dispatch | ResolveMerge]:
    return [a for a in batch.actions if isinstance(a, Dispatch | ResolveMerge)]


def drive(top: Path, session: str = "s") -> None:
    """The loop of a caller that takes over after a crash, until the run is complete."""
    ctx = context(top)
    todo: list[Dispatch | ResolveMerge] = []
    batch = act(ctx, session, redeliver=True)
    # A ticket takes two rounds at most; more is no progress.
    for _ in range(10 + 3 * runs.load(ctx.repo, RUN).state.live.total):
        todo += dispatches(batch)
        if todo:
            batch = finish_one(ctx, todo.pop(), session)
            continue
        if batch.state == "complete":
            return
        held = list(runs.load(ctx.repo, RUN).state.live.attempts.values())
        mine = [a for a in held if a.state in ("spawned", "running")]
        if not mine:
            raise AssertionError(f"stuck: {batch.state} {batch.actions} {held}")
        # Work that an earlier caller had begun and knows of: it goes on with it.
        again = mine[0]
        todo.append(deliver.take_over(ctx, RUN, again.id, session))
    raise AssertionError(f"no progress: {batch}")


# --- what must be true -------------------------------------------------------------------------

_TRAILER = re.compile(r"^Baton-Ticket: (.*)$", re.MULTILINE)


def merges_by_ticket(top: Path, branch: str, base: str) -> Counter[str]:
    """How many merges each ticket has on the first-parent chain of ``branch``."""
    log = git(top, "log", "--first-parent", "--format=%B%x00", f"{base}..{branch}")
    return Counter(_TRAILER.findall(log))


def check_objects(top: Path) -> None:
    """Nothing is missing or broken; what dangles is fine."""
    done = subprocess.run(
        ["git", "-C", str(top), "fsck", "--no-dangling", "--no-progress"],
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0 and not re.search("missing|broken|error|fatal", said), said


def check_run(
    top: Path,
    keys: Sequence[str],
    *,
    sealed: Mapping[str, str] = {},
    reopened: Sequence[str] = (),
) -> None:
    """The invariants of a complete run: every ticket integrated exactly once, nothing left over.

    ``sealed`` are commits whose receipts were acknowledged, by ticket; ``reopened`` the tickets
    that were done a second time.
    """
    check_objects(top)
    ctx = context(top)
    loaded = runs.load(ctx.repo, RUN)
    state = loaded.state
    assert state.live.complete, state.live
    assert not state.intents, state.intents
    assert (state.live.resolved, state.live.missing) == (len(keys), ())
    tip = git(top, "rev-parse", state.run.branch)
    assert tip == state.run.tip
    merged = merges_by_ticket(top, tip, state.run.base.commit)
    assert merged == Counter((*keys, *reopened)), merged
    for key in keys:
        attempts = loaded.attempts_of(key)
        won = [a for a in attempts if a.state == "succeeded"]
        assert len(won) == merged[key], attempts
        assert not any(a.active for a in attempts), attempts
        assert git(top, "show", f"{tip}:{key}.txt").startswith(f"{key}@")
        for attempt in won:
            assert attempt.sealed is not None and attempt.merge_commit is not None
            message = git(top, "log", "-1", "--format=%B", attempt.merge_commit)
            assert attempt.sealed.receipt_sha256 in message
            receipt = loaded.receipt(attempt.id)
            assert receipt and sha256(receipt).hexdigest() == attempt.sealed.receipt_sha256
    tasks = git(top, "show", f"{tip}:{TASKS}")
    assert "[ ]" not in tasks and tasks.count("[x]") == len(keys), tasks
    for ticket, commit in sealed.items():
        assert git(top, "merge-base", commit, tip) == commit, f"{ticket} at {commit} is lost"
    check_leftovers(top)


def check_leftovers(top: Path) -> None:
    """No lock is left, no worktree half made, and the user's own working tree is as it was."""
    assert not leftover_locks(top)
    listed = git(top, "worktree", "list", "--porcelain")
    assert "initializing" not in listed and "removing" not in listed, listed
    assert "prunable" not in listed, listed
    status = git(top, "status", "--porcelain", "--untracked-files=all")
    own = f"openspec/changes/{RUN}/"
    strange = [line for line in status.splitlines() if not line[3:].startswith(own)]
    assert not strange, status


def leftover_locks(top: Path) -> list[str]:
    """Lock files of git; those of our own kernel locks stay by design."""
    found = []
    for folder, _, names in os.walk(top / ".git"):
        if Path(folder) != top / ".git" / "baton" / "locks":
            found += [f"{folder}/{name}" for name in names if name.endswith(".lock")]
    return found


def document(output: str) -> dict[str, object]:
    """The JSON document that a verb printed."""
    parsed = json.loads(output)
    assert isinstance(parsed, dict)
    return parsed
