"""The loop of a caller of its own, from the first `actions` to `land`."""

from __future__ import annotations

from pathlib import Path

from .conftest import CHANGE, Project


def test_from_actions_to_complete(project: Project) -> None:
    batch = project.actions(CHANGE, "--capacity", "3")
    assert (batch["run"], batch["state"], batch["revision"]) == (CHANGE, "executing", 1)
    assert batch.tickets() == ["1.1", "1.2"]

    first = batch.dispatch("1.1")
    assert first["assignment"] == "add-login/1.1@1"
    assert first["branch"] == "baton-attempt/add-login/1.1-a1"
    assert first["base_commit"] == project.tip()
    assert first["title"] == "Write the first file"
    assert project.git("branch", "--show-current", cwd=first["cwd"]) == first["branch"]
    assert first["lease"]["ttl_seconds"] == 7200
    assert Path(first["packet"]).is_file()

    for ticket in ("1.1", "1.2"):
        project.do(batch.dispatch(ticket))
    batch = project.reconcile(first)
    assert batch.tickets() == ["2.1"]
    assert project.files() == ["README", "file-1.1", "file-1.2"]

    project.do(batch.dispatch("2.1"))
    done = project.reconcile(batch.dispatch("2.1"))
    assert done["state"] == "complete"
    (complete,) = done.of("complete")
    assert complete["resolved"] == ["1.1", "1.2", "2.1"]
    assert complete["resolved_by_hand"] == []
    assert complete["branch"] == "baton/add-login"
    assert complete["commit"] == project.tip()
    assert "[ ]" not in project.tasks()
    assert project.subjects() == [
        "1.1 Write the first file",
        "1.2 Write the second file",
        "2.1 Write the last file",
    ]
