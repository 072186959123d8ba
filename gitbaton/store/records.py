"""Structs stored as blobs: read, with whatever is wrong said in one line, and remembered.

A blob never changes, so what was decoded once in a process is kept by object id; a runner that
makes hundreds of transitions does not decode the plan for each. What cannot be decoded names the
ref and the path, because a person will have to look there.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from gitbaton.errors import RepositoryError
from gitbaton.git import objects
from gitbaton.git.repo import Repository
from gitbaton.model import codec
from gitbaton.model.run import SCHEMA, Attempt, RunRecord

T = TypeVar("T")

# A plan of ten thousand tickets is some megabytes when decoded, an attempt is small.
_LIMIT = 8
_LIMIT_ATTEMPTS = 512
_known: dict[Any, dict[str, tuple[bytes, Any]]] = {}


class _Schema(msgspec.Struct):
    schema: int = 0


def read(repo: Repository, oid: str, kind: type[T], ref: str, path: str) -> T:
    """The struct in the blob ``oid``, which lies at ``path`` of ``ref``.

    Raises `RepositoryError` ``corrupt-state``; for a run record also ``newer-schema``.
    """
    known = _known.get(kind, {}).get(oid)
    if known is not None:
        value: T = known[1]
        return value
    try:
        data = objects.read_blob(repo, oid)
    except RepositoryError as error:
        raise corrupt(ref, path, error.message) from error
    try:
        if kind is RunRecord and codec.decode(data, _Schema).schema > SCHEMA:
            raise RepositoryError(
                "newer-schema", f"{ref} was written by a newer git-baton", "upgrade git-baton"
            )
        value = codec.decode(data, kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise corrupt(ref, path, str(error)) from error
    remember(oid, data, value, kind)
    return value


def data_of(repo: Repository, oid: str, kind: Any) -> bytes:
    """The bytes of a blob that `read` or `remember` has probably seen."""
    known = _known.get(kind, {}).get(oid)
    return objects.read_blob(repo, oid) if known is None else known[0]


def remember(oid: str, data: bytes, value: object, kind: Any) -> None:
    """Keep what the blob ``oid`` decodes to."""
    kept = _known.setdefault(kind, {})
    if len(kept) >= (_LIMIT_ATTEMPTS if kind is Attempt else _LIMIT):
        kept.clear()
    kept[oid] = data, value


def corrupt(ref: str, path: str, reason: str) -> RepositoryError:
    """The refusal for a state that cannot be read."""
    return RepositoryError(
        "corrupt-state",
        f"the state in {ref} is damaged: {path}: {' '.join(reason.split())}",
        f"`git log --stat {ref}` shows when; "
        f"`git update-ref {ref} {ref}~1` goes back by one transition",
    )
