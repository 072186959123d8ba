"""The one terminal record of a batch: put together from its state, and held against it.

Whoever closes a batch and whoever audits it put the same record together, so a closeout that says
something else than the state does is found, with the field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from gitbaton.errors import BatonError
from gitbaton.evidence import statement
from gitbaton.evidence.chain import spot
from gitbaton.evidence.examine import printable
from gitbaton.evidence.roots import descriptor_of
from gitbaton.git import objects
from gitbaton.git.repo import Repository
from gitbaton.model import codec, layout
from gitbaton.model.audit import Problem
from gitbaton.model.batch import Batch, Child, Closeout
from gitbaton.model.run import Attempt
from gitbaton.rules import batch as rules
from gitbaton.rules.revise import resolved_by_receipt
from gitbaton.store import runs


def of(loaded: runs.Loaded) -> Closeout | None:
    """The closeout of a run; None if there is none that can be read."""
    data = loaded.file(layout.CLOSEOUT)
    try:
        return None if data is None else codec.decode(data, Closeout)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def compose(
    repo: Repository,
    loaded: runs.Loaded,
    batch: Batch,
    attempts: Iterable[Attempt],
    *,
    queue_revision: str,
    closed_at: str,
) -> Closeout:
    """The closeout of a batch that has ``closed`` as ``batch`` says; ``attempts`` are all, or at
    least those whose receipts were integrated.

    Raises `Refused` ``not-returned`` for a member that came to no end.
    """
    record, descriptor = loaded.state.run, descriptor_of(loaded.state.run)
    assert descriptor is not None and batch.closed is not None and batch.freeze is not None
    resolved = resolved_by_receipt(loaded.state)
    done = sorted((a for a in attempts if a.state == "succeeded"), key=lambda a: a.number)
    changed = objects.changed_paths(repo, record.base.commit, batch.freeze.tip)
    return rules.closeout(
        descriptor,
        batch,
        run=record.id,
        outcome=batch.closed,
        queue_revision=queue_revision,
        base_commit=record.base.commit,
        tip=batch.freeze.tip,
        branch=record.branch.removeprefix("refs/heads/"),
        plan=loaded.state.plan,
        fixed={a.ticket: a for a in done if a.ticket in resolved},
        work=[printable(path) for path in changed],
        children=[closeout for child in batch.children if (closeout := _of(repo, child))],
        usage=loaded.state.live.usage,
        opened_at=record.created_at,
        closed_at=closed_at,
    )


def _of(repo: Repository, child: Child) -> Closeout | None:
    """The closeout of a batch below, if it has closed and its record is here."""
    if child.closeout is None or not objects.exists(repo, child.closeout):
        return None
    return codec.decode(objects.read_blob(repo, child.closeout), Closeout)


def judge(repo: Repository, loaded: runs.Loaded, attempts: Iterable[Attempt]) -> Iterator[Problem]:
    """What in the closeout is not what the state says."""
    batch = loaded.state.batch
    if loaded.state.live.unclosed != (batch is not None and batch.closed is None):
        where = spot(loaded.oid, layout.LIVE, "unclosed")
        yield Problem(code="bad-batch", where=where, message="says otherwise than the batch")
    if batch is None or batch.closed is None or batch.freeze is None:
        return
    told = of(loaded)
    if told is None:
        yield _problem(loaded, "corrupt-state", "there is no closeout that can be read")
        return
    try:
        meant = compose(
            repo,
            loaded,
            batch,
            attempts,
            queue_revision=told.queue_revision,
            closed_at=told.closed_at,
        )
    except (BatonError, msgspec.MsgspecError) as error:
        yield _problem(loaded, "closeout-differs", f"cannot be put together: {error}")
        return
    expected = codec.encode(meant if _all_here(repo, batch) else _trusting(meant, told))
    data = loaded.file(layout.CLOSEOUT) or b""
    if expected != data:
        field = statement.first_difference(data, expected) or ""
        said = f"the closeout is not what the state says{f': {field}' if field else ''}"
        yield _problem(loaded, "closeout-differs", said, field)


def _all_here(repo: Repository, batch: Batch) -> bool:
    return all(objects.exists(repo, child.closeout) for child in batch.children if child.closeout)


def _trusting(meant: Closeout, told: Closeout) -> Closeout:
    """``meant`` with what ``told`` says beyond it of batches below whose record is not here."""
    kept = {
        field: getattr(told, field)
        for field in ("admitted", "work", "evidence")
        if set(getattr(meant, field)) <= set(getattr(told, field))
    }
    return replace(meant, **kept)


def _problem(loaded: runs.Loaded, code: str, message: str, field: str = "") -> Problem:
    return Problem(code=code, where=spot(loaded.oid, layout.CLOSEOUT, field), message=message)
