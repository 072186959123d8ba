"""Paths of other tools as the queue holds them: with "/", relative to the repository.

Tools name files by absolute paths of the machine they ran on, by URIs, and against bases that the
file defines elsewhere. A path outside the repository stays as it is.
"""

from __future__ import annotations

import os
import posixpath
import re
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

from gitbaton.findings.words import printable

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_DRIVE = re.compile(r"/?[A-Za-z]:/")


class Places:
    """Paths relative to ``root``; without one, as they come."""

    def __init__(self, root: Path | None) -> None:
        bases = (os.path.abspath(root), os.path.realpath(root)) if root else ()
        self._bases = tuple(dict.fromkeys(base.rstrip("/") + "/" for base in bases))
        self.path = lru_cache(maxsize=None)(self._path)  # many findings are in one file

    def _path(self, text: str) -> str:
        """``text``, a path of a file system, as the queue holds it; "" for none."""
        path = printable(text.strip()).replace("\\", "/")
        path = posixpath.normpath(path) if path else "."
        for base in self._bases:
            if (path + "/").startswith(base):
                path = path[len(base) :]
                break
        return "" if path == "." else path

    def uri(self, text: str) -> str:
        """``text``, a URI or a reference relative to the root; "" for what names no file."""
        if text[:5].lower() == "file:":
            path = text[5:]
            if path.startswith("//"):
                path = "/" + path[2:].partition("/")[2]  # whatever the host is
            path = unquote(path).replace("\\", "/")
            return self.path(path[1:] if path.startswith("/") and _DRIVE.match(path) else path)
        return "" if _SCHEME.match(text) else self.path(unquote(text))


def is_absolute(text: str) -> bool:
    """Whether a path or URI says where it is without a base."""
    return bool(text.startswith("/") or _SCHEME.match(text) or _DRIVE.match(text))
