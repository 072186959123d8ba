"""Verbs around a run: set up, try out, look at settings, find out what is wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gitbaton.cli import verb as common
from gitbaton.cli.output import Answer, context, current, not_text
from gitbaton.cli.verb import Verbs, verb
from gitbaton.errors import Refused
from gitbaton.report import lines, text


@verb("init")
@click.option("--hooks", "with_hooks", is_flag=True, help="Judge pushes: git baton hook install.")
@click.option(
    "--agent-instructions",
    "language",
    type=click.Choice(["en", "zh"]),
    is_flag=False,
    flag_value="en",
    help="Teach coding agents the loop: a skill, or a section of AGENTS.md. Alone it means =en.",
)
def init(with_hooks: bool, language: str | None) -> Answer:
    """Set up this repository: refspecs, display of notes, hooks.

    Shows each change; idempotent. Not needed to run anything.
    """
    from gitbaton.engine import setup

    changes = setup.init(context(), with_hooks=with_hooks, language=language)
    return Answer(changes, text.changes)


@verb("demo")
@click.argument("directory", required=False, metavar="[DIR]", type=click.Path(path_type=Path))
def demo(directory: Path | None) -> Answer:
    """Run the whole loop in a new repository, to see how it works.

    In a temporary folder (or DIR) that stays. Scripted workers; no network, no key.
    """
    from gitbaton.runner.demo import demo as runner_demo

    if directory is not None and not_text(str(directory.absolute())):
        raise click.UsageError("the demo needs a folder whose path is UTF-8")
    out = current()
    plain = out.json or out.color is False or not sys.stderr.isatty()
    return Answer({"directory": str(runner_demo(directory, plain))}, text.demonstrated)


@verb("config")
def config() -> Answer:
    """Show all settings with origin and meaning."""
    from gitbaton.config import of_unknown
    from gitbaton.engine import setup
    from gitbaton.git.opening import open_repository

    shown = setup.config(open_repository())
    for key in shown.unknown:
        current().warn(of_unknown(key))
    return Answer(shown, text.settings)


@verb("doctor")
@click.option("--fix", is_flag=True, help="Put right what loses nothing.")
def doctor(fix: bool) -> Answer:
    """Check the environment and the repository."""
    from gitbaton.engine.doctor import examine

    report = examine(current().warn, fix=fix)
    wrong = [check for check in report.checks if not check.ok]
    error = None
    if wrong:
        failed = lines.plural(len(wrong), "check")
        error = Refused("unhealthy", f"{failed} failed: {wrong[0].message}", wrong[0].fix)
    return Answer(report, text.doctor, error)


@click.group("notes", cls=Verbs)
def notes() -> None:
    """Rebuild the git notes that show receipts."""


@notes.command("rebuild")
@common.run_argument
def rebuild(run: str | None) -> Answer:
    """Make the notes of a run anew from its state."""
    from gitbaton.engine.context import resolve_run
    from gitbaton.store import notes as store_notes

    ctx = context()
    name = resolve_run(ctx, run)
    changed = store_notes.rebuild(ctx.repo, name, ctx.clock)
    return Answer({"run": name, "changed": changed}, text.rebuilt)
