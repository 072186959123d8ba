"""What sealed work becomes on the integration branch: merged, checked as merged, or held back."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from gitbaton.lock import Lock

from .conftest import CHANGE, TASKS_MD, TWO, NewProject, Project

FIVE = """\
## 1. All at once

- [ ] 1.1 One
- [ ] 1.2 Two
- [ ] 1.3 Three
- [ ] 1.4 Four
- [ ] 1.5 Five
"""
NOT_BOTH = "test ! -e a || test ! -e b"


def test_green_alone_red_together_never_land_both(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE, "--verify", NOT_BOTH)
    project.do(batch.dispatch("1.1"), {"a": "x"})
    project.do(batch.dispatch("1.2"), {"b": "x"})

    blocked = project.reconcile(batch.dispatch("1.1"), code=3)
    assert blocked["state"] == "blocked"
    assert project.files() == ["README", "a"]
    (reason,) = blocked.of("blocked")
    assert (reason["code"], reason["assignment"]) == ("merged-checks-failed", f"{CHANGE}/1.2@1")
    assert NOT_BOTH in reason["reason"]
    assert "- [x] 1.1" in project.tasks()
    assert "- [ ] 1.2" in project.tasks()
    (recover,) = blocked.of("recover")
    assert (recover["ticket"], recover["next"]) == ("1.2", "decide")
    culprit = project.attempt("1.2@1")
    assert culprit["state"] == "blocked-review"
    assert culprit["relay"]["suggested_action"] == "decide"


def test_the_culprit_is_done_anew_with_the_failure_in_its_packet(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE, "--verify", NOT_BOTH)
    project.do(batch.dispatch("1.1"), {"a": "x"})
    project.do(batch.dispatch("1.2"), {"b": "x"})
    project.reconcile(batch.dispatch("1.2"), code=3)

    project.baton("abandon", "1.2@1", "--reason", "clashes")
    again = project.actions().dispatch("1.2")
    assert again["attempt"] == 2
    failure = json.loads(Path(again["packet"]).read_text())["previous_failure"]
    assert failure["code"] == "merged-checks-failed"
    assert NOT_BOTH in failure["message"]
    assert NOT_BOTH in again["prompt"]
    project.git("rm", "-q", "a", cwd=again["cwd"])
    project.do(again, {"b": "x"})
    assert project.reconcile(again)["state"] == "complete"
    assert project.files() == ["README", "b"]


def test_bisection_finds_the_one_culprit_of_five(project: Project) -> None:
    project.approve(FIVE)
    batch = project.actions(CHANGE, "--verify", "test ! -e f-1.3 || test ! -e f-1.1")
    for number in range(1, 6):
        project.do(batch.dispatch(f"1.{number}"), {f"f-1.{number}": "x"})
    blocked = project.reconcile(batch.dispatch("1.5"), code=3)
    assert project.files() == ["README", "f-1.1", "f-1.2", "f-1.4", "f-1.5"]
    assert [b["assignment"] for b in blocked.of("blocked")] == [f"{CHANGE}/1.3@1"]
    assert project.subjects() == ["1.1 One", "1.2 Two", "1.4 Four", "1.5 Five"]


def test_what_lands_is_the_tested_tree(project: Project) -> None:
    project.approve(FIVE)
    batch = project.actions(CHANGE)
    for number in range(1, 6):
        project.do(batch.dispatch(f"1.{number}"))
    project.reconcile(batch.dispatch("1.1"))
    last = project.attempt("1.5@1")["merge_commit"]
    assert last == project.tip()
    shown = project.baton("show", "1.5")
    subject = shown["merged"]["subject"]
    assert subject[0]["digest"]["gitCommit"] == last
    assert subject[1]["digest"]["gitTree"] == project.git("rev-parse", f"{last}^{{tree}}")
    chain = project.git("rev-list", "--first-parent", "--reverse", f"{project.base}..{last}")
    assert shown["merged"]["predicate"]["covers"] == chain.split()


def test_merge_commits_name_ticket_receipt_and_state(project: Project) -> None:
    batch = project.actions(CHANGE)
    receipt = project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"))
    trailers = dict(
        line.split(": ", 1)
        for line in project.git(
            "log", "-1", "--format=%(trailers:only,unfold)", project.tip()
        ).splitlines()
    )
    assert trailers["Baton-Run"] == CHANGE
    assert trailers["Baton-Ticket"] == "1.1"
    assert trailers["Baton-Attempt"] == "1"
    assert trailers["Baton-Receipt"] == receipt["receipt_sha256"]
    state = trailers["Baton-State"]
    recorded = json.loads(project.git("show", f"{state}:live.json"))
    assert recorded["attempts"]["1.1@1"]["sealed"]["commit"] == receipt["commit"]
    parents = project.git("log", "-1", "--format=%P", state).split()
    assert receipt["commit"] in parents[1:]


def test_merged_receipt_is_in_the_notes(project: Project) -> None:
    batch = project.actions(CHANGE)
    sealed = project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"))
    log = project.git("log", "-1", "--notes=baton/*", project.tip())
    assert f"Notes (baton/{CHANGE})" in log
    assert sealed["commit"] in log


def test_red_tip_is_nobodys_fault(project: Project) -> None:
    project.approve(TWO)
    project.commit({"broken": "x"})
    batch = project.actions(CHANGE)
    project.git("rm", "-q", "broken", cwd=batch.dispatch("1.1")["cwd"])
    project.do(batch.dispatch("1.1"), {"a": "x"})
    assert project.reconcile(batch.dispatch("1.1"))["state"] == "waiting"
    # 1.1 took the breakage away: its tree is green, so it lands.
    assert project.files() == ["README", "a"]


def test_empty_prefix_that_is_red_blocks_with_tip_red(project: Project, tmp_path: Path) -> None:
    switch = tmp_path / "the network is down"
    project.approve(FIVE)
    batch = project.actions(CHANGE, "--capacity", "2", "--verify", f"test ! -e '{switch}'")
    project.do(batch.dispatch("1.1"))
    project.do(batch.dispatch("1.2"))
    switch.touch()
    said = project.actions("--capacity", "2", code=3)
    assert said.code == "tip-red"
    assert project.files() == ["README"]
    assert {a["state"] for a in project.baton("status")["attempts"]} == {"sealed"}

    switch.unlink()
    project.baton("resume")
    project.actions()
    assert project.files() == ["README", "file-1.1", "file-1.2"]


# --- conflicts ---------------------------------------------------------------------------------


def _conflict(project: Project, more: str = "") -> dict[str, object]:
    """1.1 and 1.2 both write README; 1.1 is integrated, 1.2 is to be resolved."""
    project.approve(TWO + more)
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"), {"README": "one\n"})
    project.do(batch.dispatch("1.2"), {"README": "two\n"})
    said = project.reconcile(batch.dispatch("1.1"))
    (resolve,) = said.of("resolve_merge")
    return resolve


def test_conflict_is_handed_out_as_a_merge_to_resolve(project: Project) -> None:
    resolve = _conflict(project)
    assert resolve["assignment"] == f"{CHANGE}/1.2@2"
    assert resolve["conflicts"] == ["README"]
    assert resolve["base_commit"] == project.tip()
    assert project.git("status", "--porcelain", cwd=str(resolve["cwd"])) == "AA README" or (
        project.git("diff", "--name-only", "--diff-filter=U", cwd=str(resolve["cwd"])) == "README"
    )
    assert "README" in str(resolve["prompt"])
    assert project.attempt("1.2@1")["state"] == "superseded"
    assert project.subjects()[-1] == "1.1 One"


def test_resolution_is_sealed_and_integrated(project: Project) -> None:
    resolve = _conflict(project)
    project.work(resolve, {"README": "one and two\n"})
    project.seal(resolve)
    assert project.reconcile(resolve)["state"] == "complete"
    assert project.git("show", f"{project.branch()}:README") == "one and two"
    assert "[ ]" not in project.tasks()
    first = project.attempt("1.2@1")["commit"]
    project.git("merge-base", "--is-ancestor", first, project.tip())


def test_resolution_is_merged_again_when_the_tip_has_moved(project: Project) -> None:
    resolve = _conflict(project, "- [ ] 1.3 Three\n")
    third = project.baton("status")["attempts"]
    assert [a["ticket"] for a in third] == ["1.2", "1.3"]
    worktree = next(a["worktree"] for a in third if a["ticket"] == "1.3")
    project.commit({"three": "x"}, worktree)
    project.baton("seal", cwd=worktree)
    project.actions()
    assert project.subjects()[-1] == "1.3 Three"

    project.work(resolve, {"README": "one and two\n"})
    project.seal(resolve)
    assert project.reconcile(resolve)["state"] == "complete"
    assert project.files() == ["README", "three"]
    assert project.git("show", f"{project.branch()}:README") == "one and two"


def test_committed_conflict_markers_are_refused(project: Project) -> None:
    resolve = _conflict(project)
    assert "<<<<<<< " in Path(str(resolve["cwd"]), "README").read_text()
    project.git("commit", "-qam", "resolved, I say", cwd=str(resolve["cwd"]))
    said = project.seal(resolve, code=1)
    assert said.code == "conflict-markers"
    assert "README" in said.message


def test_unfinished_merge_is_not_sealed(project: Project) -> None:
    resolve = _conflict(project)
    assert project.seal(resolve, code=1).code in ("merge-in-progress", "uncommitted-changes")


def test_resolution_that_leaves_the_other_side_out_is_refused(project: Project) -> None:
    resolve = _conflict(project)
    project.git("merge", "--abort", cwd=str(resolve["cwd"]))
    project.work(resolve, {"README": "only mine\n"})
    assert project.seal(resolve, code=1).code == "not-descended"


def test_failed_resolution_is_tried_again_as_a_merge(project: Project) -> None:
    resolve = _conflict(project)
    again = project.reconcile(resolve, "failed")
    (second,) = again.of("resolve_merge")
    assert second["assignment"] == f"{CHANGE}/1.2@3"
    assert second["conflicts"] == ["README"]
    assert "<<<<<<< " in Path(second["cwd"], "README").read_text()
    project.work(second, {"README": "both\n"})
    project.seal(second)
    assert project.reconcile(second)["state"] == "complete"


def test_conflict_does_not_stop_the_others(project: Project) -> None:
    project.approve(FIVE)
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"), {"README": "one\n"})
    project.do(batch.dispatch("1.2"), {"README": "two\n"})
    for number in (3, 4, 5):
        project.do(batch.dispatch(f"1.{number}"))
    said = project.reconcile(batch.dispatch("1.1"))
    assert said.tickets() == ["1.2"]
    assert project.files() == ["README", "file-1.3", "file-1.4", "file-1.5"]


def test_neighbours_never_conflict_over_the_plan(project: Project) -> None:
    project.approve(FIVE)
    batch = project.actions(CHANGE)
    tasks = f"openspec/changes/{CHANGE}/tasks.md"
    for number in range(1, 6):
        ticked = FIVE.replace(f"- [ ] 1.{number}", f"- [x] 1.{number}")
        project.do(batch.dispatch(f"1.{number}"), {f"f{number}": "x", tasks: ticked})
    assert project.reconcile(batch.dispatch("1.1"))["state"] == "complete"


# --- what may be merged ------------------------------------------------------------------------


def test_commits_after_the_seal_are_left_out_and_named(project: Project) -> None:
    batch = project.actions(CHANGE)
    first = batch.dispatch("1.1")
    sealed = project.do(first)
    later = project.commit({"unsealed": "x"}, first["cwd"])
    said = project.reconcile(first)
    assert project.files() == ["README", "file-1.1"]
    assert project.git("rev-parse", f"{project.tip()}^2") == sealed["commit"]
    assert later[:7] in said.stderr + " ".join(said["warnings"])


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('"exit_code": 0', '"exit_code": 1', "predicate.checks[0].exit_code"),
        ('"ticket": "1.1"', '"ticket": "1.2"', "predicate.ticket"),
        ('"session": "s"', '"session": "t"', "predicate.session"),
    ],
)
def test_tampered_receipt_is_rejected_and_the_field_named(
    project: Project, old: str, new: str, field: str
) -> None:
    batch = project.actions(CHANGE, "--capacity", "1")
    project.do(batch.dispatch("1.1"))
    _alter(project, "receipt.json", old, new)
    before = project.tip()
    said = project.reconcile(batch.dispatch("1.1"))
    assert project.tip() == before
    (reason,) = said.of("blocked")
    assert reason["code"] == "receipt-rejected"
    assert field in reason["reason"]
    assert said.tickets() == ["1.2"], "an independent ticket goes on"


def test_receipt_that_is_cut_off_stops_only_its_ticket(project: Project) -> None:
    batch = project.actions(CHANGE, "--capacity", "1")
    project.do(batch.dispatch("1.1"))
    _alter(project, "receipt.json", None, "")
    said = project.reconcile(batch.dispatch("1.1"))
    assert [b["code"] for b in said.of("blocked")] == ["receipt-rejected"]
    assert said.tickets() == ["1.2"]
    for verb in (("status",), ("log",), ("show", "1.1"), ("list",), ("plan",)):
        project.baton(*verb)
    # A new seal heals it.
    project.baton("abandon", "1.1")
    again = project.actions("--capacity", "2").dispatch("1.1")
    project.do(again)
    project.reconcile(again)
    assert project.files() == ["README", "file-1.1"]


def test_receipt_of_somebody_elses_commit_is_rejected(project: Project) -> None:
    """A receipt written by hand, with a digest to match, speaks of a commit it was not made on."""
    batch = project.actions(CHANGE, "--capacity", "1")
    sealed = project.do(batch.dispatch("1.1"))
    evil = project.commit({"evil": "x"}, batch.dispatch("1.1")["cwd"])
    _alter(project, "receipt.json", sealed["commit"], evil)
    said = project.reconcile(batch.dispatch("1.1"))
    assert "evil" not in project.files()
    assert said.of("blocked")[0]["code"] == "receipt-rejected"


def _alter(project: Project, name: str, old: str | None, new: str) -> None:
    """Change a stored file of 1.1@1 behind git-baton's back, in the newest state commit; without
    ``old``, cut it off half way."""
    ref = f"refs/baton/runs/{CHANGE}"
    listed = project.git("ls-tree", "-r", "--name-only", ref).splitlines()
    (path,) = [p for p in listed if "/1.1/" in p and p.endswith(name)]
    text = project.git("show", f"{ref}:{path}")
    assert old is None or old in text
    beside = project.top.parent
    project.write(
        "altered", text[: len(text) // 2] if old is None else text.replace(old, new), beside
    )
    blob = project.git("hash-object", "-w", str(beside / "altered"))
    (beside / "altered").unlink()
    os.environ["GIT_INDEX_FILE"] = str(beside / "index")
    try:
        project.git("read-tree", ref)
        project.git("update-index", "--cacheinfo", f"100644,{blob},{path}")
        tree = project.git("write-tree")
    finally:
        del os.environ["GIT_INDEX_FILE"]
        (beside / "index").unlink()
    parents = project.git("log", "-1", "--format=%P", ref).split()
    flags = [word for parent in parents for word in ("-p", parent)]
    message = project.git("log", "-1", "--format=%B", ref)
    project.git("update-ref", ref, project.git("commit-tree", tree, *flags, "-m", message))


# --- the tip -----------------------------------------------------------------------------------


def test_worker_that_moves_the_integration_branch_gains_nothing(project: Project) -> None:
    batch = project.actions(CHANGE)
    first = batch.dispatch("1.1")
    project.do(first)
    recorded = project.tip()
    evil = project.commit({"evil": "x"}, first["cwd"])
    project.git("update-ref", project.branch(), evil, cwd=first["cwd"])

    said = project.reconcile(first)
    assert said["state"] == "waiting", "1.2 is still being worked on"
    (blocked,) = said.of("blocked")
    assert blocked["code"] == "foreign-commit"
    assert evil[:12] in blocked["reason"]
    assert "--accept" in blocked["hint"]
    assert not said.of("dispatch")
    assert project.state()["tip"] == recorded
    assert project.refused("land", "--partial").code == "foreign-commit"

    project.git("update-ref", project.branch(), recorded)
    project.actions()
    assert project.files() == ["README", "file-1.1"]


def test_sealed_work_behind_a_foreign_commit_needs_a_person(project: Project) -> None:
    batch = project.actions(CHANGE, "--capacity", "1")
    project.do(batch.dispatch("1.1"))
    recorded = project.tip()
    evil = project.commit({"evil": "x"}, batch.dispatch("1.1")["cwd"])
    project.git("update-ref", project.branch(), evil)
    said = project.reconcile(batch.dispatch("1.1"), code=3)
    assert (said["state"], said.code) == ("blocked", "foreign-commit")
    project.git("update-ref", project.branch(), recorded)
    assert project.actions().tickets() == ["1.2"]


def test_update_accept_checks_and_records_foreign_commits(project: Project) -> None:
    project.actions(CHANGE)
    there = project.top.parent / "there"
    project.git("worktree", "add", "-q", str(there), f"baton/{CHANGE}")
    mine = project.commit({"mine": "x"}, there)
    assert project.refused("update").code == "foreign-commit"

    accepted = project.baton("update", "--accept")
    assert (accepted["commit"], accepted["checked"]) == (mine, True)
    assert project.state()["tip"] == mine
    path = f"commits/{mine}.json"
    assert project.state(path)["subject"][0]["digest"]["gitCommit"] == mine
    project.git("worktree", "remove", str(there))


def test_update_accept_of_red_commits_is_refused(project: Project) -> None:
    project.actions(CHANGE)
    there = project.top.parent / "there"
    project.git("worktree", "add", "-q", str(there), f"baton/{CHANGE}")
    recorded = project.state()["tip"]
    project.commit({"broken": "x"}, there)
    said = project.baton("update", "--accept", code=1)
    assert said.code == "checks-failed"
    assert project.state()["tip"] == recorded
    project.git("reset", "-q", "--hard", recorded, cwd=there)


def test_rewound_integration_branch_is_not_accepted(project: Project) -> None:
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"))
    tip = project.tip()
    project.git("update-ref", project.branch(), project.base)
    said = project.actions()
    (blocked,) = said.of("blocked")
    assert blocked["code"] == "foreign-commit"
    assert f"behind the recorded {tip[:12]}" in blocked["reason"]
    assert "--accept" not in blocked["hint"]
    assert project.refused("update")["error"]["hint"] == blocked["hint"]
    doctor = project.baton("doctor", code=1)["checks"]
    assert [c["fix"] for c in doctor if c["name"] == f"run {CHANGE}"] == [blocked["hint"]]
    assert project.refused("update", "--accept").code in ("foreign-mutation", "foreign-commit")
    project.git(*shlex.split(blocked["hint"].split("`")[1])[1:])
    assert project.tip() == tip
    assert not project.actions().of("blocked")


def test_deleted_integration_branch_is_made_again(project: Project) -> None:
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"))
    project.git("update-ref", "-d", project.branch())
    project.reconcile(batch.dispatch("1.1"))
    assert project.files() == ["README", "file-1.1"]


def test_clean_checkout_of_the_integration_branch_moves_with_its_files(project: Project) -> None:
    batch = project.actions(CHANGE)
    there = project.top.parent / "there"
    project.git("worktree", "add", "-q", str(there), f"baton/{CHANGE}")
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"))
    assert (there / "file-1.1").read_text() == "done\n"
    assert project.git("status", "--porcelain", cwd=there) == ""
    assert project.git("rev-parse", "HEAD", cwd=there) == project.tip()


def test_dirty_checkout_of_the_integration_branch_blocks_until_it_is_clean(
    project: Project,
) -> None:
    batch = project.actions(CHANGE)
    there = project.top.parent / "there"
    project.git("worktree", "add", "-q", str(there), f"baton/{CHANGE}")
    project.do(batch.dispatch("1.1"), {"README": "changed\n"})
    project.write("README", "mine, not committed\n", there)
    before = project.tip()

    said = project.reconcile(batch.dispatch("1.1"))
    (blocked,) = said.of("blocked")
    assert blocked["code"] == "integration-checked-out"
    assert str(there) in blocked["reason"]
    assert project.tip() == before
    assert (there / "README").read_text() == "mine, not committed\n"

    project.git("checkout", "-q", "--", "README", cwd=there)
    project.actions()
    assert (there / "README").read_text() == "changed\n"
    assert project.git("status", "--porcelain", cwd=there) == ""


def test_unrelated_untracked_file_in_that_checkout_is_no_obstacle(project: Project) -> None:
    batch = project.actions(CHANGE)
    there = project.top.parent / "there"
    project.git("worktree", "add", "-q", str(there), f"baton/{CHANGE}")
    project.write("scratch", "keep me\n", there)
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"))
    assert (there / "scratch").read_text() == "keep me\n"
    assert (there / "file-1.1").exists()


def test_attributes_of_the_tip_govern_the_merge(project: Project) -> None:
    project.approve(TWO)
    project.commit({".gitattributes": "CHANGES merge=union\n", "CHANGES": "old\n"})
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"), {"CHANGES": "old\none\n"})
    project.do(batch.dispatch("1.2"), {"CHANGES": "old\ntwo\n"})
    assert project.reconcile(batch.dispatch("1.1"))["state"] == "complete"
    assert project.git("show", f"{project.branch()}:CHANGES") == "old\none\ntwo"


def test_checks_of_a_ticket_also_run_on_the_merged_tree(project: Project) -> None:
    own = "test ! -e a"
    project.approve(f'- [ ] 1.1 One\n- [ ] 1.2 Two <!-- baton: verify="{own}" -->\n')
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"), {"a": "x"})
    project.do(batch.dispatch("1.2"), {"b": "x"})
    blocked = project.reconcile(batch.dispatch("1.1"), code=3)
    assert blocked.code == "merged-checks-failed"
    assert project.files() == ["README", "a"]


def test_verify_merged_never_is_marked(project: Project) -> None:
    project.set("verifyMerged", "never")
    project.approve(TWO)
    batch = project.actions(CHANGE, "--verify", NOT_BOTH)
    project.do(batch.dispatch("1.1"), {"a": "x"})
    project.do(batch.dispatch("1.2"), {"b": "x"})
    assert project.reconcile(batch.dispatch("1.1"))["state"] == "complete"
    live = project.git("ls-tree", "-r", "--name-only", f"refs/baton/runs/{CHANGE}").splitlines()
    paths = [p for p in live if p.endswith("1.2/01/attempt.json")]
    assert project.state(paths[0]).get("tested_by") is None


def test_resolution_does_not_count_as_an_attempt(project: Project) -> None:
    project.set("maxAttempts", "1")
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"), {"README": "one\n"})
    project.do(batch.dispatch("1.2"), {"README": "two\n"})
    (resolve,) = project.reconcile(batch.dispatch("1.1")).of("resolve_merge")
    project.work(resolve, {"README": "both\n"})
    project.seal(resolve)
    assert project.reconcile(resolve)["state"] == "complete"


def test_resolution_that_conflicts_again_is_resolved_again(project: Project) -> None:
    project.approve(TWO + "- [ ] 1.3 Three\n")
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"), {"README": "one\n"})
    project.do(batch.dispatch("1.2"), {"README": "two\n"})
    (resolve,) = project.reconcile(batch.dispatch("1.1")).of("resolve_merge")
    project.do(batch.dispatch("1.3"), {"README": "three\n"})
    # both conflict now: 1.3 with the tip too
    said = project.reconcile(batch.dispatch("1.3"))
    (third,) = said.of("resolve_merge")
    project.work(third, {"README": "one three\n"})
    project.seal(third)
    project.reconcile(third)
    project.work(resolve, {"README": "one two\n"})
    project.seal(resolve)
    (again,) = project.reconcile(resolve).of("resolve_merge")
    assert again["assignment"].endswith("1.2@3")
    project.work(again, {"README": "one two three\n"})
    project.seal(again)
    assert project.reconcile(again)["state"] == "complete"
    assert project.git("show", f"{project.branch()}:README") == "one two three"


def test_conflicted_attempt_can_be_abandoned_instead(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"), {"README": "one\n"})
    project.do(batch.dispatch("1.2"), {"README": "two\n"})
    project.baton("pause", "--reason", "r")
    said = project.reconcile(batch.dispatch("1.1"), code=3)
    a = project.attempt("1.2@1")
    assert a["state"] == "blocked-review"
    assert a["relay"]["suggested_action"] == "resolve-or-abandon"
    project.baton("abandon", "1.2@1")
    project.baton("resume")
    said = project.actions()
    assert said.of("dispatch")[0]["assignment"].endswith("1.2@2")


def test_adopting_a_conflict_does_not_make_it_go_away(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"), {"README": "one\n"})
    project.do(batch.dispatch("1.2"), {"README": "two\n"})
    project.baton("pause", "--reason", "r")
    project.reconcile(batch.dispatch("1.1"), code=3)
    said = project.baton("adopt", "1.2@1")
    assert said["state"] == "blocked-review"


def test_integration_branch_in_the_main_checkout(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE, "--capacity", "1")
    project.git("switch", "-q", f"baton/{CHANGE}")
    project.do(batch.dispatch("1.1"))
    said = project.reconcile(batch.dispatch("1.1"), "completed", "--capacity", "1")
    assert said["revision"] == 1
    assert project.git("status", "--porcelain") == ""
    assert "- [x] 1.1" in (project.top / TASKS_MD).read_text()
    assert project.baton("status")["resolved_by_hand"] == []
    # edit there
    text = (project.top / TASKS_MD).read_text() + "- [ ] 1.3 Three\n"
    project.write(TASKS_MD, text)
    more = project.actions("--capacity", "3")
    assert more.tickets() == ["1.3"]
    assert project.git("status", "--porcelain") == ""
    project.do(said.dispatch("1.2"))
    project.do(more.dispatch("1.3"))
    assert project.actions()["state"] == "complete"
    assert project.git("status", "--porcelain") == ""
    assert project.baton("land")["onto"] == "trunk"


def test_person_who_commits_on_the_integration_branch(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE, "--capacity", "1")
    project.git("switch", "-q", f"baton/{CHANGE}")
    project.do(batch.dispatch("1.1"))
    project.commit({"fix": "x"})
    said = project.reconcile(batch.dispatch("1.1"), code=3)
    assert said.code == "foreign-commit"
    project.baton("update", "--accept")
    said = project.actions()
    assert said.tickets() == ["1.2"]
    assert sorted(project.files()) == ["README", "file-1.1", "fix"]
    assert project.git("status", "--porcelain") == ""


def test_untracked_file_in_the_way_is_not_overwritten(project: Project) -> None:
    batch = project.actions(CHANGE, "--capacity", "1")
    there = project.top.parent / "there"
    project.git("worktree", "add", "-q", str(there), f"baton/{CHANGE}")
    project.write("file-1.1", "mine\n", there)
    project.do(batch.dispatch("1.1"))
    said = project.reconcile(batch.dispatch("1.1"), code=3)
    assert said.code == "integration-checked-out"
    assert (there / "file-1.1").read_text() == "mine\n"
    (there / "file-1.1").unlink()
    project.actions()
    assert (there / "file-1.1").read_text() == "done\n"


def test_ignored_file_in_the_way_is_not_overwritten(project: Project) -> None:
    project.commit({".gitignore": "*.log\n"})
    batch = project.actions(CHANGE, "--capacity", "1")
    there = project.top.parent / "there"
    project.git("worktree", "add", "-q", str(there), f"baton/{CHANGE}")
    project.write("x.log", "mine\n", there)
    first = batch.dispatch("1.1")
    project.write("x.log", "theirs\n", first["cwd"])
    project.git("add", "-f", "x.log", cwd=first["cwd"])
    project.git("commit", "-qm", "x", cwd=first["cwd"])
    project.seal(first)
    said = project.reconcile(first, code=3)
    assert said.code == "integration-checked-out"
    assert (there / "x.log").read_text() == "mine\n"
    (there / "x.log").unlink()


def test_verify_merged_always_has_a_receipt_of_its_own(project: Project) -> None:
    project.set("verifyMerged", "always")
    first = project.actions(CHANGE, "--capacity", "1").dispatch("1.1")
    project.do(first)
    project.reconcile(first)
    assert project.baton("show", "1.1")["merged"] is not None


def test_deleted_here_and_changed_there(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.git("rm", "-q", "README", cwd=batch.dispatch("1.1")["cwd"])
    project.do(batch.dispatch("1.1"), {"x": "x"})
    project.do(batch.dispatch("1.2"), {"README": "new\n"})
    (r,) = project.reconcile(batch.dispatch("1.1")).of("resolve_merge")
    assert r["conflicts"] == ["README"]
    project.work(r, {"README": "new\n"})
    project.seal(r)
    assert project.reconcile(r)["state"] == "complete"


def test_file_here_and_folder_there(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"), {"a": "a file\n"})
    project.do(batch.dispatch("1.2"), {"a/b": "in a folder\n"})
    (resolve,) = project.reconcile(batch.dispatch("1.1")).of("resolve_merge")
    cwd = Path(resolve["cwd"])
    (kept,) = [p for p in cwd.iterdir() if p.name.startswith("a~")]
    kept.rename(cwd / "a/file")
    project.git("add", "--all", cwd=cwd)
    project.git("commit", "-qm", "both", cwd=cwd)
    project.seal(resolve)
    assert project.reconcile(resolve)["state"] == "complete"
    assert project.files() == ["README", "a/b", "a/file"]


def test_conflict_in_a_file_with_an_odd_name(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    name = 'a "b"\tü\n.txt'
    project.do(batch.dispatch("1.1"), {name: "x\n"})
    project.do(batch.dispatch("1.2"), {name: "y\n"})
    (r,) = project.reconcile(batch.dispatch("1.1")).of("resolve_merge")
    assert r["conflicts"] == [name]
    project.work(r, {name: "xy\n"})
    project.seal(r)
    assert project.reconcile(r)["state"] == "complete"


def test_merge_driver_that_fails_is_a_conflict(project: Project) -> None:
    project.approve(TWO)
    project.git("config", "merge.bad.driver", "false")
    project.commit({".gitattributes": "README merge=bad\n"})
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"), {"README": "one\n"})
    project.do(batch.dispatch("1.2"), {"README": "two\n"})
    (resolve,) = project.reconcile(batch.dispatch("1.1")).of("resolve_merge")
    project.work(resolve, {"README": "both\n"})
    project.seal(resolve)
    assert project.reconcile(resolve)["state"] == "complete"


def test_renamed_folder_takes_the_others_edits_along(project: Project) -> None:
    project.approve(TWO)
    project.commit({"src/a.txt": "".join(f"line {n}\n" for n in range(50))})
    batch = project.actions(CHANGE)
    cwd = batch.dispatch("1.1")["cwd"]
    project.git("mv", "src", "lib", cwd=cwd)
    project.do(batch.dispatch("1.1"), {})
    text = "".join(f"line {n}\n" for n in range(49)) + "edited\n"
    project.do(batch.dispatch("1.2"), {"src/a.txt": text})
    assert project.reconcile(batch.dispatch("1.1"))["state"] == "complete"
    assert project.files() == ["README", "lib/a.txt"]
    assert "edited" in project.git("show", f"{project.branch()}:lib/a.txt")


def _integration_lock(project: Project) -> Lock:
    """What another process holds while it integrates."""
    return Lock(project.top / f".git/baton/locks/integrate-{CHANGE}.lock")


def test_nothing_is_claimed_before_the_plan_is_on_the_branch(new_project: NewProject) -> None:
    project = new_project(tasks=None)
    project.plan(TWO)
    with _integration_lock(project):
        said = project.actions(CHANGE)
        assert (said["state"], said.tickets()) == ("waiting", [])
        assert said.of("wait")[0]["poll_after_seconds"]
    for dispatch in project.actions().of("dispatch"):
        assert Path(dispatch["cwd"], TASKS_MD).exists()


def test_who_finds_another_integrating_leaves_and_goes_on_claiming(project: Project) -> None:
    project.approve(TWO + "- [ ] 1.3 Three\n")
    batch = project.actions(CHANGE, "--capacity", "1")
    project.do(batch.dispatch("1.1"))
    with _integration_lock(project):
        said = project.reconcile(batch.dispatch("1.1"), "completed", "--capacity", "1")
        assert said.of("wait")[0]["poll_after_seconds"]
        more = project.actions("--capacity", "2")
        assert more.tickets() == ["1.2"]
    said = project.actions("--capacity", "1")
    assert project.files() == ["README", "file-1.1"]


def test_later_sections_wait_for_the_culprit(project: Project) -> None:
    """2.1 must not start while 1.2 is blocked."""
    batch = project.actions(CHANGE, "--verify", "test ! -e a || test ! -e b")
    project.do(batch.dispatch("1.1"), {"a": "x"})
    project.do(batch.dispatch("1.2"), {"b": "x"})
    said = project.reconcile(batch.dispatch("1.1"), code=3)
    assert said.tickets() == []


def test_branch_deleted_after_the_seal_loses_nothing(project: Project) -> None:
    first = project.actions(CHANGE, "--capacity", "1").dispatch("1.1")
    project.do(first)
    project.git("worktree", "remove", "--force", first["cwd"])
    project.git("branch", "-D", first["branch"])
    project.reconcile(first)
    assert project.files() == ["README", "file-1.1"]


def test_worker_that_merged_the_tip_itself(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"))
    cwd = batch.dispatch("1.2")["cwd"]
    project.git("merge", "-q", f"baton/{CHANGE}", cwd=cwd)
    project.do(batch.dispatch("1.2"))
    assert project.reconcile(batch.dispatch("1.2"))["state"] == "complete"


def test_other_checks_or_an_update_free_a_red_tip(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    stop = project.top.parent / "stop"
    for name in ("1.1", "1.2"):
        project.do(batch.dispatch(name))
    stop.touch()
    said = project.actions("--verify", f"test ! -e '{stop}'", code=3)
    assert said.code == "tip-red"
    hint = said["error"]["hint"]
    assert f"git baton resume {CHANGE}" in hint and f"actions {CHANGE} --verify" in hint

    assert project.baton("update")["moved"] is False
    assert project.baton("status")["halt"] is None
    assert project.actions(code=3).code == "tip-red"
    project.actions("--verify", "true")
    assert project.files() == ["README", "file-1.1", "file-1.2"]


def test_status_tells_of_a_foreign_commit(project: Project) -> None:
    project.actions(CHANGE)
    tree = project.git("rev-parse", f"{project.tip()}^{{tree}}")
    foreign = project.git("commit-tree", tree, "-p", project.tip(), "-m", "mine")
    tip = project.tip()
    project.git("update-ref", project.branch(), foreign)
    status = project.refused("status", code=0)
    assert (status["state"], status["halt"]["code"]) == ("blocked", "foreign-commit")
    assert "--accept" in status["halt"]["hint"]
    assert "--accept" in project.type("status").stdout
    project.git("update-ref", project.branch(), tip)
    assert project.baton("status")["halt"] is None


def test_receipt_of_a_merge_with_a_file_name_that_is_not_utf_8(project: Project) -> None:
    project.approve(TWO)
    project.commit({"tr\udce4ge": "x"})
    batch = project.actions(CHANGE)
    project.git("mv", "tr\udce4ge", "flink", cwd=batch.dispatch("1.2")["cwd"])
    project.do(batch.dispatch("1.1"))
    project.do(batch.dispatch("1.2"))
    assert project.reconcile(batch.dispatch("1.1"))["state"] == "complete"
