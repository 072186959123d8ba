"""Manual pages: every verb has one, the programs that read them find nothing wrong, and --help
opens them."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gitbaton import __version__
from gitbaton.cli.main import VERBS

from .conftest import Baton

TOP = Path(__file__).parents[2]
PAGES = sorted((TOP / "docs" / "man").iterdir())
INSTALLED = Path(sys.prefix, "share", "man", "man1")


def test_every_verb_has_a_page() -> None:
    assert {page.name for page in PAGES} == {"git-baton.1", *(f"git-baton-{v}.1" for v in VERBS)}


def test_wheel_installs_them_where_man_looks() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["shared-data"] == {"docs/man": "share/man/man1"}


def test_a_page_tells_all_options_and_an_example() -> None:
    page = (TOP / "docs" / "man" / "git-baton-run.1").read_text()
    for said in ("\\-\\-agent NAME", "\\-\\-verify CMD", "\\-j N", "run add\\-login", __version__):
        assert said in page
    queue = (TOP / "docs" / "man" / "git-baton-queue.1").read_text()
    assert '.SS "git baton queue import"' in queue


@pytest.mark.skipif(shutil.which("man") is None, reason="no man")
def test_man_has_no_complaint() -> None:
    for page in PAGES:
        done = subprocess.run(
            ["man", "--warnings", "-E", "UTF-8", "-l", str(page)],
            capture_output=True,
            text=True,
            env={**os.environ, "MANPAGER": "cat"},
            check=False,
        )
        if "unrecognized option" in done.stderr or "minimized" in done.stdout:
            pytest.skip("this man cannot read pages")
        assert (done.returncode, done.stderr) == (0, ""), page


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="no mandoc")
def test_mandoc_has_no_complaint() -> None:
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", *map(str, PAGES)],
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if "missing date" not in line]
    assert said == []


def test_help_is_printed_where_nobody_sits(process: Baton) -> None:
    done = process("run", "--help")
    assert done.status == 0
    assert done.out.startswith("Usage: git-baton run")


@pytest.mark.skipif(not INSTALLED.is_dir(), reason="git-baton is not installed here")
@pytest.mark.parametrize(
    ("words", "page"),
    [
        (["--help"], "git-baton.1"),
        (["run", "--help"], "git-baton-run.1"),
        (["queue", "import", "--help"], "git-baton-queue.1"),
    ],
)
def test_help_opens_the_page_in_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], page: str
) -> None:
    man = tmp_path / "man"
    man.write_text('#!/bin/sh\necho "page $*"\n')
    man.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _in_terminal(*words) == f"page {INSTALLED / page}"


@pytest.mark.usefixtures("sealed")
def test_help_is_printed_in_a_terminal_without_man(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _in_terminal("run", "--help").startswith("Usage: git-baton run")


def _in_terminal(*words: str) -> str:
    leader, follower = pty.openpty()
    done = subprocess.Popen([sys.executable, "-m", "gitbaton", *words], stdout=follower)
    os.close(follower)
    said = b""
    try:
        while found := os.read(leader, 65536):
            said += found
    except OSError:  # how a terminal says that nobody writes any more
        pass
    os.close(leader)
    assert done.wait() == 0
    return said.decode().strip()
