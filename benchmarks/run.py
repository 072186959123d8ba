"""A whole run with workers that take no time: what is left is what git-baton itself spends.

Against it stands what the same work costs by hand and without any record: a worktree, an add and a
commit for each ticket, one after the other. Checks, receipts, merges and syncing come on top.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from benchmarks import scene
from benchmarks.report import Bench, Line, Row, process, take_turns, timed

COMMAND = "echo x > out-$BATON_TICKET.txt"
FILES = 100


def run(bench: Bench) -> Iterator[Line]:
    """`run` from claim to the last merge, five workers at once; milliseconds a ticket."""
    tickets = bench.pick(60, 10)
    name = f"run, {tickets} tickets, instant worker, -j5, ms a ticket"
    bare = "git worktree add + add + commit"
    fresh = count()

    def repository() -> Path:
        top = bench.scratch / f"run-{next(fresh)}" / "repo"
        past = scene.History()
        past.commit(
            scene.BASE,
            {**scene.source_files(FILES), scene.TASKS: scene.tasks_text(tickets, tickets)},
        )
        past.write(top)
        scene.git(top, "reset", "-q", "--hard")
        return top

    found = take_turns(
        {
            name: lambda: _work_off(repository(), tickets) / tickets,
            bare: lambda: _by_hand(repository(), tickets) / tickets,
        },
        bench.pick(5, 2),
        warm_up=bench.pick(1, 0),
        budget=90,
    )
    yield Row(found[name], found[bare])


def _work_off(top: Path, tickets: int) -> float:
    program = [sys.executable, "-m", "gitbaton"]
    work = ["run", scene.RUN, "--command", COMMAND, "--verify", "true", "-j", "5"]
    took = process([*program, *work], top)
    told = subprocess.run(
        [*program, "status", scene.RUN, "--json"], cwd=top, check=True, capture_output=True
    )
    status = json.loads(told.stdout)
    if not status["complete"] or status["tickets"]["resolved"] != tickets:
        raise RuntimeError(f"the run did not end as it should: {status}")
    return took


def _by_hand(top: Path, tickets: int) -> float:
    trees = top.parent / "trees"

    def work() -> None:
        for at in range(tickets):
            tree = trees / str(at)
            scene.git(top, "worktree", "add", "-q", "-b", f"ticket-{at}", str(tree), "main")
            (tree / f"out-{at}.txt").write_text("x\n")
            scene.git(tree, "add", "-A")
            scene.git(tree, "commit", "-q", "-m", f"ticket {at}")

    return timed(work)
