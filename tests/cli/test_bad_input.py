"""What people get wrong: one clear line, no traceback, nothing changed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .conftest import Baton

NEED_REPOSITORY = [
    ["status"],
    ["list"],
    ["log"],
    ["show", "1.1"],
    ["plan"],
    ["tasks", "check", "1.1"],
    ["run", "--command", "true"],
    ["actions", "--session", "s"],
    ["bind", "a/1@1", "me"],
    ["reconcile", "a/1@1", "--outcome", "failed", "--session", "s"],
    ["heartbeat"],
    ["verify"],
    ["seal"],
    ["abandon", "a/1@1"],
    ["adopt", "a/1@1"],
    ["reopen", "1.1", "--reason", "r"],
    ["pause", "--reason", "r"],
    ["resume"],
    ["update"],
    ["land"],
    ["cleanup"],
    ["delete", "a"],
    ["init"],
    ["config"],
    ["doctor"],
    ["notes", "rebuild"],
]
NEED_NO_RUN = ("list", "init", "config", "doctor", "plan", "tasks", "run", "actions", "status")
NEED_RUN = [args for args in NEED_REPOSITORY if args[0] not in NEED_NO_RUN]


@pytest.mark.parametrize("args", NEED_REPOSITORY, ids=" ".join)
def test_no_repository(baton: Baton, args: list[str]) -> None:
    done = baton(*args)
    assert done.status == 1
    assert "this is a bug" not in done.err
    assert 1 <= len(done.err.splitlines()) <= 2
    assert baton(*args, "--json").json


@pytest.mark.parametrize("args", NEED_RUN, ids=" ".join)
def test_no_run(baton: Baton, repo: Path, args: list[str]) -> None:
    before = _everything(repo)
    done = baton(*args)
    assert done.status in (1, 2)
    assert "this is a bug" not in done.err
    assert 1 <= len(done.err.splitlines()) <= 2
    assert baton(*args, "--json").json
    assert _everything(repo) == before


@pytest.mark.parametrize("args", [["status"], ["plan"], ["actions", "--session", "s"]])
def test_typo_names_the_nearest(baton: Baton, repo: Path, args: list[str]) -> None:
    before = _everything(repo)
    done = baton(*args, "add-flies")
    assert done.status == 1
    assert "add-files" in done.err
    assert "this is a bug" not in done.err
    assert _everything(repo) == before


@pytest.mark.parametrize("verb", ["status", "log", "pause", "land", "cleanup", "update"])
def test_option_after_the_end_of_options_is_a_name(baton: Baton, repo: Path, verb: str) -> None:
    more = ["--reason", "r"] if verb == "pause" else []
    done = baton(verb, *more, "--", "--all")
    assert done.status in (1, 2)
    assert "'--all'" in done.err


def test_no_commit(baton: Baton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = tmp_path / "empty"
    subprocess.run(["git", "init", "-q", str(where)], check=True)
    change = where / "openspec/changes/a"
    change.mkdir(parents=True)
    (change / "tasks.md").write_text("- [ ] 1.1 One\n")
    monkeypatch.chdir(where)
    done = baton("actions", "--session", "s", "--verify", "true")
    assert done.status == 1
    assert "no commit" in done.err


def test_no_checks(baton: Baton, repo: Path) -> None:
    before = _everything(repo)
    done = baton("actions", "--session", "s")
    assert done.status == 1
    assert "--verify" in done.err
    assert _everything(repo) == before


def test_setting_that_cannot_be_read(baton: Baton, repo: Path) -> None:
    subprocess.run(["git", "config", "baton.capacity", "many"], check=True)
    done = baton("status")
    assert done.status == 2
    assert "baton.capacity" in done.err


def _everything(top: Path) -> dict[str, bytes]:
    """Every file of the repository but the index, whose times git may refresh."""
    return {
        str(path.relative_to(top)): path.read_bytes()
        for path in sorted(top.rglob("*"))
        if path.is_file() and path.name != "index"
    }
