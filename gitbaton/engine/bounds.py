"""What a merge may do to the tip: nothing that its ticket must not touch, and nobody's work undone.

Sealing judges a commit against its base. A worker who merged the integration branch meanwhile could
still have dropped, in that merge, what others had done; so each merge is judged against the tip.
"""

from __future__ import annotations

from typing import NamedTuple

from gitbaton.engine.context import Context
from gitbaton.engine.merging import TicketMerge
from gitbaton.engine.prepare import tasks_path_of
from gitbaton.errors import Refused
from gitbaton.evidence.examine import named, require_scope
from gitbaton.git import ancestry, objects
from gitbaton.model import codec
from gitbaton.model.packet import Packet
from gitbaton.model.run import Attempt
from gitbaton.store import runs


class Overstep(NamedTuple):
    """Why a merge must not land."""

    code: str
    message: str


def overstep(ctx: Context, loaded: runs.Loaded, tip: str, merged: TicketMerge) -> Overstep | None:
    """Judge what ``merged`` changes in ``tip``, the tasks file aside; None: all within bounds."""
    attempt = merged.attempt
    tasks = tasks_path_of(ctx, loaded)
    stored = loaded.packet(attempt.id)
    if stored is None:
        return Overstep("packet-damaged", f"the packet of {attempt.id} is missing in the state")
    packet = codec.decode(stored, Packet)
    if packet.allowed_paths or packet.protected_paths:
        changed = objects.changed_paths(ctx.repo, tip, merged.commit)
        try:
            require_scope(packet, sorted(p for p in changed if p != tasks))
        except Refused as error:
            return Overstep(error.code, f"merged into the tip, it changes more: {error.message}")
    undone = [p for p in _undone(ctx, loaded, attempt) if p != tasks]
    if not undone:
        return None
    return Overstep(
        "reverts-others",
        f"{attempt.id} merged what others had done and put back how it was before: "
        f"{named(undone)}; `git baton abandon {attempt.id}` has it done anew on the present tip",
    )


def _undone(ctx: Context, loaded: runs.Loaded, attempt: Attempt) -> list[str]:
    """Paths that others changed on the integration branch, that the attempt took in, and that its
    sealed commit nevertheless has as they were before. What was in conflict is its to decide."""
    assert attempt.sealed is not None
    repo, sealed = ctx.repo, attempt.sealed.commit
    before: str | None = attempt.base_commit
    if attempt.resolved_commit is not None:
        before = ancestry.merge_base(repo, attempt.resolved_commit, attempt.base_commit)
    elif loaded.state.run.tip == before:
        return []
    taken_in = ancestry.merge_base(repo, loaded.state.run.tip, sealed)
    if before is None or taken_in is None or taken_in == before:
        return []
    return sorted(
        path
        for path in objects.changed_paths(repo, before, taken_in)
        if path not in attempt.conflicts
        and objects.entry_at(repo, sealed, path) == objects.entry_at(repo, before, path)
    )
