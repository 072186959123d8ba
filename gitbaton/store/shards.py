"""The items of one shard of a queue, and copies of them that are quick to read.

A queue may hold a hundred thousand items, and reading that many objects takes seconds. The tree of
a shard has an id that changes with any item in it, so a copy of the decoded items under that id is
never out of date and needs no care: it may be missing, and then it is made anew. Copies lie in the
git directory, and in the memory of a process that lives longer.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from gitbaton.errors import RepositoryError
from gitbaton.git import objects
from gitbaton.git.repo import Repository
from gitbaton.model import codec
from gitbaton.model.ids import SHARDS, encode_key
from gitbaton.model.queue import SCHEMA, Item

T = TypeVar("T")
Items = Mapping[str, Item]

_SUFFIX = ".json"
_WORTH_A_COPY = 32
"""Items from which on a copy is quicker than the objects."""
_MOST_IN_MEMORY = 3 * SHARDS
_MOST_ON_DISK = 4 * SHARDS
_VERSION = f"{SCHEMA}-{len(Item.__struct_fields__)}"
"""A copy holds the fields that this version knows; another one makes its own."""

_known: dict[str, Items] = {}
"""By tree, the one used last at the end."""
_decoder = msgspec.msgpack.Decoder(list[Item])


def read(repo: Repository, tree: str, ref: str) -> Items:
    """The items of the shard whose tree is ``tree``, by id; ``ref`` is the queue's.

    Raises `RepositoryError` ``corrupt-queue``.
    """
    found = _known.pop(tree, None)
    if found is None:
        copy = _copy(repo, tree)
        found = _load(copy)
        if found is None:
            found = _decode_all(repo, tree, ref)
            _keep(repo, copy, found)
    _remember(tree, found)
    return found


def read_one(repo: Repository, tree: str, name: str, ref: str) -> Item | None:
    """One item of a shard, without reading the others."""
    known = _known.get(tree)
    if known is not None:
        return known.get(name)
    path = encode_key(name) + _SUFFIX
    data = objects.blob_at(repo, tree, path)
    return None if data is None else _item(data, ref, path)


def follow(repo: Repository, old: str | None, new: str, changed: Mapping[str, Item | None]) -> None:
    """Note that ``changed`` made the shard ``new`` out of ``old``; of a shard that is not known,
    nothing."""
    copy = old and _copy(repo, old)
    before: Items | None = {} if old is None else _known.get(old) or (_load(copy) if copy else None)
    if before is None or old == new:
        return
    after = {**before, **changed}
    items = {name: item for name, item in after.items() if item is not None}
    _remember(new, items)
    _keep(repo, _copy(repo, new), items)
    if copy:
        with suppress(OSError):
            copy.unlink()


def decoded(data: bytes, kind: type[T], ref: str, path: str) -> T:
    """The struct in a file of a queue; raises `RepositoryError` ``corrupt-queue``."""
    try:
        return codec.decode(data, kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise corrupt(ref, path, str(error)) from error


def corrupt(ref: str, path: str, reason: str) -> RepositoryError:
    """The refusal for a queue that cannot be read."""
    return RepositoryError(
        "corrupt-queue",
        f"the queue in {ref} is damaged: {path}: {' '.join(reason.split())}",
        f"`git log --stat {ref}` shows when; "
        f"`git update-ref {ref} {ref}~1` goes back by one change",
    )


def _decode_all(repo: Repository, tree: str, ref: str) -> Items:
    found: dict[str, Item] = {}
    for path, oid, _ in objects.list_tree(repo, tree):
        try:
            data = objects.read_blob(repo, oid)
        except RepositoryError as error:
            raise corrupt(ref, path, error.message) from error
        item = _item(data, ref, path)
        found[item.id] = item
    return found


def _item(data: bytes, ref: str, path: str) -> Item:
    item = decoded(data, Item, ref, path)
    if encode_key(item.id) + _SUFFIX != path:
        raise corrupt(ref, path, f"it says that it is {item.id}")
    return item


def _remember(tree: str, items: Items) -> None:
    _known[tree] = items
    while len(_known) > _MOST_IN_MEMORY:
        _known.pop(next(iter(_known)), None)


# --- copies in the git directory -----------------------------------------------------------------


class _Brief(Item, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """An item as it lies in a copy: what is as usual need not be read."""


def _copy(repo: Repository, tree: str) -> Path:
    return repo.baton_dir / "cache" / "queues" / _VERSION / tree


def _load(copy: Path) -> Items | None:
    """The items of a copy; None if there is none, or none that can be used."""
    try:
        return {item.id: item for item in _decoder.decode(copy.read_bytes())}
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _keep(repo: Repository, copy: Path, items: Items) -> None:
    """Make a copy, if it is worth it. Whatever prevents that does not matter; nor is it synced,
    since half a copy cannot be decoded."""
    if len(items) < _WORTH_A_COPY or not repo.baton_dir.is_dir():
        return
    temporary = copy.with_name(f"tmp-{secrets.token_hex(8)}")
    with suppress(OSError):
        copy.parent.mkdir(parents=True, exist_ok=True)
        brief = [_Brief(**msgspec.structs.asdict(item)) for item in items.values()]
        temporary.write_bytes(msgspec.msgpack.encode(brief))
        os.replace(temporary, copy)
        _prune(copy.parent)


def _prune(folder: Path) -> None:
    """Remove the oldest copies: those of queues that others moved."""
    if len(os.listdir(folder)) <= _MOST_ON_DISK:
        return
    ages = sorted((item.stat().st_mtime, item.path) for item in os.scandir(folder))
    for _, path in ages[: len(ages) // 2]:
        os.unlink(path)
