"""How bad the words of other tools are, on the one scale of a queue."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gitbaton.findings.finding import Malformed
from gitbaton.model.queue import SEVERITIES, Severity

LEVELS: dict[str, Severity] = {
    "error": "high",
    "warning": "medium",
    "note": "low",
    "none": "info",
}
"""The levels of compilers, linters and SARIF."""

_WORDS: dict[str, Severity] = {
    **{severity: severity for severity in SEVERITIES},
    **LEVELS,
    "blocker": "critical",
    "fatal": "critical",
    "major": "high",
    "warn": "medium",
    "moderate": "medium",
    "normal": "medium",
    "minor": "low",
    "style": "info",
    "hint": "info",
    "trivial": "info",
    "p0": "critical",
    "p1": "high",
    "p2": "medium",
    "p3": "low",
    "p4": "info",
}
_KIND = re.compile(r"(?:severity|sev|priority|prio)(?:\s*[:/=]\s*|[-_ ])", re.IGNORECASE)
_BARE: frozenset[Severity | str] = frozenset(
    ("critical", "high", "medium", "low", "blocker", "major", "minor", "p0", "p1", "p2", "p3", "p4")
)


def of_word(word: str) -> Severity:
    """The severity that ``word`` names; raises `Malformed` for a word that names none."""
    found = _WORDS.get(word.strip().lower())
    if found is None:
        raise Malformed(f"severity {word[:40]!r} is none of {', '.join(SEVERITIES)}")
    return found


def of_score(score: float) -> Severity:
    """A score from 0 to 10 in the bands of CVSS."""
    for severity, floor in (("critical", 9.0), ("high", 7.0), ("medium", 4.0)):
        if score >= floor:
            return severity  # type: ignore[return-value]
    return "low" if score > 0 else "info"


def of_labels(labels: Iterable[str]) -> Severity | None:
    """The worst that labels like ``severity: high``, ``priority/low``, ``P1`` or ``critical``
    say."""
    said = {severity for label in labels if (severity := _of_label(label.strip().lower()))}
    return next((severity for severity in SEVERITIES if severity in said), None)


def _of_label(label: str) -> Severity | None:
    if kind := _KIND.match(label):
        return _WORDS.get(label[kind.end() :])
    return _WORDS[label] if label in _BARE else None
