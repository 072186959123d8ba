"""Many files at once: as one pack, by one git process.

A hundred thousand loose objects take minutes to sync and a file system's patience to hold. What
git itself does for an import is to write them to a pack, and it does so in seconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from gitbaton.git import process
from gitbaton.git.repo import Repository

_FEW = 500
"""Below this, loose objects are quicker than a process and an index."""


def is_worth_it(count: int) -> bool:
    """Whether so many files had better be packed."""
    return count >= _FEW


def write_blobs(repo: Repository, blobs: Sequence[bytes]) -> list[str]:
    """Store ``blobs``, durably; their ids, in order."""
    options = ["-c", "pack.compression=1", "-c", "fastimport.unpackLimit=0"]
    stream = b"".join(_told(blobs))
    command = [*options, "fast-import", "--quiet", "--depth=0"]
    process.git(command, repo.common_dir, stdin=stream, durable=True)
    return [_id(blob) for blob in blobs]


def _told(blobs: Iterable[bytes]) -> Iterable[bytes]:
    for blob in blobs:
        yield b"blob\ndata %d\n" % len(blob)
        yield blob
        yield b"\n"


def _id(blob: bytes) -> str:
    whole = b"blob %d\0%s" % (len(blob), blob)
    return hashlib.sha1(whole, usedforsecurity=False).hexdigest()
