"""What makes a finding the same one in the next scan.

The source's own fingerprint where it has one. Else rule, path, message and the first line of the
source text that the scan quotes - never the line's number, so that an edit further up changes
nothing. Files beside the scan are not read: a scan made elsewhere, or imported after the fix,
would speak of other lines than those that lie there now, and would change all identities.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gitbaton.findings.words import one_line

if TYPE_CHECKING:
    from gitbaton.findings.finding import Finding

_DIGIT = re.compile(r"\d")
_NUMBERED = re.compile(r"\b(lines?|columns?|col)\b(:? )\d+(?:(?:-| to | and |, )\d+)*", re.I)
_LOCATED = re.compile(r"(\.[A-Za-z]\w*):\d+(?::\d+)?\b")
_ADDRESS = re.compile(r"\b0x[0-9A-Fa-f]{6,}\b")


def fingerprints(found: Sequence[Finding]) -> list[str | None]:
    """A fingerprint for each, in hex; None for one that is listed a second time: alike in all, at
    one line.

    Others that cannot be told apart are numbered in the order of their places (not of the
    list: some tools list in any order), so that two of them stay two.
    """
    alike: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for at, finding in enumerate(found):
        alike[_known_by(finding)].append(at)
    result: list[str | None] = [None] * len(found)
    for key, members in alike.items():
        number = 0
        last: Finding | None = None
        for at in sorted(members, key=lambda at: _position(found[at])):
            if found[at] == last and _position(last)[0]:
                continue
            last = found[at]
            number += 1
            result[at] = _digest(key if number == 1 else (*key, str(number)))
    return result


def normalised(message: str) -> str:
    """``message`` without what changes when lines move: positions, memory addresses, spacing."""
    text = one_line(message)
    if _DIGIT.search(text) is None:
        return text
    text = _NUMBERED.sub(r"\1\2N", text)
    return _ADDRESS.sub("0x", _LOCATED.sub(r"\1", text))


def _known_by(finding: Finding) -> tuple[str, ...]:
    if finding.known_by:
        return ("source", *finding.known_by)
    if finding.id:
        return ("id", finding.id)
    path = finding.places[0].path if finding.places else ""
    said = normalised(finding.message or finding.title)
    quoted = one_line(finding.snippet.strip().partition("\n")[0])
    return ("context", finding.rule, path, said, quoted)


def _position(finding: Finding) -> tuple[int, int]:
    place = finding.places[0] if finding.places else None
    return (place.line or 0, place.column or 0) if place else (0, 0)


def _digest(key: tuple[str, ...]) -> str:
    return hashlib.sha256(ascii(key).encode()).hexdigest()
