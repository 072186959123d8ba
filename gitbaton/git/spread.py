"""Folders whose subfolders have nothing to do with each other, told to the file system.

ext4 puts neighbouring folders into one group of inodes, and does not use an inode again that was
freed within the last minutes: it passes over those one by one, for each new file. Where worktrees
come and go, a ticket so came to cost 97 ms instead of 48. With the attribute ``T`` on the folder
that holds them (see chattr(1)), each worktree gets a group of its own.
"""

from __future__ import annotations

import os
import struct
import sys
from contextlib import suppress
from pathlib import Path

# From linux/fs.h; what is read and written is an int, though the numbers say long.
_LONG = struct.calcsize("l")
_GET_FLAGS = 2 << 30 | _LONG << 16 | ord("f") << 8 | 1
_SET_FLAGS = 1 << 30 | _LONG << 16 | ord("f") << 8 | 2
_TOP_OF_HIERARCHY = 0x00020000


def make(folder: Path) -> None:
    """Create ``folder`` and what is missing above it; what is created spreads its subfolders, where
    the file system can. Folders that exist are left as they are. Raises `OSError`."""
    if folder.is_dir():
        return
    make(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir()
        _spread(folder)


def _spread(folder: Path) -> None:
    if sys.platform != "linux":
        return
    import fcntl

    with suppress(OSError):  # most file systems have no such attribute, and no need of it
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            flags = fcntl.ioctl(descriptor, _GET_FLAGS, struct.pack("i", 0))
            wanted = struct.unpack("i", flags)[0] | _TOP_OF_HIERARCHY
            fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("i", wanted))
        finally:
            os.close(descriptor)
