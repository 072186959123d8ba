"""What people and circumstances get wrong: one clear line, a status, and nothing changed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from .conftest import CHANGE, TASKS_MD, TWO, Project

START = ("actions", CHANGE, "--session", "s")


def _one_line(project: Project, *args: str, cwd: Path | None = None) -> str:
    """What people see of a refusal: one line, and one for what to do."""
    result = project.type(*args, cwd=cwd)
    lines = result.stderr.splitlines()
    assert result.exit_code != 0
    assert result.stdout == ""
    assert 1 <= len(lines) <= 2, lines
    assert lines[0].startswith("git-baton: ")
    assert len(lines) == 1 or lines[1].startswith("hint: ")
    return result.stderr


def test_no_repository(project: Project, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    assert project.baton(*START, cwd=outside, code=1).code == "no-repository"
    assert "repository" in _one_line(project, *START, cwd=outside)
    assert os.listdir(outside) == []


def test_no_commit(project: Project, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    subprocess.run(["git", "init", "-q", str(empty)], check=True)
    project.write(TASKS_MD, "- [ ] 1.1 One\n", empty)
    said = project.baton(*START, "--verify", "true", cwd=empty, code=1)
    assert said.code == "no-commit"
    assert project.git("for-each-ref", cwd=empty) == ""


def test_typing_error_in_the_change(project: Project) -> None:
    said = project.refused("actions", "ad-login", "--session", "s")
    assert said.code == "unknown-change"
    assert CHANGE in said["error"]["hint"]
    assert CHANGE in _one_line(project, "actions", "ad-login", "--session", "s")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("- [ ] 1.1 One\n- [ ] 1.2 Two <!-- baton: verfy=x -->\n", "tasks.md:2"),
        ("- [ ] 1.1 One (depends on 1.2)\n- [ ] 1.2 Two (depends on 1.1)\n", "tasks.md:"),
    ],
)
def test_broken_plan_names_the_line(project: Project, text: str, line: str) -> None:
    project.approve(text)
    said = project.refused(*START)
    assert line in said.message
    assert project.baton("plan", "--check", code=1)["errors"]


def test_empty_plan_names_the_headings(project: Project) -> None:
    project.approve("## Ideas\n\nNone yet.\n")
    said = project.refused(*START)
    assert said.code == "plan-empty"
    assert "Ideas" in said.message


def test_no_checks(project: Project) -> None:
    project.git("config", "--unset-all", "baton.verify")
    said = project.refused(*START)
    assert said.code == "no-checks"
    assert "--verify" in said["error"]["hint"]


def test_missing_identity(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = project.top.parent / "gitconfig"
    empty.write_text("[user]\n\tuseConfigOnly = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(empty))
    said = project.refused(*START)
    assert said.code == "no-identity"
    assert "user.name" in said["error"]["hint"]


def test_branch_named_baton(project: Project) -> None:
    project.git("branch", "baton")
    said = project.refused(*START)
    assert said.code == "branch-in-the-way"
    assert "baton.branchPrefix" in said["error"]["hint"]


def test_branch_of_that_name_that_is_somebodys(project: Project) -> None:
    project.git("switch", "-q", "-c", f"baton/{CHANGE}")
    project.commit({"mine": "x"})
    project.git("switch", "-q", "trunk")
    assert project.refused(*START).code == "branch-exists"


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_read_only_repository(project: Project) -> None:
    for folder, _, _ in os.walk(project.top / ".git"):
        os.chmod(folder, 0o555)
    try:
        said = project.refused(*START)
        assert said.code == "repository-read-only"
    finally:
        for folder, _, _ in os.walk(project.top / ".git"):
            os.chmod(folder, 0o755)


def test_missing_base(project: Project) -> None:
    said = project.refused(*START, "--base", "mian")
    assert said.code == "unknown-base"
    assert "--base" in said["error"]["hint"]


def test_checkout_is_no_folder(project: Project) -> None:
    project.write("plain-file", "x")
    project.set("worktreeDir", "plain-file/below")
    said = project.refused(*START)
    assert said.code == "worktree-dir-unwritable"


def test_archived_change_is_read_but_not_run(project: Project) -> None:
    archive = project.top / "openspec/changes/archive"
    archive.mkdir()
    (project.top / f"openspec/changes/{CHANGE}").rename(archive / f"2030-01-02-{CHANGE}")
    project.git("add", "--all")
    project.git("commit", "-qm", "archived")
    assert project.refused(*START).code == "change-archived"
    assert len(project.baton("plan", CHANGE)["tickets"]) == 3


@pytest.mark.parametrize(
    "args",
    [
        ("actions",),
        ("actions", CHANGE, "--session", "s", "--capacity", "0"),
        ("actions", CHANGE, "--session", "s", "--capacity", "65"),
        ("actions", CHANGE, "--session", "s", "--lease", "soon"),
        ("actions", CHANGE, "--session", "s", "--order", "random"),
        ("reconcile", "1.1@1", "--session", "s"),
        ("reconcile", "1.1@1", "--session", "s", "--outcome", "great"),
        ("pause",),
        ("reopen", "1.1"),
        ("bind", "1.1@1"),
        ("statsu",),
        ("status", "--no-such-option"),
        (),
    ],
)
def test_usage(project: Project, args: tuple[str, ...]) -> None:
    said = project.refused(*args, code=2)
    assert said.code in ("usage", "bad-duration", "bad-capacity")


@pytest.mark.parametrize("name", ["-x", "../evil", "a/b", "x.lock", "a..b", "", "a b", "ü"])
def test_ids_that_cannot_be(project: Project, name: str) -> None:
    project.refused("status", "--", name, code=None)
    said = project.refused("actions", "--session", "s", "--", name, code=None)
    assert said["ok"] is False
    assert said.code not in ("usage",)


@pytest.mark.parametrize("name", ["", "1.1@0", "1.1@x", "@1", "1.1@", "nope/1.1@1", f"{CHANGE}/"])
def test_assignments_that_cannot_be(project: Project, name: str) -> None:
    project.actions(CHANGE)
    for verb in ("show", "adopt", "abandon", "heartbeat", "seal", "verify"):
        said = project.refused(verb, name, code=None)
        assert said["ok"] is False, (verb, said)
    assert project.refused("reopen", name, "--reason", "r", code=None)["ok"] is False


def test_reconcile_of_what_never_was(project: Project) -> None:
    project.actions(CHANGE)
    words = ("reconcile", "1.1@9", "--outcome", "completed", "--session", "s")
    assert project.refused(*words).code == "unknown-attempt"


def test_outside_a_worktree_the_attempt_must_be_named(project: Project) -> None:
    project.actions(CHANGE)
    for verb in ("seal", "verify", "heartbeat", "show"):
        assert project.refused(verb, code=2).code == "which-attempt"


def test_setting_that_cannot_be_read(project: Project) -> None:
    project.set("maxActive", "lots")
    said = project.refused("status", CHANGE, code=2)
    assert said.code == "bad-setting"
    assert "baton.maxActive" in said.message


def test_check_is_shell_but_names_are_not(project: Project) -> None:
    """What a user passes is never put through a shell, except checks."""
    project.refused("status", "$(touch oops)", code=None)
    project.refused("plan", "--plan-from", "; touch oops", code=None)
    assert not (project.top / "oops").exists()


def test_revision_is_not_taken_for_an_option(project: Project) -> None:
    project.actions(CHANGE)
    for words in (
        ("land", "--partial", "--onto=--help"),
        ("actions", "--session", "s", "--plan-from=--upload-pack=x"),
    ):
        assert project.refused(*words, code=None)["ok"] is False


def test_newer_schema_is_refused_in_one_line(project: Project) -> None:
    project.actions(CHANGE)
    ref = f"refs/baton/runs/{CHANGE}"
    text = project.git("show", f"{ref}:run.json")
    newer = text.replace('"schema": 1', '"schema": 2').replace('"schema":1', '"schema":2')
    assert newer != text
    blob = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"],
        cwd=project.top,
        input=newer,
        text=True,
        capture_output=True,
        check=True,
    ).stdout.strip()
    listed = project.git("ls-tree", ref).splitlines()
    tree = subprocess.run(
        ["git", "mktree"],
        cwd=project.top,
        input="\n".join(
            f"100644 blob {blob}\trun.json" if line.endswith("\trun.json") else line
            for line in listed
        ),
        text=True,
        capture_output=True,
        check=True,
    ).stdout.strip()
    old = project.git("rev-parse", ref)
    commit = project.git("commit-tree", tree, "-p", old, "-m", "from the future")
    project.git("update-ref", ref, commit)
    said = project.refused("status")
    assert "newer git-baton" in said.message
    assert project.baton("list")["runs"][0]["state"] == "unreadable"
    project.git("update-ref", ref, old)


def test_sha256_repository_is_refused(project: Project, tmp_path: Path) -> None:
    other = tmp_path / "sha256"
    subprocess.run(["git", "init", "-q", "--object-format=sha256", str(other)], check=True)
    said = project.baton("status", cwd=other, code=1)
    assert "SHA-256" in said.message or "sha256" in said.message


def test_shallow_clone_is_refused_where_history_is_needed(project: Project) -> None:
    project.commit({"second": "x"})
    shallow = project.top.parent / "shallow"
    project.git("clone", "-q", "--depth=1", f"file://{project.top}", str(shallow))
    project.git("config", "baton.verify", "true", cwd=shallow)
    said = project.baton(*START, cwd=shallow, code=1)
    assert "shallow" in said.message
    assert project.git("for-each-ref", "refs/baton", "refs/heads/baton", cwd=shallow) == ""


def test_seal_and_verify_without_a_run(project: Project) -> None:
    for verb in ("seal", "verify", "heartbeat", "show"):
        assert project.refused(verb, "1.1", code=1).code in ("unknown-attempt", "no-run")


def test_unknown_agent_preset(project: Project) -> None:
    said = project.refused("run", "--agent", "clade", code=None)
    assert said["ok"] is False
    assert "claude" in said["error"]["hint"] + said.message


def test_branches_below_the_name(project: Project) -> None:
    project.plan(TWO, change="add")
    project.git("branch", "baton/add/x")
    said = project.refused("actions", "add", "--session", "s", code=1)
    assert said.code == "branch-in-the-way"
