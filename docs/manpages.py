"""The manual pages: one for each verb, its own verbs inside, and one for all of it.

What the commands say of themselves comes from click; prose and examples are in manual.toml. The
pages are plain man(7) macros, which groff and mandoc read alike.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from gitbaton import __version__
from gitbaton.cli.main import FAMILIES, VERBS, cli
from gitbaton.config import SETTINGS

_TEXTS = Path(__file__).with_name("manual.toml")
_MARKER = '.\\" made by docs/generate.py; do not edit'
_COMMON = ("json", "color", "help")
_EXIT = (
    ("0", "Done."),
    ("1", "Refused, failed, or the answer is no."),
    ("2", "The command line is wrong."),
    ("3", "A person is needed."),
    ("130", "Interrupted."),
)
_ENVIRONMENT = (
    ("BATON_JSON", "Not empty and not 0: as if `--json` were given."),
    ("BATON_TOKEN", "The secret of the attempt, for the verbs of a worker."),
    ("BATON_TRACE", "Not empty and not 0: refusals show where they come from."),
    ("NO_COLOR", "No colours."),
)
_FILES = (
    ("refs/baton/runs/RUN", "The state of a run and its whole history."),
    ("refs/baton/queues/QUEUE", "A queue."),
    ("refs/notes/baton/RUN", "Receipts as notes: `git log --notes='baton/*'`."),
    ("refs/heads/baton/RUN", "The integration branch of a run."),
    (
        "$GIT_DIR/baton/",
        "What only this machine needs: locks, attempts in work, copies that can be made anew.",
    ),
    ("REPOSITORY.baton/", "Beside the repository: the worktrees of its attempts."),
)


def man_pages() -> dict[str, str]:
    """File name and text of every page."""
    texts: dict[str, Any] = tomllib.loads(_TEXTS.read_text(encoding="utf-8"))
    unknown = set(texts) - {"main", *VERBS}
    if unknown:
        raise AssertionError(f"manual.toml has pages that do not exist: {unknown}")
    root = _context(cli, "git-baton", None)
    pages = {"git-baton.1": _main(root, texts["main"])}
    for family in FAMILIES.values():
        for verb in family:
            page = _page(verb, root, texts.get(verb, {}), [v for v in family if v != verb])
            pages[f"git-baton-{verb}.1"] = page
    return pages


def _main(root: click.Context, texts: dict[str, Any]) -> str:
    help_text = (cli.help or "").rstrip(".")
    lines = [*_head("git-baton", help_text[0].lower() + help_text[1:])]
    lines += [".SH SYNOPSIS", "\\fBgit baton\\fR [\\fB\\-C\\fR \\fIDIR\\fR] \\fIVERB\\fR [...]"]
    lines += [".SH DESCRIPTION", *_paragraphs([cli.help or "", *texts["text"]])]
    lines += [".SH VERBS"]
    for title, family in FAMILIES.items():
        lines += [f".SS {_quoted(title)}"]
        for verb, entry in family.items():
            lines += [".TP", f".BR {_code(f'git-baton-{verb}')} (1)", *_text(entry.help)]
    lines += [".SH OPTIONS", *_options(cli, root), *_common(cli, root)]
    lines += [*_examples(texts), ".SH EXIT STATUS", *_terms(_EXIT)]
    lines += [".SH ENVIRONMENT", *_terms(_ENVIRONMENT), ".SH FILES", *_terms(_FILES)]
    lines += [".SH CONFIGURATION", *_text("Settings of git, at any level; see git-config(1).")]
    lines += _terms((f"baton.{s.key}", f"{s.meaning[0].upper()}{s.meaning[1:]}.") for s in SETTINGS)
    meaning = "Command of `git baton run --agent NAME`."
    lines += _terms([("baton.agent.NAME.command", meaning)])
    return _joined([*lines, *_see_also(["git(1)", "git-worktree(1)", "git-notes(1)"])])


def _page(verb: str, root: click.Context, texts: dict[str, Any], family: list[str]) -> str:
    command = cli.get_command(root, verb)
    if command is None:
        raise AssertionError(verb)
    ctx = _context(command, verb, root)
    lines = [*_head(f"git-baton-{verb}", VERBS[verb].help.rstrip("."))]
    lines += [".SH SYNOPSIS"]
    leaves = list(_leaves(command, ctx))
    for at, (leaf, where) in enumerate(leaves):
        lines += [*([".br"] if at else []), _synopsis(leaf, where)]
    lines += [".SH DESCRIPTION", *_paragraphs(_prose(command)), *_paragraphs(texts.get("text", []))]
    if isinstance(command, click.Group):
        lines += [".SH COMMANDS"]
        for leaf, where in leaves:
            lines += [f".SS {_quoted(where.command_path.replace('git-baton', 'git baton'))}"]
            lines += [*_paragraphs(_prose(leaf)), *_options(leaf, where)]
    lines += [".SH OPTIONS", *_options(command, ctx), *_common(command, ctx)]
    lines += [*_examples(texts), ".SH EXIT STATUS", *_terms(_EXIT)]
    return _joined([*lines, *_see_also(["git-baton(1)", *(f"git-baton-{v}(1)" for v in family)])])


def _leaves(
    command: click.Command, ctx: click.Context
) -> Iterator[tuple[click.Command, click.Context]]:
    if not isinstance(command, click.Group):
        yield command, ctx
        return
    for name in command.list_commands(ctx):
        child = command.get_command(ctx, name)
        if child is not None:
            yield from _leaves(child, _context(child, name, ctx))


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    return click.Context(command, parent, name, **command.context_settings)


# --- parts of a page ---------------------------------------------------------------------------


def _head(name: str, does: str) -> Iterator[str]:
    yield _MARKER
    yield f'.TH {_code(name.upper())} 1 "" "git\\-baton {__version__}" "Manual of git\\-baton"'
    yield ".SH NAME"
    yield f"{_code(name)} \\- {_prose_text(does)}"


def _synopsis(command: click.Command, ctx: click.Context) -> str:
    path = _code(ctx.command_path.replace("git-baton", "git baton", 1))
    pieces = [p for p in command.collect_usage_pieces(ctx) if p != "[OPTIONS]"]
    arguments = "".join(f" {_code(piece)}" for piece in pieces)
    return f"\\fB{path}\\fR [\\fIoptions\\fR]{arguments}"


def _options(command: click.Command, ctx: click.Context) -> Iterator[str]:
    for param in command.get_params(ctx):
        if isinstance(param, click.Option) and param.name not in _COMMON and "-h" not in param.opts:
            yield from _option(param, ctx)


def _common(command: click.Command, ctx: click.Context) -> Iterator[str]:
    for param in command.get_params(ctx):
        if isinstance(param, click.Option) and (param.name in _COMMON or "-h" in param.opts):
            yield from _option(param, ctx)


def _option(option: click.Option, ctx: click.Context) -> Iterator[str]:
    record = option.get_help_record(ctx)
    if record is None:
        return
    meaning = "Print a short help." if "-h" in option.opts else option.help or ""
    needed = " Required." if option.required else ""
    yield from (".TP", f"\\fB{_code(record[0])}\\fR", *_text(meaning + needed))


def _examples(texts: dict[str, Any]) -> Iterator[str]:
    if "examples" not in texts:
        return
    yield ".SH EXAMPLES"
    for at, (sentence, commands) in enumerate(texts["examples"]):
        yield from ([".PP"] if at else [])
        yield from _text(sentence)
        yield from (".PP", ".RS 4", ".EX")
        yield from (_safe(_code(line)) for line in commands.strip().splitlines())
        yield from (".EE", ".RE")


def _terms(terms: Any) -> Iterator[str]:
    for term, meaning in terms:
        yield from (".TP", f"\\fB{_code(term)}\\fR", *_text(meaning))


def _see_also(names: list[str]) -> Iterator[str]:
    yield ".SH SEE ALSO"
    for at, name in enumerate(names):
        page, section = name.rstrip(")").split("(")
        yield f".BR {_code(page)} ({section}){',' if at + 1 < len(names) else ''}"


# --- roff --------------------------------------------------------------------------------------


def _prose(command: click.Command) -> list[str]:
    return [" ".join(part.split()) for part in (command.help or "").split("\n\n")]


def _paragraphs(texts: list[str]) -> Iterator[str]:
    for text in texts:
        yield from (".PP", *_text(text))


def _text(text: str) -> Iterator[str]:
    """Prose, one sentence a line as roff wants it."""
    for sentence in re.split(r"(?<=[a-z)`][.:]) (?=[A-Z`])", text):
        yield _safe(_prose_text(sentence))


def _prose_text(text: str) -> str:
    """Prose with `code` in bold."""
    parts = text.split("`")
    return "".join(
        f"\\fB{_code(part)}\\fR" if at % 2 else _escaped(part).replace("--", "\\-\\-")
        for at, part in enumerate(parts)
    )


def _code(text: str) -> str:
    """What somebody may copy: a hyphen stays the one of the keyboard."""
    marks = {"-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti", '"': "\\(dq"}
    return "".join(marks.get(character, character) for character in _escaped(text))


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\e")
    return "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in text)


def _safe(line: str) -> str:
    """A line that is no request."""
    return f"\\&{line}" if line.startswith((".", "'")) else line


def _quoted(text: str) -> str:
    return f'"{_code(text)}"'


def _joined(lines: list[str]) -> str:
    """Without a paragraph right below a heading, where it does nothing."""
    kept = [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if line != ".PP" or not before.startswith((".SH", ".SS"))
    ]
    return "\n".join(kept) + "\n"
