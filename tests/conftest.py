"""A sealed environment for every test: its own home, no system settings, one fixed identity."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitbaton.git.process import set_fsync

_GLOBAL = """\
[user]
\tname = Test User
\temail = test@example.com
[init]
\tdefaultBranch = main
[protocol "file"]
\tallow = always
[gc]
\tauto = 0
"""

# A shell that starts things in the background has them, and their children, ignore interrupts.
for _number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)


# Verbs are started hundreds of times: they are not to compile everything anew each time.
_FOREIGN = ("GIT_", "BATON_", "EMAIL", "PYTHONDONTWRITEBYTECODE")


def pytest_configure(config: pytest.Config) -> None:
    home = Path(tempfile.mkdtemp(prefix="baton-home-"))
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))
    (home / ".gitconfig").write_text(_GLOBAL)
    for name in [name for name in os.environ if name.startswith(_FOREIGN)]:
        del os.environ[name]
    os.environ.update(
        HOME=str(home),
        XDG_CONFIG_HOME=str(home / "xdg"),
        GIT_CONFIG_GLOBAL=str(home / ".gitconfig"),
        GIT_CONFIG_NOSYSTEM="1",
    )


@pytest.fixture(autouse=True)
def _syncing() -> Iterator[None]:
    """What a test's repository says of syncing holds for no other test of the process."""
    yield
    set_fsync(True)


@pytest.fixture
def repo_dir(tmp_path: Path) -> Path:
    """A repository with one commit on ``main``; its path has what paths should not have."""
    import subprocess

    path = tmp_path / "re po's $HOME"
    subprocess.run(["git", "init", "-q", "-b", "main", str(path)], check=True)
    (path / "README").write_text("hello\n")
    subprocess.run(["git", "add", "-A"], cwd=path, check=True)
    subprocess.run(["git", "commit", "-q", "-m", "first"], cwd=path, check=True)
    return path
