"""Files outside the object store, written so that a crash leaves the old content or the new."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from gitbaton.git import process


def write_synced(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Replace ``path`` atomically; synced to disk unless ``baton.fsync`` is off."""
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
    if process.fsync_enabled():
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make renames in a directory durable."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
