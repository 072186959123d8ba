"""A plan that people edit while its tickets are being worked on."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import CHANGE, TASKS_MD, TWO, Project


def test_text_changed_after_the_seal_but_before_the_merge(project: Project) -> None:
    """The plan is read when the frontier is computed, after what is sealed was integrated."""
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"))
    project.plan(TWO.replace("One", "One, and then some"))
    said = project.reconcile(batch.dispatch("1.1"))
    assert said["revision"] == 2
    assert "- [x] 1.1 One, and then some" in project.tasks()
    assert project.attempt("1.1@1")["state"] == "succeeded"


def test_ticket_changed_waits_and_adopt_accepts_it(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.plan(TWO.replace("One", "One, and then some"))
    assert project.actions()["revision"] == 2
    project.do(batch.dispatch("1.1"))
    said = project.reconcile(batch.dispatch("1.1"))
    (blocked,) = said.of("blocked")
    assert (blocked["code"], blocked["assignment"]) == ("ticket-changed", f"{CHANGE}/1.1@1")
    assert "file-1.1" not in project.files()
    assert Path(batch.dispatch("1.1")["cwd"], "file-1.1").exists(), "the work is kept"

    adopted = project.baton("adopt", "1.1@1")
    assert (adopted["adopted_from"], adopted["state"]) == ("blocked-review", "succeeded")
    assert "- [x] 1.1 One, and then some" in project.tasks()


def test_changed_ticket_can_be_done_anew(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.plan(TWO.replace("One", "Quite another thing"))
    project.actions()
    project.do(batch.dispatch("1.1"), {"old": "x"})
    project.reconcile(batch.dispatch("1.1"))
    project.baton("abandon", "1.1@1")
    again = project.actions().dispatch("1.1")
    assert again["title"] == "Quite another thing"
    project.do(again, {"new": "x"})
    project.reconcile(again)
    assert project.files() == ["README", "new"]


def test_text_changed_back_is_as_if_never_changed(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.plan(TWO.replace("One", "Another"))
    project.actions()
    project.plan(TWO)
    project.actions()
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"))
    assert project.files() == ["README", "file-1.1"]


def test_handed_out_packets_never_change(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    packet = Path(batch.dispatch("1.1")["packet"])
    before = packet.read_bytes()
    project.plan(TWO.replace("One", "Another"))
    project.actions("--verify", "false")
    assert packet.read_bytes() == before
    project.work(batch.dispatch("1.1"))
    assert project.seal(batch.dispatch("1.1"))["checks"][0]["command"] == "test ! -e broken"


def test_ticket_deleted_in_flight_is_merged_and_dropped(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.plan("- [ ] 1.1 One\n")
    project.actions()
    project.do(batch.dispatch("1.2"))
    project.reconcile(batch.dispatch("1.2"))
    assert project.files() == ["README", "file-1.2"]
    tickets = project.baton("status")["tickets"]
    assert (tickets["total"], tickets["dropped"]) == (1, 1)
    project.do(batch.dispatch("1.1"))
    done = project.reconcile(batch.dispatch("1.1"))
    assert done["state"] == "complete"
    assert done.of("complete")[0]["resolved"] == ["1.1"]


def test_ticket_deleted_between_seal_and_merge_does_not_fail(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.2"))
    project.plan("- [ ] 1.1 One\n")
    project.reconcile(batch.dispatch("1.2"))
    assert project.files() == ["README", "file-1.2"]
    assert project.tasks() == "- [ ] 1.1 One\n"


def test_dropped_ticket_whose_worker_fails_holds_nobody_up(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.plan("- [ ] 1.1 One\n")
    project.actions()
    project.reconcile(batch.dispatch("1.2"), "failed")
    project.do(batch.dispatch("1.1"))
    assert project.reconcile(batch.dispatch("1.1"))["state"] == "complete"


def test_new_ticket_while_running_is_a_new_revision(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    assert batch["revision"] == 1
    project.plan(TWO + "- [ ] 1.3 Three\n")
    more = project.actions()
    assert more["revision"] == 2
    assert more.tickets() == ["1.3"]
    assert project.tasks() == TWO + "- [ ] 1.3 Three\n", "the plan is on the branch"
    for dispatch in (batch.dispatch("1.1"), batch.dispatch("1.2"), more.dispatch("1.3")):
        project.do(dispatch)
    assert project.actions()["state"] == "complete"
    assert "[ ]" not in project.tasks()


def test_plan_commits_touch_only_the_change_folder(project: Project) -> None:
    project.approve(TWO)
    project.actions(CHANGE)
    project.plan(TWO + "- [ ] 1.3 Three\n")
    project.write("unrelated", "not committed")
    project.actions()
    changed = project.git("diff", "--name-only", f"{project.base}..{project.tip()}")
    assert changed == f"openspec/changes/{CHANGE}/tasks.md"
    assert project.state()["recorded"][-1]["commit"] == project.tip()


def test_hand_ticked_box_is_resolved_by_hand(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE, "--capacity", "1")
    project.baton("tasks", "check", "1.2")
    project.do(batch.dispatch("1.1"))
    done = project.reconcile(batch.dispatch("1.1"))
    assert done["state"] == "complete"
    (complete,) = done.of("complete")
    assert (complete["resolved"], complete["resolved_by_hand"]) == (["1.1"], ["1.2"])
    status = project.baton("status")
    assert status["resolved_by_hand"] == ["1.2"]
    assert (status["tickets"]["resolved"], status["tickets"]["resolved_by_hand"]) == (1, 1)


def test_box_ticked_before_the_run_is_by_hand(project: Project) -> None:
    project.approve("- [x] 1.1 One\n- [ ] 1.2 Two\n")
    batch = project.actions(CHANGE)
    assert batch.tickets() == ["1.2"]
    project.do(batch.dispatch("1.2"))
    complete = project.reconcile(batch.dispatch("1.2")).of("complete")[0]
    assert complete["resolved_by_hand"] == ["1.1"]


def test_ticks_of_the_run_are_nobodys_hand(project: Project) -> None:
    """After landing, the person's checkout holds ticked boxes: that is no new revision."""
    project.approve(TWO)
    batch = project.actions(CHANGE, "--capacity", "1")
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"), "completed", "--capacity", "1")
    project.baton("land", "--partial")
    assert "- [x] 1.1" in (project.top / f"openspec/changes/{CHANGE}/tasks.md").read_text()
    said = project.actions()
    assert said["revision"] == 1
    assert project.baton("status")["resolved_by_hand"] == []


def test_unticked_box_reopens_nothing_but_is_warned_of(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE, "--capacity", "1")
    project.baton("tasks", "check", "1.2")
    project.actions("--capacity", "1")
    project.baton("tasks", "uncheck", "1.2")
    said = project.actions("--capacity", "1")
    assert any("1.2" in warning and "reopen" in warning for warning in said["warnings"])
    project.do(batch.dispatch("1.1"))
    assert project.reconcile(batch.dispatch("1.1"))["state"] == "complete"


def test_older_branch_in_the_checkout_unticks_nothing(project: Project) -> None:
    """The person's tasks file never got git-baton's ticks; that must not look like an edit."""
    project.approve(TWO)
    done = project.finish(project.actions(CHANGE))
    assert done["state"] == "complete"
    assert "[ ]" in (project.top / f"openspec/changes/{CHANGE}/tasks.md").read_text()
    again = project.actions()
    assert (again["state"], again["revision"]) == ("complete", 1)
    assert "[ ]" not in project.tasks()


def test_canceled_ticket_holds_nobody_up(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE, "--capacity", "1")
    project.plan("- [ ] 1.1 One\n- [-] 1.2 Two\n")
    project.do(batch.dispatch("1.1"))
    assert project.reconcile(batch.dispatch("1.1"))["state"] == "complete"
    assert project.baton("status")["tickets"]["canceled"] == 1


def test_broken_edit_leaves_the_last_revision_standing(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE, "--capacity", "1")
    project.plan("- [ ] 1.1 One (depends on 1.2)\n- [ ] 1.2 Two (depends on 1.1)\n")
    project.do(batch.dispatch("1.1"))
    said = project.reconcile(batch.dispatch("1.1"))
    assert said.tickets() == ["1.2"]
    assert said["revision"] == 1
    assert "1.1" in said.stderr and "1.2" in said.stderr, "the cycle is named"


def test_vanished_plan_leaves_the_last_revision_standing(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE, "--capacity", "1")
    project.git("switch", "-q", "-c", "elsewhere")
    project.git("rm", "-qr", "openspec")
    project.git("commit", "-qm", "no plan here")
    project.do(batch.dispatch("1.1"))
    said = project.reconcile(batch.dispatch("1.1"))
    assert said.tickets() == ["1.2"]
    assert "plan" in said.stderr


def test_order_and_unit_given_later_are_a_new_revision(project: Project) -> None:
    batch = project.actions(CHANGE, "--capacity", "2", "--order", "sequential")
    assert batch.tickets() == ["1.1"]
    more = project.actions("--order", "explicit")
    assert more.tickets() == ["1.2", "2.1"]
    assert more["revision"] == 2


def test_unit_section_is_one_ticket_a_section(project: Project) -> None:
    batch = project.actions(CHANGE, "--unit", "section")
    assert len(batch.tickets()) == 1
    (ticket,) = batch.tickets()
    project.do(batch.dispatch(ticket))
    second = project.reconcile(batch.dispatch(ticket))
    assert project.tasks().count("[x]") == 2
    (ticket,) = second.tickets()
    project.do(second.dispatch(ticket))
    assert project.reconcile(second.dispatch(ticket))["state"] == "complete"
    assert "[ ]" not in project.tasks()


def test_criteria_and_umbrellas_are_ticked_with_their_ticket(project: Project) -> None:
    text = "- [ ] 1. Umbrella\n  - [ ] 1.1 One\n    - [ ] a criterion\n  - [ ] 1.2 Two\n"
    project.approve(text)
    batch = project.actions(CHANGE)
    assert batch.tickets() == ["1.1", "1.2"]
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"))
    ticked = text.replace("[ ] 1.1", "[x] 1.1").replace("[ ] a", "[x] a")
    assert project.tasks() == ticked
    project.do(batch.dispatch("1.2"))
    project.reconcile(batch.dispatch("1.2"))
    assert project.tasks() == text.replace("[ ]", "[x]")


def test_tasks_check_tells_how_to_undo_it(project: Project) -> None:
    tasks = project.top / f"openspec/changes/{CHANGE}/tasks.md"
    before = tasks.read_text()
    dry = project.refused("tasks", "check", CHANGE, "1.1", "--dry-run", code=0)
    assert dry["dry_run"] is True
    said = project.baton("tasks", "check", CHANGE, "1.1")
    assert tasks.read_text() == before.replace("[ ] 1.1", "[x] 1.1")
    words = said["reverse"].removeprefix("git baton ").split()
    project.baton(*words)
    assert tasks.read_text() == before


def test_plan_from_takes_the_plan_of_a_branch(project: Project) -> None:
    project.approve(TWO)
    project.git("switch", "-q", "-c", "planning")
    project.approve(TWO + "- [ ] 1.3 Three\n")
    project.git("switch", "-q", "trunk")
    batch = project.actions(CHANGE, "--plan-from", "planning")
    assert batch.tickets() == ["1.1", "1.2", "1.3"]
    assert "1.3 Three" in project.tasks()
    assert project.state()["source"]["at"] == "refs/heads/planning"


def test_hand_tick_of_a_ticket_in_flight(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.baton("tasks", "check", "1.1")
    project.actions()
    assert project.baton("status")["resolved_by_hand"] == ["1.1"]
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"))
    project.do(batch.dispatch("1.2"))
    done = project.reconcile(batch.dispatch("1.2"))
    assert done["state"] == "complete", done
    t = project.baton("status")["tickets"]
    assert t["resolved"] + t["resolved_by_hand"] == 2


def test_hand_tick_of_a_ticket_whose_worker_then_fails(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.baton("tasks", "check", "1.1")
    project.actions()
    project.reconcile(batch.dispatch("1.1"), "failed")
    project.do(batch.dispatch("1.2"))
    assert project.reconcile(batch.dispatch("1.2"))["state"] == "complete"
    status = project.baton("status")
    assert status["complete"]


def test_ticket_canceled_in_flight(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.plan("- [-] 1.1 One\n- [ ] 1.2 Two\n")
    project.actions()
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"))
    project.do(batch.dispatch("1.2"))
    assert project.reconcile(batch.dispatch("1.2"))["state"] == "complete"


def test_plan_that_is_ticked_from_the_start_is_complete(project: Project) -> None:
    project.approve("- [x] 1.1 One\n- [x] 1.2 Two\n")
    said = project.actions(CHANGE)
    assert said["state"] == "complete"
    assert said.of("complete")[0]["resolved_by_hand"] == ["1.1", "1.2"]
    project.baton("land")


def test_place_of_the_plan_is_remembered(project: Project) -> None:
    linked = project.top.parent / "linked"
    project.git("worktree", "add", "-q", "-b", "work", str(linked))
    project.write(TASKS_MD, TWO, linked)
    assert project.actions(CHANGE, "--capacity", "1", cwd=linked).tickets() == ["1.1"]
    said = project.actions("--capacity", "5")
    assert (said.tickets(), said["revision"]) == (["1.2"], 1)
    assert project.tasks() == TWO
    project.git("checkout", "-q", "--", ".", cwd=linked)


def test_plan_is_never_read_from_an_attempts_worktree(project: Project) -> None:
    project.plan(TWO, change="other")
    project.git("add", "--all")
    project.git("commit", "-qm", "another change")
    batch = project.actions(CHANGE)
    cwd = batch.dispatch("1.1")["cwd"]
    project.write("openspec/changes/other/tasks.md", "- [ ] 6.6 Evil\n", cwd)
    said = project.actions("other", cwd=cwd)
    assert said.tickets() == ["1.1", "1.2"]


def test_resolved_ticket_that_left_the_plan_and_came_back_is_not_done_again(
    project: Project,
) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE, "--capacity", "1")
    project.do(batch.dispatch("1.1"))
    batch = project.reconcile(batch.dispatch("1.1"), "completed", "--capacity", "1")
    project.plan("- [ ] 1.2 Two\n")
    project.actions("--capacity", "1")
    project.plan(TWO)
    said = project.actions("--capacity", "5")
    assert said.tickets() == []
    assert project.baton("status")["tickets"]["resolved"] == 1


def test_dropped_ticket_that_came_back_is_resolved(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.plan("- [ ] 1.2 Two\n")
    project.actions()
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"))
    project.plan(TWO)
    said = project.actions("--capacity", "5")
    assert said.tickets() == []
    t = project.baton("status")["tickets"]
    assert (t["resolved"], t["dropped"]) == (1, 0)
    assert project.tasks().startswith("- [x] 1.1")


def test_ticket_that_came_back_while_in_flight(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.plan("- [ ] 1.2 Two\n")
    project.actions()
    project.plan(TWO)
    assert project.actions().tickets() == []
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"))
    t = project.baton("status")["tickets"]
    assert (t["resolved"], t["dropped"]) == (1, 0)


def test_attempts_of_a_ticket_that_came_back_go_on_counting(project: Project) -> None:
    project.approve(TWO)
    project.actions(CHANGE)
    project.baton("abandon", "1.1", "--force")
    project.plan("- [ ] 1.2 Two\n")
    project.actions()
    project.plan(TWO)
    said = project.actions()
    assert said.dispatch("1.1")["attempt"] == 2


def test_older_plan_in_the_checkout_for_a_while_repeats_no_work(project: Project) -> None:
    project.approve("- [ ] 1.1 One\n")
    project.git("branch", "older")
    project.approve(TWO)
    batch = project.actions(CHANGE, "--capacity", "1")
    project.do(batch.dispatch("1.1"))
    batch = project.reconcile(batch.dispatch("1.1"), "completed", "--capacity", "1")
    project.do(batch.dispatch("1.2"))
    assert project.reconcile(batch.dispatch("1.2"))["state"] == "complete"
    project.git("switch", "-q", "older")
    assert project.actions()["state"] == "complete"
    project.git("switch", "-q", "trunk")
    said = project.actions()
    assert said["state"] == "complete"
    assert said.of("complete")[0]["resolved"] == ["1.1", "1.2"]


def test_text_changed_after_the_merge_keeps_the_tick(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE, "--capacity", "1")
    project.do(batch.dispatch("1.1"))
    batch = project.reconcile(batch.dispatch("1.1"), "completed", "--capacity", "1")
    project.plan(TWO.replace("One", "One, but more"))
    said = project.actions("--capacity", "5")
    assert said.tickets() == []
    assert project.tasks() == "- [x] 1.1 One, but more\n- [ ] 1.2 Two\n"


def test_text_changed_after_the_merge_is_warned_of(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE, "--capacity", "1")
    project.do(batch.dispatch("1.1"))
    batch = project.reconcile(batch.dispatch("1.1"), "completed", "--capacity", "1")
    project.plan(TWO.replace("One", "Quite another"))
    said = project.actions("--capacity", "1")
    assert any("1.1" in w and "reopen" in w for w in said["warnings"])


def test_plan_from_a_branch_follows_it(project: Project) -> None:
    project.git("switch", "-q", "-c", "planning")
    project.approve(TWO)
    project.git("switch", "-q", "trunk")
    project.actions(CHANGE, "--plan-from", "planning")
    project.git("switch", "-q", "planning")
    project.approve(TWO + "- [ ] 1.3 Three\n")
    project.git("switch", "-q", "trunk")
    said = project.actions()
    assert said.tickets() == ["1.3"]


def test_plan_from_changes_the_place_for_good(project: Project) -> None:
    project.actions(CHANGE)
    other = project.top.parent / "other"
    project.git("worktree", "add", "-q", "-b", "o", str(other))
    project.write(TASKS_MD, TWO + "- [ ] 1.3 Three\n", other)
    said = project.actions("--plan-from", "../other")
    assert "1.3" in said.tickets()
    said = project.actions()
    assert "1.3 Three" in project.tasks()
    project.git("checkout", "-q", "--", ".", cwd=other)


def test_plan_from_the_integration_branch_itself(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE, "--capacity", "1")
    project.actions("--capacity", "1", "--plan-from", f"baton/{CHANGE}")
    project.do(batch.dispatch("1.1"))
    batch = project.reconcile(batch.dispatch("1.1"), "completed", "--capacity", "1")
    assert project.baton("status")["resolved_by_hand"] == []
    project.do(batch.dispatch("1.2"))
    assert project.reconcile(batch.dispatch("1.2"))["state"] == "complete"
    assert project.baton("status")["tickets"]["resolved"] == 2


def test_plan_that_is_not_utf_8(project: Project) -> None:
    path = project.top / TASKS_MD
    path.write_bytes(b"- [ ] 1.1 caf\xe9\n- [ ] 1.2 Two\n")
    project.git("commit", "-qam", "x")
    done = project.finish(project.actions(CHANGE))
    assert done["state"] == "complete"
    text = project.tasks().encode(errors="surrogateescape")
    assert text == b"- [x] 1.1 caf\xe9\n- [x] 1.2 Two\n"


def test_reopened_ticket_whose_tick_has_landed_is_not_taken_for_hand_ticked(
    project: Project,
) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE, "--capacity", "1")
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"), "completed", "--capacity", "1")
    project.baton("land", "--partial")
    project.actions("--capacity", "1")
    project.baton("reopen", "1.1", "--reason", "r")
    said = project.actions("--capacity", "2")
    assert said.tickets() == ["1.1"]
    assert project.baton("status")["resolved_by_hand"] == []
    project.plan(TWO.replace("[ ] 1.1", "[x] 1.1") + "- [ ] 1.3 T\n")
    project.actions("--capacity", "2")
    assert project.baton("status")["resolved_by_hand"] == []
    project.do(said.dispatch("1.1"), {"z": "x"})
    project.reconcile(said.dispatch("1.1"))
    assert "z" in project.files()


def test_checks_given_again_are_for_later_packets(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE, "--capacity", "1")
    more = project.actions("--capacity", "2", "--verify", "test -e README")
    p = json.loads(Path(more.dispatch("1.2")["packet"]).read_text())
    assert p["checks"] == ["test -e README"]
    project.do(batch.dispatch("1.1"))
    project.do(more.dispatch("1.2"))
    assert project.actions()["state"] == "complete"


def test_plan_shows_an_edit_before_anybody_took_it_over(project: Project) -> None:
    project.actions(CHANGE, "--capacity", "1")
    project.plan("- [ ] 1.1 One\n- [x] 1.2 Two\n- [ ] 1.3 New\n")
    view = project.refused("plan", code=0)
    states = {t["key"]: t["state"] for t in view["tickets"]}
    assert states == {"1.1": "active", "1.2": "resolved-by-hand", "1.3": "ready"}
    assert view["frontier"] == ["1.1", "1.3"]


def test_warning_of_an_unticked_box_ends_with_reopen(project: Project) -> None:
    project.plan("- [x] 1.1 One\n- [ ] 1.2 Two\n")
    project.actions(CHANGE)
    project.plan(TWO)
    assert "1.1 is no longer ticked" in project.actions()["warnings"][0]
    project.baton("reopen", "1.1", "--reason", "not done")
    assert project.actions()["warnings"] == []


def test_box_that_is_unticked_after_landing_is_warned_of(project: Project) -> None:
    project.approve(TWO)
    project.finish(project.actions(CHANGE))
    assert project.actions()["warnings"] == []
    project.baton("land")
    assert project.actions()["warnings"] == []
    ticked = (project.top / TASKS_MD).read_text()
    project.write(TASKS_MD, ticked.replace("[x] 1.1", "[ ] 1.1"))
    (warning,) = project.actions()["warnings"]
    assert "1.1 is no longer ticked" in warning and "reopen 1.1" in warning
    assert project.baton("status")["complete"] is True
    project.write(TASKS_MD, ticked)
    assert project.actions()["warnings"] == []


def test_file_of_the_change_whose_name_is_not_utf_8(project: Project) -> None:
    project.write(f"openspec/changes/{CHANGE}/specs/tr\udce4ge/spec.md", "odd\n")
    said = project.refused("actions", CHANGE, "--session", "s")
    assert (said.code, "tr\\xe4ge" in said.message) == ("file-name", True)
