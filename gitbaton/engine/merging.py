"""One merge, computed in memory: what a ticket's sealed commit makes of the tip.

The plan belongs to people and to git-baton: whatever a worker's branch did to the tasks file is put
back, and the merge itself ticks the ticket's box. So neighbouring workers never conflict over it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from gitbaton.engine.context import Context
from gitbaton.evidence import ticks
from gitbaton.evidence.examine import printable
from gitbaton.git import ancestry, merge, objects, odb, refs
from gitbaton.model.run import Attempt
from gitbaton.store import runs


class TicketMerge(NamedTuple):
    """The merge commit of one attempt on top of the chain, and what it was made of.

    ``bare_tree`` is the merged tree before the tick, ``recipe`` how git merged.
    """

    attempt: Attempt
    commit: str
    tree: str
    bare_tree: str
    recipe: dict[str, str]


class Conflicted(NamedTuple):
    attempt: Attempt
    paths: tuple[str, ...]


@contextmanager
def merge_workspace(ctx: Context) -> Iterator[Path]:
    """A temporary folder that holds the attribute files of the tip while merging."""
    parent = ctx.repo.baton_dir / "tmp"
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="merge-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def merge_ticket(
    ctx: Context, loaded: runs.Loaded, tip: str, attempt: Attempt, workspace: Path
) -> TicketMerge | Conflicted:
    """Merge the sealed commit of ``attempt`` into ``tip`` and tick its ticket."""
    assert attempt.sealed is not None
    run = loaded.state.run
    tasks = ticks.tasks_path(ctx.repo, tip, run.target.folder)
    sealed = attempt.sealed.commit
    result = merge.merge(ctx.repo, tip, sealed, keep=[tasks], workspace=workspace)
    if result.tree is None:
        return Conflicted(attempt, tuple(map(printable, result.conflicts)))
    _warn_of_edits(ctx, loaded, attempt, tasks)
    _warn_of_later(ctx, loaded, attempt)
    with odb.batch(ctx.repo, durable=False):
        text = ticks.ticked_text(ctx.repo, result.tree, tasks, [attempt.ticket], run.unit)
        tree = ticks.with_text(ctx.repo, result.tree, tasks, text)
        commit = objects.create_commit(
            ctx.repo,
            tree,
            [tip, sealed],
            _message(loaded, attempt),
            author=ctx.require_identity(),
            when=ctx.clock.now().wall,
        )
    return TicketMerge(attempt, commit, tree, result.tree, result.recipe)


def _warn_of_edits(ctx: Context, loaded: runs.Loaded, attempt: Attempt, tasks: str) -> None:
    assert attempt.sealed is not None
    before = objects.entry_at(ctx.repo, attempt.base_commit, tasks)
    after = objects.entry_at(ctx.repo, attempt.sealed.commit, tasks)
    if before != after:
        ctx.warn(
            f"{loaded.state.run.id}/{attempt.id} changed {tasks}; that was put back "
            "(a worker proposes with `git baton seal --followup TEXT`)"
        )


def _warn_of_later(ctx: Context, loaded: runs.Loaded, attempt: Attempt) -> None:
    """Name the commits that the branch got after the seal: they are not part of the merge."""
    assert attempt.sealed is not None
    tip, sealed = refs.read(ctx.repo, attempt.branch), attempt.sealed.commit
    if tip is None or tip == sealed or not ancestry.is_ancestor(ctx.repo, sealed, tip):
        return
    chain = [c.oid for c in ancestry.first_parent_chain(ctx.repo, tip, sealed)]
    names = ", ".join(oid[:12] for oid in chain[:5]) + (" ..." if len(chain) > 5 else "")
    ctx.warn(
        f"{loaded.state.run.id}/{attempt.id} is integrated as sealed at {sealed[:12]}, "
        f"without what came after: {names}"
    )


def _message(loaded: runs.Loaded, attempt: Attempt) -> str:
    assert attempt.sealed is not None
    run = loaded.state.run.id
    ticket = loaded.state.plan.ticket(attempt.ticket)
    title = ticket.title if ticket else "(no longer in the plan)"
    title = "".join(c if c.isprintable() else " " for c in title)
    return (
        f"{attempt.ticket} {title}\n\n"
        f"Baton-Run: {run}\n"
        f"Baton-Ticket: {attempt.ticket}\n"
        f"Baton-Attempt: {attempt.number}\n"
        f"Baton-Receipt: {attempt.sealed.receipt_sha256}\n"
        f"Baton-State: {_recording_state(loaded, attempt)}\n"
    )


def _recording_state(loaded: runs.Loaded, attempt: Attempt) -> str:
    """The state commit that recorded the receipt: an anchor for all history before it."""
    for entry in runs.log(loaded.repo, loaded.state.run.id):
        event = entry.event
        if (
            event.event in ("seal", "adopt")
            and event.ticket == attempt.ticket
            and event.attempt == attempt.number
        ):
            return entry.oid
    return loaded.oid
