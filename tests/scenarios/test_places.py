"""Wherever a repository lies, whatever its branches are called, and from where one calls."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .conftest import CHANGE, CHECK, TWO, NewProject, Project


def _run_to_the_end(project: Project) -> None:
    assert project.finish(project.actions(CHANGE))["state"] == "complete"
    assert project.baton("land")["ok"]


@pytest.mark.parametrize(
    "name",
    ["with spaces", "it's $HOME", 'say "hi"', "back\\slash", "Ü–m🙂", "-n", "semi;colon&", "a\nb"],
)
def test_any_path(new_project: NewProject, name: str) -> None:
    project = new_project(name)
    _run_to_the_end(project)
    assert (project.top / "file-2.1").exists()


@pytest.mark.parametrize("base", ["master", "develop", "feature/x", "größe"])
def test_base_branch_is_detected(new_project: NewProject, base: str) -> None:
    project = new_project(base=base)
    _run_to_the_end(project)
    assert project.state()["base"]["ref"] == f"refs/heads/{base}"
    assert project.git("for-each-ref", "--format=%(refname)", "refs/heads/main") == ""


def test_base_option(project: Project) -> None:
    project.git("switch", "-q", "-c", "next")
    project.commit({"next": "x"})
    project.git("switch", "-q", "trunk")
    batch = project.actions(CHANGE, "--base", "next")
    assert Path(batch.dispatch("1.1")["cwd"], "next").exists()
    assert project.state()["base"]["ref"] == "refs/heads/next"


def test_detached_head_needs_a_base_only_when_it_cannot_be_told(project: Project) -> None:
    project.git("checkout", "-q", "--detach")
    assert project.actions(CHANGE)["state"] == "executing"
    assert project.state()["base"]["ref"] == "refs/heads/trunk"


def test_no_base_can_be_told(project: Project) -> None:
    project.git("branch", "other")
    project.git("checkout", "-q", "--detach")
    said = project.refused("actions", CHANGE, "--session", "s")
    assert said.code == "no-base"
    assert "--base" in said["error"]["hint"]


def test_from_any_directory(project: Project) -> None:
    below = project.top / "deep" / "down"
    below.mkdir(parents=True)
    project.cwd = below
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"))
    # Inside an attempt's worktree too.
    said = project.baton(
        *("reconcile", "1.1", "--outcome", "completed", "--session", "s"),
        cwd=batch.dispatch("1.2")["cwd"],
    )
    assert said["run"] == CHANGE
    assert project.baton("status", cwd=batch.dispatch("1.2")["cwd"])["run"] == CHANGE
    assert project.files() == ["README", "file-1.1"]


def test_start_in_a_linked_worktree_is_the_same_state(project: Project) -> None:
    linked = project.top.parent / "linked"
    project.git("worktree", "add", "-q", "-b", "work", str(linked))
    project.commit({"only-here": "x"}, linked)
    batch = project.actions(CHANGE, "--capacity", "1", cwd=linked)
    assert Path(batch.dispatch("1.1")["cwd"], "only-here").exists()
    assert project.state()["base"]["ref"] == "refs/heads/work"
    assert project.baton("status")["run"] == CHANGE, "seen from the main worktree"
    project.do(batch.dispatch("1.1"))
    assert project.reconcile(batch.dispatch("1.1")).tickets()
    assert (linked / ".git").is_file()
    assert project.git("status", "--porcelain", cwd=linked) == ""


def test_bare_repository(project: Project) -> None:
    bare = project.top.parent / "bare.git"
    project.git("clone", "-q", "--bare", str(project.top), str(bare))
    for key, value in (("baton.verify", CHECK), ("baton.fsync", "false")):
        project.git("config", key, value, cwd=bare)
    batch = project.actions(CHANGE, cwd=bare)
    assert batch.tickets() == ["1.1", "1.2"]
    for ticket in ("1.1", "1.2"):
        project.do(batch.dispatch(ticket))
    third = project.reconcile(batch.dispatch("1.1"), cwd=bare).dispatch("2.1")
    project.do(third)
    assert project.reconcile(third, cwd=bare)["state"] == "complete"
    assert project.baton("land", cwd=bare)["onto"] == "trunk"
    landed = project.git("ls-tree", "--name-only", "trunk", cwd=bare).split()
    assert "file-2.1" in landed


def test_bare_repository_with_worktrees(project: Project) -> None:
    bare = project.top.parent / "bare.git"
    project.git("clone", "-q", "--bare", str(project.top), str(bare))
    for key, value in (("baton.verify", CHECK), ("baton.fsync", "false")):
        project.git("config", key, value, cwd=bare)
    trunk = project.top.parent / "trunk"
    project.git("worktree", "add", "-q", str(trunk), "trunk", cwd=bare)
    batch = project.actions(CHANGE, "--capacity", "1", cwd=trunk)
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"), cwd=trunk)
    project.baton("land", "--partial", cwd=trunk)
    assert (trunk / "file-1.1").exists()


def test_openspec_in_a_subfolder(new_project: NewProject) -> None:
    project = new_project(tasks=None)
    project.plan(TWO, folder="apps/web/")
    project.commit({"apps/web/check.sh": "test -e package.json\n", "apps/web/package.json": "{}"})
    project.git("add", "--all")
    project.git("commit", "-qm", "a project")
    below = project.top / "apps/web/src"
    below.mkdir()
    batch = project.actions(CHANGE, "--verify", "sh check.sh", cwd=below)
    dispatch = batch.dispatch("1.1")
    project.do(dispatch)
    assert project.baton("verify", cwd=dispatch["cwd"])["ok"]
    project.do(batch.dispatch("1.2"))
    assert project.reconcile(dispatch)["state"] == "complete"
    assert project.tasks(folder="apps/web/") == TWO.replace("[ ]", "[x]")
    assert project.baton("plan", CHANGE)["boxes"]["tickets"] == 2


def test_project_option(new_project: NewProject) -> None:
    project = new_project(tasks=None)
    project.plan(TWO, folder="apps/web/")
    said = project.actions(CHANGE, "--project", "apps/web")
    assert said.tickets() == ["1.1", "1.2"]
    assert project.state()["target"]["project"] == "apps/web"


def test_two_projects_with_the_same_change_are_two_runs(new_project: NewProject) -> None:
    project = new_project(tasks=None)
    project.plan(TWO, folder="web/")
    project.plan("- [ ] 7.1 Other\n", folder="api/")
    project.git("add", "--all")
    project.git("commit", "-qm", "two projects")
    web = project.actions(CHANGE, "--project", "web")
    api = project.actions(CHANGE, "--project", "api")
    assert (web["run"], web.tickets()) == (CHANGE, ["1.1", "1.2"])
    assert (api["run"], api.tickets()) == (f"api.{CHANGE}", ["7.1"])
    assert [r["run"] for r in project.baton("list")["runs"]] == [CHANGE, f"api.{CHANGE}"]
    again = project.actions(CHANGE, cwd=project.top / "api")
    assert again["run"] == f"api.{CHANGE}", "from inside its folder the change is its own run"
    project.do(api.dispatch("7.1"))
    assert project.reconcile(api.dispatch("7.1"))["state"] == "complete"


def test_plan_that_is_only_on_another_branch_reaches_the_workers(new_project: NewProject) -> None:
    project = new_project(tasks=None)
    project.git("switch", "-q", "-c", "planning")
    project.approve(TWO)
    project.git("switch", "-q", "trunk")
    batch = project.actions(CHANGE, "--plan-from", "planning")
    there = Path(batch.dispatch("1.1")["cwd"], f"openspec/changes/{CHANGE}")
    assert (there / "tasks.md").read_text() == TWO
    assert (there / "proposal.md").exists()


def test_untracked_plan_reaches_the_workers(new_project: NewProject) -> None:
    project = new_project(tasks=None)
    project.plan(TWO)
    batch = project.actions(CHANGE)
    there = Path(batch.dispatch("1.1")["cwd"], f"openspec/changes/{CHANGE}")
    assert (there / "tasks.md").read_text() == TWO
    assert project.git("status", "--porcelain") == "?? openspec/", "the checkout is left alone"


def test_plan_on_the_base_branch_only(project: Project) -> None:
    """The checkout is on a branch without the change; the base has it."""
    project.git("switch", "-q", "--orphan", "website")
    project.commit({"index.html": "hi\n"})
    batch = project.actions(CHANGE, "--base", "trunk")
    assert batch.tickets() == ["1.1", "1.2"]
    project.git("switch", "-q", "trunk")


def test_git_dir_and_work_tree_are_honoured(project: Project, tmp_path: Path) -> None:
    env = {"GIT_DIR": str(project.top / ".git"), "GIT_WORK_TREE": str(project.top)}
    batch = project.actions(CHANGE, "--capacity", "1", cwd=tmp_path, env=env)
    assert batch.tickets() == ["1.1"]
    assert project.baton("status", cwd=tmp_path, env=env)["run"] == CHANGE


def test_calling_git_sets_git_dir_inside_a_worktree(project: Project) -> None:
    """`git -C DIR baton VERB` and aliases run with GIT_DIR set to the worktree's own."""
    batch = project.actions(CHANGE, "--capacity", "1")
    cwd = batch.dispatch("1.1")["cwd"]
    project.work(batch.dispatch("1.1"))
    env = {"GIT_DIR": project.git("rev-parse", "--absolute-git-dir", cwd=cwd)}
    assert project.baton("seal", cwd=cwd, env=env)["assignment"] == f"{CHANGE}/1.1@1"
    assert project.reconcile(batch.dispatch("1.1"), cwd=cwd, env=env)["run"] == CHANGE


def test_worktree_dir_and_branch_prefix_settings(project: Project) -> None:
    project.set("worktreeDir", "../else where")
    project.set("branchPrefix", "robots")
    batch = project.actions(CHANGE)
    first = batch.dispatch("1.1")
    assert first["branch"] == f"robots-attempt/{CHANGE}/1.1-a1"
    assert Path(first["cwd"]).is_relative_to(project.top.parent / "else where")
    project.do(first)
    project.reconcile(first)
    assert project.git("rev-parse", f"refs/heads/robots/{CHANGE}")


def test_worktree_dir_inside_the_repository_is_no_dirt(project: Project) -> None:
    project.set("worktreeDir", ".worktrees")
    project.commit({".gitignore": ".worktrees/\n"})
    _run_to_the_end(project)
    assert project.git("status", "--porcelain") == ""


def test_moved_repository_goes_on(new_project: NewProject) -> None:
    """State lies in the repository: a copy of it carries the run along."""
    project = new_project("old")
    batch = project.actions(CHANGE, "--capacity", "1")
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"), "completed", "--capacity", "1")
    copy = project.top.parent / "copy"
    project.git("clone", "-q", "--mirror", str(project.top), str(copy))
    status = project.baton("status", CHANGE, cwd=copy)
    assert status["tickets"]["resolved"] == 1
    shutil.rmtree(copy)


def test_run_is_found_without_its_name(project: Project) -> None:
    assert project.actions()["run"] == CHANGE
    assert project.baton("status")["run"] == CHANGE
    project.plan(TWO, change="other")
    project.actions("other")
    said = project.refused("status", code=2)
    assert CHANGE in said["error"]["hint"] and "other" in said["error"]["hint"]


def test_several_changes_are_listed(project: Project) -> None:
    project.plan(TWO, change="other")
    said = project.refused("actions", "--session", "s", code=2)
    assert CHANGE in said["error"]["hint"] and "other" in said["error"]["hint"]


def test_ticket_keys_of_every_kind(project: Project) -> None:
    project.approve(
        "## Tasks\n\n- [ ] T001 One\n- [ ] T002 Two\n- [ ] BUG-7 Three\n- [ ] A.1 Four\n"
    )
    done = project.finish(project.actions(CHANGE))
    assert done["state"] == "complete"
    assert done.of("complete")[0]["resolved"] == ["T001", "T002", "BUG-7", "A.1"]


def test_keyless_and_duplicate_boxes_are_tickets_too(project: Project) -> None:
    project.approve("- [ ] no key\n- [ ] 1.1 One\n- [ ] 1.1 The same again\n* [ ] no key\n")
    done = project.finish(project.actions(CHANGE))
    assert done["state"] == "complete"
    assert len(done.of("complete")[0]["resolved"]) == 4
    assert "[ ]" not in project.tasks()


def test_crlf_and_bom_survive(project: Project) -> None:
    path = project.top / f"openspec/changes/{CHANGE}/tasks.md"
    raw = "\ufeff".encode() + b"- [ ] 1.1 One\r\n- [ ] 1.2 Two"
    path.write_bytes(raw)
    project.git("commit", "-qam", "as it comes")
    project.finish(project.actions(CHANGE))
    project.baton("land")
    assert path.read_bytes() == raw.replace(b"[ ]", b"[x]")


def test_through_a_symbolic_link(project: Project) -> None:
    link = project.top.parent / "link"
    link.symlink_to(project.top)
    project.cwd = link
    batch = project.actions(CHANGE, "--capacity", "1")
    project.do(batch.dispatch("1.1"))
    other = project.top.parent / "wt"
    other.symlink_to(batch.dispatch("1.1")["cwd"])
    assert project.baton("verify", cwd=other)["assignment"].endswith("1.1@1")
    assert project.reconcile(batch.dispatch("1.1")).tickets()


def test_inside_a_submodule(project: Project) -> None:
    sup = project.top.parent / "super"
    project.git("init", "-q", str(sup))
    project.git(
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        str(project.top),
        "sub",
        cwd=sup,
    )
    sub = sup / "sub"
    project.git("config", "baton.verify", CHECK, cwd=sub)
    batch = project.actions(CHANGE, "--capacity", "1", cwd=sub)
    project.do(batch.dispatch("1.1"))
    assert project.reconcile(batch.dispatch("1.1"), cwd=sub).tickets()
    project.baton("land", "--partial", cwd=sub)
    assert (sub / "file-1.1").exists()


def test_settings_of_one_call(project: Project) -> None:
    env = {"GIT_CONFIG_PARAMETERS": "'baton.capacity'='1'"}
    assert len(project.actions(CHANGE, env=env).tickets()) == 1
    env = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "baton.capacity", "GIT_CONFIG_VALUE_0": "2"}
    assert len(project.actions(env=env).tickets()) == 1


def test_included_settings(project: Project) -> None:
    project.write("../inc", "[baton]\n\tcapacity = 1\n")
    project.git("config", "include.path", "../../inc")
    assert len(project.actions(CHANGE).tickets()) == 1


def test_base_may_be_a_remote_tracking_branch(project: Project) -> None:
    clone = project.top.parent / "clone"
    project.git("clone", "-q", str(project.top), str(clone))
    project.git("config", "baton.verify", CHECK, cwd=clone)
    batch = project.actions(CHANGE, "--base", "origin/trunk", "--capacity", "1", cwd=clone)
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"), cwd=clone)
    project.commit({"mine": "x"})
    project.git("fetch", "-q", cwd=clone)
    project.baton("update", cwd=clone)
    said = project.baton("land", "--partial", cwd=clone, code=1)
    assert said.code == "unknown-target"
    project.baton("land", "--partial", "--onto", "trunk", cwd=clone)


def test_range_keys(project: Project) -> None:
    project.approve("- [ ] T01..T21 Many\n- [ ] T22 One\n- [ ] T23/T24 Two\n")
    done = project.finish(project.actions(CHANGE))
    assert done["state"] == "complete"
    first, *_ = done.of("complete")[0]["resolved"]
    assert first == "T01-T21"
    assert project.baton("show", first)["assignment"] == f"{CHANGE}/T01-T21@1"
    assert "[ ]" not in project.tasks()


def test_long_title(project: Project) -> None:
    project.approve("- [ ] 1.1 " + "x" * 5000 + "\n")
    d = project.actions(CHANGE).dispatch("1.1")
    project.do(d)
    assert project.reconcile(d)["state"] == "complete"


def test_long_key(project: Project) -> None:
    key = "1." + ".".join(str(n) for n in range(1, 60))
    project.approve(f"- [ ] {key} long\n")
    assert project.finish(project.actions(CHANGE))["state"] == "complete"


def test_two_runs_side_by_side(project: Project) -> None:
    project.plan(TWO, change="other")
    a = project.actions(CHANGE)
    b = project.actions("other")
    project.do(a.dispatch("1.1"))
    project.do(b.dispatch("1.1"), {"q": "x"})
    project.reconcile(a.dispatch("1.1"))
    project.reconcile(b.dispatch("1.1"))
    assert project.files() == ["README", "file-1.1"]
    assert project.files("refs/heads/baton/other") == ["README", "q"]


def test_base_branch_renamed_meanwhile(project: Project) -> None:
    batch = project.actions(CHANGE, "--capacity", "1")
    project.git("branch", "-m", "trunk", "main")
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"))
    said = project.refused("update")
    assert said.code == "missing-base"
    said = project.refused("land", "--partial")
    project.baton("land", "--partial", "--onto", "main")


def test_worktree_dir_changed_meanwhile(project: Project) -> None:
    """worktreeDir changed while running"""
    batch = project.actions(CHANGE, "--capacity", "1")
    project.git("config", "baton.worktreeDir", "../new place")
    more = project.actions("--capacity", "2")
    assert "new place" in more.dispatch("1.2")["cwd"]
    project.do(batch.dispatch("1.1"))
    project.do(more.dispatch("1.2"))
    last = project.actions().dispatch("2.1")
    project.do(last)
    done = project.reconcile(last)
    assert done["state"] == "complete"
    assert done.of("complete")[0]["worktrees_skipped"] == []
    assert "baton-attempt" not in project.git("worktree", "list")


def test_branch_prefix_changed_meanwhile(project: Project) -> None:
    batch = project.actions(CHANGE, "--capacity", "1")
    project.git("config", "baton.branchPrefix", "robots")
    project.do(batch.dispatch("1.1"))
    batch = project.reconcile(batch.dispatch("1.1"), "completed", "--capacity", "1")
    assert project.files() == ["README", "file-1.1"]
    done = project.finish(batch)
    assert done["state"] == "complete"
    assert done.of("complete")[0]["branch"] == f"baton/{CHANGE}"
    project.baton("land")
    project.baton("delete", CHANGE)
    assert project.git("for-each-ref", "--format=%(refname)") == "refs/heads/trunk"


def test_a_folder_of_somebody_else_where_a_worktree_belongs(project: Project) -> None:
    place = project.top.with_name("repo.baton") / CHANGE / "1.1-a1"
    (place / "mine").mkdir(parents=True)
    said = project.actions(CHANGE, code=1)
    assert said.code == "directory-exists"
    assert str(place) in said.message and "baton.worktreeDir" in said["error"]["hint"]
    assert (place / "mine").exists()
    place.rename(place.with_name("moved away"))
    assert project.actions(CHANGE).dispatch("1.1")["attempt"] == 1
