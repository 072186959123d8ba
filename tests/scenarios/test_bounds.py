"""What a worker cannot do to others: undo their work, or change what judges its own."""

from __future__ import annotations

import pytest

from .conftest import CHANGE, TWO, Json, Project


def _merge_ours(project: Project, cwd: str) -> None:
    project.git("merge", "-q", "-s", "ours", "--no-edit", project.branch(), cwd=cwd)


def test_merge_that_drops_what_others_did_does_not_land(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    one, two = batch.dispatch("1.1"), batch.dispatch("1.2")
    project.do(one, {"README": "one\n", "one": "x"})
    project.reconcile(one)
    project.work(two, {"two": "x"})
    _merge_ours(project, two["cwd"])
    project.seal(two)

    said = project.reconcile(two, code=3)
    assert said.code == "reverts-others"
    assert "README, one" in said.message
    assert project.files() == ["README", "one"]


def test_resolution_that_drops_what_others_did_does_not_land(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"), {"README": "one\n", "one": "x"})
    project.do(batch.dispatch("1.2"), {"README": "two\n"})
    resolve = project.reconcile(batch.dispatch("1.1")).dispatch("1.2")
    project.git("checkout", "-q", "--theirs", "README", cwd=resolve["cwd"])
    project.git("rm", "-qf", "one", cwd=resolve["cwd"])
    project.git("commit", "-qam", "mine is better", cwd=resolve["cwd"])
    project.seal(resolve)
    assert project.reconcile(resolve, code=3).code == "reverts-others"
    assert project.files() == ["README", "one"]


def test_merge_that_undoes_a_protected_path_does_not_land(project: Project) -> None:
    project.approve(TWO)
    project.set("protectPaths", "guard")
    batch = project.actions(CHANGE)
    two = batch.dispatch("1.2")
    there = project.top.parent / "there"
    project.git("worktree", "add", "-q", str(there), project.branch().removeprefix("refs/heads/"))
    project.commit({"guard": "on\n"}, there)
    project.git("checkout", "-q", "--detach", cwd=there)
    project.baton("update", "--accept")
    project.work(two, {"two": "x"})
    _merge_ours(project, two["cwd"])
    project.seal(two)
    (blocked,) = project.reconcile(two).of("blocked")
    assert blocked["code"] == "protected-path"
    assert "guard" in project.files()


# --- steering is for who is outside ------------------------------------------------------------


@pytest.fixture
def first(project: Project) -> Json:
    return project.actions(CHANGE, "--capacity", "1").dispatch("1.1")


@pytest.mark.parametrize(
    "words",
    [
        ("actions", CHANGE, "--session", "s", "--verify", "true"),
        ("abandon", "1.1@1", "--force"),
        ("reopen", "1.1", "--reason", "r"),
        ("delete", CHANGE, "--force"),
        ("update", "--accept"),
        ("land", "--partial"),
    ],
)
def test_worker_does_not_steer_its_run(
    project: Project, first: Json, words: tuple[str, ...]
) -> None:
    said = project.refused(*words, cwd=first["cwd"])
    assert said.code == "inside-attempt"
    assert said["error"]["hint"]
    env = {"BATON_TOKEN": first["token"]}
    assert project.refused(*words, env=env).code == "inside-attempt"


def test_log_tells_which_checks_were_replaced(project: Project, first: Json) -> None:
    project.actions("--verify", "true")
    (event,) = (e for e in project.baton("log")["events"] if e["event"] == "configure")
    assert event["message"] == "checks: `test ! -e broken`, now `true`"
