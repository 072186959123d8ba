"""Lists that people and scripts keep: findings as plain JSON, and issues of GitHub."""

from __future__ import annotations

import re

import msgspec

from gitbaton.findings import severity
from gitbaton.findings.content import Document
from gitbaton.findings.finding import Finding, Found, Malformed, Place
from gitbaton.findings.places import Places
from gitbaton.findings.words import one_line
from gitbaton.model.queue import Severity

_ID = 150
_ISSUE_URL = re.compile(r"https?://([^/\s]+/[^/\s]+/[^/\s]+)/(?:issues|pull)/")


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a generic list; ``null`` is as good as absent."""

    id: str | int | None = None
    title: str | None = None
    body: str | None = None
    section: str | None = None
    severity: str | None = None
    labels: list[str] | str | None = None
    path: str | None = None
    paths: list[str] | str | None = None
    rule: str | None = None
    message: str | None = None
    line: int | None = None
    depends_on: list[str] | str | None = None
    fingerprint: str | None = None


def records(document: Document, places: Places) -> Found:
    """A list, ``{"items" | "findings" | "issues": [...]}``, or one object a line."""
    rows = document.read_rows(_Record)
    return {"": [_finding(where, record, places) for where, record in rows]}


def _finding(where: str, record: _Record, places: Places) -> Finding:
    name = _name(where, record.id)
    if not (name or one_line(record.title or "") or one_line(record.message or "")):
        raise Malformed(f"{where} has none of id, title and message")
    paths = [record.path, *_list(record.paths)]
    known = dict.fromkeys(path for text in paths if text and (path := places.path(text)))
    word = record.severity
    return Finding(
        id=name,
        title=record.title or ("" if record.message else name),
        message=record.message or "",
        rule=record.rule or "",
        places=tuple(Place(p, None if at else record.line) for at, p in enumerate(known)),
        severity=_severity(where, word) if word else "medium",
        section=record.section or "",
        labels=tuple(_list(record.labels)),
        more=(record.body or "",),
        depends_on=tuple(one.strip() for one in _list(record.depends_on)),
        known_by=(record.fingerprint,) if record.fingerprint else (),
    )


def _name(where: str, given: str | int | None) -> str:
    name = "" if given is None else str(given).strip()
    if len(name) > _ID or not name.isprintable():
        raise Malformed(f"{where}.id: one line of at most {_ID} characters, please")
    return name


def _severity(where: str, word: str) -> Severity:
    try:
        return severity.of_word(word)
    except Malformed as error:
        raise Malformed(f"{where}: {error}") from None


def _list(value: list[str] | str | None) -> list[str]:
    return [value] if isinstance(value, str) else value or []


# --- GitHub ------------------------------------------------------------------------------------


class _Named(msgspec.Struct, frozen=True):
    name: str


class _Milestone(msgspec.Struct, frozen=True):
    title: str


class _Issue(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    title: str
    body: str | None = None
    labels: list[_Named] | None = None
    state: str | None = None
    url: str | None = None
    milestone: _Milestone | None = None


def github(document: Document, places: Places) -> Found:
    """``gh issue list --json number,title,body,labels,state,url``. The source is the repository,
    where the URLs name it."""
    found: Found = {}
    for _, issue in document.read_rows(_Issue):
        found.setdefault(_repository(issue.url or ""), []).append(_issue(issue))
    return found


def _repository(url: str) -> str:
    match = _ISSUE_URL.match(url)
    return match[1] if match else "github"


def _issue(issue: _Issue) -> Finding:
    labels = tuple(label.name for label in issue.labels or ())
    return Finding(
        id=f"GH-{issue.number}",
        title=issue.title or f"issue {issue.number}",
        severity=severity.of_labels(labels) or "medium",
        section=issue.milestone.title if issue.milestone else "",
        labels=labels,
        more=(issue.body or "", issue.url or ""),
        closed=(issue.state or "").lower() == "closed",
    )
