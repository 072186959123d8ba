"""Verbs that only look: nothing is made or changed by them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gitbaton.cli import verb as common
from gitbaton.cli.output import Answer, context, current
from gitbaton.cli.verb import verb
from gitbaton.model.transitions import WORKING
from gitbaton.report import lines

if TYPE_CHECKING:
    from gitbaton.engine.context import Context
    from gitbaton.engine.look import Show

_POLL_SECONDS = 0.3


@verb("status")
@common.run_argument
@click.option("--all", "all_attempts", is_flag=True, help="Show finished attempts too.")
def status(run: str | None, all_attempts: bool) -> Answer:
    """Show where a run stands and what to do next."""
    from gitbaton.engine import look
    from gitbaton.report import look as report

    return Answer(look.status(context(), run, all_attempts=all_attempts), report.status)


@verb("list")
def runs() -> Answer:
    """List all runs."""
    from gitbaton.engine import look
    from gitbaton.report import look as report

    return Answer(look.list_runs(context()), report.runs)


@verb("log")
@common.run_argument
@click.option(
    "-n", "limit", type=click.IntRange(1), default=20, show_default=True, help="How many events."
)
def log(run: str | None, limit: int) -> Answer:
    """Show what happened in a run, newest first."""
    from gitbaton.engine import look
    from gitbaton.report import look as report

    return Answer(look.log(context(), run, limit), report.log)


@verb("show")
@click.argument("what", required=False, metavar="[ASSIGNMENT|TICKET]")
@click.option("--log", "with_log", is_flag=True, help="Show the output of the worker.")
@click.option("-f", "follow", is_flag=True, help="With --log: go on until the worker ends.")
def show(what: str | None, with_log: bool, follow: bool) -> Answer:
    """Show one attempt: state, packet, receipt, output.

    A ticket stands for its newest attempt; inside an attempt's worktree neither need be named.
    """
    if follow and not with_log:
        raise click.UsageError("-f goes with --log")
    if follow and current().json:
        raise click.UsageError("-f prints no document: leave --json out")

    from gitbaton.engine import look
    from gitbaton.report import look as report

    ctx = context()
    shown = look.show(ctx, what)
    if follow:
        _follow(ctx, shown)
        return Answer(shown, lambda _: "")
    if with_log and current().json:
        import msgspec

        return Answer({**msgspec.to_builtins(shown), "log": _read(shown.log_path)}, report.show)
    if with_log:
        return Answer(shown, lambda s: _read(s.log_path))
    return Answer(shown, report.show)


def _read(path: str) -> str:
    try:
        return _plain(Path(path).read_text(errors="replace"))
    except FileNotFoundError:
        return ""


def _plain(output: str) -> str:
    """What a worker printed, without what would move the cursor."""
    return lines.clean_block(click.unstyle(output))


def _follow(ctx: Context, shown: Show) -> None:
    """Print the output of a worker line by line as it comes, until the attempt is over."""
    from gitbaton.store import runs

    run, _, attempt = shown.assignment.partition("/")
    path, offset = Path(shown.log_path), 0
    while True:
        found = runs.load_live(ctx.repo, run)[2].attempts.get(attempt)
        working = found is not None and found.state in WORKING
        if path.exists():
            with path.open("rb") as file:
                file.seek(offset)
                output = file.read()
            whole = output if not working else output[: output.rfind(b"\n") + 1]
            if whole:
                click.echo(_plain(whole.decode(errors="replace")))
                offset += len(whole)
        if not working:
            return
        time.sleep(_POLL_SECONDS)
