"""What doctor repairs, that it says so, and that it leaves alone what somebody may want."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gitbaton.git import process, worktree
from gitbaton.git.opening import open_repository
from gitbaton.lock import Lock

from .batches import QUEUE, add, open_root
from .conftest import CHANGE, Json, Project

Checks = dict[str, Json]


def found(project: Project, *args: str, code: int | None = None) -> Checks:
    """The checks that say something: what is wrong, what was repaired."""
    checks = project.baton("doctor", *args, code=code)["checks"]
    assert all(check["fix"] for check in checks if not check["ok"])
    return {c["name"]: c for c in checks if not c["ok"] or c["fixed"]}


def repaired(project: Project, name: str) -> str:
    """Doctor names a problem and the repair, repairs it, and has nothing to do afterwards."""
    before = found(project)
    assert not before[name]["ok"], before
    assert before[name]["fix"].startswith("git baton doctor --fix")
    done = found(project, "--fix")
    assert done[name]["ok"] and done[name]["fixed"], done
    assert name not in found(project)
    assert name not in found(project, "--fix")
    return str(done[name]["message"])


def old(*paths: Path) -> None:
    for path in paths:
        os.utime(path, (1, 1))


@pytest.fixture
def system_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that no other test uses."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def baton_dir(project: Project) -> Path:
    return project.top / ".git" / "baton"


# --- worktrees ---------------------------------------------------------------------------------


def abandoned(project: Project) -> Path:
    """The worktree of an attempt that is over."""
    given = project.actions(CHANGE, "--capacity", "1").dispatch("1.1")
    project.baton("abandon", "1.1@1", "--force")
    return Path(given["cwd"])


@pytest.mark.parametrize("reason", worktree.INTERRUPTED)
def test_a_half_made_worktree(project: Project, reason: str) -> None:
    top = abandoned(project)
    record = worktree.registered(open_repository(project.top))[top].git_dir
    (record / "locked").write_text(reason)
    assert "removed the rest of it" in repaired(project, "worktrees")
    assert not top.exists()
    assert not record.exists()


def test_a_half_made_worktree_of_an_attempt_that_somebody_waits_for(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = process.git

    def killed(args: Sequence[str], *rest: Any, **options: Any) -> Any:
        if "read-tree" in args and str(rest[0]).endswith("1.1-a1"):
            raise KeyboardInterrupt
        return git(args, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(process, "git", killed)
        project.type("actions", CHANGE, "--capacity", "1", "--session", "s")
    message = found(project)["worktrees"]
    assert "half made" in message["message"]
    assert f"git baton actions {CHANGE}" in message["fix"]
    done = found(project, "--fix")
    assert "made it anew for add-login/1.1@1" in done["worktrees"]["message"]
    assert found(project) == {}
    given = project.actions("--redeliver").dispatch("1.1")
    project.do(given)
    project.reconcile(given)


def test_a_worktree_deleted_by_hand(project: Project) -> None:
    top = abandoned(project)
    shutil.rmtree(top)
    assert "deleted by hand" in repaired(project, "worktrees")
    assert str(top) not in project.git("worktree", "list")


def test_work_is_never_touched(project: Project) -> None:
    """What is dirty, has own commits, belongs to nobody or was locked by a person stays."""
    given = project.actions(CHANGE, "--capacity", "2")
    dirty, own = given.dispatch("1.1"), given.dispatch("1.2")
    project.write("draft", "not committed\n", dirty["cwd"])
    project.work(own)
    for name in ("1.1@1", "1.2@1"):
        project.baton("abandon", name, "--force")
    stranger = Path(dirty["cwd"]).parent / "mine"
    project.git("worktree", "add", "-q", "-b", "mine", str(stranger))
    away = stranger.with_name("away")
    project.git("worktree", "add", "-q", "--lock", "--reason", "on a disk", str(away))
    shutil.rmtree(away)
    before = project.picture()
    done = project.baton("doctor", "--fix", code=1)
    wrong = [c["message"] for c in done["checks"] if not c["ok"]]
    assert len(wrong) == 2
    assert any("mine belongs to no attempt" in message for message in wrong)
    assert any("is locked: on a disk" in message for message in wrong)
    assert project.picture() == before
    assert Path(dirty["cwd"], "draft").exists()


def test_verification_worktrees(project: Project) -> None:
    project.do(project.actions(CHANGE, "--capacity", "1").dispatch("1.1"))
    (slot,) = (Path(p) for p in Path(f"{project.top}.baton").glob("verify-*"))
    shutil.rmtree(slot)
    assert str(slot) in repaired(project, "verification")
    project.reconcile({"assignment": f"{CHANGE}/1.1@1"})


# --- locks and folders -------------------------------------------------------------------------


def test_an_index_that_is_in_use(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = project.top / ".git" / "index.lock"
    lock.touch()
    old(lock)
    monkeypatch.setattr("gitbaton.git.running.git_runs_in", lambda *_: True)
    done = found(project, "--fix", code=1)
    assert f"rm '{lock}'" in done["locks"]["fix"]
    assert lock.exists()
    lock.unlink()


def test_packed_refs_that_a_killed_git_was_writing(project: Project) -> None:
    unfinished = project.top / ".git" / "packed-refs.new"
    unfinished.touch()
    old(unfinished)
    assert str(unfinished) in found(project)["locks"]["message"]
    assert repaired(project, "locks") == f"removed {unfinished}"
    assert not unfinished.exists()


def test_folders_of_integrations_and_locks_of_intents(project: Project, system_tmp: Path) -> None:
    project.finish(project.actions(CHANGE))
    assert found(project) == {}
    merge = baton_dir(project) / "tmp" / "merge-x"
    merge.mkdir(parents=True)
    gone = baton_dir(project) / "locks" / "intent-0123.lock"
    gone.touch()
    old(gone, *(baton_dir(project) / "locks").glob("intent-*.lock"))
    with Lock(baton_dir(project) / "locks" / f"integrate-{CHANGE}.lock").acquire():
        assert str(merge) not in json.dumps(found(project, "--fix"))
        assert merge.exists(), "it is in use"
    assert repaired(project, "temporary") == f"removed {merge}"
    assert not merge.exists() and not gone.exists()


def test_folders_of_audits(project: Project, system_tmp: Path) -> None:
    """Of a killed `audit --rerun`; that of a living one, and of another repository's, stay."""
    folder, living = system_tmp / "baton-audit-1", system_tmp / "baton-audit-2"
    for each in (folder, living):
        project.git("worktree", "add", "-q", "--detach", str(each / "tree"))
        project.git("worktree", "lock", str(each / "tree"))
    (system_tmp / "baton-merge-1").mkdir()
    strange = system_tmp / "baton-audit-3"
    (strange / "tree").mkdir(parents=True)
    old(folder, living, strange, system_tmp / "baton-merge-1")
    with Lock(living / "in-use").acquire():
        old(living)
        repaired(project, "temporary")
    left = sorted(path.name for path in system_tmp.iterdir())
    assert left == ["baton-audit-2", "baton-audit-3"]
    shutil.rmtree(living)  # as a restart of the machine does
    repaired(project, "temporary")
    assert "baton-audit" not in project.git("worktree", "list")


# --- refs --------------------------------------------------------------------------------------


def test_notes_and_refspecs(project: Project, tmp_path: Path) -> None:
    project.finish(project.actions(CHANGE))
    project.git("update-ref", "-d", f"refs/notes/baton/{CHANGE}")
    assert repaired(project, f"notes {CHANGE}") == "made 6 anew"
    project.git("init", "-q", "--bare", str(tmp_path / "server"))
    project.git("remote", "add", "origin", str(tmp_path / "server"))
    done = found(project, "--fix")["remote origin"]
    assert "refs/baton-remote/origin" in done["message"]
    assert found(project, "--fix") == {}
    assert "refs/baton-remote/origin" in project.git("config", "--get-all", "remote.origin.fetch")


def test_a_server_needs_no_checks(project: Project, tmp_path: Path) -> None:
    server = tmp_path / "server"
    project.git("clone", "-q", "--bare", ".", str(server))
    (checks,) = [c for c in project.baton("doctor", cwd=server)["checks"] if c["name"] == "checks"]
    assert checks["ok"]


def test_items_that_nobody_holds(project: Project) -> None:
    add(project, "A")
    root = open_root(project)
    root.actions(capacity=1)
    project.git("update-ref", "-d", root.ref)
    done = found(project, "--fix")
    assert "set free what nobody knew of holding: A" in done[f"queue {QUEUE}"]["message"]
    assert project.baton("queue", "show", "A", "--queue", QUEUE)["item"]["state"] == "open"
    assert f"queue {QUEUE}" not in found(project, "--fix")
    project.git("update-ref", "-d", f"refs/heads/baton/{root.run}")


def test_a_worker_repairs_nothing(project: Project) -> None:
    given = project.actions(CHANGE, "--capacity", "1").dispatch("1.1")
    assert project.refused("doctor", "--fix", cwd=given["cwd"]).code == "inside-attempt"


def test_a_repair_that_was_cut_off_can_be_repeated(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = abandoned(project)
    record = worktree.registered(open_repository(project.top))[top].git_dir
    (record / "locked").write_text(worktree.INTERRUPTED[0])

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(worktree, "_remove_directory", killed)
        project.type("doctor", "--fix")
    assert top.exists()
    repaired(project, "worktrees")
