"""Bytes of a file as JSON, lines of JSON, XML or text, with the place of whatever is wrong.

Files come cut off, in UTF-16 from a shell of Windows, with numbers that no machine holds: each is
either read or refused in one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import msgspec

from gitbaton.findings.finding import Malformed

T = TypeVar("T")

_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_WRAPPERS = ("items", "findings", "issues")


class Row(NamedTuple):
    """One object of a list, and what names it in a message."""

    where: str
    value: Any


class Document:
    """A file that is looked at in several ways, each of them read once, when it is asked for. Every
    one raises `Malformed` naming the place of what is wrong."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    @cached_property
    def text(self) -> str:
        """As text: UTF-8, or UTF-16 with a byte order mark."""
        marks = (name for mark, name in _MARKS.items() if self.data.startswith(mark))
        encoding = next(marks, "utf-8")
        try:
            return self.data.decode(encoding)
        except UnicodeDecodeError as error:
            line = self.data.count(b"\n", 0, error.start) + 1
            raise Malformed(f"byte {error.start} (line {line}) is not {encoding.upper()}") from None

    @cached_property
    def value(self) -> Any:
        """As one JSON value."""
        return _json(self.text)

    @cached_property
    def rows(self) -> list[Row]:
        """As a JSON list, ``{"items": [...]}``, or one JSON object a line; one alone is a list
        too."""
        first, _, rest = self.text.lstrip().partition("\n")
        if first.startswith("{") and rest.strip() and _is_json(first):
            return _lines(self.text)
        return _entries(self.value) if first else []

    def read_rows(self, kind: type[T]) -> Iterator[tuple[str, T]]:
        """Each of the rows as ``kind``, with its name."""
        return ((row.where, convert(row.value, kind, row.where)) for row in self.rows)


def convert(value: Any, kind: type[T], where: str = "$") -> T:
    """``value`` as ``kind``; raises `Malformed` naming the place below ``where``."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        what, _, path = str(error).replace("`", "").partition(" - at $")
        raise Malformed(f"{where}{path}: {what[:1].lower()}{what[1:]}") from None
    except UnicodeEncodeError:  # where text is looked into: in names, and where none may be
        raise Malformed(f"{where}: half of a surrogate pair") from None


def _entries(value: Any) -> list[Row]:
    if isinstance(value, list):
        return [Row(f"$[{at}]", entry) for at, entry in enumerate(value)]
    if isinstance(value, dict):
        for key in _WRAPPERS:
            if isinstance(entries := value.get(key), list):
                return [Row(f"$.{key}[{at}]", entry) for at, entry in enumerate(entries)]
    return [Row("$", value)]


def _lines(text: str) -> list[Row]:
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                rows.append(Row(f"line {number}", _json(line)))
            except Malformed as error:
                raise Malformed(f"line {number}: {error}".replace("line 1, ", "")) from None
    return rows


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return _lenient_json(text)


def _lenient_json(text: str) -> Any:
    """Again with the standard library: it says where the error is, and reads what msgspec does not
    (half a surrogate pair, 1e400)."""
    import json

    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        what = "ends too early" if error.pos >= len(text.rstrip()) else error.msg.lower()
        where = f"line {error.lineno}, column {error.colno}"
        raise Malformed(f"no JSON: {what} ({where})") from None
    except RecursionError:
        raise Malformed("JSON nested too deeply") from None
    except ValueError:  # a number of thousands of digits
        raise Malformed("JSON with a number that is too long") from None
