"""Moving the state of a run: the one way in which a run ref ever changes.

A verb is a pure function from one state to the next. `transact` loads, applies, writes what
changed as one commit on top, and moves the ref only if it still is where it was; if not, it does
all of that again. A kernel lock keeps our own processes from trying in vain; the compare-and-swap
holds against everybody else. A kill at any moment leaves the old state or the new one.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from gitbaton.clock import Clock
from gitbaton.errors import Conflict, RepositoryError
from gitbaton.git import objects, odb, refs
from gitbaton.git.repo import Repository
from gitbaton.lock import Lock
from gitbaton.model import codec, layout
from gitbaton.model.batch import Batch
from gitbaton.model.ids import encode_key
from gitbaton.model.plan import Plan
from gitbaton.model.run import Attempt, Event, Intent, Live, RunRecord, RunState
from gitbaton.store import records, runs, trailers

T = TypeVar("T")
Step = Callable[[runs.Loaded], tuple[RunState, Event] | None]


class Beside(NamedTuple):
    """``stage``, given the state before, writes objects that are synced together with the new
    state. What it returns must not raise; it is done when the state's ref has moved, or, if
    ``first``, just before that: for a step that would be repeated after a kill in between."""

    stage: Callable[[runs.Loaded], Callable[[], None]]
    first: bool = False


# Seconds for which a ref may keep moving under us. A round takes milliseconds, and each one that
# is lost is somebody else's progress, so that twenty contenders are through in well under a second.
_PATIENCE = 10.0


def create(repo: Repository, state: RunState, event: Event, clock: Clock) -> runs.Loaded:
    """The first state of a run; raises `Conflict` ``run-exists``."""
    run = state.run.id
    exists = Conflict("run-exists", f"run {run} exists already", f"see `git baton status {run}`")
    with state_lock(repo):
        if refs.read(repo, layout.run_ref(run)) is not None:
            raise exists
        try:
            return _commit(repo, None, state, event, clock)
        except Conflict as error:
            raise exists from error


def transact(
    repo: Repository, run: str, step: Step, clock: Clock, beside: Beside | None = None
) -> runs.Loaded:
    """Apply ``step`` to the run's state and commit what it returns; None means nothing to do.

    ``step`` may run several times and must not write anything itself. What it raises passes
    through with nothing written. Raises as `runs.load` does, `Busy`, and `Conflict` if others
    move the ref without a pause.
    """
    # An id that does not exist is refused before a lock file is made for it.
    runs.tip(repo, run)

    def apply() -> runs.Loaded:
        loaded = runs.load(repo, run)
        made = step(loaded)
        return loaded if made is None else _commit(repo, loaded, *made, clock, beside)

    return retrying(repo, apply)


def retrying(repo: Repository, attempt: Callable[[], T]) -> T:
    """Run ``attempt`` under the state lock, again as long as a ref moved under it."""
    deadline = time.monotonic() + _PATIENCE
    pause = 0.001
    with state_lock(repo):
        while True:
            try:
                return attempt()
            except Conflict as error:
                if error.code != "ref-moved" or time.monotonic() > deadline:
                    raise
            time.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, 0.1)


def delete(repo: Repository, run: str) -> None:
    """Remove state and notes of a run; raises `NotFound` ``unknown-run``."""
    runs.tip(repo, run)

    def remove() -> None:
        # The state goes last: whoever is killed before that finds the run, and deletes it again.
        for ref in (layout.notes_ref(run), layout.run_ref(run)):
            oid = derived(repo, ref) if ref == layout.notes_ref(run) else refs.read(repo, ref)
            if oid is not None:
                refs.cas(repo, ref, oid, None, f"delete run {run}", ours=True)

    retrying(repo, remove)


def state_lock(repo: Repository) -> Lock:
    """The lock of this repository around one load, apply and commit; never held while working."""
    return Lock(repo.baton_dir / "locks" / "state.lock")


def intent_lock(repo: Repository, intent: str) -> Lock:
    """The lock whose holder carries out, or recovers, an intent on this machine."""
    return Lock(repo.baton_dir / "locks" / f"intent-{encode_key(intent)}.lock")


def derived(repo: Repository, ref: str) -> str | None:
    """The value of a ref that can be made anew; one that cannot be read is cleared out of the way.

    For writers, under the state lock. git itself refuses to replace a ref it cannot read.
    """
    try:
        return refs.read(repo, ref)
    except RepositoryError:
        (repo.common_dir / ref).unlink(missing_ok=True)
        return refs.read(repo, ref)


def identity(repo: Repository) -> tuple[str, str]:
    """(name, email) for commits that only record state: the user's, or git-baton's own."""
    known = _identities.get(repo.git_dir)
    if known is None:
        known = _identities[repo.git_dir] = repo.identity() or ("git-baton", "git-baton@localhost")
    return known


_identities: dict[Path, tuple[str, str]] = {}


def _commit(
    repo: Repository,
    before: runs.Loaded | None,
    state: RunState,
    event: Event,
    clock: Clock,
    beside: Beside | None = None,
) -> runs.Loaded:
    """Write ``state`` on top of ``before`` and move the ref; raises `Conflict` ``ref-moved``."""
    moment = clock.now()
    run = msgspec.structs.replace(
        state.run,
        generation=before.state.run.generation + 1 if before else state.run.generation,
        updated_at=moment.stamp,
    )
    parents = [before.oid] if before else []
    parents += [oid for oid in dict.fromkeys(state.parents) if oid not in parents]
    state = msgspec.structs.replace(state, run=run)
    with odb.batch(repo):
        edits = _edits(repo, before, state)
        tree = objects.edit_tree(repo, before.tree if before else None, edits)
        oid = objects.create_commit(
            repo,
            tree,
            parents,
            trailers.compose(run.id, event, os.urandom(16).hex()),
            author=identity(repo),
            when=moment.wall,
        )
        also = beside.stage(before) if beside and before else lambda: None
    old = before.oid if before else None
    also_first = beside is not None and beside.first
    if also_first:
        also()
    refs.cas(repo, layout.run_ref(run.id), old, oid, f"baton: {event.event}", ours=True)
    if not also_first:
        also()
    state = msgspec.structs.replace(state, touched={}, files={}, parents=())
    return runs.Loaded(repo, oid, tree, state)


def _edits(
    repo: Repository, before: runs.Loaded | None, state: RunState
) -> dict[str, objects.Edit]:
    """What of the tree changes from one state to the next."""
    edits: dict[str, objects.Edit] = dict(state.files)
    old = before.state if before else None

    def put(path: str, value: msgspec.Struct, kind: Any) -> None:
        entry = objects.entry_at(repo, before.tree, path) if before else None
        data = _encode(repo, value, entry[0] if entry else None, kind)
        oid = objects.write_blob(repo, data)
        records.remember(oid, data, value, kind)
        edits[path] = (oid, odb.FILE)

    put(layout.RUN, state.run, RunRecord)
    if old is None or _differ(old.live, state.live):
        put(layout.LIVE, state.live, Live)
    if old is None or _differ(old.plan, state.plan):
        put(layout.PLAN, state.plan, Plan)
    if state.batch is not None and (old is None or _differ(old.batch, state.batch)):
        put(layout.BATCH, state.batch, Batch)
    intents = old.intents if old else {}
    for name in intents.keys() - state.intents.keys():
        edits[layout.intent_path(name)] = None
    for name, intent in state.intents.items():
        if name not in intents or _differ(intents[name], intent):
            put(layout.intent_path(name), intent, Intent)
    for attempt, value in state.touched.items():
        put(layout.path_of(attempt, layout.ATTEMPT), value, Attempt)
    return edits


def _differ(old: object, new: object) -> bool:
    return old is not new and old != new


def _encode(repo: Repository, value: msgspec.Struct, previous: str | None, kind: Any) -> bytes:
    """The bytes of ``value``, with what the blob ``previous`` holds beyond what we know of."""
    if previous is not None:
        try:
            return codec.encode_over(value, records.data_of(repo, previous, kind))
        except (RepositoryError, msgspec.MsgspecError, UnicodeDecodeError):
            pass  # a damaged file is healed by writing it anew
    return codec.encode(value)
