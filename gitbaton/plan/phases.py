"""Which headings are phases, which are tickets, and which leading tokens are keys.

Each of these needs the whole file in view: whether a level-2 heading is a phase depends on the
boxes below it, whether ``S3`` is a key on what the other boxes of its section begin with.
"""

from __future__ import annotations

import re
from itertools import groupby

import msgspec
from msgspec.structs import replace

from gitbaton.plan import boxes
from gitbaton.plan.outline import Heading, Outline

_PHASE_WORDS = frozenset(
    ("phase", "section", "part", "stage", "step", "milestone", "sprint", "wave", "iteration")
)
_TICKET_WORD = re.compile(
    r"([*_~`]*)(?:task|ticket|story|issue|item|subtask)[ \t]+#?(?=\w)", re.IGNORECASE
)
_NUMBERED = re.compile(
    r"(?:([^\W\d_]+)([ \t]*#?[ \t]*))?(\d+[A-Za-z]?(?:\.\d+[A-Za-z]?)*)(?!\w|\.\d)(.*)", re.ASCII
)
_ORDINAL = re.compile(r"第?[ \t]*(\d+)[ \t]*(?:阶段|步|部分|章|节|期)|阶段[ \t]*(\d+)")
_LETTERED = re.compile(r"([A-Z])[.):：、．][ \t\u3000]")
_AFTER_NUMBER = re.compile(r"[ \t\u3000]*(?:[.):：。．、）—–-]|$)")
_EMPHASIS = re.compile(r"[*_~`]+")
_TITLE_START = re.compile(r"[ \t\u3000.):：。．、）—–-]*")


class Phase(msgspec.Struct):
    """A section of the plan: heading line (0: none), title with and without its number."""

    line: int
    title: str
    number: str = ""
    name: str = ""


def phases(found: Outline) -> list[Phase]:
    """Divide the file into phases, and note with each heading and box which one it is in."""
    level = _phase_level(found.headings)
    out: list[Phase] = []
    starts = [Heading(0, 0, ""), *(h for h in found.headings if level and _begins(h, level))]
    if not level:
        starts[0].text = next((h.text for h in found.headings if h.level == 1), "")
    counted = _count(found, starts)
    section_at: list[tuple[int, int | None]] = []
    for start, count in zip(starts, counted, strict=True):
        section_at.append((start.line, len(out) if count else None))
        if count:
            number, name = heading_number(start.text)
            out.append(Phase(start.line, _plain(start.text), number, name))
    _spread(found, section_at)
    _settle_letters(found)
    for heading in found.headings:
        if heading.level > max(level, 2) and not _begins(heading, level):
            heading.label = _heading_label(heading.text)
    _settle_heading_letters(found)
    _find_tickets(found, {s.line for s in starts})
    return out


def heading_number(text: str) -> tuple[str, str]:
    """Number and name of a heading: ``## Phase 2: Base`` is ("2", "Base")."""
    plain = _plain(text)
    if (found := _NUMBERED.match(plain)) and _is_number(found):
        return found[3], _TITLE_START.sub("", found[4], count=1).strip()
    if found := _LETTERED.match(plain):
        return found[1], plain[found.end() :].strip()
    if found := _ORDINAL.match(plain):
        return found[1] or found[2], _TITLE_START.sub("", plain[found.end() :], count=1).strip()
    return "", plain


def _is_number(found: re.Match[str]) -> bool:
    word, gap = found[1], found[2]
    if not word or word.lower() in _PHASE_WORDS:
        return True
    return bool(gap) and _AFTER_NUMBER.match(found[4]) is not None


def _plain(text: str) -> str:
    return _EMPHASIS.sub("", text).strip() if _EMPHASIS.match(text) else text.strip()


def _phase_level(headings: list[Heading]) -> int:
    """2 when level-2 headings have boxes below them, else 3, else 0."""
    for level in (2, 3):
        inside = False
        for heading in headings:
            if heading.level <= level:
                inside = heading.level == level
            if inside and heading.boxes:
                return level
    return 0


def _begins(heading: Heading, level: int) -> bool:
    """Whether a phase may begin at ``heading``, or at least the one before it ends there."""
    if heading.level <= level:
        return True
    if level != 2 or heading.level != 3:
        return False
    found = _NUMBERED.match(_plain(heading.text))
    if found is None or "." in found[3]:
        return False
    return not found[1] or found[1].lower() in _PHASE_WORDS


def _count(found: Outline, starts: list[Heading]) -> list[int]:
    """Boxes between each start and the next."""
    counts = [0] * len(starts)
    at = 0
    for node in found.nodes:
        while at + 1 < len(starts) and starts[at + 1].line < node.line:
            at += 1
        counts[at] += 1
    return counts


def _spread(found: Outline, section_at: list[tuple[int, int | None]]) -> None:
    """Note the section with every heading and box."""
    for things in (found.headings, found.nodes):
        at = 0
        for thing in things:
            while at + 1 < len(section_at) and section_at[at + 1][0] <= thing.line:
                at += 1
            thing.section = section_at[at][1]


def _settle_letters(found: Outline) -> None:
    """Letter forms are keys only where most boxes of the section carry one."""
    for _, group in groupby(found.nodes, key=lambda node: node.section):
        nodes = list(group)
        lettered = [n for n in nodes if n.label.letter]
        plain_children = sum(1 for n in nodes if n.parent is not None and not n.label.key)
        if lettered and 2 * len(lettered) <= len(nodes) - plain_children:
            for node in lettered:
                node.label = boxes.keyless(node.label, node.text)


def _heading_label(text: str) -> boxes.Label | None:
    """Key and title of a heading that begins with a key, perhaps after ``Task``."""
    word = _TICKET_WORD.match(text)
    label = boxes.label(word[1] + text[word.end() :] if word else text)
    if not label.key:
        return None
    return replace(label, letter=False) if word else label


def _settle_heading_letters(found: Outline) -> None:
    """The same for headings, among those of a section that have boxes."""
    for _, group in groupby(found.headings, key=lambda heading: heading.section):
        below = [h for h in group if h.boxes and h.level > 2]
        lettered = [h for h in below if h.label is not None and h.label.letter]
        if 2 * len(lettered) <= len(below):
            for heading in lettered:
                heading.label = None


def _find_tickets(found: Outline, starts: set[int]) -> None:
    """A heading with a key and boxes, none of which has a key, is a ticket."""
    open_: list[Heading] = []
    events: list[Heading] = found.headings
    at = 0
    for node in found.nodes:
        while at < len(events) and events[at].line < node.line:
            _enter(events[at], open_, starts)
            at += 1
        if open_:
            node.heading = open_[-1]
            open_[-1].nodes.append(node)
            for heading in open_:
                heading.below += 1
                heading.keyed = heading.keyed or bool(node.label.key)
    for heading in events[at:]:
        _enter(heading, open_, starts)
    for heading in found.headings:
        heading.ticket = not heading.keyed and any(not n.set_aside() for n in heading.nodes)
    open_.clear()
    for heading in found.headings:
        _leave(heading, open_, starts)
        if heading.ticket:
            open_.append(heading)
        heading.around = open_[-1] if open_ else None
    for node in found.nodes:
        if node.heading is not None and not node.heading.ticket:
            node.heading = None


def _leave(heading: Heading, open_: list[Heading], starts: set[int]) -> None:
    if heading.line in starts:
        open_.clear()
    while open_ and open_[-1].level >= heading.level:
        open_.pop()


def _enter(heading: Heading, open_: list[Heading], starts: set[int]) -> None:
    _leave(heading, open_, starts)
    if heading.label is not None:
        open_.append(heading)
