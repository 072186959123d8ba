"""A sealed environment, a repository with a few files, and one attempt at work in its worktree."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import scene

from gitbaton.clock import Moment
from gitbaton.config import Settings
from gitbaton.evidence import seal
from gitbaton.evidence.examine import Examined, examine
from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository
from gitbaton.model import codec
from gitbaton.model.packet import Packet
from gitbaton.model.run import Attempt, Lease, Sealed

from . import tampering

NOON = Moment(datetime(2030, 1, 2, 12, tzinfo=UTC), 1000.0, "machine", "boot")
BRANCH = "baton-attempt/add-login/1.1-a1"


@pytest.fixture(autouse=True)
def sealed_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration and no identity but the test's own."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / "gitconfig"))


def git(where: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(where), *args], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.rstrip("\n")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A repository whose path needs quoting, with one commit on ``trunk``."""
    where = tmp_path / "it's a $repo"
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(where)], check=True)
    git(where, "config", "user.name", "Ann")
    git(where, "config", "user.email", "ann@example.com")
    (where / "src").mkdir()
    (where / "src" / "app.py").write_text("print('old')\n")
    (where / "check.sh").write_text("grep -q new src/app.py\n")
    (where / ".gitignore").write_text("*.tmp\n.env\ndeps/\n")
    git(where, "add", ".")
    git(where, "commit", "-q", "-m", "first")
    return where


@pytest.fixture
def repo(path: Path) -> Repository:
    return open_repository(path)


class Work:
    """Attempt 1.1@1 of run add-login, as its worker and as the engine see it."""

    def __init__(self, path: Path, repo: Repository, logs: Path) -> None:
        self.repo = repo
        self.logs = logs
        self.base = git(path, "rev-parse", "HEAD")
        self.top = path.parent / "attempt"
        git(path, "worktree", "add", "-q", "-b", BRANCH, str(self.top), self.base)
        self.settings = Settings()
        self.packet = Packet(
            run="add-login",
            ticket="1.1",
            attempt=1,
            assignment="add-login/1.1@1",
            title="Do it",
            body="",
            section="",
            section_text="",
            criteria=(),
            dependencies=(),
            plan_revision=1,
            base_commit=self.base,
            worktree=str(self.top),
            branch=f"refs/heads/{BRANCH}",
            checks=("sh check.sh",),
            allowed_paths=(),
            protected_paths=(),
            context_files=(),
            previous_failure=None,
            project_dir="",
        )
        self.attempt = Attempt(
            ticket="1.1",
            number=1,
            state="running",
            session="s",
            lease=Lease(
                holder="s",
                machine="machine",
                boot="boot",
                token_sha256="a" * 64,
                ttl_seconds=60,
                deadline=1060.0,
                renewed_at=NOON.stamp,
            ),
            base_commit=self.base,
            branch=f"refs/heads/{BRANCH}",
            worktree=str(self.top),
            packet_sha256=hashlib.sha256(codec.encode(self.packet)).hexdigest(),
            ticket_digest="b" * 64,
            plan_revision=1,
            claimed_at=NOON.stamp,
        )

    def git(self, *args: str) -> str:
        return git(self.top, *args)

    def with_packet(self, **fields: Any) -> None:
        self.packet = msgspec.structs.replace(self.packet, **fields)
        digest = hashlib.sha256(codec.encode(self.packet)).hexdigest()
        self.with_attempt(packet_sha256=digest)

    def with_attempt(self, **fields: Any) -> None:
        self.attempt = msgspec.structs.replace(self.attempt, **fields)

    def with_settings(self, **fields: Any) -> None:
        self.settings = msgspec.structs.replace(self.settings, **fields)

    def write(self, name: str, text: str) -> None:
        file = self.top / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def commit(self, files: dict[str, str] | None = None, message: str = "work") -> str:
        for name, text in (files or {"src/app.py": "print('new')\n"}).items():
            self.write(name, text)
            self.git("add", "-f", name)
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def examine(self, **how: Any) -> Examined:
        return examine(self.repo, self.attempt, self.packet, self.settings, **how)

    def seal(self, **how: Any) -> bytes:
        """Examine, check, make the receipt, and record it in the attempt."""
        examined = self.examine(**how)
        checks = seal.seal_checks(
            self.repo, self.attempt, self.packet, examined, self.settings, logs=self.logs
        )
        receipt = seal.make_receipt(
            "add-login", self.attempt, self.packet, examined, checks, self.settings, NOON
        )
        recorded = Sealed(
            receipt_sha256=hashlib.sha256(receipt).hexdigest(),
            commit=examined.commit,
            tree=examined.tree,
            sealed_in=self.settings.seal_in,
            sealed_at=NOON.stamp,
        )
        self.with_attempt(state="sealed", sealed=recorded)
        return receipt


@pytest.fixture
def work(path: Path, repo: Repository, tmp_path: Path) -> Work:
    return Work(path, repo, tmp_path / "logs")


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete run, made once."""
    top = tmp_path_factory.mktemp("run") / "repo"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in scene.sealed_environment(top.parent / "home").items():
            patch.setenv(name, value)
        tampering.make_run(top)
    return top


@pytest.fixture
def evidence(original: Path, tmp_path: Path) -> Iterator[tampering.Evidence]:
    """A copy of that run, to be tampered with."""
    shutil.copytree(original, tmp_path / "repo", symlinks=True)
    with ExitStack() as stack:
        yield tampering.Evidence(tmp_path / "repo", stack)
