"""What a seal needs, what it proves, and what a worker cannot gain by tricks."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from .conftest import CHANGE, TASKS_MD, Json, Project


@pytest.fixture
def first(project: Project) -> Json:
    """The dispatch of 1.1."""
    return project.actions(CHANGE, "--capacity", "1").dispatch("1.1")


def test_verify_and_seal_need_no_arguments_in_the_worktree(project: Project, first: Json) -> None:
    commit = project.work(first)
    verified = project.baton("verify", cwd=first["cwd"])
    assert verified["assignment"] == first["assignment"]
    assert [c["exit_code"] for c in verified["checks"]] == [0]
    sealed = project.baton("seal", cwd=first["cwd"])
    assert sealed["assignment"] == first["assignment"]
    assert (sealed["commit"], sealed["changed_files"]) == (commit, ["file-1.1"])
    assert (sealed["signed"], sealed["sealed_in"]) == (False, "verification-worktree")
    assert project.attempt("1.1@1")["state"] == "sealed"


def test_verify_works_from_a_folder_of_the_worktree(project: Project, first: Json) -> None:
    project.work(first, {"deep/er/file": "x"})
    below = Path(first["cwd"], "deep/er")
    assert project.baton("verify", cwd=below)["assignment"] == first["assignment"]
    assert project.baton("seal", cwd=below)["changed_files"] == ["deep/er/file"]


def test_red_verify_is_a_no_with_the_results(project: Project, first: Json) -> None:
    project.work(first, {"broken": "x"})
    said = project.baton("verify", cwd=first["cwd"], code=1)
    assert said.code == "checks-failed"
    assert said["assignment"] == first["assignment"]
    assert [c["exit_code"] for c in said["checks"]] == [1]
    assert project.attempt("1.1@1")["state"] == "running"


def test_red_seal_records_nothing(project: Project, first: Json) -> None:
    project.work(first, {"broken": "x"})
    assert project.seal(first, code=1).code == "checks-failed"
    assert project.attempt("1.1@1")["receipt_sha256"] is None


def test_sealing_the_same_commit_twice_is_idempotent(project: Project, first: Json) -> None:
    once = project.do(first)
    generation = project.state()["generation"]
    assert project.seal(first) == once
    assert project.state()["generation"] == generation


def test_another_commit_replaces_the_receipt(project: Project, first: Json) -> None:
    project.do(first)
    project.work(first, {"more": "x"})
    again = project.seal(first)
    assert again["changed_files"] == ["file-1.1", "more"]
    project.reconcile(first)
    assert project.files() == ["README", "file-1.1", "more"]


def test_uncommitted_changes_are_refused(project: Project, first: Json) -> None:
    project.work(first)
    project.write("stray", "x", first["cwd"])
    said = project.seal(first, code=1)
    assert said.code == "uncommitted-changes"
    assert "stray" in said.message


def test_nothing_committed_is_refused_but_an_empty_commit_says_so(
    project: Project, first: Json
) -> None:
    said = project.seal(first, code=1)
    assert said.code == "nothing-committed"
    assert "--allow-empty" in said["error"]["hint"]
    project.git("commit", "-q", "--allow-empty", "-m", "Nothing to do", cwd=first["cwd"])
    assert project.seal(first)["changed_files"] == []
    project.reconcile(first)
    assert project.subjects() == ["1.1 Write the first file"]


def test_wrong_branch_is_refused(project: Project, first: Json) -> None:
    project.git("switch", "-q", "-c", "my-own", cwd=first["cwd"])
    project.work(first)
    assert project.seal(first, code=1).code == "wrong-branch"


def test_branch_that_left_its_base_is_refused(project: Project, first: Json) -> None:
    project.git("commit", "-q", "--amend", "-m", "rewritten", cwd=first["cwd"])
    assert project.seal(first, code=1).code == "not-descended"


def test_paths_limit_what_a_ticket_may_change(project: Project) -> None:
    project.approve('- [ ] 1.1 One <!-- baton: paths="src/** tests/**" -->\n')
    first = project.actions(CHANGE).dispatch("1.1")
    project.work(first, {"src/a": "x", "docs/b": "x"})
    said = project.seal(first, code=1)
    assert said.code == "outside-allowed-paths"
    assert "docs/b" in said.message
    project.git("rm", "-q", "docs/b", cwd=first["cwd"])
    project.git("commit", "-qm", "only sources", cwd=first["cwd"])
    assert project.seal(first)["changed_files"] == ["src/a"]


def test_check_that_is_not_found_is_a_failure(project: Project) -> None:
    first = project.actions(CHANGE, "--verify", "no-such-program --all").dispatch("1.1")
    project.work(first)
    said = project.seal(first, code=1)
    assert said.code == "checks-failed"
    assert said["checks"][0]["exit_code"] == 127


def test_no_tests_collected_is_a_failure(project: Project) -> None:
    first = project.actions(CHANGE, "--verify", "exit 5").dispatch("1.1")
    project.work(first)
    assert project.seal(first, code=1)["checks"][0]["exit_code"] == 5


def test_check_that_takes_too_long_is_killed_and_red(project: Project) -> None:
    project.set("checkTimeout", "1")
    first = project.actions(CHANGE, "--verify", "sleep 60 & sleep 60").dispatch("1.1")
    project.work(first)
    said = project.seal(first, code=1)
    assert said.code == "checks-failed"
    assert said["checks"][0]["exit_code"] != 0


def test_all_checks_of_run_and_ticket_must_be_green(project: Project) -> None:
    project.approve('- [ ] 1.1 One <!-- baton: verify="test -e wanted" -->\n')
    first = project.actions(CHANGE).dispatch("1.1")
    project.work(first)
    said = project.seal(first, code=1)
    assert [(c["command"], c["exit_code"]) for c in said["checks"]] == [
        ("test ! -e broken", 0),
        ("test -e wanted", 1),
    ]


def test_followups_and_findings_are_kept(project: Project, first: Json) -> None:
    project.work(first)
    project.seal(first, "--followup", "add a third file", "--finding", "README has no title")
    shown = project.baton("show", "1.1")["receipt"]["predicate"]
    assert shown["followups"] == ["add a third file"]
    assert shown["findings"] == ["README has no title"]
    notes = project.baton("status")["followups"]
    assert {(n["kind"], n["text"]) for n in notes} == {
        ("followup", "add a third file"),
        ("finding", "README has no title"),
    }


def test_work_outlives_its_worktree(project: Project, first: Json) -> None:
    project.work(first)
    project.git("worktree", "remove", "--force", first["cwd"])
    said = project.baton("seal", "1.1")
    assert said["changed_files"] == ["file-1.1"]
    project.reconcile(first)
    assert project.files() == ["README", "file-1.1"]


# --- tricks ------------------------------------------------------------------------------------


def test_ticks_texts_and_directives_of_a_worker_are_put_back(project: Project, first: Json) -> None:
    text = Path(first["cwd"], TASKS_MD).read_text()
    forged = text.replace("[ ]", "[x]").replace("2.1 Write", '2.1 <!-- baton: verify="true" --> Do')
    project.work(first, {"file-1.1": "x", TASKS_MD: forged})
    project.seal(first)
    said = project.reconcile(first)
    assert project.tasks() == text.replace("- [ ] 1.1", "- [x] 1.1")
    assert TASKS_MD in said.stderr
    assert said.tickets() == ["1.2"]
    assert project.state("plan.json")["revision"] == 1


def test_worker_that_deletes_the_plan_gains_nothing(project: Project, first: Json) -> None:
    before = project.tasks()
    project.git("rm", "-q", TASKS_MD, cwd=first["cwd"])
    project.do(first)
    assert project.reconcile(first).tickets() == ["1.2"]
    assert project.tasks() == before.replace("- [ ] 1.1", "- [x] 1.1")


def test_protected_paths_are_refused(project: Project) -> None:
    project.commit({"check.sh": "test ! -e broken\n"})
    project.set("protectPaths", "check.sh")
    first = project.actions(CHANGE, "--verify", "sh check.sh").dispatch("1.1")
    project.work(first, {"broken": "x", "check.sh": "exit 0\n"})
    said = project.seal(first, code=1)
    assert said.code == "protected-path"
    assert "check.sh" in said.message


def test_hidden_edits_prove_nothing(project: Project) -> None:
    project.commit({"check.sh": "test ! -e broken\n"})
    first = project.actions(CHANGE, "--verify", "sh check.sh").dispatch("1.1")
    for flag in ("--assume-unchanged", "--skip-worktree"):
        project.git("update-index", flag, "check.sh", cwd=first["cwd"])
        project.write("check.sh", "exit 0\n", first["cwd"])
        project.commit({"broken": "x"}, first["cwd"])
        said = project.seal(first, code=1)
        assert said.code in ("uncommitted-changes", "checks-failed"), flag
        assert project.attempt("1.1@1")["receipt_sha256"] is None
        project.git("update-index", f"--no-{flag[2:]}", "check.sh", cwd=first["cwd"])
        project.git("checkout", "-q", "check.sh", cwd=first["cwd"])


def test_files_that_the_commit_does_not_hold_prove_nothing(project: Project) -> None:
    project.commit({".gitignore": "*.ignored\n"})
    first = project.actions(CHANGE, "--verify", "test -e proof.ignored").dispatch("1.1")
    project.work(first)
    project.write("proof.ignored", "x", first["cwd"])
    project.baton("verify", cwd=first["cwd"])
    assert project.seal(first, code=1).code == "checks-failed"


def test_leftovers_of_an_earlier_check_prove_nothing(project: Project) -> None:
    """The verification worktrees are reused; what a check leaves there is gone at the next."""
    project.approve("- [ ] 1.1 One\n- [ ] 1.2 Two\n")
    check = "if test -e leave; then touch left-over .hidden; fi; test -e leave || test -e left-over"
    batch = project.actions(CHANGE, "--verify", check)
    project.do(batch.dispatch("1.1"), {"leave": "x"})
    project.work(batch.dispatch("1.2"))
    assert project.seal(batch.dispatch("1.2"), code=1).code == "checks-failed"


def test_check_cannot_change_the_commit_it_judges(project: Project) -> None:
    first = project.actions(
        CHANGE, "--capacity", "1", "--verify", "echo changed > README; git add -A"
    ).dispatch("1.1")
    project.work(first)
    said = project.seal(first, code=1)
    assert said.code == "changed-while-sealing"
    assert said["paths"] == ["README"]
    assert project.git("status", "--porcelain", cwd=first["cwd"]) == ""
    assert project.attempt("1.1@1")["state"] != "sealed"


def test_attributes_that_no_commit_holds_integrate_nothing(project: Project, first: Json) -> None:
    project.do(first)
    attributes = project.top / ".git" / "info" / "attributes"
    attributes.write_text("* merge=ours\n")
    said = project.reconcile(first, code=1)
    assert said.code == "untracked-attributes"
    attributes.unlink()
    project.reconcile(first)
    assert "file-1.1" in project.files()


def test_worker_cannot_tick_the_main_checkouts_boxes_for_free(
    project: Project, first: Json
) -> None:
    """A box ticked in the main checkout is a person's: shown as such, never as evidence."""
    tasks = project.top / TASKS_MD
    tasks.write_text(tasks.read_text().replace("[ ] 2.1", "[x] 2.1"))
    project.do(first)
    said = project.reconcile(first)
    assert project.baton("status")["resolved_by_hand"] == ["2.1"]
    assert said["revision"] == 2


def test_git_environment_of_the_caller_does_not_reach_the_checks(project: Project) -> None:
    check = 'test -z "$GIT_DIR$GIT_INDEX_FILE$GIT_WORK_TREE"'
    first = project.actions(CHANGE, "--verify", check).dispatch("1.1")
    project.work(first)
    git_dir = project.git("rev-parse", "--absolute-git-dir", cwd=first["cwd"])
    env = {"GIT_DIR": git_dir, "GIT_WORK_TREE": first["cwd"]}
    said = project.baton("seal", first["assignment"], cwd=first["cwd"], env=env)
    assert said["checks"][0]["exit_code"] == 0


def test_seal_in_the_worktree_is_marked_and_does_not_cover_the_merge(project: Project) -> None:
    project.set("sealIn", "worktree")
    first = project.actions(CHANGE, "--capacity", "1").dispatch("1.1")
    assert project.do(first)["sealed_in"] == "worktree"
    project.reconcile(first)
    shown = project.baton("show", "1.1")
    assert shown["receipt"]["predicate"]["sealed_in"] == "worktree"
    assert shown["merged"]["predicate"]["sealed_in"] == "verification-worktree"


def test_wrong_token_is_refused(project: Project, first: Json) -> None:
    project.work(first)
    said = project.seal(first, "--token", "guessed", code=1)
    assert said.code == "stale-token"
    assert project.baton("heartbeat", "1.1", "--token", "guessed", code=1).code == "lease-lost"
    env = {"BATON_TOKEN": "guessed"}
    assert project.baton("seal", "1.1", env=env, code=1).code == "stale-token"
    assert project.seal(first, "--token", first["token"])["ok"]


def test_token_is_readable_by_its_owner_only(project: Project, first: Json) -> None:
    token = Path(first["packet"]).with_name("token")
    assert token.stat().st_mode & 0o077 == 0
    assert token.read_text().strip() == first["token"]
    secret = first["token"]
    assert secret not in project.git("log", "-p", f"refs/baton/runs/{CHANGE}")
    assert os.path.isdir(first["cwd"])


# --- preparation -------------------------------------------------------------------------------


def test_setup_and_copy_prepare_worktrees_and_are_no_dirt(project: Project) -> None:
    project.write(".env", "SECRET=1\n")
    project.set("copy", ".env")
    project.set("setup", "mkdir -p packages && echo installed > packages/list")
    project.commit({".gitignore": ".env\n"})
    check = "test -e .env && test -e packages/list"
    first = project.actions(CHANGE, "--capacity", "1", "--verify", check).dispatch("1.1")
    assert Path(first["cwd"], ".env").read_text() == "SECRET=1\n"
    assert Path(first["cwd"], "packages/list").is_file()
    project.commit({"file": "x"}, first["cwd"])
    assert project.seal(first)["changed_files"] == ["file"]
    project.reconcile(first)
    assert project.files() == [".gitignore", "README", "file"]


def test_what_setup_made_must_not_be_committed(project: Project) -> None:
    project.set("setup", "mkdir -p packages && echo installed > packages/list")
    first = project.actions(CHANGE).dispatch("1.1")
    project.git("add", "--all", cwd=first["cwd"])
    project.git("commit", "-qm", "everything", cwd=first["cwd"])
    assert project.seal(first, code=1).code == "prepared-file-committed"


def test_failing_setup_is_retried_up_to_the_limit_and_shown(project: Project) -> None:
    project.approve("- [ ] 1.1 One\n")
    project.set("setup", "echo no network; exit 7")
    said = project.actions(CHANGE)
    (recover,) = said.of("recover")
    assert (recover["ticket"], recover["reason"]) == ("1.1", "setup-failed")
    assert recover["next"] == "retry"
    assert not said.of("dispatch")
    project.actions()
    last = project.actions(code=3)
    assert last.code == "attempts-exhausted"
    attempts = project.baton("status", "--all")["attempts"]
    assert [a["attempt"] for a in attempts] == [1, 2, 3]
    assert {a["failure"]["code"] for a in attempts} == {"setup-failed"}

    project.git("config", "--unset-all", "baton.setup")
    project.baton("reopen", "1.1", "--reason", "the network is back")
    assert project.actions().dispatch("1.1")["attempt"] == 4


def test_failing_setup_tells_its_output(project: Project) -> None:
    project.approve("- [ ] 1.1 One\n")
    project.set("setup", "printf 'no %s' network; exit 7")
    project.actions(CHANGE)
    failure = project.attempt("1.1@1")["failure"]
    assert failure["code"] == "setup-failed"
    assert "no network" in failure["message"]


def test_setup_runs_in_the_verification_worktree_too(project: Project) -> None:
    project.set("setup", "touch made-by-setup")
    first = project.actions(CHANGE, "--verify", "test -e made-by-setup").dispatch("1.1")
    assert project.do(first)["ok"]


@pytest.mark.parametrize("check", ["", "  "])
def test_empty_check_is_no_check(project: Project, check: str) -> None:
    project.git("config", "--unset-all", "baton.verify")
    said = project.refused("actions", CHANGE, "--session", "s", "--verify", check, code=None)
    assert said["ok"] is False


def test_empty_check_in_the_settings_is_no_check(project: Project) -> None:
    project.git("config", "baton.verify", " ")
    said = project.refused("actions", CHANGE, "--session", "s", code=None)
    assert said["ok"] is False


def test_modes_and_links_are_integrated_as_committed(project: Project) -> None:
    first = project.actions(CHANGE, "--capacity", "1").dispatch("1.1")
    tool = project.write("tool", "#!/bin/sh\n", first["cwd"])
    tool.chmod(0o755)
    os.symlink("tool", Path(first["cwd"], "ln"))
    project.git("add", "-A", cwd=first["cwd"])
    project.git("commit", "-qm", "x", cwd=first["cwd"])
    project.seal(first)
    project.reconcile(first)
    modes = project.git("ls-tree", project.branch(), "tool", "ln").split()
    assert "100755" in modes and "120000" in modes


def test_file_name_that_is_not_utf_8(project: Project) -> None:
    first = project.actions(CHANGE, "--capacity", "1").dispatch("1.1")
    with open(os.path.join(first["cwd"].encode(), b"caf\xe9"), "w") as f:
        f.write("x")
    project.git("add", "-A", cwd=first["cwd"])
    project.git("commit", "-qm", "x", cwd=first["cwd"])
    project.seal(first)
    project.reconcile(first)
    assert project.baton("status")["tickets"]["resolved"] == 1


def test_receipt_keeps_the_end_of_a_long_output(project: Project) -> None:
    first = project.actions(CHANGE, "--verify", "yes | head -c 3000000").dispatch("1.1")
    project.work(first)
    said = project.seal(first)
    assert len(said["checks"][0]["output_tail"]) <= 2000


def test_check_that_reads_its_input_ends(project: Project) -> None:
    first = project.actions(CHANGE, "--verify", "cat").dispatch("1.1")
    project.work(first)
    project.seal(first)


def test_check_that_leaves_a_process_behind_ends(project: Project) -> None:
    first = project.actions(CHANGE, "--verify", "sleep 30 & true").dispatch("1.1")
    project.work(first)
    t = time.monotonic()
    project.seal(first)
    assert time.monotonic() - t < 10
    project.do(first, {"b": "x"})


def test_followups_of_a_replaced_receipt_are_replaced(project: Project) -> None:
    first = project.actions(CHANGE, "--capacity", "1").dispatch("1.1")
    project.work(first)
    project.seal(first, "--followup", "a")
    project.work(first, {"z": "x"})
    project.seal(first, "--followup", "b")
    assert [n["text"] for n in project.baton("status")["followups"]] == ["b"]
    project.reconcile(first)
    assert [n["text"] for n in project.baton("status")["followups"]] == ["b"]
    shown = project.type("status").stdout
    assert "b" in shown


def test_without_any_token_nothing_is_sealed(project: Project) -> None:
    first = project.actions(CHANGE, "--capacity", "1").dispatch("1.1")
    Path(first["packet"]).with_name("token").unlink()
    assert project.refused("seal", cwd=first["cwd"]).code == "no-token"


def test_token_from_the_environment(project: Project) -> None:
    """token given, no attempt dir"""
    first = project.actions(CHANGE, "--capacity", "1").dispatch("1.1")
    project.work(first)
    for f in Path(first["packet"]).parent.iterdir():
        if f.is_file():
            f.unlink()
    said = project.baton("seal", cwd=first["cwd"], env={"BATON_TOKEN": first["token"]})
    assert said["commit"]


def test_paths_judge_the_workers_own_changes_when_the_tip_was_merged_in(project: Project) -> None:
    project.approve('- [ ] 1.1 One\n- [ ] 1.2 Two <!-- baton: paths="two/**" -->\n')
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"))
    cwd = batch.dispatch("1.2")["cwd"]
    project.git("merge", "-q", f"baton/{CHANGE}", cwd=cwd)
    project.do(batch.dispatch("1.2"), {"two/x": "x"})
    assert project.reconcile(batch.dispatch("1.2"))["state"] == "complete"
