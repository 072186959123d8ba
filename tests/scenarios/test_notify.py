"""`baton.notify`: somebody is told when a run is complete or needs them, once for each change."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import CHANGE, Project


@pytest.fixture
def told(project: Project, tmp_path: Path) -> Path:
    """The file to which the command writes what it is told."""
    file = tmp_path / "told"
    line = '"$BATON_RUN $BATON_STATE: $BATON_REASON"'
    project.set("notify", f"echo {line} >> '{file}'")
    return file


def lines(told: Path) -> list[str]:
    return told.read_text().splitlines() if told.exists() else []


def test_complete_is_told_once(project: Project, told: Path) -> None:
    project.finish(project.actions(CHANGE))
    said = f"{CHANGE} complete: 3 resolved on baton/{CHANGE} at {project.tip()[:12]}"
    assert lines(told) == [said]
    project.actions()
    project.baton("status")
    assert lines(told) == [said]


def test_each_change_of_state_is_told(project: Project, told: Path) -> None:
    project.actions(CHANGE, "--capacity", "1")
    assert lines(told) == []
    project.baton("pause", "--reason", "lunch")
    project.baton("status")
    assert lines(told) == [], "who looks, or pauses, needs not be told"
    for _ in range(2):
        project.actions(code=3)
    assert [line.partition(":")[0] for line in lines(told)] == [f"{CHANGE} paused"]
    assert "lunch" in lines(told)[0]
    project.baton("resume")
    project.actions("--redeliver")
    project.baton("pause", "--reason", "tea")
    project.actions(code=3)
    assert len(lines(told)) == 2


def test_a_worker_s_token_is_not_passed_on(project: Project, tmp_path: Path) -> None:
    project.set("notify", f"env > '{tmp_path}/env'")
    project.actions(CHANGE, "--capacity", "1")
    project.baton("pause", "--reason", "lunch")
    project.actions(code=3, env={"BATON_TOKEN": "secret"})
    assert "secret" not in (tmp_path / "env").read_text()


@pytest.mark.parametrize(
    ("command", "said"),
    [("exit 7", "ended with exit 7"), ("sleep 100", "took longer"), ("no-such-thing", "exit 127")],
)
def test_what_goes_wrong_is_a_warning(
    project: Project, monkeypatch: pytest.MonkeyPatch, command: str, said: str
) -> None:
    monkeypatch.setattr("gitbaton.engine.notify.SECONDS", 0.2)
    project.set("notify", command)
    batch = project.finish(project.actions(CHANGE))
    assert batch["state"] == "complete"
    assert said in batch.stderr


def test_what_was_told_may_be_unreadable(project: Project, told: Path) -> None:
    (project.top / ".git/baton").mkdir(exist_ok=True)
    (project.top / ".git/baton/notified.json").write_text("{")
    project.finish(project.actions(CHANGE))
    assert len(lines(told)) == 1
