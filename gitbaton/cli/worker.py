"""Verbs for who does the work: `verify` as feedback, `seal` as evidence."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import click

from gitbaton.cli import verb as common
from gitbaton.cli.output import Answer, context, current
from gitbaton.cli.verb import verb
from gitbaton.errors import BatonError
from gitbaton.report import text

T = TypeVar("T")


@verb("verify")
@common.assignment_here
@common.token_option
def verify(assignment: str | None, token: str | None) -> Answer:
    """Run the checks in the attempt's worktree.

    Feedback only: nothing is recorded. Exit 1 when a check is red.
    """
    from gitbaton.engine import worker

    ctx = context()
    result = _showing_checks(
        lambda: worker.verify(ctx, assignment, token, on_output=_output_of_checks())
    )
    return Answer(result, lambda r: text.checks(r.checks))


@verb("seal")
@common.assignment_here
@common.token_option
@click.option(
    "--followup", "followups", multiple=True, metavar="TEXT", help="Work that should be added."
)
@click.option("--finding", "findings", multiple=True, metavar="TEXT", help="Something noticed.")
def seal(
    assignment: str | None,
    token: str | None,
    followups: tuple[str, ...],
    findings: tuple[str, ...],
) -> Answer:
    """Run the checks on the commit and record the receipt.

    Everything must be committed. The checks run on the commit in a clean worktree.
    """
    from gitbaton.engine import worker

    ctx = context()
    result = _showing_checks(
        lambda: worker.seal(
            ctx,
            assignment,
            token,
            followups=followups,
            findings=findings,
            on_output=_output_of_checks(),
        )
    )
    return Answer(result, text.sealed)


def _output_of_checks() -> Callable[[bytes], None] | None:
    """Where the output of the checks is shown as it comes: stderr, as stdout is for the answer."""
    if current().json:
        return None

    def show(data: bytes) -> None:
        sys.stderr.buffer.write(data)
        sys.stderr.buffer.flush()

    return show


def _showing_checks(run: Callable[[], T]) -> T:
    """What ``run`` returns; a refusal that carries checks shows them before it passes on."""
    try:
        return run()
    except BatonError as error:
        found = error.payload.get("checks")
        out = current()
        if isinstance(found, list | tuple) and not out.json:
            click.echo(text.checks(found), color=out.color)
        raise
