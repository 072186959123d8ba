"""What people read: short, aligned, whole in a pipe, and nothing that is not there any more."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .batches import add, open_root
from .conftest import CHANGE, NewProject, Project

LONG = "A title that goes on and on " * 5


@pytest.fixture
def done(new_project: NewProject) -> Project:
    project = new_project(tasks=f"- [ ] 1.1 {LONG}\n")
    project.finish(project.actions(CHANGE, session="a-session-with-a-name"))
    return project


@pytest.mark.parametrize("words", [("log",), ("plan",), ("status", "--all"), ("show", "1.1")])
def test_nothing_is_cut_in_a_pipe(done: Project, words: tuple[str, ...]) -> None:
    told = done.type(*words)
    assert told.exit_code == 0
    assert "…" not in told.stdout
    assert "\x1b" not in told.stdout
    assert all(line == line.rstrip() for line in told.stdout.splitlines())


def test_what_is_removed_is_said_to_be(done: Project) -> None:
    shown = done.baton("show", "1.1")
    assert not Path(shown["attempt"]["worktree"]).exists()
    assert (shown["branch_exists"], shown["log_exists"]) == (False, False)
    text = done.type("show", "1.1").stdout
    assert f"{shown['attempt']['worktree']} (removed)" in text
    assert f"{shown['attempt']['branch']} (removed)" in text
    assert "output" not in text


def test_what_is_there_is_not(project: Project) -> None:
    project.actions(CHANGE, "--capacity", "1")
    assert "removed" not in project.type("show", "1.1").stdout


def test_a_ticket_at_work_is_not_free(project: Project) -> None:
    project.actions(CHANGE, "--capacity", "1")
    line = next(t for t in project.type("plan").stdout.splitlines() if t.startswith("  1.1"))
    assert "active" in line
    assert "may start" not in line


def test_who_is_complete_is_told_to_land(done: Project) -> None:
    told = done.type("actions", CHANGE, "--session", "s").stdout
    assert f"git baton land {CHANGE} brings it to its target" in told


def test_that_there_is_no_check_is_said_once(project: Project) -> None:
    project.git("config", "--unset-all", "baton.verify")
    told = " ".join(project.type("plan", CHANGE).stdout.split())
    assert told.count("no check") == 1
    assert "--verify" in told


def test_a_plea_for_help_is_not_a_verb(project: Project) -> None:
    told = project.type("help")
    assert told.exit_code == 2
    assert "did you mean --help?" in told.stderr


def test_a_push_is_refused_once(project: Project, on_path: Path, tmp_path: Path) -> None:
    project.git("init", "-q", "--bare", str(tmp_path / "server"))
    project.git("remote", "add", "origin", str(tmp_path / "server"))
    project.git("push", "-q", "origin", "trunk")
    project.set("protect", "trunk")
    project.baton("hook", "install", "pre-push")
    project.commit({"by-hand": "x\n"})
    said = _push(project)
    assert said.count("the push is refused") == 1
    reasons = [line for line in said.splitlines() if "receipt" in line]
    assert len(reasons) == len(set(reasons)) == 1, said


def _push(project: Project) -> str:
    done = subprocess.run(
        ["git", "push", "origin", "trunk"],
        cwd=project.top,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    return done.stdout + done.stderr


def test_a_red_gate_is_called_a_gate(new_project: NewProject) -> None:
    project = new_project(tasks=None)
    add(project, "A")
    root = open_root(project, "--gate", "exit 3", membership="snapshot")
    root.do([root.actions(capacity=1).dispatch("A")])
    project.reconcile({"assignment": f"{root.run}/A@1"}, code=3)
    assert "gate `exit 3` exits with 3" in project.type("log", root.run).stdout
