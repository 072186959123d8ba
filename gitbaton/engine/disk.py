"""Files outside the object store, written so that a crash leaves the old content or the new."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gitbaton.git import odb, process


class File(NamedTuple):
    """What is to be written where."""

    path: Path
    data: bytes
    mode: int = 0o644


def write_synced(path: Path, data: bytes) -> None:
    """Replace ``path`` atomically; it and its name are synced to disk unless ``baton.fsync`` is
    off."""
    write_before_a_ref([File(path, data)])
    if process.fsync_enabled():
        _sync_directory(path.parent)


def write_before_a_ref(files: Sequence[File]) -> None:
    """The same for several files, synced together, that only count when a ref is synced later: that
    makes their names durable as well."""
    begun = [file.path.with_name(f".{file.path.name}.{secrets.token_hex(8)}") for file in files]
    try:
        for file, temporary in zip(files, begun, strict=True):
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, file.mode)
            with os.fdopen(fd, "wb") as opened:
                opened.write(file.data)
        if process.fsync_enabled():
            odb.sync_files(list(map(str, begun)))
        for file, temporary in zip(files, begun, strict=True):
            temporary.replace(file.path)
    except BaseException:
        for temporary in begun:
            temporary.unlink(missing_ok=True)
        raise


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
