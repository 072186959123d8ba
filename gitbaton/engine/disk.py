"""Files outside the object store, written so that a crash leaves the old content or the new."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from gitbaton.git import process


def write_synced(path: Path, data: bytes, mode: int = 0o644, *, before_a_ref: bool = False) -> None:
    """Replace ``path`` atomically; synced to disk unless ``baton.fsync`` is off. Its name is synced
    too, but for a file that only counts ``before_a_ref`` which is synced later."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            if process.fsync_enabled():
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if process.fsync_enabled() and not before_a_ref:
        _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
