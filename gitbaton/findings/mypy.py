"""What mypy prints, as plain text or as JSON: both give the same findings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from gitbaton.findings.content import Document
from gitbaton.findings.finding import Finding, Found, Malformed, Place
from gitbaton.findings.places import Places
from gitbaton.findings.severity import LEVELS

_STOPPED = "(errors prevented further checking)"
_DIAGNOSTIC = re.compile(
    r"(?P<path>(?:[A-Za-z]:)?[^:\n]+)(?::(?P<line>\d{1,9}))?(?::(?P<column>\d{1,9}))?(?::\d+:\d+)?"
    r": (?P<level>error|warning|note): (?P<message>.*)"
)
_OF_PYTHON = re.compile(r"[^:\n]*(?::[^:\n]+)?\.pyi?(?::\d+)*: (?:error|warning|note): ")
_CODE = re.compile(r"(.*\S)\s+\[([a-z][a-z0-9-]*)\]", re.DOTALL)
_SUMMARY = re.compile(r"(?:Success: no issues found|Found \d+ errors? in)")


class _Mypy(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    line: int
    column: int
    message: str
    severity: str
    hint: str | None = None
    code: str | None = None


def is_mypy(text: str) -> bool:
    """Whether some line of ``text`` is one that mypy prints, and no other compiler."""
    return any(_OF_PYTHON.match(line) or _SUMMARY.match(line) for line in text.split("\n"))


def read(document: Document, places: Places) -> Found:
    """``mypy``, or ``mypy --output json``. Notes belong to the error before them."""
    text = document.text
    if text.lstrip().startswith(("{", "[")):
        return {"mypy": [_mypy(one, places) for _, one in document.read_rows(_Mypy)]}
    if _STOPPED in text:
        # else all that mypy did not come to would count as gone
        raise Malformed("mypy stopped before it had checked all files")
    found = list(_diagnostics(_unwrapped(text), places))
    if not found and text.strip() and not is_mypy(text):
        raise Malformed("no line in it is one that mypy prints")
    return {"mypy": found}


def _mypy(one: _Mypy, places: Places) -> Finding:
    return Finding(
        rule=one.code or "",
        message=one.message,
        # no column: the JSON counts it from 0, the text from 1, if it has one at all
        places=(Place(places.path(one.file), one.line if one.line > 0 else None),),
        severity=LEVELS.get(one.severity, "medium"),
        more=(one.hint or "",),
    )


def _unwrapped(text: str) -> Iterator[re.Match[str]]:
    """The diagnostics, each in one line: ``--pretty`` breaks them, and quotes source text."""
    parts: list[str] = []
    for line in [*text.replace("\r\n", "\n").split("\n"), ""]:
        begins = _DIAGNOSTIC.match(line)
        quoted = not line.strip() or line.startswith("    ") or _SUMMARY.match(line)
        if parts and not begins and not quoted:
            parts.append(line.strip())
            continue
        if parts and (found := _DIAGNOSTIC.match(" ".join(parts))):
            yield found
        parts = [line] if begins else []


def _diagnostics(printed: Iterable[re.Match[str]], places: Places) -> Iterator[Finding]:
    error: Finding | None = None
    for one in printed:
        if one["level"] == "note":
            same = error and error.places[0][:2] == (places.path(one["path"]), _int(one["line"]))
            if error and same:
                error = msgspec.structs.replace(error, more=(*error.more, one["message"]))
            continue
        if error:
            yield _joined(error)
        coded = _CODE.fullmatch(one["message"])
        error = Finding(
            rule=coded[2] if coded else "",
            message=coded[1] if coded else one["message"],
            places=(Place(places.path(one["path"]), _int(one["line"])),),
            severity=LEVELS[one["level"]],
        )
    if error:
        yield _joined(error)


def _joined(error: Finding) -> Finding:
    """Its notes as one paragraph: they are lines of one text."""
    return msgspec.structs.replace(error, more=("\n".join(error.more),))


def _int(digits: str | None) -> int | None:
    return int(digits) if digits else None
