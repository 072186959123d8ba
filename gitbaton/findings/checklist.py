"""A Markdown checklist: each box that is not below another one is an item."""

from __future__ import annotations

import re
import textwrap
from typing import NamedTuple

from gitbaton.findings.content import Document
from gitbaton.findings.finding import Finding, Found
from gitbaton.findings.places import Places
from gitbaton.findings.words import one_line

_BOX = re.compile(
    r"(?P<indent>\s*)(?:[-*+]|\d{1,9}[.)])\s+\[(?P<mark>[^\]]?)\](?:\s+(?P<text>.*))?"
)
_HEADING = re.compile(r"#{1,6}\s+(.*)")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_ID = r"[A-Za-z][A-Za-z0-9]*-\d{1,9}"
_NAMED = re.compile(  # BUG-7: text, **BUG-7** text, [BUG-7] text, `BUG-7` text
    rf"(?:(?P<plain>{_ID}):|(?:\*\*|`|\[)(?P<quoted>{_ID}):?(?:\*\*|`|\]):?)\s+"
    r"(?P<text>\S.*)"
)
_DROPPED = "->"


class _Box(NamedTuple):
    text: str
    mark: str
    section: str
    below: list[str]
    indent: int


def is_checklist(text: str) -> bool:
    """Whether there is a box in ``text``."""
    return any("[" in line and _BOX.fullmatch(line) for line in text.splitlines())


def read(document: Document, places: Places) -> Found:
    """Its boxes; a ticked one is done, a canceled ``[-]`` or deferred ``[>]`` one is not reported.
    What is indented below a box is its body, boxes included; the heading above is its section."""
    boxes = _boxes(document.text.splitlines())
    return {"": [_finding(box) for box in boxes if box.mark not in _DROPPED and box.text]}


def _boxes(lines: list[str]) -> list[_Box]:
    boxes: list[_Box] = []
    section, fence = "", ""
    below: list[str] | None = None
    for raw in lines:
        line = raw.expandtabs(4)
        if below is not None and (not line.strip() or _indent(line) > boxes[-1].indent):
            below.append(line)
        elif fence or _FENCE.match(line):
            below = None
            fence = _fence_after(line, fence)
        elif box := _BOX.fullmatch(line):
            below = []
            mark = box["mark"].strip() or " "
            boxes.append(_Box(one_line(box["text"] or ""), mark, section, below, _indent(line)))
        else:
            below = None
            if heading := _HEADING.fullmatch(line):
                section = one_line(heading[1].rstrip().rstrip("#"))
    return boxes


def _fence_after(line: str, open_fence: str) -> str:
    """The fence that is open after ``line``: boxes between fences are examples."""
    found = _FENCE.match(line)
    if not open_fence:
        return found[1] if found else ""
    return "" if found and line.strip().startswith(open_fence) else open_fence


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _finding(box: _Box) -> Finding:
    named = _NAMED.fullmatch(box.text)
    title = named["text"] if named else box.text
    return Finding(
        id=(named["plain"] or named["quoted"]) if named else "",
        title=title,
        section=box.section,
        more=(textwrap.dedent("\n".join(box.below)).strip("\n"),),
        closed=box.mark in "xX",
        known_by=() if named else (box.section, title),
    )
