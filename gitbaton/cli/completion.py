"""Completion: the scripts for the shells, and the answer they ask for at every press of a key.

The three scripts hand over the line up to the cursor, as it stands; what a word is, whether git
stands before it, and what may come next is decided here, once for all shells. Only names that need
no quoting are offered: a shell must never read what a plan calls a ticket as anything else.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable
from importlib.resources import files
from typing import NamedTuple

import click

from gitbaton.cli.output import Answer
from gitbaton.cli.verb import verb

_PLAIN = re.compile(r"[\w@%+=:,./-]+")
_WITH_VALUE = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path")
"""Options of git itself whose value is a word of its own."""
_NEW_RUNS = ("plan", "run", "actions", "check", "uncheck")
"""Verbs that take a change as well, which need not be a run yet."""
_PLACES = {"directory": "dir", "project": "dir", "files": "file", "output": "file", "out": "file"}


class Word(NamedTuple):
    """What may stand at the cursor: a ``word`` with its help, or any ``file`` or ``dir``."""

    kind: str
    value: str = ""
    help: str = ""


@verb("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--line", hidden=True)
def completion(shell: str, line: str | None) -> Answer:
    """Print the script that completes git-baton in a shell.

    For `git baton` as well as `git-baton`: verbs, options, runs, assignments, queues, items.
    """
    if line is None:
        script = files("gitbaton.cli").joinpath(f"completion.{shell}").read_text("utf-8")
        return Answer({"script": script}, lambda _: script.removesuffix("\n"))
    found = words(line)
    shown = "\n".join("\t".join(word) for word in found)
    return Answer({"words": [word._asdict() for word in found]}, lambda _: shown)


def words(line: str) -> list[Word]:
    """What may stand at the end of ``line``, which starts with ``git-baton`` or ``git``."""
    from click.shell_completion import split_arg_string

    given = split_arg_string(line)
    typed = "" if not given or line[-1:].isspace() else given.pop()
    args = _own(given)
    if args is None:
        return []
    try:
        return _words(args, typed)
    except click.UsageError:
        return []


def _own(given: list[str]) -> list[str] | None:
    """The words that follow git-baton, those that tell the directory first; None if it is not
    git-baton that is being called."""
    if given and os.path.basename(given[0]) == "git-baton":
        return given[1:]
    place: list[str] = []
    rest = iter(given[1:])
    for word in rest:
        if word == "-C":
            place += [word, next(rest, "")]
        elif word in _WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            return [*place, *rest] if word == "baton" else None
    return None


def _words(args: list[str], typed: str) -> list[Word]:
    from click.shell_completion import _resolve_context, _resolve_incomplete

    from gitbaton.cli.main import VERBS, cli

    ctx = _resolve_context(cli, {}, "git-baton", list(args))
    for step in ctx.find_root().params.get("directory") or ():
        with contextlib.suppress(OSError):
            os.chdir(step)
    target, value = _resolve_incomplete(ctx, list(args), typed)
    before = typed.removesuffix(value)
    if isinstance(target, click.Parameter):
        kind = _PLACES.get(target.name or "")
        if kind is not None:
            return [Word(kind)]
        found = _names(target, ctx, value)
        if found is not None:
            return _offered(found, value, before)
    if target is cli and not value.startswith("-"):
        return [Word("word", n, e.help) for n, e in VERBS.items() if n.startswith(value)]
    offered = target.shell_complete(ctx, value)
    return [Word("word", before + item.value, _line(item.help)) for item in offered]


def _offered(found: Iterable[str], value: str, before: str) -> list[Word]:
    fit = (name for name in found if name.startswith(value) and _PLAIN.fullmatch(name))
    return [Word("word", before + name) for name in dict.fromkeys(fit)]


def _names(target: click.Parameter, ctx: click.Context, value: str) -> list[str] | None:
    """What in this repository a parameter may name; None when it names nothing of it."""
    from gitbaton.engine import names

    run = value.partition("/")[0] if "/" in value else ""
    project = ctx.params.get("project")
    adopts = ctx.info_name == "adopt"
    known: dict[str, Callable[[], list[str]]] = {
        "runs": names.runs,
        "assignment": lambda: _short_too(_over(run) if adopts else names.active(), value),
        "what": lambda: _short_too([*names.attempts(run), *names.tickets(run)], value),
        "item": lambda: names.items(ctx.params.get("name")),
        "--depends-on": lambda: names.items(ctx.params.get("name")),
        "--queue": names.queues,
        "--parent": names.active,
        "--base": names.branches,
        "--onto": names.branches,
        "--agent": _agents,
    }
    if target.name == "run":
        new = names.changes(project) if ctx.info_name in _NEW_RUNS else []
        return [*names.runs(), *new]
    if target.name == "words":
        first = (ctx.params.get("words") or ("",))[0]
        more = names.runs() if not first else []
        return [*names.tickets(first), *more]
    key = target.name or ""
    if isinstance(target, click.Option):
        key = max(target.opts, key=len)
    return known[key]() if key in known else None


def _over(run: str) -> list[str]:
    """Assignments that are over: only such can be adopted."""
    from gitbaton.engine import names

    active = set(names.active())
    return [name for name in names.attempts(run) if name not in active]


def _short_too(found: list[str], value: str) -> list[str]:
    """Names as they are; without their run if none begins like what was typed."""
    if any(name.startswith(value) for name in found):
        return found
    return [name.partition("/")[2] for name in found if "/" in name]


def _agents() -> list[str]:
    from gitbaton.engine import names
    from gitbaton.runner.agents import PRESETS

    return sorted({*PRESETS, *names.agents()})


def _line(text: str | None) -> str:
    return " ".join((text or "").split())
