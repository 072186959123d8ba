"""The shape of a tasks file: its boxes as a tree, its headings, and what text belongs to which.

This is only what Markdown says. Which headings are phases and which boxes are tickets is decided
afterwards, with the whole file in view (`gitbaton.plan.phases`, `gitbaton.plan.roles`).
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from gitbaton.plan import boxes
from gitbaton.plan.boxes import Label
from gitbaton.plan.lines import Kind, Scan

Role = Literal["ticket", "criterion", "umbrella", "reported"]
Piece = tuple[int, str]  # 1-based line and its text

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_RULE = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$")
_FENCES = ("```", "~~~")
_CHILD = 2  # columns by which a child is indented at least


class Node(msgspec.Struct):
    """A box and what belongs to it. ``parent`` is the nearest box around it; ``heading`` the
    heading ticket whose criterion it is."""

    line: int
    marker: str
    state: boxes.State  # what its marker says, and what being struck through makes of that
    text: str
    label: Label
    parent: Node | None = None
    children: list[Node] = msgspec.field(default_factory=list)
    body: list[Piece] = msgspec.field(default_factory=list)
    section: int = 0
    heading: Heading | None = None
    role: Role = "ticket"
    why: str = ""  # why it is only reported, as the code of the remark
    owner: Node | None = None  # the ticket whose criterion it is
    key: str = ""

    def set_aside(self) -> str:
        """Why it is no work by itself, as the code of a remark; empty when it is."""
        if self.text and not self.label.struck and self.state != "deferred":
            return ""
        if self.state == "deferred":
            return "deferred"
        if self.state == "open" and self.label.struck:
            return "struck-open"
        if not (self.text or self.children or any(text for _, text in self.body)):
            return "empty-box"
        return ""


class Heading(msgspec.Struct):
    """A heading. ``boxes`` counts those below it and above the next heading; ``section`` is None
    where text belongs to no section. Of a heading with a key, ``below`` counts all boxes under it,
    ``keyed`` says that one of them has a key, ``nodes`` are those under no deeper such heading.
    ``ticket``: it is a ticket; ``around`` is the heading ticket whose text follows."""

    line: int
    level: int
    text: str
    boxes: int = 0
    section: int | None = None
    label: Label | None = None
    nodes: list[Node] = msgspec.field(default_factory=list)
    keyed: bool = False
    below: int = 0
    ticket: bool = False
    around: Heading | None = None
    key: str = ""


class Outline(msgspec.Struct):
    """Everything in the order of the file. ``prose`` is text outside boxes; ``strays`` are boxes
    that are no work, with the reason; ``homes`` says for the line of each directive to which box or
    heading it belongs."""

    nodes: list[Node]
    headings: list[Heading]
    prose: list[Piece]
    strays: list[tuple[int, Kind]]
    almost: list[int]
    homes: dict[int, Node | Heading | None]


def outline(lines: list[str], scan: Scan) -> Outline:
    """Read ``lines`` (printable) into an `Outline`."""
    reader = _Reader(lines, scan)
    for index, kind in enumerate(scan.kinds):
        reader.take(index, kind)
    return reader.outline


class _Item:
    """An open list item: its indentation, and its box (of itself, else of what is around it)."""

    __slots__ = ("indent", "node")

    def __init__(self, indent: int, node: Node | None) -> None:
        self.indent = indent
        self.node = node


class _Reader:
    def __init__(self, lines: list[str], scan: Scan) -> None:
        self.lines = lines
        self.visible = scan.visible
        self.directives = {d.line for d in scan.directives}
        self.outline = Outline([], [], [], [], [], {})
        self.items: list[_Item] = []
        self.blank = True
        self.previous: Kind = "text"
        self.underlined = not any(
            kind == "text" and (found := _HEADING.match(line)) and len(found[1]) in (2, 3)
            for kind, line in zip(scan.kinds, lines, strict=True)
            if line.lstrip().startswith("##")
        )

    def take(self, index: int, kind: Kind) -> None:
        """Read one line."""
        line, number = self.visible[index], index + 1
        if kind == "text" and (found := boxes.box_in(self.lines[index])) is not None:
            self._box(number, line, found)
            self.blank = False
        elif kind != "text":
            self._aside(number, line, kind)
        elif not line or line.isspace():
            self.blank = True
            self._append((number, ""))
        elif (heading := self._heading(index, line)) is not None:
            self._close(0)
            self.outline.headings.append(heading)
            self.blank = True
            if number in self.directives:
                self.outline.homes[number] = heading
        else:
            self._text(number, line)
            self.blank = False
        if kind == "text" and number in self.directives:
            self.outline.homes.setdefault(number, self._home())
        self.previous = kind

    def _aside(self, number: int, line: str, kind: Kind) -> None:
        """A line in a fence, a comment or the front matter."""
        if boxes.box_in(self.lines[number - 1]) is not None:
            self.outline.strays.append((number, kind))
        if kind == "fence":
            if self.previous != "fence":
                self._close(boxes.indent_of(line))
            self._append((number, line))
            self.blank = False
        elif number in self.directives:
            indent = boxes.indent_of(self.lines[number - 1])
            if self.blank:
                self._close(indent)
            self.outline.homes[number] = self._home()

    def _heading(self, index: int, line: str) -> Heading | None:
        found = _HEADING.match(line)
        if found is not None:
            return Heading(index + 1, len(found[1]), (found[2] or "").strip())
        if self.underlined and not self.items and (under := _UNDERLINE.match(line)):
            prose = self.outline.prose
            above = prose[-2] if len(prose) > 1 else (0, "")
            title = self.visible[index - 1]
            alone = above[0] < index - 1 or not above[1]
            if title and alone and prose and prose[-1] == (index, title):
                prose.pop()
                return Heading(index, 1 if under[1][0] == "=" else 2, title.strip())
        return None

    def _box(self, number: int, line: str, box: boxes.Box) -> None:
        self._close(box.indent)
        parent = self._home()
        text = line[box.end + 1 :].strip()
        label, state = boxes.label(text), boxes.state_of(box.marker)
        if label.struck and state == "done":
            state = "canceled"
        node = Node(number, box.marker, state, text, label, parent)
        if parent is not None:
            parent.children.append(node)
        self.items.append(_Item(box.indent, node))
        self.outline.nodes.append(node)
        if self.outline.headings:
            self.outline.headings[-1].boxes += 1

    def _text(self, number: int, line: str) -> None:
        if boxes.looks_like_box(line):
            self.outline.almost.append(number)
        indent = boxes.bullet_indent(line)
        if indent is not None and not _RULE.match(line):
            self._close(indent)
            self._append((number, line))
            self.items.append(_Item(indent, self._home()))
            return
        if self.blank or line[0] in ">|" or _RULE.match(line):
            self._close(boxes.indent_of(line))
        self._append((number, line))

    def _close(self, indent: int) -> None:
        """Leave the list items that a line of this indentation is not in."""
        while self.items and indent < self.items[-1].indent + _CHILD:
            self.items.pop()

    def _home(self) -> Node | None:
        return self.items[-1].node if self.items else None

    def _append(self, piece: Piece) -> None:
        node = self._home()
        (self.outline.prose if node is None else node.body).append(piece)


def dedented(pieces: list[Piece]) -> str:
    """Text of ``pieces`` without common indentation and without blank lines at the ends; lines that
    only continue the text of a box lose all of theirs."""
    if not pieces:
        return ""
    kept = [text.rstrip().expandtabs(4) for _, text in pieces]
    for at, text in enumerate(kept):
        if not text or boxes.bullet_indent(text) is not None or text.lstrip()[:3] in _FENCES:
            break
        kept[at] = text.lstrip()
    while kept and not kept[-1]:
        kept.pop()
    while kept and not kept[0]:
        kept.pop(0)
    margins = [len(text) - len(text.lstrip()) for text in kept]
    margin = min((m for m, text in zip(margins, kept, strict=True) if text and m), default=0)
    return "\n".join(text[min(margin, m) :] for m, text in zip(margins, kept, strict=True))
