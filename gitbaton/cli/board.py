"""The verb that makes a page to look at."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitbaton.cli import verb as common
from gitbaton.cli.output import Answer, context, current
from gitbaton.cli.verb import verb
from gitbaton.errors import Interrupted, UsageError
from gitbaton.report.lines import clean

if TYPE_CHECKING:
    from gitbaton.engine.board import Board
    from gitbaton.engine.context import Context

_POLL_SECONDS = 0.5
NAME = "board.html"


@verb("board")
@common.run_argument
@click.option("--all", "every", is_flag=True, help="Show all runs.")
@click.option("--at", metavar="COMMIT", help="Show the run as of a commit that `log` lists.")
@click.option(
    "-o", "file", metavar="FILE", help="Where to write it (else in the git directory); - is stdout."
)
@click.option("--open", "show", is_flag=True, help="Open it in the browser.")
@click.option("--watch", is_flag=True, help="Make it again whenever the run moves, until Ctrl-C.")
def board(
    run: str | None, every: bool, at: str | None, file: str | None, show: bool, watch: bool
) -> Answer:
    """Make a page that shows a run: one file, for any browser.

    It has the tickets as a graph, a timeline of all attempts, and of each attempt its checks,
    files, receipt, and commands to copy. It loads nothing, so it works offline. Prints where it is.
    """
    stdout = file == "-"
    _require_one_meaning(run, every, at, stdout=stdout, watch=watch, show=show)

    from gitbaton.engine import board as engine

    ctx = context()
    made = engine.board(ctx, run, every=every, at=at)
    if stdout:
        return Answer(_told(made, None), lambda _: _page(made))
    path = _place(ctx, file)
    _write(path, made, watched=watch)
    if show:
        import webbrowser

        webbrowser.open(path.as_uri())
    if watch:
        _watch(ctx, made, path, run, every=every)
    return Answer(_told(made, path), lambda _: clean(str(path)))


def _require_one_meaning(
    run: str | None, every: bool, at: str | None, *, stdout: bool, watch: bool, show: bool
) -> None:
    if every and (run is not None or at is not None):
        raise click.UsageError("--all goes with neither RUN nor --at")
    if watch and at is not None:
        raise click.UsageError("--at shows what does not move any more: leave --watch out")
    if stdout and (watch or show or current().json):
        raise click.UsageError("-o - writes the page to stdout: name a file for this")


def _told(made: Board, path: Path | None) -> dict[str, Any]:
    """What the JSON document says of the page."""
    return {
        "path": str(path) if path else None,
        "runs": [
            {
                "run": run.run,
                "state": run.state,
                "tickets": len(run.tickets),
                "attempts": len(run.attempts),
                "error": run.error,
            }
            for run in made.runs
        ],
    }


def _place(ctx: Context, file: str | None) -> Path:
    """The absolute path to write to; raises `UsageError` where nothing can be put in place."""
    if file is None:
        ctx.repo.baton_dir.mkdir(parents=True, exist_ok=True)
        return ctx.repo.baton_dir / NAME
    path = Path(os.path.realpath(file))
    if not path.parent.is_dir():
        raise UsageError("no-such-folder", f"{path.parent} is no folder", "make it first")
    if os.path.lexists(path) and not path.is_file():
        raise UsageError("bad-path", f"{path} is no file", "name a file, or - for stdout")
    return path


def _page(made: Board, *, watched: bool = False) -> str:
    from gitbaton.report import board as report

    return report.page(made, watched=watched)


def _write(path: Path, made: Board, *, watched: bool = False) -> None:
    from gitbaton.engine.disk import write_synced

    try:
        write_synced(path, _page(made, watched=watched).encode())
    except FileNotFoundError as error:  # the folder is gone, or one that takes no files
        raise UsageError(
            "bad-path", f"{path} cannot be made", "name another file, or - for stdout"
        ) from error


def _watch(ctx: Context, made: Board, path: Path, run: str | None, *, every: bool) -> None:
    """Make the page again whenever a ref that it rests on has moved; ends by Ctrl-C only, and then
    leaves a page that does not wait for another."""
    from gitbaton.engine import board as engine

    name = run if every else made.runs[0].run
    if not current().json:
        click.echo(clean(str(path)))
    try:
        while True:
            time.sleep(_POLL_SECONDS)
            if engine.has_moved(ctx, made, every=every):
                made = engine.board(ctx, name, every=every)
                _write(path, made, watched=True)
    except KeyboardInterrupt:
        _write(path, made)
        raise Interrupted(
            "interrupted", "interrupted", "the page stays as it is", _told(made, path)
        ) from None
