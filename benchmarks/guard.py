"""Judging a push of many ordinary commits, in a repository that has runs.

A hook stands before every push, and nearly all that is pushed is nothing of git-baton's. So the
yardstick is the least that any judge must do: list the commits.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec

from benchmarks import scene
from benchmarks.report import Bench, Line, Row, process, take_turns, timed
from gitbaton.model.push import Refusal, Update

_LIST = "git rev-list"
_TEXT = "Say what is the case\n\nAnd why it was not so before, in a line or two.\n"


def push(bench: Bench) -> Iterator[Line]:
    """Beyond the start of the process, on a branch like any other and on a protected one."""
    count = bench.pick(10_000, 1_000)
    top = bench.scratch / "push" / "repo"
    _work_off(top, tickets=10)
    tip = _ordinary(top, count)
    passing = f"push guard, {count:,} commits"
    refusing = f"{passing}, refused"
    found = take_turns(
        {
            passing: partial(_judge, top, tip, (), 0),
            refusing: partial(_judge, top, tip, ("topic",), count),
            _LIST: lambda: process(["git", "rev-list", tip], top),
        },
        bench.pick(10, 2),
    )
    yield Row(found[passing], found[_LIST])
    yield Row(found[refusing], found[_LIST])


def _work_off(top: Path, tickets: int) -> None:
    past = scene.History()
    files = {**scene.source_files(100), scene.TASKS: scene.tasks_text(tickets, tickets)}
    past.commit(scene.BASE, files)
    past.write(top)
    scene.git(top, "reset", "-q", "--hard")
    work = ["run", scene.RUN, "--command", "echo x > $BATON_TICKET", "--verify", "true"]
    subprocess.run(
        [sys.executable, "-m", "gitbaton", *work], cwd=top, check=True, capture_output=True
    )


def _ordinary(top: Path, count: int) -> str:
    past = scene.History()
    last: list[int] = []
    for at in range(count):
        last = [past.commit("refs/heads/topic", {f"file{at % 50}": f"{at}\n"}, last, _TEXT)]
    return past.add_to(top / ".git")[last[0]]


def _judge(top: Path, tip: str, protect: tuple[str, ...], refused: int) -> float:
    from gitbaton.evidence import guard

    ctx = scene.opened(top)
    settings = msgspec.structs.replace(ctx.settings, protect=protect)
    updates = [Update("refs/heads/topic", None, tip)]
    found: list[Refusal] = []
    took = timed(lambda: found.extend(guard.judge(ctx.repo, settings, updates, quarantined=False)))
    if len(found) != refused:
        raise RuntimeError(f"{len(found)} of the commits are refused, not {refused}")
    return took
