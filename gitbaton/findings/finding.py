"""A finding, whatever tool it came from, and how it reads once it is an item of a queue.

Each format fills in what it knows; title, body and identity are made here, so that items of all
tools look alike in a list.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from gitbaton.findings.fingerprint import fingerprints
from gitbaton.findings.words import clip, lines, one_line
from gitbaton.model.queue import Reported, Scan, Severity

_TITLE = 120
_BODY = 20_000
_LONG_RULE = 40


class Malformed(Exception):
    """The data is not what its format promises; the text says what is wrong, and where."""


class Place(NamedTuple):
    """Where a finding is: a path as the queue holds it, line and column counted from 1."""

    path: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        if self.line is None or self.line < 1:
            return self.path
        return f"{self.path}:{self.line}" + (f":{self.column}" if self.column else "")


class Finding(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing that a tool or a person reports.

    ``message`` is what is wrong, ``rule`` the name of what was broken, ``snippet`` the source text
    in question. ``title`` is set where the source has titles of its own; ``more`` are further
    paragraphs for whoever fixes it. ``known_by`` is what the source itself tells its findings
    apart by; without it they are told apart by rule, place and message.
    """

    message: str = ""
    rule: str = ""
    places: tuple[Place, ...] = ()
    severity: Severity = "medium"
    title: str = ""
    snippet: str = ""
    more: tuple[str, ...] = ()
    section: str = ""
    labels: tuple[str, ...] = ()
    id: str = ""
    depends_on: tuple[str, ...] = ()
    closed: bool = False
    known_by: tuple[str, ...] = ()


Found = dict[str, list[Finding]]
"""Findings by source. A source that reports nothing has an empty list: all it ever reported is
gone. The name "" stands for the file."""


def scan(source: str, found: list[Finding]) -> Scan:
    """What ``source`` reports. The same thing listed twice, at one place, is one."""
    reported = (
        _reported(finding, fingerprint)
        for finding, fingerprint in zip(found, fingerprints(found), strict=True)
        if fingerprint is not None
    )
    return Scan(source=source, reported=tuple(reported))


def _reported(finding: Finding, fingerprint: str) -> Reported:
    return Reported(
        fingerprint=fingerprint,
        id=finding.id,
        title=_title(finding),
        body=_body(finding),
        section=one_line(finding.section),
        severity=finding.severity,
        labels=_distinct(map(one_line, (finding.rule, *finding.labels))),
        paths=_distinct(place.path for place in finding.places),
        depends_on=_distinct(finding.depends_on),
        closed=finding.closed,
    )


def _title(finding: Finding) -> str:
    """One line that says what and where: ``F401: `os` imported but unused (src/a.py)``. No line
    number: that would be another title after each edit above."""
    if title := one_line(finding.title):
        return clip(title, _TITLE)
    rule = one_line(finding.rule)
    if len(rule) > _LONG_RULE:  # python.lang.security.audit.dangerous-call
        rule = rule.rpartition(".")[2]
    said = clip(": ".join(filter(None, (rule, one_line(finding.message)))), _TITLE)
    path = finding.places[0].path if finding.places else ""
    return " ".join(filter(None, (said or finding.id or "no message", f"({path})" if path else "")))


def _body(finding: Finding) -> str:
    """Everything that helps to find and fix it, as Markdown paragraphs."""
    where = "\n".join(map(str, finding.places))
    code = textwrap.indent(lines(finding.snippet), "    ")
    parts = (lines(finding.message), where, code, *map(lines, finding.more))
    return clip("\n\n".join(filter(None, parts)), _BODY)


def _distinct(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in words if word))
