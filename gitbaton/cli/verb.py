"""What all verbs have in common: ``--json``, ``--color``, help, and how the answer is printed.

A verb is a click command whose function returns an `Answer`; it imports the engine inside, so that
help and usage errors load neither the engine nor libgit2.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from gitbaton.cli.output import Answer, Output, not_text

F = TypeVar("F", bound=Callable[..., Any])

_PATHS = ("directory", "project", "plan_from")
"""Parameters that may name a file by any bytes."""


class Verb(click.Command):
    """A command that prints the `Answer` its function returns."""

    def __init__(self, name: str | None, **attrs: Any) -> None:
        super().__init__(name, **_common(attrs))

    def invoke(self, ctx: click.Context) -> int:
        for param in self.params:
            if param.name not in _PATHS:
                _require_text(param, ctx)
        answer = super().invoke(ctx)
        out = ctx.find_object(Output)
        if not isinstance(answer, Answer) or out is None:
            raise AssertionError(f"{ctx.command_path} returned no answer")
        return out.answer(answer)


def _require_text(param: click.Parameter, ctx: click.Context) -> None:
    """Refuse what could not be recorded: a repository holds text, and text is UTF-8."""
    value = ctx.params.get(param.name or "")
    words = value if isinstance(value, tuple) else (value,)
    if any(isinstance(word, str) and not_text(word) for word in words):
        raise click.BadParameter("that is not UTF-8", ctx, param)


class Verbs(click.Group):
    """A verb with verbs of its own, e.g. ``tasks check``."""

    command_class = Verb

    def __init__(self, name: str | None = None, **attrs: Any) -> None:
        super().__init__(name, no_args_is_help=False, **_common(attrs))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        out = ctx.find_object(Output)
        if not args and not ctx.resilient_parsing and not (out and out.json):
            click.echo(self.get_help(ctx), err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)


def _common(attrs: dict[str, Any]) -> dict[str, Any]:
    settings = {"help_option_names": ["-h"], "max_content_width": 100}
    attrs["context_settings"] = {**settings, **(attrs.get("context_settings") or {})}
    attrs["params"] = [*(attrs.get("params") or []), _json(), _color(), _manual()]
    return attrs


def _json() -> click.Option:
    def chosen(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        out = ctx.find_object(Output)
        if value and out is not None:
            out.json = True

    return click.Option(
        ["--json"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=chosen,
        help="Print one JSON document (also: BATON_JSON=1).",
    )


def _color() -> click.Option:
    def chosen(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        out = ctx.find_object(Output)
        if out is None:
            return
        if value is not None:
            out.color = {"always": True, "never": False}.get(value)
        elif ctx.parent is None and _colorless():
            out.color = False
        ctx.color = out.color

    return click.Option(
        ["--color"],
        type=click.Choice(["auto", "always", "never"]),
        expose_value=False,
        is_eager=True,
        callback=chosen,
        help="Colour the text: auto (for a terminal), always or never.",
    )


def _manual() -> click.Option:
    def wanted(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            if sys.stdout.isatty():
                _open_page("-".join(ctx.command_path.split()[:2]))
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()

    return click.Option(
        ["--help"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=wanted,
        help="Open the manual page.",
    )


def _open_page(name: str) -> None:
    """Become the program that shows a page of the manual; return if it or the page is missing."""
    import shutil
    import sysconfig

    page = os.path.join(sysconfig.get_path("data"), "share", "man", "man1", f"{name}.1")
    man = shutil.which("man")
    if man and os.path.isfile(page):
        os.execv(man, [man, page])


def _colorless() -> bool:
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def verb(name: str) -> Callable[[Callable[..., Answer]], Verb]:
    """Make a function into the verb ``name``."""
    return click.command(name, cls=Verb)


def run_argument(function: F) -> F:
    """``[RUN]``: the run that is meant, or None for the one that is clear from the context."""
    return click.argument("run", required=False)(function)


def assignment_argument(function: F) -> F:
    """``ASSIGNMENT``, which must be named."""
    return click.argument("assignment")(function)


def assignment_here(function: F) -> F:
    """``[ASSIGNMENT]``: absent inside the attempt's worktree."""
    return click.argument("assignment", required=False)(function)


def token_option(function: F) -> F:
    return click.option(
        "--token", metavar="T", help="Secret of the attempt (else BATON_TOKEN, or its directory)."
    )(function)


def session_option(function: F) -> F:
    return click.option(
        "--session", required=True, metavar="S", help="Who claims: a name you choose."
    )(function)


def capacity_option(function: F) -> F:
    return click.option(
        "--capacity",
        type=click.IntRange(1, 64),
        metavar="N",
        help="Tickets this session may hold at once (else baton.capacity).",
    )(function)


def dry_run_option(*names: str) -> Callable[[F], F]:
    return click.option(
        *names, "--dry-run", "dry_run", is_flag=True, help="Show what would be done, do nothing."
    )


def verify_option(function: F) -> F:
    return click.option(
        "--verify",
        "checks",
        multiple=True,
        metavar="CMD",
        help="Check that must be green; repeat for several (else baton.verify).",
    )(function)


def plan_options(function: F) -> F:
    """How the plan is found and read."""
    options = (
        click.option(
            "--order",
            type=click.Choice(["sections", "sequential", "explicit"]),
            help="What waits for what: earlier sections, every earlier ticket, or named ones only.",
        ),
        click.option(
            "--unit",
            type=click.Choice(["task", "section"]),
            help="One ticket for each task, or for each section.",
        ),
        click.option("--project", metavar="DIR", help="Folder that holds openspec/."),
        click.option(
            "--plan-from", metavar="PATH|REV", help="Working tree or revision that has the plan."
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def base_option(function: F) -> F:
    return click.option(
        "--base", metavar="B", help="Branch that a new run starts from (else detected)."
    )(function)


def lease_option(function: F) -> F:
    def seconds(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
        from gitbaton.config import duration

        return None if value is None else duration(value)

    return click.option(
        "--lease", metavar="T", callback=seconds, help="How long a claim lasts, e.g. 15m or 4h."
    )(function)


def optional_first(
    words: tuple[str, ...], names: tuple[str, str], ctx: click.Context
) -> tuple[str | None, str]:
    """``[FIRST] SECOND`` of a command line: one word is the second."""
    if len(words) == 1:
        return None, words[0]
    if len(words) == 2:
        return words[0], words[1]
    problem = f"Missing argument '{names[1]}'" if not words else "Got unexpected extra arguments"
    raise click.UsageError(problem, ctx)
