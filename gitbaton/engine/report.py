"""`report`: the one terminal record of a batch, as it was written when the batch closed."""

from __future__ import annotations

from gitbaton.engine.context import Context, resolve_run
from gitbaton.engine.membership import descriptor_of
from gitbaton.errors import Refused
from gitbaton.evidence import closeout
from gitbaton.model.batch import Closeout
from gitbaton.store import runs


def report(ctx: Context, run_name: str | None) -> Closeout:
    """The closeout of a batch; raises `Refused` for one that has not closed."""
    run = resolve_run(ctx, run_name)
    loaded = runs.load(ctx.repo, run)
    if descriptor_of(loaded.state.run) is None:
        raise Refused(
            "not-a-batch",
            f"{run} executes a change, which has no closeout",
            f"`git baton status {run} --all` tells what became of its tickets",
        )
    found = closeout.of(loaded)
    if found is None:
        raise Refused(
            "not-closed",
            f"batch {run} has not closed",
            f"`git baton status {run}` tells what is left",
        )
    return found
