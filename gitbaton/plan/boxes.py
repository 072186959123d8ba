"""The grammar of one line: what is a checkbox, what its marker says, which key its text carries.

People write checkboxes in many ways, and every one that is overlooked is work that nobody does. So
a box is recognized generously; a key only where the text really begins with one.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

State = Literal["open", "done", "canceled", "deferred"]

_STATES: dict[str, State] = {"x": "done", "X": "done", "-": "canceled", ">": "deferred"}

_BOX = re.compile(
    r"([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]*\[([ \t]*[xX][ \t]*|\s*|[^\[\]])\]", re.UNICODE
)
_PLAIN = (" ] ", "x] ")  # by far the most
_BULLET = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|$)")
_ALMOST = re.compile(r"[^\w\[]*\[(?: |x|X)\](?![(:\[])")
_LINK = re.compile(r"\((?=[^\s()]*[./#:])[^\s()]*(?:\s+(?:\"[^\"]*\"|'[^']*'))?\)")

_NUMBER = r"\d+[A-Za-z]?(?:\.\d+[A-Za-z]?)*"
_LETTER = r"[A-Z]{1,4}-?\d+[a-z]?(?:\.\d+)*|[A-Z](?:\.\d+)+"
KEY = rf"(?:{_NUMBER}|{_LETTER})"
# no digit that other alphabets have
_KEY = re.compile(KEY, re.ASCII)
_PLAIN_LABEL = re.compile(
    r"(\d+(?:\.\d+)+) (\w[^~]*)", re.ASCII
)  # what `label` makes of most texts
_RANGE = re.compile(
    rf"({KEY})(?:(?:\.{{2,3}}|[-‐‑–—…~～])({KEY})|((?:/{KEY})+))",
    re.ASCII,
)
_LEAD = re.compile(r"(?:\*{1,3}|~~|`+|_{1,2})*")
_MARKS = re.compile(r"\*{1,3}|~~|`+|_{1,2}")
_PUNCTUATION = re.compile(r"[.:;,)\]。．：；，、）】·]*")
_DASH = re.compile(r"[ \t\u3000]*(?:[-–—:：][ \t\u3000]+)?")
_STRUCK = re.compile(r"[*_`]*~~(?=.*~~)")
_STRUCK_REST = re.compile(r"[*_`]*~~.*~~[*_`\s.]*(?:[(（\[–—:-].*)?$")
_TAIL_NUMBER = re.compile(r"\d+$")
_MOST_MEMBERS = 1000


class Box(msgspec.Struct, frozen=True, gc=False):
    """A checkbox line: the columns between its brackets, what stands there, and its indentation in
    columns."""

    start: int
    end: int
    marker: str
    indent: int

    @property
    def state(self) -> State:
        return state_of(self.marker)


def state_of(marker: str) -> State:
    """What a marker says; whatever is not known is open."""
    return _STATES.get(marker, "open")


def box_in(line: str) -> Box | None:
    """The checkbox of ``line``, if it is a checkbox line."""
    if line[:3] == "- [" and line[3:6] in _PLAIN:
        return Box(3, 4, line[3], 0)
    found = _BOX.match(line)
    if found is None:
        return None
    marker = found[2].strip() or " "
    following = line[found.end() : found.end() + 1]
    if marker != " ":
        if following == "(" and _LINK.match(line, found.end()):
            return None  # - [x](https://example.org)
        if marker not in "xX" and marker.isalnum() and following.isalnum():
            return None  # - [s]ome word
    return Box(found.start(2), found.end(2), marker, _width(found[1]))


def bullet_indent(line: str) -> int | None:
    """The indentation of a list item, in columns; None if ``line`` is none."""
    found = _BULLET.match(line)
    return None if found is None else _width(found[1])


def indent_of(line: str) -> int:
    """The indentation of ``line`` in columns; tabs stop at every fourth."""
    return _width(line[: len(line) - len(line.lstrip(" \t"))])


def looks_like_box(line: str) -> bool:
    """Whether ``line`` holds brackets where only the bullet is missing or quoted."""
    return "[" in line and _ALMOST.match(line) is not None and box_in(line) is None


def _width(blank: str) -> int:
    return len(blank.expandtabs(4)) if "\t" in blank else len(blank)


class Label(msgspec.Struct, frozen=True, gc=False):
    """What the text of a box or a heading begins with.

    ``key`` is empty where it begins with none; ``written`` is the key as it stands there; a range
    has ``members``; ``letter`` tells ``T004`` from ``1.2``; ``title`` is the rest. ``struck``: the
    text is crossed out.
    """

    key: str
    title: str
    written: str = ""
    members: tuple[str, ...] = ()
    letter: bool = False
    struck: bool = False


def label(text: str) -> Label:
    """Split ``text`` into key and title."""
    text = text.strip()
    if plain := _PLAIN_LABEL.fullmatch(text):
        return Label(plain[1], plain[2], plain[1])
    struck = "~~" in text and _STRUCK.match(text) is not None
    lead = _LEAD.match(text)
    at = lead.end() if lead else 0
    found = _key_at(text, at)
    if found is None:
        return Label("", text, struck=struck)
    key, written, members = found
    rest = text[at + len(written) :]
    marks = _MARKS.findall(text, 0, at)
    title = _title(rest, marks)
    if not struck and "~~" in title:
        struck = _STRUCK_REST.match(title) is not None
    return Label(key, title, written, members, not key[0].isdigit(), struck)


def keyless(found: Label, text: str) -> Label:
    """``found`` where its key turned out to be prose."""
    return Label("", text.strip(), struck=found.struck)


def is_key(word: str) -> bool:
    """Whether ``word`` has the form of a key."""
    return _KEY.fullmatch(word) is not None


def range_in(word: str) -> tuple[str, ...]:
    """The members of ``word`` if it is a range, such as ``4.1-4.3``."""
    found = _RANGE.fullmatch(word)
    return _members(found)[1] if found else ()


def _key_at(text: str, at: int) -> tuple[str, str, tuple[str, ...]] | None:
    """Key, key as written, and members of what stands at ``at``."""
    if (found := _RANGE.match(text, at)) and _ends(text, found.end(), found[0]):
        key, members = _members(found)
        if members:
            return key, found[0], members
    if (single := _KEY.match(text, at)) and _ends(text, single.end(), single[0]):
        return single[0], single[0], ()
    return None


def _ends(text: str, end: int, key: str) -> bool:
    """Whether a key may end there: before white space, the line's end or punctuation, but not in
    the middle of ``3-way``, ``50%``, ``10:30`` or ``v1.x``."""
    after = text[end : end + 1]
    if not after or after.isspace() or after == "_":
        return True
    if after.isalnum() or after == "%" or not after.isprintable():
        return False
    then = text[end + 1 : end + 2]
    if not then.isalnum() or not then.isascii():
        return True
    return after != "." and (not key.isdigit() or after not in "-/+:,'’")


def _members(found: re.Match[str]) -> tuple[str, tuple[str, ...]]:
    """Key and members of a range; no members when it is none, such as ``1.4-1.2``."""
    first, last, listed = found[1], found[2], found[3]
    if listed:
        members = [first]
        for word in listed[1:].split("/"):
            members.append(_full(members[-1], word))
        return f"{first}-{members[-1]}", tuple(members)
    last = _full(first, last)
    low, high = _TAIL_NUMBER.search(first), _TAIL_NUMBER.search(last)
    if low is None or high is None or first[: low.start()] != last[: high.start()]:
        same = first[0].isdigit() == last[0].isdigit() and first.count(".") == last.count(".")
        return f"{first}-{last}", (first, last) if same and first < last else ()
    start, stop = int(low[0]), int(high[0])
    if not start < stop <= start + _MOST_MEMBERS:
        return "", ()
    stem, digits = first[: low.start()], len(low[0])
    return f"{first}-{last}", tuple(f"{stem}{n:0{digits}}" for n in range(start, stop + 1))


def _full(first: str, word: str) -> str:
    """``word`` with what it leaves out: ``3`` after ``4.1`` is ``4.3``, after ``T01`` ``T3``."""
    if not word.isdigit() or first.isdigit():
        return word
    tail = _TAIL_NUMBER.search(first)
    return first[: tail.start()] + word if tail else word


def _title(rest: str, marks: list[str]) -> str:
    """What follows a key, without the punctuation that ends it and the emphasis it opened."""
    found = _PUNCTUATION.match(rest)
    rest = rest[found.end() :] if found else rest
    for mark in reversed(marks):
        before, closed, after = rest.partition(mark)
        rest = before + after if closed else rest
        if not before:
            found = _PUNCTUATION.match(rest)
            rest = rest[found.end() :] if found else rest
    dash = _DASH.match(rest)
    return rest[dash.end() if dash else 0 :].strip()
