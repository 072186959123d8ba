"""The board as one HTML file that needs nothing else and asks for nothing.

The page is a template, a style sheet and a few scripts beside this module, put together here; what
it shows is one JSON document in it. Texts come from plans and workers, so three things keep them
inert: nothing in the document can end its element, the scripts only ever set text, and the page's
own policy lets no other script run and no request out.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

import msgspec

from gitbaton import __version__
from gitbaton.report.lines import clean, clean_block

if TYPE_CHECKING:
    from gitbaton.engine.board import Board

SCRIPTS = ("words.js", "run.js", "graph.js", "timeline.js", "detail.js", "overview.js", "app.js")
"""In the order in which they rest on one another."""
_RELOAD_SECONDS = 5
_ESCAPES = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


def page(board: Board, *, watched: bool = False) -> str:
    """The whole page; one that is ``watched`` reads itself again every few seconds."""
    style, script = _part("board.css"), _script()
    return Template(_part("board.html")).substitute(
        title=escape(_title(board)),
        style_hash=_hash(style),
        script_hash=_hash(script),
        style=style,
        script=script,
        version=escape(__version__),
        data=_data(board, _RELOAD_SECONDS if watched else 0),
    )


def _title(board: Board) -> str:
    runs = board.runs[0].run if len(board.runs) == 1 else f"{len(board.runs)} runs"
    return clean(f"{runs} · {board.repository}")


def _data(board: Board, reload_seconds: int) -> str:
    """The document as JSON that holds no character which means something to HTML."""
    document = msgspec.to_builtins(board)
    del document["rests_on"]
    document["reload_seconds"] = reload_seconds
    return msgspec.json.encode(_visible(document)).decode().translate(_ESCAPES)


def _visible(value: Any) -> Any:
    """``value`` without characters that would have its texts read otherwise than they are."""
    if isinstance(value, str):
        return value if value.isprintable() else clean_block(value)
    if isinstance(value, dict):
        return {_visible(key): _visible(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_visible(item) for item in value]
    return value


def _script() -> str:
    parts = "\n".join(map(_part, SCRIPTS))
    return f'(() => {{\n"use strict";\n{parts}\n}})();\n'


def _part(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """What a content security policy names an element by."""
    digest = hashlib.sha256(f"\n{text}".encode()).digest()
    return f"'sha256-{b64encode(digest).decode()}'"
