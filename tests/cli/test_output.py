"""One document on stdout whatever happens, one or two lines on stderr, one exit status."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gitbaton.cli.output import Answer, Output, of_system
from gitbaton.errors import BatonError, NeedsPerson, Refused, UsageError

from .conftest import Baton

USAGE = [
    ["nonsense"],
    ["status", "--nonsense"],
    ["status", "a", "b"],
    ["actions"],
    ["actions", "--session", "s", "--capacity", "0"],
    ["actions", "--session", "s", "--capacity", "65"],
    ["actions", "--session", "s", "--lease", "soon"],
    ["actions", "--session", "s", "--order", "random"],
    ["reconcile", "a/1@1", "--session", "s", "--outcome", "perhaps"],
    ["reconcile", "a/1@1", "--outcome", "failed"],
    ["bind", "a/1@1"],
    ["run", "--agent", "a", "--command", "b"],
    ["run"],
    ["reopen", "1.1"],
    ["reopen", "--reason", "r"],
    ["reopen", "a", "b", "c", "--reason", "r"],
    ["pause"],
    ["delete"],
    ["show", "-f"],
    ["tasks", "check"],
    ["tasks", "tick"],
    ["log", "-n", "0"],
    ["-C", "/nonexistent", "status"],
    ["--color", "sometimes", "status"],
]


@pytest.mark.parametrize("args", USAGE, ids=" ".join)
def test_usage_error(baton: Baton, args: list[str]) -> None:
    done = baton(*args)
    assert done.status == 2
    assert done.out == ""
    first, *rest = done.err.splitlines()
    assert first.startswith("git-baton: ")
    assert len(rest) == 1
    assert rest[0].startswith("hint: ")


@pytest.mark.parametrize("args", USAGE, ids=" ".join)
@pytest.mark.parametrize("where", ["first", "last", "environment"])
def test_usage_error_as_json(
    baton: Baton, monkeypatch: pytest.MonkeyPatch, args: list[str], where: str
) -> None:
    if where == "environment":
        monkeypatch.setenv("BATON_JSON", "1")
    given = {"first": ["--json", *args], "last": [*args, "--json"]}.get(where, args)
    done = baton(*given)
    assert done.status == 2
    assert done.json["error"]["message"]
    assert done.err == ""


def test_json_after_the_end_of_options_is_no_option(baton: Baton) -> None:
    done = baton("status", "--", "a", "b", "--json")
    assert done.status == 2
    assert done.out == ""


def test_unknown_verb_names_the_nearest(baton: Baton) -> None:
    assert "status" in baton("statsu").err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Refused("no", "it is so", "do this", {"assignment": "a/1@1"}), 1),
        (UsageError("no", "it is so", "do this", {"assignment": "a/1@1"}), 2),
        (NeedsPerson("no", "it is so", "do this", {"assignment": "a/1@1"}), 3),
    ],
)
def test_refusal_keeps_its_payload(
    capsys: pytest.CaptureFixture[str], error: BatonError, status: int
) -> None:
    out = Output(())
    out.json = True
    assert out.guard(_raising(error)) == status
    assert json.loads(capsys.readouterr().out) == {
        "ok": False,
        "assignment": "a/1@1",
        "error": {"code": "no", "message": "it is so", "hint": "do this"},
    }


def test_negative_answer_keeps_its_payload(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(())
    out.json = True
    assert out.answer(Answer({"run": "a"}, str, NeedsPerson("paused", "it rests"))) == 3
    assert json.loads(capsys.readouterr().out) == {
        "ok": False,
        "run": "a",
        "error": {"code": "paused", "message": "it rests", "hint": ""},
    }


def test_message_cannot_take_over_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Output(()).fail(Refused("no", "a\x1b[2Jb\nc", "d\x07"))
    captured = capsys.readouterr().err
    assert "\x1b" not in captured
    assert "\x07" not in captured
    assert len(captured.splitlines()) == 2


@pytest.mark.parametrize("as_json", [False, True])
def test_bug_is_kept_in_a_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, as_json: bool
) -> None:
    out = Output(("seal", "--token", "secret", "--token=secret"))
    out.json = as_json
    assert out.guard(_raising(ZeroDivisionError("oops"))) == 1
    captured = capsys.readouterr()
    assert "Traceback" not in captured.out + captured.err
    if as_json:
        assert json.loads(captured.out)["error"]["code"] == "bug"
    else:
        assert captured.err.startswith("git-baton: this is a bug in git-baton: ZeroDivisionError")
        assert "report" in captured.err
    (kept,) = (tmp_path / "home").glob("git-baton-*")
    assert "ZeroDivisionError: oops" in kept.read_text()
    assert "secret" not in kept.read_text()


def test_trace_prints_the_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATON_TRACE", "1")
    Output(()).guard(_raising(ZeroDivisionError("oops")))
    assert "Traceback" in capsys.readouterr().err


def test_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(())
    out.json = True
    assert out.guard(_raising(KeyboardInterrupt())) == 130
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "interrupted"


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "disk-full"),
        (errno.EDQUOT, "disk-full"),
        (errno.EROFS, "repository-read-only"),
        (errno.EACCES, "permission-denied"),
        (errno.ENAMETOOLONG, "bad-path"),
        (errno.EIO, "io-error"),
    ],
)
def test_failure_of_the_system_is_one_line(number: int, code: str) -> None:
    error = of_system(OSError(number, os.strerror(number), "/some/file"))
    assert error is not None
    assert error.code == code
    assert "/some/file" in error.message


def test_reader_that_leaves_is_no_error(repo: Path) -> None:
    command = f"'{sys.executable}' -m gitbaton -h | true"
    for _ in range(3):
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        assert done.stderr == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no such device")
@pytest.mark.parametrize("args", ["plan", "plan --json", "nonsense --json", "-h"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written(repo: Path, args: str, unbuffered: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m gitbaton {args} >/dev/full"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    assert done.returncode == 1
    assert done.stderr.startswith("git-baton: the output could not be written: No space left")
    assert len(done.stderr.splitlines()) == 2


def _raising(error: BaseException) -> Callable[[], int]:
    def run() -> int:
        raise error

    return run
