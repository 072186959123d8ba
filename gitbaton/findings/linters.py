"""What ruff and eslint print as JSON.

Severities are those that the tools give the same findings in SARIF: errors are high, warnings
medium.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gitbaton.findings.content import Document
from gitbaton.findings.finding import Finding, Found, Place
from gitbaton.findings.places import Places
from gitbaton.findings.severity import LEVELS

# --- ruff --------------------------------------------------------------------------------------


class _At(msgspec.Struct, frozen=True):
    row: int
    column: int


class _RuffFix(msgspec.Struct, frozen=True):
    message: str | None = None


class _Ruff(msgspec.Struct, frozen=True, kw_only=True):
    code: str | None
    message: str
    filename: str
    location: _At
    name: str | None = None
    severity: str = "error"
    url: str | None = None
    fix: _RuffFix | None = None


def ruff(document: Document, places: Places) -> Found:
    """``ruff check --output-format json`` or ``json-lines``."""
    return {"ruff": [_ruff(one, places) for _, one in document.read_rows(_Ruff)]}


def _ruff(one: _Ruff, places: Places) -> Finding:
    suggested = f"Suggested: {one.fix.message}" if one.fix and one.fix.message else ""
    return Finding(
        rule=one.code or "invalid-syntax",
        message=one.message,
        places=(Place(places.path(one.filename), one.location.row, one.location.column),),
        severity=LEVELS.get(one.severity, "medium"),
        labels=(one.name or "",),
        more=(suggested, one.url or ""),
    )


# --- eslint ------------------------------------------------------------------------------------


class _Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    rule_id: str | None = None
    severity: int = 2
    message: str
    line: int | None = None
    column: int | None = None


class _File(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    file_path: str
    messages: list[_Message]
    source: str | None = None


def eslint(document: Document, places: Places) -> Found:
    """``eslint -f json``."""
    files = (file for _, file in document.read_rows(_File))
    return {"eslint": [finding for file in files for finding in _eslint(file, places)]}


def _eslint(file: _File, places: Places) -> Iterator[Finding]:
    path = places.path(file.file_path)
    source = (file.source or "").split("\n")
    for one in file.messages:
        if one.rule_id is None and one.line is None:
            continue  # on the run, not on the code: "File ignored because of ..."
        line = one.line or 0
        yield Finding(
            rule=one.rule_id or "",
            message=one.message,
            places=(Place(path, one.line, one.column),),
            severity="high" if one.severity >= 2 else "medium",
            snippet=source[line - 1] if 0 < line <= len(source) else "",
        )
