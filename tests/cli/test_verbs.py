"""The verbs as a user and as a program types them, on a real repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import Baton

START = ["actions", "--session", "s", "--verify", "true", "--json"]


def _git(where: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=where, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _work(dispatch: dict[str, Any]) -> Path:
    where = Path(dispatch["cwd"])
    (where / f"{dispatch['ticket']}.txt").write_text("done\n")
    _git(where, "add", ".")
    _git(where, "commit", "-q", "-m", dispatch["title"])
    return where


def _dispatches(batch: dict[str, Any]) -> list[dict[str, Any]]:
    return [a for a in batch["actions"] if a["kind"] == "dispatch"]


def test_a_caller_of_its_own(baton: Baton, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = baton(*START).json
    pending = _dispatches(batch)
    assert [d["ticket"] for d in pending] == ["1.1", "1.2"]
    while pending:
        dispatch = pending.pop(0)
        name = dispatch["assignment"]
        assert baton("bind", name, "me", "--json").json["yours"] is True
        monkeypatch.chdir(_work(dispatch))
        assert baton("heartbeat", "--json").json["state"] == "running"
        assert baton("verify", "--json").json["checks"][0]["exit_code"] == 0
        sealed = baton("seal", "--followup", "clean up", "--json").json
        assert sealed["assignment"] == name
        monkeypatch.chdir(repo)
        batch = baton("reconcile", name, "--outcome", "completed", "--session", "s", "--json").json
        pending += _dispatches(batch)
    assert batch["state"] == "complete"
    status = baton("status", "--json").json
    assert status["complete"] is True
    assert status["tickets"]["resolved"] == 3
    assert [run["state"] for run in baton("list", "--json").json["runs"]] == ["complete"]
    assert len(baton("log", "-n", "4", "--json").json["events"]) == 4
    shown = baton("show", "2.1", "--json").json
    assert shown["attempt"]["state"] == "succeeded"
    assert shown["packet"]["ticket"] == "2.1"
    assert baton("notes", "rebuild", "--json").json["changed"] is False
    assert baton("doctor", "--json").json["checks"]
    assert baton("land", "--json").json["fast_forward"] is True
    assert (repo / "2.1.txt").exists()
    gone = baton("delete", "add-files", "--dry-run", "--json").json
    assert "refs/baton/runs/add-files" in gone["would_remove"]


def test_text_says_state_and_what_to_do(baton: Baton, repo: Path) -> None:
    new = baton("status", "add-files").out
    assert "not started" in new
    assert "git baton run add-files" in new
    baton(*START)
    lines = baton("status").out.splitlines()
    assert lines[0] == "add-files  executing  0 of 3 resolved"
    assert lines[1].startswith("  next: ")
    assert any(line.split()[:2] == ["1.1@1", "leased"] for line in lines)
    assert "\x1b" not in "".join(lines)
    assert max(map(len, lines)) <= 80


def test_colour(baton: Baton, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[" in baton("status", "--color", "always", "add-files").out
    assert "\x1b[" in baton("--color", "always", "status", "add-files").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" in baton("--color", "always", "status", "add-files").out
    assert "\x1b[" not in baton("status", "add-files").out


def test_paused_run_needs_a_person(baton: Baton, repo: Path) -> None:
    baton(*START)
    assert baton("pause", "--reason", "lunch", "--json").json["run"] == "add-files"
    done = baton("actions", "--session", "s", "--json")
    assert done.status == 3
    assert done.json["state"] == "paused"
    assert done.json["error"]["code"] == "paused"
    done = baton("actions", "--session", "s")
    assert done.status == 3
    assert "lunch" in done.err
    assert baton("resume").status == 0


def test_red_check_shows_its_output(
    baton: Baton, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = baton("actions", "--session", "s", "--verify", "echo sad; exit 3", "--json").json
    monkeypatch.chdir(_work(_dispatches(batch)[0]))
    done = baton("verify")
    assert done.status == 1
    assert "exit 3" in done.out
    assert done.err.startswith("sad\n")
    document = baton("seal", "--json").json
    assert document["error"]["code"] == "checks-failed"
    assert document["checks"][0]["exit_code"] == 3


def test_lost_lease_is_an_answer(baton: Baton, repo: Path) -> None:
    baton(*START)
    done = baton("heartbeat", "1.1", "--token", "wrong", "--json")
    assert done.status == 1
    assert done.json["yours"] is False


def test_tasks_by_hand(baton: Baton, repo: Path) -> None:
    tasks = repo / "openspec/changes/add-files/tasks.md"
    before = tasks.read_text()
    assert baton("tasks", "check", "1.1", "--dry-run", "--json").json["dry_run"] is True
    assert tasks.read_text() == before
    flip = baton("tasks", "check", "add-files", "1.1", "--json").json
    assert tasks.read_text() == before.replace("[ ] 1.1", "[x] 1.1")
    assert flip["reverse"] == "git baton tasks uncheck add-files 1.1"
    assert baton("tasks", "uncheck", "1.1").status == 0
    assert tasks.read_text() == before


def test_plan_check(baton: Baton, repo: Path) -> None:
    assert baton("plan", "--check", "--json").json["boxes"]["total"] == 3
    tasks = repo / "openspec/changes/add-files/tasks.md"
    tasks.write_text("- [ ] 1.1 One (needs 1.2)\n- [ ] 1.2 Two (needs 1.1)\n")
    assert baton("plan").status == 0
    done = baton("plan", "--check", "--json")
    assert done.status == 1
    assert done.json["errors"]


def test_init_is_idempotent(baton: Baton, repo: Path) -> None:
    _git(repo, "remote", "add", "up", "../elsewhere")
    changes = baton("init", "--json").json["changes"]
    assert len(changes) == 2
    assert "+refs/baton/*:refs/baton-remote/up/*" in _git(repo, "config", "-l")
    assert _git(repo, "config", "notes.displayRef") == "refs/notes/baton/*"
    assert baton("init", "--json").json["changes"] == []


def test_config_names_origin_and_unknown_keys(baton: Baton, repo: Path) -> None:
    _git(repo, "config", "baton.capacity", "7")
    _git(repo, "config", "--global", "baton.agent.mine.command", "sh me.sh")
    _git(repo, "config", "baton.capactiy", "8")
    done = baton("config")
    assert "baton.capacity = 7  (local)" in done.out
    assert "baton.capactiy" in done.err
    document = baton("config", "--json").json
    settings = {s["key"]: s for s in document["settings"]}
    assert settings["capacity"]["value"] == 7
    assert settings["agent.mine.command"]["origin"] == "global"
    assert settings["leaseSeconds"]["origin"] == "default"
    assert document["unknown"] == ["baton.capactiy"]


def test_doctor_finds_and_removes_leftover_locks(baton: Baton, repo: Path) -> None:
    _git(repo, "config", "baton.verify", "true")
    assert baton("doctor").status == 0
    locks = [repo / ".git/refs/heads/trunk.lock", repo / ".git/index.lock"]
    for lock in locks:
        lock.touch()
        os.utime(lock, (1, 1))
    done = baton("doctor")
    assert done.status == 1
    for lock in locks:
        assert str(lock) in done.out
    done = baton("doctor", "--fix")
    assert done.status == 0
    for lock in locks:
        assert f"removed {lock}" in done.out
        assert not lock.exists()
    assert "fixed" not in baton("doctor", "--fix").out


def test_doctor_finds_notes_that_disagree(
    baton: Baton, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = baton(*START).json
    monkeypatch.chdir(_work(_dispatches(batch)[0]))
    assert baton("seal").status == 0
    monkeypatch.chdir(repo)
    assert baton("doctor").status == 0
    _git(repo, "update-ref", "-d", "refs/notes/baton/add-files")
    done = baton("doctor")
    assert done.status == 1
    assert "git baton notes rebuild add-files" in done.out
    assert baton("doctor", "--fix").status == 0
    assert baton("doctor").status == 0


def test_doctor_reports_without_a_repository(baton: Baton) -> None:
    document = baton("doctor", "--json").json
    assert [c["name"] for c in document["checks"] if not c["ok"]] == ["repository"]


def test_directory_option(process: Baton, repo: Path, tmp_path: Path) -> None:
    done = process("-C", str(tmp_path), "-C", repo.name, "status", "add-files", cwd="/")
    assert done.status == 0
    assert done.out.startswith("add-files  not started")


def test_git_finds_the_verb(repo: Path, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "git-baton"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gitbaton "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["git", "-c", "baton.capacity=9", "baton", "config"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "baton.capacity = 9  (command)" in done.stdout


def test_follow_ends_with_the_worker(process: Baton, baton: Baton, repo: Path) -> None:
    dispatch = _dispatches(baton(*START).json)[0]
    log = Path(dispatch["packet"]).with_name("log")
    log.write_text("one\n\x1b[31mtwo\x1b[0m\n")
    command = [sys.executable, "-m", "gitbaton", "show", "1.1", "--log", "-f"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        assert [follower.stdout.readline() for _ in range(2)] == ["one\n", "two\n"]
        with log.open("a") as more:
            more.write("three\n")
        assert follower.stdout.readline() == "three\n"
        with log.open("a") as more:
            more.write("four")
        baton("abandon", "1.1", "--force")
        assert follower.stdout.read() == "four\n"
        assert follower.wait() == 0
    assert baton("show", "1.1", "--log").out == "one\ntwo\nthree\nfour\n"
    assert baton("show", "1.1", "--log", "--json").json["log"].endswith("four")
