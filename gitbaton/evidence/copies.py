"""Notes are copies of receipts that people and other tools read, so what they say has to agree.

They are no evidence and may lag behind: notes that are not there at all are nobody's lie. But one
that says something else than the state is, and so is one that the state has no word of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import NamedTuple

import msgspec

from gitbaton.evidence import statement
from gitbaton.evidence.chain import Chain, spot
from gitbaton.git import objects
from gitbaton.git.repo import Repository
from gitbaton.model import layout
from gitbaton.model.audit import Problem
from gitbaton.model.run import Attempt, Close
from gitbaton.store import notes, runs

_REBUILD = "`git baton notes rebuild` makes the notes anew"


class Notes:
    """The notes of a run as they are at the commit ``tip``: by commit, the blob and where it lies.

    Raises `RepositoryError` if they cannot be read.
    """

    def __init__(self, repo: Repository, tip: str) -> None:
        self.repo = repo
        self.tip = tip
        self.found = {
            path.replace("/", ""): (path, blob) for path, blob in objects.walk_blobs(repo, tip, "")
        }

    def text(self, commit: str) -> bytes | None:
        """The note of a commit."""
        place = self.found.get(commit)
        return objects.read_blob(self.repo, place[1]) if place else None


def judge(
    loaded: runs.Loaded, history: Chain, attempts: Sequence[Attempt], copied: Notes
) -> Iterator[Problem]:
    """What in the notes is not what the state says."""
    repo, tip, found = copied.repo, copied.tip, copied.found
    expected = dict(_expected(repo, loaded, attempts))
    integrated = {a.merge_commit: a for a in attempts if a.merge_commit}
    integrated |= {a.sealed.commit: a for a in attempts if a.merge_commit and a.sealed}
    for commit in integrated.keys() - found.keys():
        yield Problem(
            code="note-missing",
            where=commit,
            message=f"there is no note of a commit of {integrated[commit].id}; {_REBUILD}",
        )
    closing = any(isinstance(intent, Close) for intent in loaded.state.intents.values())
    for commit, (path, blob) in found.items():
        if closing and commit == loaded.state.run.tip:
            continue  # its note comes first, and tells of an end that the state does not tell yet
        meant = expected.get(commit)
        once = blob in history.receipts  # a receipt that another has replaced since
        if meant is None and not once:
            yield Problem(
                code="note-unknown",
                where=spot(tip, path),
                message=f"a note of {commit}, of which the state says nothing",
            )
        elif meant and meant.blob != blob and (commit in integrated or not once):
            field = meant.difference(repo, objects.read_blob(repo, blob))
            yield Problem(
                code="note-differs",
                where=spot(tip, path, field or ""),
                message=f"the note of {commit} is not the recorded receipt; {_REBUILD}",
            )


class _Copy(NamedTuple):
    """What a note is to hold: its blob, and the text of one that is put together of several."""

    blob: str
    text: bytes | None = None

    def difference(self, repo: Repository, note: bytes) -> str | None:
        """The field of a document in which ``note`` is another."""
        meant = objects.read_blob(repo, self.blob) if self.text is None else self.text
        parts = zip_longest(note.split(b"\n\n"), meant.split(b"\n\n"), fillvalue=b"")
        fields = (statement.first_difference(a.rstrip(b"\n"), b.rstrip(b"\n")) for a, b in parts)
        return next(filter(None, fields), None)


def _expected(
    repo: Repository, loaded: runs.Loaded, attempts: Sequence[Attempt]
) -> Iterator[tuple[str, _Copy]]:
    """By commit, what its note is to hold; of two for one commit, the later."""
    for attempt in attempts:
        if attempt.sealed is None:
            continue
        entry = objects.entry_at(repo, loaded.tree, layout.path_of(attempt.id, layout.RECEIPT))
        if entry is None:
            continue
        yield attempt.sealed.commit, _Copy(entry[0])
        if attempt.merge_commit is not None:
            merged = loaded.merged_receipt(attempt.id)
            text = merged and notes.of_merge(objects.read_blob(repo, entry[0]), merged)
            yield attempt.merge_commit, _together(text) if text else _Copy(entry[0])
    for name, oid, _ in objects.list_tree(repo, loaded.tree, layout.COMMITS):
        commit = layout.commit_of(f"{layout.COMMITS}/{name}")
        if commit is not None:
            yield commit, _Copy(oid)
    data = loaded.file(layout.CLOSEOUT)
    if data is not None:
        with suppress(msgspec.MsgspecError, ValueError):  # that is a problem of its own
            tip, text = notes.of_closeout(loaded, data)
            yield tip, _together(text)


def _together(text: bytes) -> _Copy:
    whole = b"blob %d\0%s" % (len(text), text)
    return _Copy(hashlib.sha1(whole, usedforsecurity=False).hexdigest(), text)
