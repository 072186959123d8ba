"""Receipts as git notes: a copy beside the commits they speak of, for `git log` and for people.

The notes of a run are a projection of its state, can be made anew from it at any time, and are
never read as truth; so nothing that somebody does to the notes ref stops a verb. They are written
by hand because libgit2 makes no fan-out and neither it nor `git notes add` is safe when several
processes write at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

import msgspec

from gitbaton.clock import Clock
from gitbaton.errors import BatonError, RepositoryError
from gitbaton.git import objects, odb, refs
from gitbaton.git.repo import Repository
from gitbaton.model import codec, layout
from gitbaton.model.batch import Closeout
from gitbaton.model.ids import AttemptId
from gitbaton.model.run import Attempt
from gitbaton.store import runs, transact


def beside(
    repo: Repository,
    run: str,
    texts: Callable[[runs.Loaded], Mapping[str, bytes]],
    clock: Clock,
    failed: Callable[[BatonError], None],
    *,
    first: bool = False,
) -> transact.Beside:
    """For `transact`: put ``texts`` on commits (by object id) together with a new state, replacing
    the notes that are there. What goes wrong is told to ``failed`` and stops nothing."""

    def stage(before: runs.Loaded) -> Callable[[], None]:
        commit = None
        tip = _Tip(repo, run, None)
        try:
            tip = _Tip(repo, run, transact.derived(repo, layout.notes_ref(run)))
            notes = texts(before)
            if notes:
                commit = tip.commit(_merged(repo, run, tip, notes), clock)
        except BatonError as error:
            failed(error)

        def move() -> None:
            try:
                tip.move(commit)
            except BatonError as error:
                failed(error)

        return move

    return transact.Beside(stage, first)


def rebuild(repo: Repository, run: str, clock: Clock) -> bool:
    """Make the notes of a run anew from its state, on top of what is there; False: they agreed."""
    ref = layout.notes_ref(run)
    # Long work, so done before the lock is taken, and again under it only if a note came between.
    # The notes are looked at before the state: what is written after that moves the ref.
    tip = _Tip(repo, run, _value(repo, ref))
    tree = _all(repo, run)

    def attempt() -> bool:
        nonlocal tip, tree
        oid = transact.derived(repo, ref)
        if oid != tip.oid:
            tip = _Tip(repo, run, oid)
            tree = _all(repo, run)
        return tip.move(tip.commit(tree, clock))

    return transact.retrying(repo, attempt)


def read(repo: Repository, run: str, commit: str) -> bytes | None:
    """The note of a commit, wherever in a fan-out it lies; None if there is none to be read."""
    try:
        tree = _Tip(repo, run, _value(repo, layout.notes_ref(run))).tree
        places = _places(repo, tree, commit)
        return objects.blob_at(repo, tree, places[0]) if tree and places else None
    except RepositoryError:
        return None


def of_merge(receipt: bytes, merged: bytes | None) -> bytes:
    """The note of a merge: its ticket's receipt, and that of the merge itself if it has one."""
    return receipt if merged is None else _then(receipt, merged)


def of_closeout(loaded: runs.Loaded, data: bytes) -> tuple[str, bytes]:
    """The integration tip that the closeout ``data`` speaks of, and its note: what that holds
    anyway, then the closeout."""
    closeout = codec.decode(data, Closeout)
    tip = closeout.tip
    merged = next((m.attempt for m in closeout.members if m.merge_commit == tip), None)
    if merged is None:
        receipt = loaded.file(layout.commit_path(tip))
    else:
        attempt = AttemptId.parse(merged)
        receipt = loaded.receipt(attempt)
        receipt = receipt and of_merge(receipt, loaded.merged_receipt(attempt))
    return tip, data if receipt is None else _then(receipt, data)


def _then(document: bytes, further: bytes) -> bytes:
    return document.rstrip(b"\n") + b"\n\n" + further


def _path(commit: str) -> str:
    return f"{commit[:2]}/{commit[2:4]}/{commit[4:]}"


def _with(repo: Repository, tree: str, notes: Mapping[str, bytes]) -> str:
    """The tree of notes with some of them set."""
    edits: dict[str, objects.Edit] = {}
    for commit, text in notes.items():
        edits.update(dict.fromkeys(_places(repo, tree, commit)))
        edits[_path(commit)] = text
    return objects.edit_tree(repo, tree, edits)


def _merged(repo: Repository, run: str, tip: _Tip, notes: Mapping[str, bytes]) -> str:
    """The tree of notes at ``tip`` with some of them set; made anew where it is damaged."""
    try:
        return _with(repo, tip.tree or _all(repo, run), notes)
    except RepositoryError:  # damaged below the top
        return _with(repo, _all(repo, run), notes)


def _all(repo: Repository, run: str) -> str:
    """The tree of every note that the state speaks for."""
    loaded = runs.load(repo, run)
    notes: dict[str, objects.Edit] = {}
    for attempt in _readable(loaded):
        receipt = loaded.receipt(attempt.id)
        if receipt is None or attempt.sealed is None:
            continue
        notes[_path(attempt.sealed.commit)] = receipt
        if attempt.merge_commit:
            merged = loaded.merged_receipt(attempt.id)
            notes[_path(attempt.merge_commit)] = of_merge(receipt, merged)
    for name, oid, _ in objects.list_tree(repo, loaded.tree, layout.COMMITS):
        commit = layout.commit_of(f"{layout.COMMITS}/{name}")
        if commit is not None:
            notes[_path(commit)] = (oid, odb.FILE)
    closeout = loaded.file(layout.CLOSEOUT)
    if closeout is not None:
        with suppress(msgspec.MsgspecError, ValueError):  # audit will speak of it
            tip, text = of_closeout(loaded, closeout)
            notes[_path(tip)] = text
    return objects.edit_tree(repo, None, notes)


def _readable(loaded: runs.Loaded) -> Iterator[Attempt]:
    """The attempts that can be read: a damaged one has no note, and audit will speak of it."""
    for attempt in loaded.attempt_ids():
        try:
            found = loaded.attempt(attempt)
        except RepositoryError:
            continue
        if found is not None:
            yield found


class _Tip:
    """The notes ref as found; ``tree`` is None if there are no notes, or none that can be used."""

    def __init__(self, repo: Repository, run: str, oid: str | None) -> None:
        self.repo = repo
        self.ref = layout.notes_ref(run)
        self.oid = oid
        self.tree: str | None = None
        if self.oid is not None:
            try:
                self.tree = objects.commit_info(repo, self.oid).tree
                objects.list_tree(repo, self.tree)
            except RepositoryError:
                self.tree = None

    def commit(self, tree: str, clock: Clock) -> str | None:
        """A commit of ``tree`` on top; None if that is what the ref holds already."""
        nothing = self.oid is None and not objects.list_tree(self.repo, tree)
        if tree == self.tree or nothing:
            return None
        return objects.create_commit(
            self.repo,
            tree,
            [self.oid] if self.oid and self.tree else [],
            "Notes of git-baton\n",
            author=transact.identity(self.repo),
            when=clock.now().wall,
            sign=False,
        )

    def move(self, commit: str | None) -> bool:
        """Move the ref to ``commit``, if there is one; says whether it moved."""
        if commit is not None:
            refs.cas(self.repo, self.ref, self.oid, commit, "baton: notes", ours=True)
        return commit is not None


def _value(repo: Repository, ref: str) -> str | None:
    try:
        return refs.read(repo, ref)
    except RepositoryError:
        return None


def _places(repo: Repository, tree: str | None, commit: str) -> list[str]:
    """Where the notes of a commit lie, at whatever depth of fan-out somebody wrote them."""
    found = []
    folder = ""
    rest = commit
    while tree and rest:
        below = {name: (oid, mode) for name, oid, mode in objects.list_tree(repo, tree)}
        if rest in below:
            found.append(folder + rest)
        tree, mode = below.get(rest[:2], ("", 0))
        if mode != odb.DIRECTORY:
            break
        folder, rest = f"{folder}{rest[:2]}/", rest[2:]
    return found
