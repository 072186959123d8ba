"""Failures that users of comparable tools reported, each as a thing that must not happen here.

Those that another module shows already (broken together, markers, tampering, clocks, tricks of
workers) are not repeated.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gitbaton.engine import advance, dispatch, prepare
from gitbaton.git import worktree

from .conftest import CHANGE, TWO, Json, Project, Said


class Killed(BaseException):
    """What a kill looks like from inside."""


def _killed_at(monkeypatch: pytest.MonkeyPatch, module: object, name: str) -> Callable[[], None]:
    """Let the next call of a function be the last thing the process does; undo with the result."""

    def die(*_: Any, **__: Any) -> Any:
        raise Killed

    original = getattr(module, name)
    monkeypatch.setattr(module, name, die)
    return lambda: monkeypatch.setattr(module, name, original)


def _dies(project: Project, *args: str) -> None:
    with pytest.raises(Killed):
        result = project.type(*args, "--json")
        if result.exception is not None:
            raise result.exception


# --- done without being done -------------------------------------------------------------------


def test_merge_gate_that_cannot_run_is_not_green(project: Project, tmp_path: Path) -> None:
    """The checks of the merged tree cannot start: that is no pass."""
    program = tmp_path / "check-program"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    project.approve(TWO)
    batch = project.actions(CHANGE, "--verify", f"'{program}'")
    project.do(batch.dispatch("1.1"))
    project.do(batch.dispatch("1.2"))
    program.unlink()
    said = project.reconcile(batch.dispatch("1.1"), code=3)
    assert said["state"] == "blocked"
    assert project.files() == ["README"]


def test_lines_that_look_different_are_work_all_the_same(project: Project) -> None:
    text = "* [ ] star\n+ [ ] plus\n1. [ ] number\n\t- [ ] tab\n-[ ] no space\n- [] empty\n"
    project.approve(text)
    plan = project.baton("plan")
    assert plan["boxes"]["total"] == 6
    done = project.finish(project.actions(CHANGE, "--capacity", "9"))
    assert done["state"] == "complete"
    assert "[ ]" not in project.tasks() and "[]" not in project.tasks()


def test_merged_work_is_not_dispatched_again(project: Project) -> None:
    """The branch went on after the merge: merged is judged by ancestry."""
    project.finish(project.actions(CHANGE))
    project.baton("land")
    project.commit({"later": "x"})
    project.baton("update")
    again = project.actions()
    assert (again["state"], again.tickets()) == ("complete", [])


# --- stuck -------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["carry_out", "_make"])
def test_killed_while_claiming(
    project: Project, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Claims without a packet, and hours of waiting."""
    heal = _killed_at(monkeypatch, prepare, where)
    _dies(project, "actions", CHANGE, "--session", "s")
    heal()
    said = project.actions("--redeliver")
    assert said.tickets() == ["1.1", "1.2"]
    assert [d["attempt"] for d in said.of("dispatch")] == [1, 1]
    assert project.finish(said)["state"] == "complete"


def test_killed_before_the_answer_was_printed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    heal = _killed_at(monkeypatch, dispatch, "compose")
    _dies(project, "actions", CHANGE, "--session", "s")
    heal()
    waiting = project.actions()
    assert waiting.of("wait")[0]["undelivered"] == [f"{CHANGE}/1.1@1", f"{CHANGE}/1.2@1"]
    assert project.finish(project.actions("--redeliver"))["state"] == "complete"


def test_killed_with_a_half_made_worktree(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = worktree.add

    def half(repo: Any, path: Path, *args: Any, **options: Any) -> None:
        original(repo, path, *args, **options)
        (path / "README").unlink()
        (project.top / ".git/worktrees" / path.name / "locked").write_text("initializing")
        raise Killed

    monkeypatch.setattr(worktree, "add", half)
    _dies(project, "actions", CHANGE, "--session", "s")
    monkeypatch.setattr(worktree, "add", original)
    said = project.actions("--redeliver")
    assert Path(said.dispatch("1.1")["cwd"], "README").exists()
    assert project.finish(said)["state"] == "complete"


@pytest.mark.parametrize("where", ["_move_branch", "finish"])
def test_killed_while_merging(
    project: Project, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Every later call refused until somebody ran git by hand; or a box that is never ticked."""
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"))
    heal = _killed_at(monkeypatch, advance, where)
    _dies(project, "reconcile", "1.1", "--outcome", "completed", "--session", "s")
    heal()
    assert project.baton("status")["run"] == CHANGE
    project.actions()
    assert project.subjects() == ["1.1 Write the first file"]
    assert "- [x] 1.1" in project.tasks()
    assert project.attempt("1.1@1")["state"] == "succeeded"
    shown = project.git("log", "-1", "--notes=baton/*", project.tip())
    assert "Notes" in shown


@pytest.mark.parametrize("where", ["_move_branch", "finish"])
def test_killed_while_landing(
    project: Project, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    project.finish(project.actions(CHANGE))
    project.commit({"mine": "x"})
    heal = _killed_at(monkeypatch, advance, where)
    _dies(project, "land")
    heal()
    project.baton("land")
    assert sorted(project.files("trunk")) == ["README", "file-1.1", "file-1.2", "file-2.1", "mine"]
    assert project.git("status", "--porcelain") == ""
    merges = project.git("rev-list", "--merges", "--first-parent", f"{project.base}..trunk")
    assert len(merges.split()) == 1, "landed once"


def test_integration_worktree_deleted_by_hand(project: Project) -> None:
    batch = project.actions(CHANGE)
    there = project.top.parent / "there"
    project.git("worktree", "add", "-q", str(there), f"baton/{CHANGE}")
    shutil.rmtree(there)
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"))
    assert project.files() == ["README", "file-1.1"]
    project.git("worktree", "prune")


def test_verification_worktree_deleted_by_hand(project: Project) -> None:
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"))
    for slot in (project.top.parent / "repo.baton").glob("verify-*"):
        shutil.rmtree(slot)
    project.do(batch.dispatch("1.2"))
    assert project.reconcile(batch.dispatch("1.2")).tickets() == ["2.1"]


def test_full_disk_while_preparing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Space comes back: the run goes on, however often it was tried before."""
    original = worktree.add

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(project.top))

    monkeypatch.setattr(worktree, "add", full)
    project.approve("- [ ] 1.1 One\n")
    for _ in range(4):
        assert project.actions(CHANGE, code=1).code == "disk-full"
    monkeypatch.setattr(worktree, "add", original)
    batch = project.actions("--redeliver")
    assert batch.dispatch("1.1")["attempt"] == 1
    assert project.finish(batch)["state"] == "complete"


def test_lock_files_mean_nothing_by_themselves(project: Project) -> None:
    """A lock that names a dead process, or is empty, is no lock."""
    locks = project.top / ".git/baton/locks"
    locks.mkdir(parents=True)
    for name in ("state.lock", f"integrate-{CHANGE}.lock", "verify-1.lock"):
        (locks / name).write_text("pid 1\n")
    assert project.finish(project.actions(CHANGE))["state"] == "complete"


def test_leftover_lock_of_the_run_ref_is_removed_with_a_warning(project: Project) -> None:
    project.actions(CHANGE)
    lock = project.top / f".git/refs/baton/runs/{CHANGE}.lock"
    lock.touch()
    said = project.baton("pause", "--reason", "r")
    assert not lock.exists()
    assert said["ok"]


def test_notes_that_disagree_brick_nothing(project: Project) -> None:
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"))
    ref = f"refs/notes/baton/{CHANGE}"
    project.git("update-ref", ref, project.base)
    project.reconcile(batch.dispatch("1.1"))
    assert project.files() == ["README", "file-1.1"]
    project.baton("notes", "rebuild")
    assert "Notes" in project.git("log", "-1", "--notes=baton/*", project.tip())
    project.git("update-ref", "-d", ref)
    for verb in (("status",), ("log",), ("show", "1.1"), ("list",)):
        project.baton(*verb)
    project.baton("notes", "rebuild")
    assert "Notes" in project.git("log", "-1", "--notes=baton/*", project.tip())


def test_notes_ref_that_is_garbage_bricks_nothing(project: Project) -> None:
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"))
    path = project.top / f".git/refs/notes/baton/{CHANGE}"
    path.write_text("garbage\n")
    project.reconcile(batch.dispatch("1.1"))
    project.baton("status")
    project.baton("notes", "rebuild")
    assert "Notes" in project.git("log", "-1", "--notes=baton/*", project.tip())


def test_attempt_directory_deleted_by_hand(project: Project) -> None:
    batch = project.actions(CHANGE)
    shutil.rmtree(project.top / ".git/baton")
    for verb in (("status",), ("log",), ("show", "1.1"), ("list",)):
        project.baton(*verb)
    token = batch.dispatch("1.1")["token"]
    project.work(batch.dispatch("1.1"))
    project.baton("seal", f"{CHANGE}/1.1@1", "--token", token)
    project.reconcile(batch.dispatch("1.1"))
    assert project.files() == ["README", "file-1.1"]


# --- lost or twice -----------------------------------------------------------------------------


def _processes(project: Project, *commands: tuple[str, ...]) -> list[Said]:
    """Run commands at the same time, each in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "gitbaton", *words, "--json"],
            cwd=project.top,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for words in commands
    ]
    said = []
    for process in started:
        out, err = process.communicate(timeout=120)
        assert "Traceback" not in err
        said.append(Said(json.loads(out)))
        assert said[-1]["ok"], (out, err)
    return said


def test_one_session_in_four_processes_is_handed_nothing_twice(project: Project) -> None:
    project.approve("".join(f"- [ ] 1.{n} T\n" for n in range(1, 7)))
    batches = _processes(project, *[("actions", CHANGE, "--session", "s", "--capacity", "6")] * 4)
    tickets = [ticket for batch in batches for ticket in batch.tickets()]
    assert sorted(tickets) == [f"1.{n}" for n in range(1, 7)]


def test_loser_of_a_race_takes_the_next_ticket(project: Project) -> None:
    project.approve("".join(f"- [ ] 1.{n} T\n" for n in range(1, 5)))
    batches = _processes(
        project,
        *[("actions", CHANGE, "--session", f"s{n}", "--capacity", "1") for n in range(4)],
    )
    assert sorted(t for b in batches for t in b.tickets()) == ["1.1", "1.2", "1.3", "1.4"]


def test_concurrent_reconciles_of_one_assignment_agree(project: Project) -> None:
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"))
    words = ("reconcile", "1.1@1", "--outcome", "completed", "--session", "s")
    _processes(project, words, words, words)
    project.actions()
    assert project.subjects() == ["1.1 Write the first file"]


def test_gc_prunes_nothing_that_the_state_names(project: Project) -> None:
    batch = project.actions(CHANGE, "--capacity", "1")
    project.do(batch.dispatch("1.1"))
    project.baton("abandon", "1.1@1", "--force")
    cwd = batch.dispatch("1.1")["cwd"]
    project.git("worktree", "remove", "--force", cwd)
    project.git("branch", "-D", batch.dispatch("1.1")["branch"])
    for log in ("--expire=now",):
        project.git("reflog", "expire", log, "--all")
    project.git("gc", "-q", "--prune=now")
    project.git("pack-refs", "--all")
    assert project.baton("adopt", "1.1@1")["state"] == "succeeded"
    assert project.files() == ["README", "file-1.1"]


def test_clone_carries_everything_the_state_names(project: Project) -> None:
    batch = project.actions(CHANGE, "--capacity", "1")
    sealed = project.do(batch.dispatch("1.1"))
    clone = project.top.parent / "clone"
    project.git("init", "-q", str(clone))
    project.git("fetch", "-q", str(project.top), "refs/baton/*:refs/baton/*", cwd=clone)
    assert project.git("cat-file", "-t", sealed["commit"], cwd=clone) == "commit"


def test_repacking_while_working_hurts_nobody(project: Project) -> None:
    batch = project.actions(CHANGE)
    project.git("pack-refs", "--all", "--prune")
    project.do(batch.dispatch("1.1"))
    project.git("gc", "-q")
    batch = project.reconcile(batch.dispatch("1.1"))
    project.git("pack-refs", "--all", "--prune")
    assert project.baton("status")["tickets"]["resolved"] == 1


# --- unfriendly --------------------------------------------------------------------------------


def test_state_is_not_in_the_working_tree(project: Project) -> None:
    batch = project.actions(CHANGE)
    assert project.git("status", "--porcelain", "--ignored") == ""
    project.git("clean", "-q", "-f", "-d", "-x")
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"))
    assert project.baton("status")["tickets"]["resolved"] == 1


def test_users_checkout_is_never_written(project: Project) -> None:
    head = project.git("rev-parse", "HEAD")
    project.write("README", "being edited\n")
    project.finish(project.actions(CHANGE))
    assert project.git("status", "--porcelain") == "M README".rjust(9)
    assert project.git("rev-parse", "HEAD") == head
    assert project.git("branch", "--show-current") == "trunk"


def test_remote_need_not_be_called_origin(project: Project) -> None:
    remote = project.top.parent / "remote.git"
    project.git("clone", "-q", "--bare", str(project.top), str(remote))
    project.git("remote", "add", "upstream", str(remote))
    project.baton("init")
    fetched = project.git("config", "--get-all", "remote.upstream.fetch")
    assert "refs/baton-remote/upstream/" in fetched
    assert project.git("config", "--get-all", "notes.displayRef")
    assert project.refused("init", code=0)["changes"] == []


def test_plain_fetch_overwrites_no_local_state(project: Project) -> None:
    remote = project.top.parent / "remote.git"
    project.git("clone", "-q", "--bare", str(project.top), str(remote))
    project.git("remote", "add", "upstream", str(remote))
    project.baton("init")
    batch = project.actions(CHANGE)
    project.git("push", "-q", "upstream", "refs/baton/*:refs/baton/*")
    project.do(batch.dispatch("1.1"))
    mine = project.git("rev-parse", f"refs/baton/runs/{CHANGE}")
    project.git("fetch", "-q", "--prune", "upstream")
    assert project.git("rev-parse", f"refs/baton/runs/{CHANGE}") == mine
    project.reconcile(batch.dispatch("1.1"))


def test_hooks_of_the_user_do_not_stop_the_loop(project: Project) -> None:
    hooks = project.top / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "pre-commit", "commit-msg", "post-merge", "pre-merge-commit"):
        hook = hooks / name
        hook.write_text("#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)
    batch = project.actions(CHANGE)
    assert batch.tickets() == ["1.1", "1.2"]
    first: Json = batch.dispatch("1.1")
    project.write("file", "x", first["cwd"])
    project.git("add", "file", cwd=first["cwd"])
    project.git("commit", "-q", "--no-verify", "-m", "work", cwd=first["cwd"])
    project.seal(first)
    project.reconcile(first)
    assert project.files() == ["README", "file"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("merge.ff", "only"),
        ("merge.renames", "false"),
        ("core.autocrlf", "true"),
        ("commit.template", "/nowhere"),
        ("status.showUntrackedFiles", "no"),
        ("core.quotePath", "false"),
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("color.ui", "always"),
        ("init.defaultRefFormat", "files"),
        ("gc.worktreePruneExpire", "now"),
        ("merge.conflictStyle", "diff3"),
        ("core.fsmonitor", "true"),
        ("core.hooksPath", "/nowhere"),
        ("fetch.prune", "true"),
        ("extensions.worktreeConfig", "true"),
    ],
)
def test_settings_of_the_user_do_no_harm(project: Project, key: str, value: str) -> None:
    project.git("config", key, value)
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"), {"README": "one\n"})
    project.write("stray", "x", batch.dispatch("1.2")["cwd"])
    assert project.seal(batch.dispatch("1.2"), code=1).code == "uncommitted-changes"
    project.do(batch.dispatch("1.2"), {"README": "two\n", "stray": "x"})
    (resolve,) = project.reconcile(batch.dispatch("1.1")).of("resolve_merge")
    project.work(resolve, {"README": "both\n"})
    project.seal(resolve)
    assert project.reconcile(resolve)["state"] == "complete"
