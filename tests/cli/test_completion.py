"""Completion: what is offered where, and that real shells take it."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitbaton.cli.completion import words
from gitbaton.cli.main import VERBS

from .conftest import Baton

GIT_COMPLETION = Path("/usr/share/bash-completion/completions/git")
CLAIM = ("--session", "s", "--capacity", "1", "--verify", "true", "--json")


@pytest.fixture
def run(repo: Path, baton: Baton) -> Path:
    """A repository with the run ``add-files``, ticket 1.1 of which is in work, and two queues."""
    assert baton("actions", "add-files", *CLAIM).status == 0
    for queue, item in (("bugs", "BUG-1"), ("flaky", "BUG-2"), ("flaky", "BUG-3")):
        done = baton("queue", "add", "--id", item, "--title", "it fails", "--queue", queue)
        assert done.status == 0
    return repo


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``git-baton`` on PATH, the one that is tested."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "git-baton"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m gitbaton "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def _offered(line: str) -> list[str]:
    return [word.value for word in words(line)]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("git-baton sta", ["status"]),
        ("git baton sta", ["status"]),
        ("git -c a.b=c --no-pager baton sta", ["status"]),
        ("git-baton tasks ", ["check", "uncheck"]),
        ("git-baton status ", ["add-files"]),
        ("git-baton status --all ", ["add-files"]),
        ("git-baton plan ", ["add-files", "add-more"]),
        ("git-baton abandon ", ["add-files/1.1@1"]),
        ("git-baton abandon add-files/1.1@", ["add-files/1.1@1"]),
        ("git-baton abandon 1", ["1.1@1"]),
        ("git-baton show 1.1@", ["1.1@1"]),
        ("git-baton reconcile x", []),
        ("git-baton show add-files/", ["add-files/1.1@1"]),
        ("git-baton show 1", ["1.1", "1.2"]),
        ("git-baton show other/", []),
        ("git-baton reopen ", ["1.1", "1.2", "2.1", "add-files"]),
        ("git-baton reopen add-files 1", ["1.1", "1.2"]),
        ("git-baton batch open --queue b", ["bugs"]),
        ("git-baton batch open --queue=b", ["--queue=bugs"]),
        ("git-baton queue show --queue flaky ", ["BUG-2", "BUG-3"]),
        ("git-baton queue own BUG-1 --by ", ["add-files"]),
        ("git-baton run --agent mi", ["mine"]),
        ("git-baton land --onto ", ["baton/add-files", "trunk"]),
        ("git-baton reconcile --outcome c", ["completed", "canceled"]),
        ("git-baton seal --fol", ["--followup"]),
        ("git-baton completion --l", []),
        ("git-baton nonsense ", []),
        ("git-baton actions --session ", []),
        ("git checkout ", []),
        ("git", []),
        ("", []),
    ],
)
@pytest.mark.usefixtures("run")
def test_what_may_come_next(line: str, offered: list[str]) -> None:
    more = Path("openspec/changes/add-more")
    more.mkdir()
    (more / "tasks.md").write_text("- [ ] 1.1 More\n")
    subprocess.run(["git", "config", "baton.agent.mine.command", "true"], check=True)
    assert sorted(_offered(line)) == sorted(offered)


@pytest.mark.usefixtures("run")
def test_only_what_is_over_can_be_adopted(baton: Baton) -> None:
    assert _offered("git-baton adopt ") == []
    assert baton("abandon", "1.1", "--force").status == 0
    assert _offered("git-baton adopt ") == ["add-files/1.1@1"]


def test_all_verbs_with_their_help() -> None:
    assert {word.value: word.help for word in words("git-baton ")} == {
        name: entry.help for name, entry in VERBS.items()
    }


def test_files_and_folders_are_left_to_the_shell() -> None:
    assert [word.kind for word in words("git-baton queue import ")] == ["file"]
    assert [word.kind for word in words("git-baton plan --project ")] == ["dir"]


def test_directory_of_the_line_counts(
    run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _offered("git-baton status ") == []
    assert _offered(f"git -C '{run}' baton status ") == ["add-files"]
    monkeypatch.chdir(tmp_path)
    assert _offered(f"git-baton -C '{run}' status ") == ["add-files"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_DIR", str(run / ".git"))
    assert _offered("git-baton status ") == ["add-files"]


def test_what_needs_quoting_is_not_offered(repo: Path, baton: Baton) -> None:
    tasks = "- [ ] $(id) One\n- [ ] 1.1 Two\n"
    (repo / "openspec/changes/add-files/tasks.md").write_text(tasks)
    assert baton("actions", "add-files", *CLAIM).status == 0
    for verb in ("show", "abandon", "reopen"):
        assert not [word for word in _offered(f"git-baton {verb} ") if not word.isascii()]
        assert not any("$" in word or " " in word for word in _offered(f"git-baton {verb} "))


@pytest.mark.usefixtures("run")
def test_answer_of_a_key_loads_no_libgit2(process: Baton) -> None:
    done = process("completion", "bash", "--line", "git-baton show ")
    assert "add-files/1.1@1" in done.out
    code = (
        "import sys\n"
        "from gitbaton.cli.completion import words\n"
        "words('git-baton show ')\n"
        "print([n for n in ('pygit2', 'rich', 'msgspec.msgpack') if n in sys.modules])\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_outside_of_a_repository_nothing_is_said(process: Baton) -> None:
    done = process("completion", "zsh", "--line", "git-baton status ")
    assert (done.status, done.out.strip(), done.err) == (0, "", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_is_one_that_the_shell_can_read(process: Baton, shell: str) -> None:
    script = process("completion", shell)
    assert script.status == 0
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell}")
    read = subprocess.run([program, "-n"], input=script.out, text=True, check=False)
    assert read.returncode == 0


# --- real shells -------------------------------------------------------------------------------


class Terminal:
    """A shell in a terminal, to type into."""

    def __init__(self, *command: str) -> None:
        self.fd, inside = pty.openpty()
        self.process = subprocess.Popen(
            command, stdin=inside, stdout=inside, stderr=inside, start_new_session=True
        )
        os.close(inside)

    def types(self, keys: str, until: str) -> str:
        """What appears after ``keys``, until something of the pattern does."""
        os.write(self.fd, keys.encode())
        seen = ""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if not select.select([self.fd], [], [], 1)[0]:
                continue
            seen += os.read(self.fd, 65536).decode(errors="replace")
            plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x08.?", "", seen)
            if re.search(until, plain):
                return plain
        raise AssertionError(f"{until!r} did not appear: {seen!r}")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.fd)


@pytest.fixture
def terminal(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    command = request.param
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]}")
    found = Terminal(*command)
    yield found
    found.close()


@pytest.mark.usefixtures("run", "program")
@pytest.mark.parametrize("terminal", [("bash", "--norc", "-i")], indirect=True)
def test_bash(terminal: Terminal) -> None:
    terminal.types('eval "$(git-baton completion bash)"; echo "rea"dy\n', "ready")
    terminal.types("git-baton status add-\t", "status add-files ")
    terminal.types("\x15git-baton show add-files/1\t", r"show add-files/1\.1@1 ")
    # An @ breaks words in bash: whether the whole is right shows when the line is run.
    terminal.types("\x15git-baton show add-files/1.1@\t\n", r"\s\radd-files/1\.1@1 ")
    if not GIT_COMPLETION.exists():
        pytest.skip("git's own completion is not installed")
    terminal.types(f'\x15source {GIT_COMPLETION}; echo "do"ne\n', "done")
    terminal.types("git baton status add-\t", "status add-files ")
    terminal.types("\x15git baton heartb\t", "baton heartbeat ")


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("terminal", [("zsh", "-f", "-i")], indirect=True)
def test_zsh(run: Path, terminal: Terminal) -> None:
    start = 'autoload -U compinit; compinit -u -D; eval "$(git-baton completion zsh)"'
    terminal.types(f'{start}; echo "rea"dy\n', "ready")
    terminal.types("git-baton status add-\t", "add-files")
    terminal.types("\x15git baton show add-files/1\t", r"1@1")
    terminal.types("\x15cd /; echo 'do''ne'\n", "done")
    terminal.types(f"git -C '{run}' baton land --onto tr\t", "trunk|unk")


@pytest.mark.usefixtures("program")
def test_fish(run: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("no fish")

    def offered(line: str) -> list[str]:
        code = f'git-baton completion fish | source; complete -C "{line}"'
        done = subprocess.run(
            ["fish", "-N", "-c", code], capture_output=True, text=True, check=True
        )
        return [found.partition("\t")[0] for found in done.stdout.splitlines()]

    assert offered("git-baton status ") == ["add-files"]
    assert offered("git baton show add-files/") == ["add-files/1.1@1"]
    assert offered(f"git -C '{run}' baton heartb") == ["heartbeat"]
    assert "add-files" not in offered("git checkout add")
