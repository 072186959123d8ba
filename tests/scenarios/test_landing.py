"""The way between the integration branch and the branches of people: update and land."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from .conftest import CHANGE, TASKS_MD, TWO, NewProject, Project

ONE = "- [ ] 1.1 One\n"


@pytest.fixture
def complete(project: Project) -> Project:
    """A complete run of two tickets."""
    project.approve(TWO)
    assert project.finish(project.actions(CHANGE))["state"] == "complete"
    return project


# --- land --------------------------------------------------------------------------------------


def test_land_fast_forwards_the_checked_out_base_with_its_files(complete: Project) -> None:
    said = complete.baton("land")
    assert (said["run"], said["onto"]) == (CHANGE, "trunk")
    assert (said["fast_forward"], said["commit"]) == (True, complete.tip())
    assert complete.git("rev-parse", "trunk") == complete.tip()
    assert (complete.top / "file-1.1").exists()
    assert "[ ]" not in (complete.top / TASKS_MD).read_text()
    assert complete.git("status", "--porcelain") == ""


def test_land_twice_is_idempotent(complete: Project) -> None:
    first = complete.baton("land")
    again = complete.refused("land", code=0)
    assert again["commit"] == first["commit"]


def test_land_means_the_run_that_has_not_landed(complete: Project) -> None:
    complete.baton("land")
    complete.commit({"openspec/changes/more/tasks.md": ONE})
    complete.finish(complete.actions("more"))
    assert complete.baton("land")["run"] == "more"
    said = complete.refused("land", code=2)
    assert said.code == "which-run"
    assert "more" in said["error"]["hint"]


def test_land_merges_when_the_base_has_moved(complete: Project) -> None:
    mine = complete.commit({"mine": "x"})
    tip = complete.tip()
    said = complete.baton("land")
    assert (said["fast_forward"], said["checked"]) == (False, True)
    assert complete.git("log", "-1", "--format=%P", "trunk").split() == [mine, tip]
    assert sorted(complete.files("trunk")) == ["README", "file-1.1", "file-1.2", "mine"]
    assert (complete.top / "file-1.1").exists()
    landed = said["commit"]
    receipt = complete.state(f"commits/{landed}.json")
    assert receipt["subject"][0]["digest"]["gitCommit"] == landed
    stored = complete.git("show", f"refs/baton/runs/{CHANGE}:commits/{landed}.json") + "\n"
    digest = sha256(stored.encode()).hexdigest()
    assert complete.state()["recorded"][-1] == {
        "commit": landed,
        "kind": "land",
        "onto": "refs/heads/trunk",
        "receipt_sha256": digest,
        "signature_sha256": None,
    }


def test_land_no_ff(complete: Project) -> None:
    said = complete.baton("land", "--no-ff")
    assert said["fast_forward"] is False
    assert complete.git("log", "-1", "--format=%P", "trunk").split()[1] == complete.tip()


def test_red_landing_merge_moves_nothing(complete: Project) -> None:
    complete.commit({"broken": "x"})
    said = complete.refused("land")
    assert said.code == "checks-failed"


def test_conflicting_landing_moves_nothing(complete: Project) -> None:
    complete.commit({"file-1.1": "mine\n"})
    said = complete.refused("land")
    assert said.code == "land-conflict"
    assert "file-1.1" in said.message
    assert "update" in said["error"]["hint"]


def test_incomplete_run_lands_only_partially(project: Project) -> None:
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"))
    assert project.refused("land").code == "not-complete"
    said = project.baton("land", "--partial")
    assert said["commit"] == project.tip()
    assert (project.top / "file-1.1").exists()


def test_land_onto_another_branch(complete: Project) -> None:
    complete.git("branch", "release")
    said = complete.baton("land", "--onto", "release")
    assert said["onto"] == "release"
    assert complete.git("rev-parse", "release") == complete.tip()
    assert not (complete.top / "file-1.1").exists()
    assert complete.refused("land", "--onto", "relaese").code == "unknown-target"


def test_dirty_target_is_refused_and_loses_nothing(complete: Project) -> None:
    complete.write("file-1.1", "mine, untracked\n")
    said = complete.refused("land")
    assert said.code == "target-checked-out"
    assert "file-1.1" in said.message
    assert (complete.top / "file-1.1").read_text() == "mine, untracked\n"


def test_dirt_that_is_not_in_the_way_stays(complete: Project) -> None:
    complete.write("README", "mine, not committed\n")
    complete.write("scratch", "untracked\n")
    complete.baton("land")
    assert (complete.top / "README").read_text() == "mine, not committed\n"
    assert (complete.top / "scratch").read_text() == "untracked\n"
    assert complete.git("status", "--porcelain").split() == ["M", "README", "??", "scratch"]


def test_untracked_plan_of_the_main_checkout_is_no_obstacle(new_project: NewProject) -> None:
    project = new_project(tasks=None)
    project.plan(TWO)
    assert project.finish(project.actions(CHANGE))["state"] == "complete"
    assert project.git("status", "--porcelain") == "?? openspec/"
    project.baton("land")
    assert project.git("status", "--porcelain") == ""
    assert "[ ]" not in (project.top / TASKS_MD).read_text()


def test_edited_plan_of_the_main_checkout_is_not_overwritten(new_project: NewProject) -> None:
    project = new_project(tasks=None)
    project.plan(TWO)
    assert project.finish(project.actions(CHANGE))["state"] == "complete"
    project.plan(TWO + "- [ ] 1.3 An idea that nobody has read yet\n")
    said = project.refused("land")
    assert said.code == "target-checked-out"
    assert TASKS_MD in said.message


def test_uncommitted_edit_of_a_tracked_plan_that_was_recorded_is_no_obstacle(
    project: Project,
) -> None:
    project.approve(ONE)
    project.plan(TWO)
    assert project.finish(project.actions(CHANGE))["state"] == "complete"
    project.baton("land")
    assert project.git("status", "--porcelain") == ""
    assert (project.top / TASKS_MD).read_text() == TWO.replace("[ ]", "[x]")


def test_hand_tick_on_the_base_survives_the_landing(complete: Project) -> None:
    text = "- [ ] 1.1 One\n- [ ] 1.2 Two\n- [x] 1.3 Done by hand\n"
    complete.commit({TASKS_MD: text})
    complete.baton("land")
    assert (complete.top / TASKS_MD).read_text() == text.replace("[ ]", "[x]")


def test_land_pushes_nothing_unless_asked(complete: Project) -> None:
    remote = complete.top.parent / "remote.git"
    complete.git("init", "-q", "--bare", str(remote))
    complete.git("remote", "add", "origin", str(remote))
    complete.baton("land")
    assert complete.git("for-each-ref", cwd=remote) == ""
    complete.baton("land", "--push-branch")
    listed = complete.git("for-each-ref", "--format=%(refname)", cwd=remote)
    record = ["refs/baton/runs/add-login", "refs/notes/baton/add-login"]
    assert listed.split() == [record[0], complete.branch(), record[1]]


def test_sealed_but_not_integrated_work_is_not_landed_unseen(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"))
    project.do(batch.dispatch("1.2"))
    said = project.refused("land")
    assert said.code == "not-complete"


# --- update ------------------------------------------------------------------------------------


def test_update_merges_the_base_with_a_receipt(project: Project) -> None:
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"))
    tip, mine = project.tip(), project.commit({"mine": "x"})
    said = project.baton("update")
    assert (said["onto"], said["checked"]) == (f"baton/{CHANGE}", True)
    assert said["commit"] == project.tip()
    assert project.git("log", "-1", "--format=%P", project.tip()).split() == [tip, mine]
    assert project.files() == ["README", "file-1.1", "mine"]
    assert project.state(f"commits/{said['commit']}.json")["predicate"]["result"] == "PASSED"


def test_update_when_nothing_is_new_changes_nothing(project: Project) -> None:
    project.actions(CHANGE)
    said = project.refused("update", code=0)
    assert said["commit"] == project.tip()


def test_red_update_moves_nothing(project: Project) -> None:
    project.actions(CHANGE)
    project.commit({"broken": "x"})
    assert project.refused("update").code == "checks-failed"


def test_conflicting_update_says_how_to_go_on(project: Project) -> None:
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"), {"README": "run\n"})
    project.reconcile(batch.dispatch("1.1"))
    project.commit({"README": "person\n"})
    said = project.refused("update")
    assert said.code == "update-conflict"
    assert "README" in said.message

    # What the hint says, done by hand.
    there = project.top.parent / "there"
    project.git("worktree", "add", "-q", str(there), f"baton/{CHANGE}")
    project.git("merge", "-q", "trunk", cwd=there, code=1)
    project.commit({"README": "both\n"}, there)
    project.git("worktree", "remove", str(there))
    accepted = project.baton("update", "--accept")
    assert accepted["commit"] == project.tip()
    assert project.baton("land", "--partial")["fast_forward"] is True
    assert (project.top / "README").read_text() == "both\n"


def test_plan_of_the_base_meets_the_ticks_of_the_run(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE, "--capacity", "1")
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"), "completed", "--capacity", "1")
    project.approve(TWO.replace("Two", "Two, told better") + "- [ ] 1.3 Three\n")
    project.commit({"mine": "x"})
    project.baton("update")
    assert project.tasks() == ("- [x] 1.1 One\n- [ ] 1.2 Two, told better\n- [ ] 1.3 Three\n")


def test_complete_run_that_goes_on_takes_its_base_in_first(complete: Project) -> None:
    complete.commit({"mine": "x"})
    complete.plan(TWO + "- [ ] 1.3 Three\n")
    batch = complete.actions()
    third = batch.dispatch("1.3")
    assert Path(third["cwd"], "mine").exists(), "it never starts from a stale branch"
    assert Path(third["cwd"], "file-1.1").exists()
    complete.do(third)
    assert complete.reconcile(third)["state"] == "complete"
    assert complete.baton("land")["fast_forward"] is True


def test_landed_run_that_goes_on_starts_from_the_landed_branch(complete: Project) -> None:
    complete.baton("land")
    complete.commit({"later": "x"})
    complete.plan(TWO.replace("[ ]", "[x]") + "- [ ] 1.3 Three\n")
    third = complete.actions().dispatch("1.3")
    assert Path(third["cwd"], "later").exists()
    complete.do(third)
    complete.reconcile(third)
    complete.git("commit", "-qam", "the plan")
    complete.baton("land")
    assert (complete.top / "file-1.3").exists()


def test_two_runs_land_one_after_the_other(project: Project) -> None:
    project.plan(TWO, change="other")
    project.git("add", "-A")
    project.git("commit", "-qm", "x")
    assert project.finish(project.actions(CHANGE))["state"] == "complete"
    batch = project.actions("other")
    project.do(batch.dispatch("1.1"), {"q1": "x"})
    project.do(batch.dispatch("1.2"), {"q2": "x"})
    assert project.reconcile(batch.dispatch("1.1"))["state"] == "complete"
    project.baton("land", CHANGE)
    said = project.baton("land", "other")
    assert said["fast_forward"] is False
    assert project.git("status", "--porcelain") == ""
    assert (project.top / "q1").exists() and (project.top / "file-1.1").exists()


def test_staged_change_that_is_not_in_the_way_stays(project: Project) -> None:
    project.finish(project.actions(CHANGE))
    project.write("staged", "x")
    project.git("add", "staged")
    project.baton("land")
    assert project.git("status", "--porcelain") == "A  staged"
