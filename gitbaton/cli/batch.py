"""Verbs for batches: opening a virtual root, returning a member of it, telling what it came to."""

from __future__ import annotations

from pathlib import Path

import click

from gitbaton.cli import verb as common
from gitbaton.cli.output import Answer, context, current
from gitbaton.cli.verb import Verbs, verb
from gitbaton.report import batch as text

DISPOSITIONS = ("fixed", "obe", "blocked", "owned", "local-gate", "unresolved")


@click.group("batch", cls=Verbs)
def batch() -> None:
    """Run items of a queue as a batch.

    A batch is a run: actions, run, status, log and land work on it as on any other.
    """


@batch.command("open")
@click.option("--queue", metavar="NAME", help="Queue (else the only one, else 'default').")
@click.option(
    "--shards",
    metavar="DIR",
    help="Run the shards that `findings shard` wrote there, each within its scope.",
)
@click.option(
    "--membership",
    type=click.Choice(["snapshot", "live"]),
    default="live",
    show_default=True,
    help="The items as of now, or also those that come while it runs.",
)
@click.option(
    "--mode",
    type=click.Choice(["autopilot", "one-item"]),
    default="autopilot",
    show_default=True,
    help="All of them, or only the first.",
)
@click.option(
    "--filter", "filters", multiple=True, metavar="K=V", help="Which items; see queue list."
)
@click.option("--order", metavar="K,..", help="In which order; see queue list.")
@click.option("--request-id", metavar="R", help="Repeating it finds the same batch (else made).")
@click.option("--name", "command", default="", metavar="TEXT", help="What people call this batch.")
@click.option(
    "--gate",
    "gates",
    multiple=True,
    metavar="CMD",
    help="Must be green on the integration tip before the batch closes; repeat for several.",
)
@click.option("--parent", metavar="ASSIGNMENT", help="Open it below an attempt of another run.")
@common.verify_option
@common.base_option
def open_batch(
    queue: str | None,
    shards: str | None,
    membership: str,
    mode: str,
    filters: tuple[str, ...],
    order: str | None,
    request_id: str | None,
    command: str,
    gates: tuple[str, ...],
    parent: str | None,
    checks: tuple[str, ...],
    base: str | None,
) -> Answer:
    """Open a virtual root over a queue.

    The same request id always finds the same root, also after a crash and after it has closed.
    """
    from gitbaton.engine.opening import open_batch as engine_open
    from gitbaton.engine.queue import resolve_queue
    from gitbaton.engine.shards import fill
    from gitbaton.rules.selector import parse_filters, parse_order

    if queue is not None and shards is not None:
        raise click.UsageError("--queue and --shards exclude each other")
    ctx = context()
    extra = {"order": parse_order(order)} if order else {}
    result = engine_open(
        ctx,
        queue=resolve_queue(ctx, queue) if shards is None else fill(ctx, Path(shards)),
        membership=membership,  # type: ignore[arg-type]
        mode=mode,  # type: ignore[arg-type]
        request_id=request_id,
        command=command,
        filters=parse_filters(filters),
        gates=gates,
        checks=checks,
        base=base,
        parent=parent,
        **extra,
    )
    return Answer(result, text.opened)


@verb("dispose")
@common.assignment_here
@click.option(
    "--as", "kind", type=click.Choice(DISPOSITIONS), required=True, help="What it came to."
)
@click.option(
    "--by",
    multiple=True,
    metavar="ID",
    help="The items that block it (repeat for several), or the run that owns it.",
)
@click.option("--reason", default="", metavar="TEXT", help="Why; needed for all but fixed.")
@common.token_option
def dispose(
    assignment: str | None, kind: str, by: tuple[str, ...], reason: str, token: str | None
) -> Answer:
    """Return an item of a batch other than by fixing it.

    Only a receipt fixes an item: "fixed" integrates the one that was sealed.
    """
    from gitbaton.engine.dispose import dispose as engine_dispose

    result = engine_dispose(
        context(),
        assignment,
        kind,  # type: ignore[arg-type]
        by=by,
        reason=reason,
        token=token,
    )
    return Answer(result, text.disposed)


@verb("report")
@common.run_argument
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "md", "html"]),
    default="text",
    show_default=True,
    help="How to print it.",
)
def report(run: str | None, form: str) -> Answer:
    """Tell what a closed batch came to.

    The same for everybody who has the repository: it is the record made when the batch closed.
    """
    from gitbaton.engine.report import report as engine_report
    from gitbaton.report import closeout

    current().json = current().json or form == "json"
    texts = {"md": closeout.markdown, "html": closeout.html}
    return Answer(engine_report(context(), run), texts.get(form, closeout.text))
