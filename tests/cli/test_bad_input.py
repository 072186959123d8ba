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


def test_settings_are_shown_when_one_cannot_be_read(baton: Baton, repo: Path) -> None:
    subprocess.run(["git", "config", "baton.leaseSeconds", "abc"], check=True)
    assert "baton.leaseSeconds is 'abc'" in baton("status").err
    done = baton("config")
    assert done.status == 0
    assert "baton.leaseSeconds = abc  (local)" in done.out
    assert "error: baton.leaseSeconds is 'abc'" in " ".join(done.out.split())
    settings = {s["key"]: s["error"] for s in baton("config", "--json").json["settings"]}
    assert [key for key, error in settings.items() if error] == ["leaseSeconds"]


@pytest.mark.parametrize(
    "args",
    [
        ["config"],
        ["doctor"],
        ["actions", "--session", "s", "--verify", "true"],
        ["run", "--command", "true", "--dry-run"],
    ],
    ids=" ".join,
)
def test_setting_without_effect_is_told(baton: Baton, repo: Path, args: list[str]) -> None:
    subprocess.run(["git", "config", "baton.requireSignatures", "true"], check=True)
    done = baton(*args)
    assert "baton.requiresignatures means nothing" in done.err


BYTES = "a\udcff"  # as the system gives a byte that is not UTF-8


@pytest.mark.parametrize(
    "args",
    [
        ["show", BYTES],
        ["abandon", BYTES],
        ["adopt", BYTES],
        ["heartbeat", BYTES],
        ["verify", BYTES],
        ["seal", "--finding", BYTES],
        ["reconcile", BYTES, "--outcome", "failed", "--session", "s"],
        ["reconcile", "a/1@1", "--outcome", "failed", "--session", BYTES],
        ["pause", "--reason", BYTES],
        ["tasks", "check", "add-files", BYTES],
        ["run", "--command", BYTES],
        ["notes", "rebuild", BYTES],
        [BYTES],
    ],
    ids=ascii,
)
def test_argument_that_is_not_utf_8(process: Baton, repo: Path, args: list[str]) -> None:
    before = _everything(repo)
    done = process(*args)
    assert done.status == 2
    assert len(done.err.splitlines()) == 2
    assert "this is a bug" not in done.err
    assert process(*args, "--json").json
    assert _everything(repo) == before


def test_repository_whose_path_is_not_utf_8(process: Baton, repo: Path) -> None:
    other = repo.parent / BYTES
    try:
        repo.rename(other)
    except OSError:
        pytest.skip("this file system takes text only")
    done = process("status", cwd=other)
    assert done.status == 1
    assert "not UTF-8" in done.err
    assert process("plan", "--json", cwd=other).json["error"]["code"] == "path-not-utf-8"
    assert process("demo", str(other / "demo")).status == 2


@pytest.mark.parametrize("option", ["--plan-from", "--project"])
def test_path_that_is_too_long(baton: Baton, repo: Path, option: str) -> None:
    done = baton("plan", option, "a" * 3000)
    assert done.status == 2
    assert "this is a bug" not in done.err
    assert len(done.err) < 500


def test_namespace_of_git_hides_nothing(
    baton: Baton, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert baton("actions", "--session", "s", "--verify", "true").status == 0
    monkeypatch.setenv("GIT_NAMESPACE", "ns")
    assert baton("status", "add-files").status == 0


def test_token_file_that_is_empty(baton: Baton, repo: Path) -> None:
    assert baton("actions", "--session", "s", "--verify", "true").status == 0
    (repo / ".git/baton/attempts/add-files/1.1-a1/token").write_text("")
    done = baton("heartbeat", "add-files/1.1@1")
    assert done.status == 1
    assert "is empty" in done.err


def _everything(top: Path) -> dict[str, bytes]:
    """Every file of the repository but the index, whose times git may refresh."""
    return {
        str(path.relative_to(top)): path.read_bytes()
        for path in sorted(top.rglob("*"))
        if path.is_file() and path.name != "index"
    }
