"""What can be named here: runs, assignments, queues, items and so on, for completion in a shell.

It must answer before the next key is pressed, so everything comes from a listing or two by git;
no state is decoded and libgit2 is not even imported. Outside of a repository nothing has a name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from gitbaton.errors import BatonError
from gitbaton.git import process
from gitbaton.model import layout
from gitbaton.model.ids import assignment_id, decode_key

_NEWEST = 10
"""Runs whose attempts are listed when none is named."""
_PLACE = ("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE")


def runs() -> list[str]:
    """The runs, the one that moved last first."""
    return _below(layout.RUNS)


def queues() -> list[str]:
    """The queues, the one that moved last first."""
    return _below(layout.QUEUES)


def branches() -> list[str]:
    """Local branches, without those of attempts."""
    names = _below("refs/heads/")
    prefix = _git("config", "--get", "baton.branchPrefix").strip() or "baton"
    return [name for name in names if not name.startswith(f"{prefix}-attempt/")]


def changes(project: str | None = None) -> list[str]:
    """The active OpenSpec changes of the working tree."""
    top = _git("rev-parse", "--show-toplevel").removesuffix("\n")
    if not top:
        return []
    folder = Path(project) if project else Path(top)
    plans = folder.glob("openspec/changes/*/tasks.md")
    return sorted(plan.parent.name for plan in plans if plan.parent.name != "archive")


def active() -> list[str]:
    """Assignments that are not over, of all runs."""
    names = runs()
    asked = "".join(f"{layout.run_ref(run)}:{layout.LIVE}\n" for run in names)
    found = []
    for run, live in zip(names, _documents(asked), strict=False):
        found += [f"{run}/{attempt}" for attempt in live.get("attempts", ())]
    return found


def attempts(run: str = "") -> list[str]:
    """All assignments of a run, or of the newest runs."""
    found = []
    for name in [run] if run else runs()[:_NEWEST]:
        listed = _git("ls-tree", "-rdz", "--name-only", layout.run_ref(name), layout.TICKETS)
        places = (layout.attempt_of(path) for path in listed.split("\0"))
        found += [assignment_id(name, place[0]) for place in places if place and not place[1]]
    return found


def tickets(run: str = "") -> list[str]:
    """Keys of the tickets of a run, or of the newest runs."""
    names = [run] if run else runs()[:_NEWEST]
    asked = "".join(f"{layout.run_ref(name)}:{layout.PLAN}\n" for name in names)
    keys = (
        ticket.get("key", "") for plan in _documents(asked) for ticket in plan.get("tickets", ())
    )
    return list(dict.fromkeys(keys))


def items(queue: str | None = None) -> list[str]:
    """Ids of the items of a queue, or of the only one, or of ``default``."""
    names = queues()
    name = queue or (names[0] if len(names) == 1 else "default")
    listed = _git("ls-tree", "-rz", "--name-only", layout.QUEUES + name, "items")
    files = (path.rpartition("/")[2] for path in listed.split("\0"))
    return [decode_key(file.removesuffix(".json")) for file in files if file]


def agents() -> list[str]:
    """The agents that the settings name."""
    listed = _git("config", "--name-only", "--get-regexp", r"^baton\.agent\..*\.command$")
    return [key.split(".", 2)[2].rpartition(".")[0] for key in listed.splitlines()]


def _below(prefix: str) -> list[str]:
    listed = _git("for-each-ref", "--sort=-committerdate", "--format=%(refname)", prefix)
    return [ref.removeprefix(prefix) for ref in listed.splitlines()]


def _documents(asked: str) -> Iterator[dict[str, Any]]:
    """The JSON documents named by the lines of ``asked``; an empty one for what is not there."""
    if not asked:
        return
    rest = _raw(["cat-file", "--batch"], asked.encode())
    while rest:
        head, _, rest = rest.partition(b"\n")
        if not head.split()[-1].isdigit():
            yield {}
            continue
        size = int(head.split()[-1])
        yield json.loads(rest[:size])
        rest = rest[size + 1 :]


def _git(*args: str) -> str:
    return _raw(args).decode(errors="replace")


def _raw(args: Iterable[str], stdin: bytes | None = None) -> bytes:
    place = {name: os.environ[name] for name in _PLACE if name in os.environ}
    try:
        return process.git([*args], Path(), env=place, stdin=stdin, check=False).out
    except BatonError:
        return b""
