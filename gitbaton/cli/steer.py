"""Verbs that change the course of a run."""

from __future__ import annotations

import click

from gitbaton.cli import verb as common
from gitbaton.cli.output import Answer, context
from gitbaton.cli.verb import optional_first, verb
from gitbaton.report import text


@verb("abandon")
@common.assignment_argument
@click.option("--reason", default="", metavar="R", help="Why; kept with the attempt.")
@click.option("--force", is_flag=True, help="Also when it seems alive or has a receipt.")
def abandon(assignment: str, reason: str, force: bool) -> Answer:
    """Give an attempt up; its work stays.

    Refused while the attempt seems alive or has a receipt.
    """
    from gitbaton.engine import steer

    return Answer(steer.abandon(context(), assignment, reason, force), text.abandoned)


@verb("adopt")
@common.assignment_argument
def adopt(assignment: str) -> Answer:
    """Take a retired attempt that has a receipt back.

    The receipt is verified again before anything changes.
    """
    from gitbaton.engine import steer

    return Answer(steer.adopt(context(), assignment), text.adopted)


@verb("reopen")
@click.argument("words", nargs=-1, metavar="[RUN] TICKET")
@click.option("--reason", required=True, metavar="R", help="Why; kept in the log.")
@click.pass_context
def reopen(ctx: click.Context, words: tuple[str, ...], reason: str) -> Answer:
    """Make a resolved or failed ticket claimable again."""
    run, ticket = optional_first(words, ("RUN", "TICKET"), ctx)

    from gitbaton.engine import steer

    return Answer(steer.reopen(context(), run, ticket, reason), text.steered)


@verb("pause")
@common.run_argument
@click.option("--reason", required=True, metavar="R", help="Why; shown by status.")
def pause(run: str | None, reason: str) -> Answer:
    """Claim nothing new until resume.

    What is in flight goes on.
    """
    from gitbaton.engine import steer

    return Answer(steer.pause(context(), run, reason), text.steered)


@verb("resume")
@common.run_argument
def resume(run: str | None) -> Answer:
    """End a pause."""
    from gitbaton.engine import steer

    return Answer(steer.resume(context(), run), text.steered)


@verb("update")
@common.run_argument
@click.option(
    "--accept", is_flag=True, help="Check and record commits that somebody put on the branch."
)
def update(run: str | None, accept: bool) -> Answer:
    """Merge the base branch into the integration branch.

    The merged tree is checked like any other merge.
    """
    from gitbaton.engine.update import update as engine_update

    return Answer(engine_update(context(), run, accept=accept), text.moved)


@verb("land")
@common.run_argument
@click.option("--onto", metavar="B", help="Target branch (else the one the run started from).")
@click.option("--partial", is_flag=True, help="Also when the run is not complete.")
@click.option("--no-ff", is_flag=True, help="Make a merge commit even where none is needed.")
@click.option("--push-branch", is_flag=True, help="Push the integration branch with its record.")
def land(
    run: str | None, onto: str | None, partial: bool, no_ff: bool, push_branch: bool
) -> Answer:
    """Bring the integration branch of a run to its target branch."""
    from gitbaton.engine.land import land as engine_land

    return Answer(
        engine_land(
            context(), run, onto=onto, partial=partial, no_ff=no_ff, push_branch=push_branch
        ),
        text.moved,
    )


@verb("cleanup")
@common.run_argument
@click.option(
    "--include-integration", is_flag=True, help="Also resolution worktrees and the pool for checks."
)
@common.dry_run_option()
def cleanup(run: str | None, include_integration: bool, dry_run: bool) -> Answer:
    """Remove worktrees and branches of finished attempts.

    What is dirty, leased or not integrated stays and is named.
    """
    from gitbaton.engine.cleanup import cleanup as engine_cleanup

    result = engine_cleanup(
        context(), run, include_integration=include_integration, dry_run=dry_run
    )
    return Answer(result, text.would_remove if dry_run else text.cleaned)


@verb("delete")
@click.argument("run")
@click.option("--force", is_flag=True, help="Also when the run has not landed.")
@common.dry_run_option()
def delete(run: str, force: bool, dry_run: bool) -> Answer:
    """Remove all refs of a run.

    A run that has not landed needs --force.
    """
    from gitbaton.engine.delete import delete as engine_delete

    return Answer(engine_delete(context(), run, force=force, dry_run=dry_run), text.deleted)
