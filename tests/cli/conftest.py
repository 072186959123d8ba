"""A sealed environment, a repository with a change, and the command line in process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from gitbaton.cli.main import cli

TASKS = """\
## 1. Start

- [ ] 1.1 Write the first file
- [ ] 1.2 Write the second file

## 2. End

- [ ] 2.1 Write the last file
"""


class Done(NamedTuple):
    """What an invocation left."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """stdout, which must be exactly one JSON document whose ``ok`` agrees with the status."""
        document = json.loads(self.out)
        assert isinstance(document, dict)
        assert document["ok"] is (self.status == 0), self
        assert ("error" in document) is (self.status != 0), self
        return document


Baton = Callable[..., Done]


@pytest.fixture(autouse=True)
def sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration, identity or repository but the test's own."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("BATON_JSON", "BATON_TOKEN", "BATON_TRACE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(home))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / "gitconfig"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.chdir(home)


@pytest.fixture
def baton() -> Baton:
    """The command line, in this process."""

    def run(*args: str) -> Done:
        result = CliRunner().invoke(cli, list(args), prog_name="git-baton")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def process() -> Baton:
    """The command line, as a process of its own."""

    def run(*args: str, **options: Any) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "gitbaton", *args],
            capture_output=True,
            text=True,
            check=False,
            **options,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory: a repository on branch ``trunk`` with the change ``add-files``."""
    where = tmp_path / "re po"
    _git(tmp_path, "init", "-q", "-b", "trunk", str(where))
    _git(where, "config", "user.name", "Ann")
    _git(where, "config", "user.email", "ann@example.com")
    change = where / "openspec" / "changes" / "add-files"
    change.mkdir(parents=True)
    (change / "proposal.md").write_text("# Add files\n")
    (change / "tasks.md").write_text(TASKS)
    _git(where, "add", ".")
    _git(where, "commit", "-q", "-m", "first")
    monkeypatch.chdir(where)
    return where


def _git(where: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=where, check=True, capture_output=True, text=True)
    return done.stdout.strip()
