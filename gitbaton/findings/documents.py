"""The files of a folder of shards, between bytes and structs.

Fixers and other programs write some of them by hand: whatever is wrong with one is refused in a
line that names the file, and another schema version names both, before anything else is judged.
"""

from __future__ import annotations

from typing import TypeVar

from gitbaton.errors import BatonError
from gitbaton.findings.content import Document, convert
from gitbaton.findings.finding import Malformed
from gitbaton.model import codec
from gitbaton.model.findings import (
    INDEX,
    SCHEMA,
    Index,
    Shard,
    Status,
    shard_file,
    status_file,
)

T = TypeVar("T", Index, Shard, Status)

encode = codec.encode

_ANEW = "the file is cut off, damaged or another: have it written anew"


def read_index(data: bytes) -> Index:
    """``index.json``. Raises `BatonError` ``other-schema`` or ``bad-shards``, the latter also if it
    names a shard twice, or a file that is not its shard's: the names of an index are opened."""
    index = _decode(INDEX, data, Index)
    seen: set[int] = set()
    for entry in index.shards:
        if entry.shard in seen:
            raise _bad(f"{INDEX}: shard {entry.shard} is there twice")
        if entry.file != shard_file(entry.shard):
            wanted = shard_file(entry.shard)
            raise _bad(f"{INDEX}: shard {entry.shard} is in {entry.file[:80]!r}, not in {wanted}")
        seen.add(entry.shard)
    return index


def read_shard(data: bytes, number: int) -> Shard:
    """``shard-K.json``; raises as `read_index` does, also for one of another shard."""
    shard = _decode(shard_file(number), data, Shard)
    if shard.shard != number:
        raise _bad(f"{shard_file(number)}: it is about shard {shard.shard}")
    return shard


def read_status(data: bytes, number: int) -> Status:
    """``shard-K.status.json``; raises as `read_shard` does."""
    status = _decode(status_file(number), data, Status)
    if status.shard != number:
        raise _bad(f"{status_file(number)}: it is about shard {status.shard}")
    return status


def _decode(name: str, data: bytes, kind: type[T]) -> T:
    try:
        value = Document(data).value
        if not isinstance(value, dict) or "schema_version" not in value:
            raise Malformed("it has no schema_version, so it is no file of shards")
        version = value["schema_version"]
        if version != SCHEMA:
            raise BatonError(
                "other-schema",
                f"{name} has schema version {str(version)[:40]}, known is {SCHEMA}",
                "have it written anew by a program that writes this version",
            )
        return convert(value, kind)
    except Malformed as error:
        raise _bad(f"{name}: {error}") from None


def _bad(message: str) -> BatonError:
    return BatonError("bad-shards", message, _ANEW)
