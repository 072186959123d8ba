"""What is removed when work is over, and what never is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .conftest import CHANGE, TWO, Project


def _half(project: Project) -> tuple[Path, Path]:
    """1.1 integrated, 1.2 in flight; their worktrees."""
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"))
    return Path(batch.dispatch("1.1")["cwd"]), Path(batch.dispatch("1.2")["cwd"])


def test_complete_run_cleans_up_by_itself(project: Project) -> None:
    done = project.finish(project.actions(CHANGE))
    (complete,) = done.of("complete")
    assert [Path(p).name for p in complete["worktrees_removed"]] == ["1.1-a1", "1.2-a1", "2.1-a1"]
    assert complete["worktrees_skipped"] == []
    listed = project.git("worktree", "list", "--porcelain")
    assert "baton-attempt" not in listed
    assert project.git("for-each-ref", "refs/heads/baton-attempt") == ""
    assert not (project.top.parent / "repo.baton" / CHANGE).exists()


def test_cleanup_removes_finished_and_skips_leased(project: Project) -> None:
    finished, leased = _half(project)
    dry = project.refused("cleanup", "--dry-run", code=0)
    assert dry["dry_run"] is True
    assert dry["would_remove"] == [str(finished)]
    said = project.baton("cleanup")
    assert said["removed"] == [str(finished)]
    (skipped,) = said["skipped"]
    assert skipped["path"] == str(leased)
    assert "leased" in skipped["reason"]
    assert not finished.exists()
    assert leased.is_dir()


def test_cleanup_skips_dirty_worktrees(project: Project) -> None:
    finished, _ = _half(project)
    (finished / "notes.txt").write_text("worth keeping\n")
    said = project.baton("cleanup")
    reasons = {s["path"]: s["reason"] for s in said["skipped"]}
    assert said["removed"] == []
    assert str(finished) in reasons
    assert (finished / "notes.txt").read_text() == "worth keeping\n"


def test_dry_run_tells_what_the_run_does(project: Project) -> None:
    finished, _ = _half(project)
    (finished / "notes.txt").write_text("worth keeping\n")
    dry = project.baton("cleanup", "--dry-run")
    assert dry["would_remove"] == project.baton("cleanup")["removed"] == []


def test_cleanup_skips_commits_that_are_not_integrated(project: Project) -> None:
    finished, _ = _half(project)
    project.commit({"after": "the seal"}, finished)
    said = project.baton("cleanup")
    assert said["removed"] == []
    assert (finished / "after").exists()


def test_cleanup_keeps_work_of_a_failed_attempt(project: Project) -> None:
    batch = project.actions(CHANGE, "--capacity", "1")
    project.work(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"), "failed", "--capacity", "1")
    said = project.baton("cleanup")
    assert batch.dispatch("1.1")["cwd"] not in said["removed"]
    assert Path(batch.dispatch("1.1")["cwd"], "file-1.1").exists()


def test_cleanup_keeps_what_setup_made_out_of_the_question(project: Project) -> None:
    project.set("setup", "echo x > made-by-setup")
    finished, _ = _half(project)
    assert project.baton("cleanup")["removed"] == [str(finished)]


def test_cleanup_heals_directories_that_somebody_deleted(project: Project) -> None:
    finished, _ = _half(project)
    shutil.rmtree(finished)
    project.baton("cleanup")
    assert str(finished) not in project.git("worktree", "list", "--porcelain")
    assert project.git("for-each-ref", "refs/heads/baton-attempt/*/1.1-a1") == ""


def test_a_branch_that_outlived_its_worktree_goes_too(project: Project) -> None:
    """As after a kill between the two."""
    finished, _ = _half(project)
    project.git("worktree", "remove", "--force", str(finished))
    assert project.baton("cleanup")["removed"] == [str(finished)]
    branches = project.git(
        "for-each-ref", "--format=%(refname:lstrip=4)", "refs/heads/baton-attempt"
    )
    assert branches.split() == ["1.2-a1"]


def test_one_branch_that_is_locked_keeps_no_other(project: Project) -> None:
    batch = project.actions(CHANGE)
    for given in (batch.dispatch("1.1"), batch.dispatch("1.2")):
        project.do(given)
        project.reconcile(given)
    with (project.top / f".git/refs/heads/baton-attempt/{CHANGE}/1.1-a1.lock").open("w"):
        said = project.baton("cleanup")
    assert [Path(path).name for path in said["removed"]] == ["1.2-a1"]
    assert "lock" in next(s["reason"] for s in said["skipped"] if "1.1-a1" in s["path"])
    assert [Path(path).name for path in project.baton("cleanup")["removed"]] == ["1.1-a1"]


def test_cleanup_never_goes_by_a_names_prefix(project: Project) -> None:
    """Worktrees beside git-baton's that look like its own are somebody's."""
    finished, _ = _half(project)
    mine = finished.with_name("1.1-a1-mine")
    project.git("worktree", "add", "-q", "--detach", str(mine))
    stray = finished.with_name("1.1-a9")
    stray.mkdir()
    (stray / "keep").write_text("x")
    project.baton("cleanup", "--include-integration")
    assert (mine / "README").exists()
    assert (stray / "keep").exists()
    project.git("worktree", "remove", str(mine))


def test_include_integration_adds_resolutions_and_the_pool(project: Project) -> None:
    project.approve(TWO + "- [ ] 1.3 Three\n")
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"), {"README": "one\n"})
    project.do(batch.dispatch("1.2"), {"README": "two\n"})
    (resolve,) = project.reconcile(batch.dispatch("1.1")).of("resolve_merge")
    project.work(resolve, {"README": "both\n"})
    project.seal(resolve)
    project.reconcile(resolve)
    said = project.baton("cleanup")
    assert resolve["cwd"] not in said["removed"]
    said = project.baton("cleanup", "--include-integration")
    assert resolve["cwd"] in said["removed"]
    pool = [path for path in said["removed"] if "verify-" in path]
    assert pool
    assert not [path for path in said["removed"] if Path(path).exists()]
    # The pool comes back when it is needed.
    project.do(batch.dispatch("1.3"))
    assert project.reconcile(batch.dispatch("1.3"))["state"] == "complete"


def test_cleanup_of_an_id_that_never_ran_is_an_error(project: Project) -> None:
    project.actions(CHANGE)
    said = project.refused("cleanup", "ad-login")
    assert said.code == "unknown-run"
    assert CHANGE in said["error"]["hint"]


def test_deleted_worktree_of_a_live_attempt_blocks_nobody(project: Project) -> None:
    batch = project.actions(CHANGE)
    shutil.rmtree(batch.dispatch("1.1")["cwd"])
    project.do(batch.dispatch("1.2"))
    project.reconcile(batch.dispatch("1.2"))
    relay = project.attempt("1.1@1")["relay"]
    assert relay["worktree"]["exists"] is False
    assert relay["suggested_action"] == "await-expiry"
    again = project.reconcile(batch.dispatch("1.1"), "failed").dispatch("1.1")
    project.do(again)
    project.reconcile(again)
    assert project.files() == ["README", "file-1.1", "file-1.2"]


# --- delete ------------------------------------------------------------------------------------


def test_delete_removes_all_refs_of_a_landed_run(project: Project) -> None:
    project.finish(project.actions(CHANGE))
    assert project.refused("delete", CHANGE).code == "not-landed"
    project.baton("land")
    dry = project.refused("delete", CHANGE, "--dry-run", code=0)
    assert project.branch() in dry["would_remove"]
    project.baton("delete", CHANGE)
    assert project.git("for-each-ref", "--format=%(refname)") == "refs/heads/trunk"
    assert "baton" not in project.git("worktree", "list").replace("repo.baton/verify", "")
    assert project.refused("delete", CHANGE).code == "not-started"


def test_deleted_run_can_start_anew(project: Project) -> None:
    project.finish(project.actions(CHANGE))
    project.baton("delete", CHANGE, "--force")
    batch = project.actions(CHANGE)
    assert batch.dispatch("1.1")["attempt"] == 1
    assert project.finish(batch)["state"] == "complete"


def test_delete_does_not_lose_work_unasked(project: Project) -> None:
    project.finish(project.actions(CHANGE))
    project.baton("land")
    project.plan("- [ ] 3.1 More\n")
    more = project.actions().dispatch("3.1")
    project.work(more)
    before = project.picture()
    said = project.baton("delete", CHANGE, code=1)
    assert said.code in ("not-landed", "work-left")
    assert project.picture() == before


def test_delete_in_one_run_leaves_the_other(project: Project) -> None:
    project.plan(TWO, change="other")
    project.finish(project.actions(CHANGE))
    project.actions("other")
    project.baton("delete", CHANGE, "--force")
    assert [r["run"] for r in project.baton("list")["runs"]] == ["other"]
    assert project.baton("status", "other")["tickets"]["active"] == 2


def test_delete_leaves_a_branch_that_somebody_has_checked_out(project: Project) -> None:
    project.finish(project.actions(CHANGE))
    project.git("checkout", "-q", project.branch().removeprefix("refs/heads/"))
    said = project.refused("delete", CHANGE, "--force")
    assert said.code == "integration-checked-out"


def test_branches_and_folders_that_others_made_beside_those_of_attempts(project: Project) -> None:
    project.finish(project.actions(CHANGE))
    names = ("mine", "1.9-a1", "-a1", "1%2e1-a1", "deep/1.1-a1", "\udcff-a1")
    mine = [f"baton-attempt/{CHANGE}/{name}" for name in names]
    for branch in mine:
        project.git("update-ref", f"refs/heads/{branch}", "HEAD")
    (project.top / ".git" / "baton" / "attempts" / CHANGE / "mine").mkdir()
    assert project.baton("cleanup")["removed"] == []
    project.baton("delete", CHANGE, "--force")
    left = project.git("for-each-ref", "--format=%(refname:short)", "refs/heads/baton-attempt")
    assert left.split() == sorted(mine)


def test_a_branch_of_an_attempt_that_somebody_has_checked_out_stays(project: Project) -> None:
    finished, _ = _half(project)
    branch = project.git("symbolic-ref", "HEAD", cwd=finished)
    look = project.top.parent / "look"
    project.git("worktree", "add", "-q", "-f", str(look), branch.removeprefix("refs/heads/"))
    (skipped,) = [s for s in project.baton("cleanup")["skipped"] if s["path"] == str(finished)]
    assert skipped["reason"] == f"{branch} is checked out at {look}"
    assert project.git("status", "--porcelain", cwd=look) == ""
    assert project.refused("delete", CHANGE, "--force").code == "branch-checked-out"
    project.git("worktree", "remove", str(look))
    assert project.baton("delete", CHANGE, "--force")["removed"]
    assert project.git("for-each-ref", "refs/heads/baton-attempt") == ""


@pytest.mark.parametrize("words", ["cleanup", "land", "log", "pause --reason r", "delete"])
def test_change_that_never_ran_has_not_been_started(project: Project, words: str) -> None:
    verb, *options = words.split()
    said = project.refused(verb, CHANGE, *options)
    assert said.code == "not-started"
    assert f"git baton run {CHANGE}" in said["error"]["hint"]
