"""`watch`: a run that others drive is seen live, and its end is told by the exit status."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .batches import QUEUE, add, open_root
from .conftest import CHANGE, Json, NewProject, Project

Step = Callable[[], object]


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let others do one step at each look at the run; when none is left, time just goes by."""

    def begin(*steps: Step) -> None:
        left: Iterator[Step] = iter(steps)
        monkeypatch.setattr("gitbaton.cli.watch.time.sleep", lambda _: next(left, lambda: None)())

    return begin


def by_others(project: Project, *words: str) -> None:
    """A verb of another process."""
    subprocess.run(
        [sys.executable, "-m", "gitbaton", *words],
        cwd=project.top,
        check=False,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )


def drive(project: Project, dispatch: Json) -> Iterator[Step]:
    """What a worker and its caller do with a ticket."""
    yield lambda: project.work(dispatch)
    yield lambda: subprocess.run(
        [sys.executable, "-m", "gitbaton", "seal"],
        cwd=dispatch["cwd"],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    words = ("reconcile", dispatch["assignment"], "--outcome", "completed", "--session", "s")
    yield lambda: by_others(project, *words)


@pytest.fixture
def one(new_project: NewProject) -> Project:
    return new_project(tasks="- [ ] 1.1 One\n")


def test_lines_to_the_end(one: Project, meanwhile: Callable[..., None]) -> None:
    given = one.actions(CHANGE).dispatch("1.1")
    meanwhile(*drive(one, given))
    done = one.type("watch", CHANGE)
    assert done.exit_code == 0, done.output
    events = [line.split("  ", 1)[1] for line in done.stdout.splitlines()[:-1]]
    assert events[-2].startswith("seal 1.1@1 at ")
    assert events[-1].startswith("integrate 1.1@1 as ")
    assert len(set(events)) == len(events), "each is told once"
    assert not any("about to" in event for event in events)
    assert done.stdout.splitlines()[-1] == f"{CHANGE}  complete  1 of 1 resolved"


def test_a_document_at_the_end(one: Project, meanwhile: Callable[..., None]) -> None:
    given = one.actions(CHANGE).dispatch("1.1")
    meanwhile(*drive(one, given))
    said = one.baton("watch")
    assert said["state"] == "complete"
    assert said.stderr == ""


def test_it_waits_for_what_is_not_started(one: Project, meanwhile: Callable[..., None]) -> None:
    words = ("actions", CHANGE, "--session", "s")
    pause = ("pause", CHANGE, "--reason", "lunch")
    meanwhile(
        lambda: by_others(one, *words),
        lambda: by_others(one, "abandon", "1.1@1", "--force"),
        lambda: by_others(one, *pause),
    )
    said = one.baton("watch", CHANGE, code=3)
    assert said.code == "paused"
    assert "lunch" in said.message


def test_a_pause_does_not_end_what_is_in_flight(
    one: Project, meanwhile: Callable[..., None]
) -> None:
    given = one.actions(CHANGE).dispatch("1.1")
    one.baton("pause", "--reason", "lunch")
    meanwhile(*drive(one, given))
    assert one.baton("watch")["complete"]


def test_blocked_needs_a_person(one: Project, meanwhile: Callable[..., None]) -> None:
    one.set("maxAttempts", "1")
    given = one.actions(CHANGE).dispatch("1.1")
    words = ("reconcile", given["assignment"], "--outcome", "failed", "--session", "s")
    meanwhile(lambda: by_others(one, *words))
    said = one.baton("watch", code=3)
    assert (said.code, said["state"]) == ("blocked", "blocked")


def test_a_batch(new_project: NewProject, meanwhile: Callable[..., None]) -> None:
    project = new_project(tasks=None)
    add(project, "A")
    root = open_root(project, membership="snapshot")
    given = root.actions(capacity=1).dispatch("A")
    meanwhile(*drive(project, given))
    done = project.type("watch", root.run)
    assert done.exit_code == 0, done.output
    assert f"close {root.run}: " in done.stdout
    assert QUEUE in project.type("status", root.run).stdout


def test_nothing_to_watch(one: Project) -> None:
    assert one.refused("watch", "no-such").code == "unknown-run"


def test_a_terminal_is_drawn_and_ctrl_c_leaves(one: Project) -> None:
    given = one.actions(CHANGE).dispatch("1.1")
    Path(given["packet"]).with_name("log").write_text("first\ncompiling things\n")
    ours, theirs = pty.openpty()
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "xterm"}
    watcher = subprocess.Popen(
        [sys.executable, "-m", "gitbaton", "watch"],
        cwd=one.top,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=env,
        start_new_session=True,
    )
    os.close(theirs)
    shown = io.BytesIO()
    deadline = time.monotonic() + 30
    while b"compiling things" not in shown.getvalue() and time.monotonic() < deadline:
        shown.write(os.read(ours, 65536))
    watcher.send_signal(signal.SIGINT)
    try:
        while data := os.read(ours, 65536):
            shown.write(data)
    except OSError:
        pass  # the terminal is closed
    assert watcher.wait(30) == 130
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.getvalue().decode())
    for expected in ("0 of 1 resolved", "1.1@1", "leased", "lately:", "claim 1.1@1"):
        assert expected in text, text
    os.close(ours)
