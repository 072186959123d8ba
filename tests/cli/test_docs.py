"""Nothing that is written down about the command line may be wrong."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest

from gitbaton.cli.main import cli

TOP = Path(__file__).parents[2]
PAGES = sorted([*TOP.glob("*.md"), *(TOP / "docs").rglob("*.md")])
_FENCE = re.compile(r"^( *)(```+|~~~+) *(console|sh|bash|shell)\b.*?\n(.*?)^\1\2", re.M | re.S)
_CALL = re.compile(r"^\s*(?:\$ )?(?:git baton|git-baton)(?= |$)")
_ENDS = ("|", "||", "&&", ";", "&", ">", ">>", "<")


def test_reference_pages_are_up_to_date() -> None:
    generate = _load(TOP / "docs" / "generate.py")
    for name, text in generate.pages().items():
        page = TOP / "docs" / "reference" / name
        assert page.read_text(encoding="utf-8") == text, "run: python docs/generate.py"


def _commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for fence in _FENCE.finditer(page.read_text(encoding="utf-8")):
            for line in fence[4].replace("\\\n", " ").splitlines():
                if _CALL.match(line):
                    yield page.relative_to(TOP).as_posix(), line.strip()


@pytest.mark.parametrize(("page", "line"), list(_commands()))
def test_command_line_of_the_docs_parses(page: str, line: str) -> None:
    words = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
    words.whitespace_split = True
    args = list(words)
    args = args[2:] if args[0] == "git" else args[1:]
    end = next((i for i, word in enumerate(args) if word in _ENDS), len(args))
    _parse(cli, "git-baton", args[:end], None)


@pytest.mark.parametrize("line", ["status --nonsense", "nonsense", "tasks tick 1", "log -n"])
def test_a_wrong_line_would_be_found(line: str) -> None:
    with pytest.raises(click.UsageError):
        _parse(cli, "git-baton", line.split(), None)


def _parse(
    command: click.Command, name: str, args: list[str], parent: click.Context | None
) -> None:
    """Parse as the real thing does, down to the verb, and run nothing."""
    ctx = click.Context(command, parent, name, **command.context_settings)
    with ctx.scope(cleanup=False):
        try:
            command.parse_args(ctx, list(args))
        except click.exceptions.Exit:
            return
        if isinstance(command, click.Group):
            rest = [*ctx._protected_args, *ctx.args]
            child, found, rest = command.resolve_command(ctx, rest)
            assert found is not None
            _parse(found, str(child), rest, ctx)


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["generate"] = module
    spec.loader.exec_module(module)
    return module
