"""Verbs of the loop: `run` as a program, and the four that a caller of its own needs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from gitbaton.cli import verb as common
from gitbaton.cli.output import Answer, context, current
from gitbaton.cli.verb import verb
from gitbaton.errors import BatonError, NeedsPerson
from gitbaton.model.action import ActionBatch, Blocked
from gitbaton.report import text

if TYPE_CHECKING:
    from gitbaton.engine.context import Context
    from gitbaton.engine.reconcile import Outcome
    from gitbaton.model.plan import Order, Unit


@verb("run")
@common.run_argument
@click.option("--agent", metavar="NAME", help="Preset of an agent, or baton.agent.NAME.command.")
@click.option("--command", metavar="CMD", help="Shell command of a worker; the prompt is on stdin.")
@click.option(
    "-j",
    "jobs",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Workers at once (else baton.capacity).",
)
@common.verify_option
@click.option(
    "--retries",
    type=click.IntRange(0),
    default=2,
    show_default=True,
    metavar="N",
    help="How often a worker is started again when a check is red.",
)
@click.option("--no-commit", is_flag=True, help="Refuse what a worker leaves uncommitted.")
@click.option("--max-minutes", type=click.IntRange(1), metavar="M", help="Stop after that time.")
@click.option(
    "--max-total-attempts",
    type=click.IntRange(1),
    metavar="N",
    help="Stop after that many attempts.",
)
@common.dry_run_option("-n")
@common.base_option
@common.plan_options
def run(
    run: str | None,
    agent: str | None,
    command: str | None,
    jobs: int | None,
    checks: tuple[str, ...],
    retries: int,
    no_commit: bool,
    max_minutes: int | None,
    max_total_attempts: int | None,
    dry_run: bool,
    base: str | None,
    order: Order | None,
    unit: Unit | None,
    project: str | None,
    plan_from: str | None,
) -> Answer:
    """Run a change or batch to its end, one worker process a ticket.

    Ends when every ticket is integrated (exit 0) or a person is needed (exit 3). Interrupt it at
    any time; the same command goes on.
    """
    if (agent is None) == (command is None):
        raise click.UsageError("Name one worker: --agent claude (codex, ...) or --command CMD")
    ctx = context()
    _warn_of_settings(ctx)

    from gitbaton.runner.driver import run_loop

    batch = run_loop(
        ctx,
        run,
        agent=agent,
        command=command,
        jobs=jobs or ctx.settings.capacity,
        checks=checks,
        retries=retries,
        commit=not no_commit,
        max_minutes=max_minutes,
        max_total_attempts=max_total_attempts,
        dry_run=dry_run,
        base=base,
        order=order,
        unit=unit,
        project=project,
        plan_from=plan_from,
        plain=_plain(),
    )
    return _batch(batch)


@verb("actions")
@common.run_argument
@common.session_option
@common.capacity_option
@common.verify_option
@common.base_option
@common.lease_option
@click.option("--redeliver", is_flag=True, help="Hand out again what no worker was started for.")
@common.plan_options
def actions(
    run: str | None,
    session: str,
    capacity: int | None,
    checks: tuple[str, ...],
    base: str | None,
    lease: int | None,
    redeliver: bool,
    order: Order | None,
    unit: Unit | None,
    project: str | None,
    plan_from: str | None,
) -> Answer:
    """Claim what may start now and say what to do next.

    Each `dispatch` names a worktree and a prompt: start a worker there, then report its end with
    `git baton reconcile`. Nothing is handed out twice.
    """
    from gitbaton.engine import dispatch

    ctx = context()
    _warn_of_settings(ctx)
    return _batch(
        dispatch.actions(
            ctx,
            run,
            session=session,
            capacity=capacity,
            checks=checks,
            base=base,
            lease=lease,
            redeliver=redeliver,
            order=order,
            unit=unit,
            project=project,
            plan_from=plan_from,
        )
    )


@verb("bind")
@common.assignment_argument
@click.argument("agent_id")
@common.token_option
def bind(assignment: str, agent_id: str, token: str | None) -> Answer:
    """Record the id of the worker that took an attempt.

    Idempotent; a second id is refused.
    """
    from gitbaton.engine import lease

    return Answer(lease.bind(context(), assignment, agent_id, token), text.held)


@verb("heartbeat")
@common.assignment_here
@common.token_option
def heartbeat(assignment: str | None, token: str | None) -> Answer:
    """Renew the lease of an attempt.

    Exit 1 says that the attempt is no longer yours.
    """
    from gitbaton.engine import lease

    return Answer(lease.heartbeat(context(), assignment, token), text.held)


@verb("reconcile")
@common.assignment_argument
@click.option(
    "--outcome",
    required=True,
    type=click.Choice(["completed", "failed", "canceled"]),
    help="How the worker ended.",
)
@common.session_option
@common.capacity_option
@common.token_option
def reconcile(
    assignment: str, outcome: Outcome, session: str, capacity: int | None, token: str | None
) -> Answer:
    """Report the end of a worker; integrate its receipt.

    With a valid receipt the attempt is integrated whatever the outcome says. Prints the next
    actions.
    """
    from gitbaton.engine.reconcile import reconcile as engine_reconcile

    return _batch(
        engine_reconcile(
            context(), assignment, outcome=outcome, session=session, capacity=capacity, token=token
        )
    )


def _warn_of_settings(ctx: Context) -> None:
    """Say of which settings nobody takes notice, before anything rests on them."""
    from gitbaton.config import of_unknown
    from gitbaton.engine import setup

    for key in setup.unknown(ctx.repo):
        ctx.warn(of_unknown(key))


def _batch(batch: ActionBatch) -> Answer:
    out = current()
    if not out.json:
        for warning in batch.warnings:
            out.warn(warning)
    return Answer(batch, text.batch, _needs_person(batch))


def _needs_person(batch: ActionBatch) -> BatonError | None:
    if batch.state not in ("blocked", "paused"):
        return None
    blocked = next((a for a in batch.actions if isinstance(a, Blocked)), None)
    if blocked is not None:
        return NeedsPerson(blocked.code, blocked.reason, blocked.hint)
    if batch.state == "paused":
        return NeedsPerson(
            "paused", f"run {batch.run} is paused", f"go on with `git baton resume {batch.run}`"
        )
    return NeedsPerson(
        "blocked", f"run {batch.run} cannot go on", f"see `git baton status {batch.run}`"
    )


def _plain() -> bool:
    """Whether progress is printed as plain lines."""
    out = current()
    return out.json or out.color is False or not sys.stderr.isatty()
