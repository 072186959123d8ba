"""The way in: a file of whatever format becomes what each source reports.

The format is told by the content; the name of the file only helps where the content says nothing.
Whatever is wrong with a file is refused in one line that names the file and the place in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

from gitbaton.errors import BatonError
from gitbaton.findings import checklist, junit, linters, mypy, records, sarif
from gitbaton.findings.content import Document
from gitbaton.findings.finding import Found, Malformed, scan
from gitbaton.findings.places import Places, is_absolute
from gitbaton.model.queue import Scan

_READERS: dict[str, Callable[[Document, Places], Found]] = {
    "sarif": sarif.read,
    "json": records.records,
    "jsonl": records.records,
    "ruff": linters.ruff,
    "eslint": linters.eslint,
    "mypy": mypy.read,
    "junit": junit.read,
    "github": records.github,
    "checklist": checklist.read,
}
FORMATS: tuple[str, ...] = tuple(_READERS)
"""The names of all formats."""

_KEYS = (
    ("eslint", {"filePath", "messages"}),
    ("ruff", {"filename", "code", "message"}),
    ("mypy", {"file", "line", "message", "severity"}),
    ("github", {"number", "title"}),
)
"""What tells the format of a list from its first entry."""
_GENERIC = {"id", "title", "message"}
_ANEW = "the file is cut off or damaged: have it written anew"
_SUFFIXES = ("json", "jsonl")  # of files of any tool


def read(
    path: Path | None,
    data: bytes,
    *,
    format: str | None = None,
    source: str | None = None,
    root: Path | None = None,
) -> list[Scan]:
    """What ``data`` reports, one `Scan` for each tool in it.

    ``path`` is where the data came from (None: standard input), ``format`` one of `FORMATS` (None:
    find out), ``source`` the name under which all of it is reported (None: as the tool is called,
    or the file), ``root`` what paths are made relative to. Raises `BatonError` `unknown-format` or
    `bad-findings`.
    """
    return read_all([(path, data)], format=format, source=source, root=root)


def read_all(
    files: Iterable[tuple[Path | None, bytes]],
    *,
    format: str | None = None,
    source: str | None = None,
    root: Path | None = None,
) -> list[Scan]:
    """What several files report together, as `read` does for one: what they say of one source is
    one scan of it, in which findings that look alike are still told apart."""
    together = findings(files, format=format, source=source, root=root)
    return [scan(name, found) for name, found in together.items()]


def findings(
    files: Iterable[tuple[Path | None, bytes]],
    *,
    format: str | None = None,
    source: str | None = None,
    root: Path | None = None,
) -> Found:
    """The same as findings, with rule and place, before they are made into items."""
    if format is not None and format not in FORMATS:
        raise _unknown(f"there is no format {format!r}")
    together: Found = {}
    places = Places(root)
    for path, data in files:
        for own, part in _found(path, data, format, source, places).items():
            together.setdefault(own if source is None else source, []).extend(part)
    return together


def _found(
    path: Path | None, data: bytes, format: str | None, source: str | None, places: Places
) -> Found:
    document = Document(data)
    name = places.path(str(path)) if path else "standard input"
    try:
        format = format or _format(document, name)
        found = _READERS[format](document, places)
        if not found and source is None:
            raise Malformed("it is empty, so nothing says whose it is: use --source")
    except Malformed as error:
        hint = f"read as {format}; if it is another, say which with --format" if format else _ANEW
        raise BatonError("bad-findings", f"{name}: {error}", hint) from None
    own = _own_name(path, places) or format
    return {key or own: part for key, part in found.items()} or {own: []}


def _own_name(path: Path | None, places: Places) -> str:
    """The file as a source: its path in the repository, or just its name, since a file elsewhere
    may lie in another folder next time."""
    if path is None:
        return ""
    inside = places.path(os.path.abspath(path))
    return path.name if is_absolute(inside) else inside


def _format(document: Document, name: str) -> str:
    """The format of a document; raises `BatonError` `unknown-format`."""
    if junit.is_junit(document.data):
        return "junit"
    text = document.text
    if not text.strip():
        return _named(name) or _refuse(f"{name} is empty, so nothing tells its format")
    if text.lstrip()[0] in "[{":
        try:
            return _json_format(document, name)
        except Malformed:
            if not checklist.is_checklist(text):  # which may begin with "[a link](...)"
                raise
    if checklist.is_checklist(text):
        return "checklist"
    if mypy.is_mypy(text):
        return "mypy"
    return _refuse(f"{name} is in no format that is known")


def _json_format(document: Document, name: str) -> str:
    if not document.rows:
        return _named(name) or _refuse(f"{name} is an empty list, so nothing tells its format")
    where, first = document.rows[0]
    if sarif.is_sarif(first):
        return "sarif"
    keys = set(first) if isinstance(first, dict) else set()
    for format, wanted in _KEYS:
        if wanted <= keys:
            return format
    if keys & _GENERIC:
        return "jsonl" if where.startswith("line") else "json"
    return _refuse(f"{name}: the first entry has none of the keys id, title and message")


def _named(name: str) -> str:
    """The format that the name of a file speaks of, as in ``ruff.json``."""
    words = re.split(r"[^a-z]+", name.rpartition("/")[2].lower())
    return next((word for word in words if word in FORMATS and word not in _SUFFIXES), "")


def _refuse(message: str) -> NoReturn:
    raise _unknown(message)


def _unknown(message: str) -> BatonError:
    return BatonError("unknown-format", message, f"use --format with one of {', '.join(FORMATS)}")
