"""The demo is the first thing people see: it has to work where nothing is configured."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gitbaton.engine.context import open_context
from gitbaton.errors import Refused
from gitbaton.runner import live
from gitbaton.runner.demo import CHANGE, demo
from gitbaton.store import runs


def git(path: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=path, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gitconfig").write_text(
        "[commit]\n\tgpgSign = true\n[user]\n\tuseConfigOnly = true\n[core]\n\tautocrlf = true\n"
        "[merge]\n\tconflictStyle = diff3\n[baton]\n\tverify = false\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    shown: list[bool] = []

    def view(plain: bool = False) -> live.View:
        shown.append(plain)
        return live.View()

    monkeypatch.setattr(live, "view", view)
    path = demo(tmp_path / "it's a $demo", plain=True)
    assert shown == [True], "only the run itself has a bar"
    said = capsys.readouterr()
    assert said.out == ""
    assert "[1.2@1] checks failed, again (1/2)" in said.err
    assert "started: resolve the conflict in tea" in said.err
    assert "Look around:" in said.err
    states = [a.state for a in runs.load(open_context(path).repo, CHANGE).all_attempts()]
    assert sorted(states) == ["succeeded"] * 6 + ["superseded"], said.err
    assert git(path, "status", "--porcelain") == ""
    assert git(path, "rev-parse", "main") == git(path, "rev-parse", f"baton/{CHANGE}")
    merges = git(
        path, "log", "--first-parent", "--merges", "--notes=baton/*", "--format=%x01%N", "main"
    ).split("\x01")[1:]
    assert len(merges) == 6
    assert all("urn:git-baton:receipt:v1" in note for note in merges)
    assert json.loads(git(path, "show", f"refs/baton/runs/{CHANGE}:run.json"))["id"] == CHANGE
    tea = subprocess.run(
        ["sh", "tea", "brew", "black"], cwd=path, capture_output=True, text=True, check=True
    )
    assert tea.stdout == "black: 95 degrees, 3:05 minutes\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["gitconfig", "it's a $demo"]


def test_demo_says_how_git_finds_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    git = shutil.which("git")
    assert git
    monkeypatch.setenv("PATH", f"{Path(git).parent}:/usr/bin:/bin")
    if shutil.which("git-baton"):
        pytest.skip("it is installed where git is")
    demo(tmp_path / "tea", plain=True)
    assert f"PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH" in capsys.readouterr().err


def test_demo_keeps_away_from_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for there in (tmp_path, loop):
        with pytest.raises(Refused) as caught:
            demo(there, plain=True)
        assert caught.value.code == "directory-not-empty"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["loop", "mine"]
