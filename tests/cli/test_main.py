"""The root command: what can be told without a repository, and how fast."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from gitbaton.cli.main import VERBS, cli

from .conftest import Baton


@pytest.mark.parametrize("verb", VERBS)
def test_table_and_command_say_the_same(verb: str) -> None:
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    assert command.name == verb
    assert (command.help or "").splitlines()[0] == VERBS[verb].help


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_verb_has_help(baton: Baton, verb: str, flag: str) -> None:
    done = baton(verb, flag)
    assert done.status == 0
    assert done.out.startswith(f"Usage: git-baton {verb}")


def test_help_lists_every_verb(baton: Baton) -> None:
    out = baton("-h").out
    for verb, entry in VERBS.items():
        assert f"  {verb} " in out
        assert entry.help in " ".join(out.split())


def test_no_verb_shows_help_as_a_usage_error(baton: Baton) -> None:
    for args in ((), ("tasks",), ("notes",)):
        done = baton(*args)
        assert done.status == 2
        assert done.out == ""
        assert done.err.startswith("Usage: git-baton")


def test_version(baton: Baton) -> None:
    done = baton("--version")
    assert done.status == 0
    assert done.out.startswith("git-baton ")


@pytest.mark.parametrize(
    "args",
    [
        ["-h"],
        ["--version"],
        ["status", "-h"],
        ["actions", "--help"],
        ["nonsense"],
        ["actions"],
        ["reopen", "--reason", "r"],
        ["tasks", "check"],
        ["run"],
        ["show", "-f"],
        ["actions", "--session", "s", "--lease", "soon"],
    ],
)
def test_what_needs_no_repository_loads_no_engine(args: list[str]) -> None:
    code = (
        "import sys\n"
        "from gitbaton.cli.main import cli\n"
        "try:\n"
        f"    cli({args!r}, prog_name='git-baton')\n"
        "except SystemExit:\n"
        "    pass\n"
        "heavy = ('pygit2', 'rich', 'subprocess', 'gitbaton.engine', 'gitbaton.git')\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"
