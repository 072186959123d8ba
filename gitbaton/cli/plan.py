"""Verbs about the plan: what was read, and boxes ticked by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gitbaton.cli import verb as common
from gitbaton.cli.output import Answer, context
from gitbaton.cli.verb import Verbs, optional_first, verb
from gitbaton.errors import PlanError
from gitbaton.report import text

if TYPE_CHECKING:
    from gitbaton.model.plan import Order, Unit


@verb("plan")
@common.run_argument
@click.option("--check", is_flag=True, help="Exit 1 when the plan has errors.")
@common.plan_options
def plan(
    run: str | None,
    check: bool,
    order: Order | None,
    unit: Unit | None,
    project: str | None,
    plan_from: str | None,
) -> Answer:
    """Show what would run: tickets, edges, checks, warnings."""
    from gitbaton.engine import planview

    view = planview.plan(
        context(), run, order=order, unit=unit, project=project, plan_from=plan_from
    )
    error = None
    if check and view.errors:
        first = view.errors[0]
        more = f" (and {len(view.errors) - 1} more)" if len(view.errors) > 1 else ""
        where = f"line {first.line}: " if first.line else ""
        error = PlanError(
            first.code, f"{where}{first.message}{more}", f"correct the plan of {view.run}"
        )
    return Answer(view, text.plan, error)


@click.group("tasks", cls=Verbs)
def tasks() -> None:
    """Tick or untick a box of the plan by hand.

    In the working tree only; prints the command that undoes it.
    """


@tasks.command("check")
@click.argument("words", nargs=-1, metavar="[RUN] KEY")
@common.dry_run_option()
@click.pass_context
def check(ctx: click.Context, words: tuple[str, ...], dry_run: bool) -> Answer:
    """Tick the box of a ticket."""
    return _flip(ctx, words, done=True, dry_run=dry_run)


@tasks.command("uncheck")
@click.argument("words", nargs=-1, metavar="[RUN] KEY")
@common.dry_run_option()
@click.pass_context
def uncheck(ctx: click.Context, words: tuple[str, ...], dry_run: bool) -> Answer:
    """Untick the box of a ticket."""
    return _flip(ctx, words, done=False, dry_run=dry_run)


def _flip(ctx: click.Context, words: tuple[str, ...], *, done: bool, dry_run: bool) -> Answer:
    run, key = optional_first(words, ("RUN", "KEY"), ctx)

    from gitbaton.engine import planview

    return Answer(planview.check_box(context(), run, key, done, dry_run), text.flipped)
