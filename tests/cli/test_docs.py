"""Nothing that is written down about the command line may be wrong."""

from __future__ import annotations

import contextlib
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
SKILLS = sorted((TOP / "gitbaton" / "plugins").rglob("SKILL.md"))
PAGES = sorted([*TOP.glob("*.md"), *(TOP / "docs").rglob("*.md"), *SKILLS])
MANUAL = sorted((TOP / "docs" / "man").glob("*.1"))
_FENCE = re.compile(
    r"^( *)(```+|~~~+) *(console|sh|bash|shell|fish|zsh)\b.*?\n(.*?)^\1\2", re.M | re.S
)
_SPAN = re.compile(r"`((?:git baton|git-baton) [^`]+)`")
_BOLD = re.compile(r"\\fB((?:git baton|git-baton) .*?)\\fR")
_EXAMPLE = re.compile(r"^\.EX\n(.*?)^\.EE", re.M | re.S)
_CALL = re.compile(r"^\s*(?:\$ )?(?:git baton|git-baton)(?= |$)")
_ENDS = ("|", "||", "&&", ";", "&", ">", ">>", "<")
_ROFF = {
    "\\-": "-",
    "\\(aq": "'",
    "\\(ga": "`",
    "\\(ha": "^",
    "\\(ti": "~",
    "\\(dq": '"',
    "\\&": "",
}


@pytest.fixture(scope="module")
def generate() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(TOP / "docs")
        yield _load(TOP / "docs" / "generate.py")


def test_what_is_generated_is_up_to_date(generate: ModuleType) -> None:
    assert generate.stale() == [], "run: python docs/generate.py"


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _plain(roff: str) -> str:
    for mark, character in _ROFF.items():
        roff = roff.replace(mark, character)
    return roff.replace("\\e", "\\")


def _commands() -> Iterator[tuple[str, str]]:
    """Whole command lines, as somebody would copy them."""
    blocks = [(page, fence[4]) for page in PAGES for fence in _FENCE.finditer(_text(page))]
    blocks += [
        (page, _plain(block[1])) for page in MANUAL for block in _EXAMPLE.finditer(_text(page))
    ]
    for page, block in blocks:
        for line in block.replace("\\\n", " ").splitlines():
            if _CALL.match(line):
                yield page.relative_to(TOP).as_posix(), line.strip()


def _mentions() -> Iterator[tuple[str, str]]:
    """Commands within a sentence, where arguments may be left out."""
    for page in PAGES:
        prose = _FENCE.sub("", _text(page))
        for span in _SPAN.finditer(prose):
            yield page.relative_to(TOP).as_posix(), " ".join(span[1].split())
    for page in MANUAL:
        pattern = _EXAMPLE.sub("", _text(page)).partition(".SH DESCRIPTION")[2]
        for span in _BOLD.finditer(pattern):
            yield page.relative_to(TOP).as_posix(), _plain(span[1])


@pytest.mark.parametrize(("page", "line"), list(_commands()))
def test_command_line_of_the_docs_parses(page: str, line: str) -> None:
    _parse(cli, "git-baton", _arguments(line), None)


@pytest.mark.parametrize(("page", "line"), list(_mentions()))
def test_command_that_a_sentence_names_exists(page: str, line: str) -> None:
    if re.search(r"\bVERB\b|\.\.\.|<", line):
        return
    with contextlib.suppress(click.MissingParameter):
        _parse(cli, "git-baton", _arguments(line), None)


def test_both_readmes_say_the_same_commands() -> None:
    english, chinese = (
        [fence[4] for fence in _FENCE.finditer(_text(TOP / name))]
        for name in ("README.md", "README.zh.md")
    )
    assert list(map(_without_comments, chinese)) == list(map(_without_comments, english))


def test_both_readmes_lead_to_the_same_pages() -> None:
    english, chinese = (
        set(re.findall(r"\]\((docs/\S+?)\)", _text(TOP / name)))
        for name in ("README.md", "README.zh.md")
    )
    assert chinese == english


def _without_comments(block: str) -> list[str]:
    return [line for line in block.splitlines() if not line.startswith("# ")]


def _arguments(line: str) -> list[str]:
    """The words behind git-baton, up to where another command begins."""
    words = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
    words.whitespace_split = True
    args = list(words)
    args = args[2:] if args[0] == "git" else args[1:]
    end = next((i for i, word in enumerate(args) if word in _ENDS), len(args))
    return args[:end]


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
