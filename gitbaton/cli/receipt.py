"""The verb for one receipt: show it, verify it, or hand it to another tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import click

from gitbaton.cli.output import Answer, context, current
from gitbaton.cli.verb import Verbs
from gitbaton.errors import BatonError

F = TypeVar("F", bound=Callable[..., Any])


@click.group("receipt", cls=Verbs)
def receipt() -> None:
    """Show, verify or export a receipt.

    It is named by an assignment, a ticket (its newest attempt) or a commit; inside an attempt's
    worktree it need not be named.
    """


def _which(function: F) -> F:
    argument = click.argument("what", required=False, metavar="[ASSIGNMENT|TICKET|COMMIT]")
    merged = click.option(
        "--merged", is_flag=True, help="The receipt of the merged tree, if checks ran on that."
    )
    return argument(merged(function))


@receipt.command("show")
@_which
def show(what: str | None, merged: bool) -> Answer:
    """Show what a receipt says, and whether it is signed."""
    from gitbaton.engine import receipt as receipts
    from gitbaton.report import receipt as report

    return Answer(receipts.show(context(), what, merged=merged), report.shown)


@receipt.command("verify")
@_which
def verify(what: str | None, merged: bool) -> Answer:
    """Judge a receipt: bytes, commit, checks, signature.

    Whom to trust is for whoever verifies to say: baton.allowedSigners.
    """
    from gitbaton.engine import receipt as receipts
    from gitbaton.report import receipt as report

    verdict = receipts.verify(context(), what, merged=merged)
    error = None
    if verdict.problems:
        first = verdict.problems[0]
        more = f" (and {len(verdict.problems) - 1} more)" if len(verdict.problems) > 1 else ""
        error = BatonError(
            "receipt-invalid", f"{first.message}{more}", "`git baton audit` shows all of the run"
        )
    return Answer(verdict, report.verified, error)


@receipt.command("export")
@_which
@click.option(
    "--format",
    "form",
    type=click.Choice(["statement", "dsse", "intoto-jsonl", "test-result"]),
    default="statement",
    show_default=True,
    help="The exact bytes, a DSSE envelope of them, that in one line, or an in-toto test-result.",
)
def export(what: str | None, merged: bool, form: str) -> Answer:
    """Print a receipt for another tool."""
    from gitbaton.engine import receipt as receipts

    ctx = context()
    exported = receipts.export(ctx, what, cast(receipts.Format, form), merged=merged)
    if not current().json:
        click.echo(exported.content.encode(), nl=False)
    return Answer(exported, lambda _: "")
