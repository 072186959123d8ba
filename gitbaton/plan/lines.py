"""A Markdown file as lines, of which some are no work: fences, comments, front matter.

Reading and ticking must agree on every byte, so both begin here: a file is cut into lines in a way
that joins again to the same bytes, whatever its line ends, byte order mark or invalid UTF-8.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Literal, NamedTuple

Kind = Literal["text", "fence", "comment", "front-matter"]

_BOM = b"\xef\xbb\xbf"
_END = re.compile("(\r\n|\n|\r)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_OPENER = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}(?=[^`]*$)|~{3,})")
_CLOSER = re.compile(r"[ \t>]*(`{3,}|~{3,})[ \t]*$")
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_COMMENT = re.compile("<!--.*?-->")
_WORK = re.compile(r"[ \t]*(?:#{2,6}[ \t]|(?:[-*+]|\d{1,9}[.)])[ \t]*\[.{0,3}\])")
_DIRECTIVE = re.compile(r"<!--\s*baton\b(.*)-->", re.DOTALL | re.IGNORECASE)


class Text(NamedTuple):
    """A file as lines and the line end after each; the last line has none."""

    mark: bytes
    lines: list[str]
    ends: list[str]

    def join(self) -> bytes:
        """The bytes of the file."""
        parts = [*self.lines, *self.ends]
        parts[::2], parts[1::2] = self.lines, self.ends
        return self.mark + "".join(parts).encode("utf-8", "surrogateescape")


def cut(data: bytes) -> Text:
    """``data`` as lines. Bytes that are no UTF-8 become lone surrogates, which `Text.join` turns
    back; `printable` shows them."""
    mark = _BOM if data.startswith(_BOM) else b""
    parts = _END.split(data[len(mark) :].decode("utf-8", "surrogateescape"))
    return Text(mark, parts[::2], parts[1::2])


def printable(line: str) -> str:
    """``line``, of the same length, with a replacement character for each byte that is no UTF-8."""
    return line if line.isascii() else _SURROGATE.sub("\ufffd", line)


class Directive(NamedTuple):
    """What a ``<!-- baton ... -->`` comment says after ``baton``, and its 1-based line."""

    line: int
    words: str


class Scan(NamedTuple):
    """The kind of every line, what of it a reader sees (no directives, no comment that runs on to
    later lines), and the directives."""

    kinds: list[Kind]
    visible: list[str]
    directives: list[Directive]


def scan(lines: list[str]) -> Scan:
    """Tell work from what only looks like it. A fence or a comment that never closes is none."""
    kinds: list[Kind] = ["text"] * len(lines)
    visible = list(lines)
    directives: list[Directive] = []
    closers = _Closers(lines)
    at = _front_matter(lines)
    kinds[:at] = ["front-matter"] * at
    while at < len(lines):
        line = lines[at]
        if ("```" in line or "~~~" in line) and (last := closers.fence_end(at)) is not None:
            kinds[at : last + 1] = ["fence"] * (last + 1 - at)
            at = last + 1
        elif "<!--" in line:
            last = _comments(lines, at, visible, directives, closers.last_comment_end)
            first = at + 1 if _COMMENT.sub("", visible[at]).strip() else at
            kinds[first : last + 1] = ["comment"] * (last + 1 - first)
            at = last + 1
        else:
            at += 1
    return Scan(kinds, visible, directives)


def without_code(text: str) -> str:
    """``text`` with code spans that hold a parenthesis or a comment blanked out, same length."""
    if "`" not in text:
        return text
    return _CODE.sub(
        lambda m: " " * len(m[0]) if re.search(r"[(（]|<!--", m[2]) else m[0],
        text,
    )


def _front_matter(lines: list[str]) -> int:
    """How many lines the front matter takes. What holds a box or a section is none: there, the
    first line was a rule."""
    if lines[0].rstrip() != "---":
        return 0
    for number, line in enumerate(lines[1:], start=2):
        if line.rstrip() in ("---", "..."):
            return number
        if _WORK.match(line):
            return 0
    return 0


def _comments(
    lines: list[str],
    at: int,
    visible: list[str],
    directives: list[Directive],
    last_end: int,
) -> int:
    """Take the comments that begin in line ``at``; return the line where the last of them ends."""
    line = lines[at]
    bare = without_code(line)
    shown: list[str] = []
    seen = 0
    while (start := bare.find("<!--", seen)) >= 0:
        end = line.find("-->", start + 4)
        if end >= 0:
            found = _DIRECTIVE.match(line[start : end + 3])
            shown.append(line[seen : start if found else end + 3])
            if found:
                directives.append(Directive(at + 1, found[1]))
            seen = end + 3
            continue
        if at >= last_end:
            break
        last = next(n for n in range(at + 1, len(lines)) if "-->" in lines[n])
        tail = lines[last]
        whole = [line[start:], *lines[at + 1 : last], tail[: tail.find("-->") + 3]]
        if found := _DIRECTIVE.match("\n".join(whole)):
            directives.append(Directive(at + 1, found[1]))
        visible[at] = "".join(shown) + line[seen:start]
        return last
    if shown:
        visible[at] = "".join(shown) + line[seen:]
    return at


class _Closers:
    """Where fences and comments can end, so that no search for an end runs twice over a file."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at: dict[str, list[tuple[int, int]]] = {"`": [], "~": []}
        self._longest: dict[str, list[int]] = {}
        self.last_comment_end = -1
        for number, line in enumerate(lines):
            if "-->" in line:
                self.last_comment_end = number
            if ("```" in line or "~~~" in line) and (found := _CLOSER.match(line)):
                self._at[found[1][0]].append((number, len(found[1])))
        for char, marks in self._at.items():
            longest = [0] * (len(marks) + 1)
            for index in range(len(marks) - 1, -1, -1):
                longest[index] = max(longest[index + 1], marks[index][1])
            self._longest[char] = longest

    def fence_end(self, at: int) -> int | None:
        """The line that closes the fence opened in line ``at``; None if that opens no fence."""
        opener = _OPENER.match(self._lines[at])
        if opener is None:
            return None
        char, length = opener[1][0], len(opener[1])
        marks = self._at[char]
        index = bisect_right(marks, (at, 1 << 30))
        if self._longest[char][index] < length:
            return None
        return next(number for number, size in marks[index:] if size >= length)
