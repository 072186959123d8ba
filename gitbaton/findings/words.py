"""Text from outside, made fit for a list, a commit message and a terminal.

What a tool prints may hold control characters, escapes that colour a terminal, and halves of
characters; none of them may reach a place where people or programs read.
"""

from __future__ import annotations

import re

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_BLANK = re.compile(r"\s+")


def one_line(text: str) -> str:
    """``text`` as one line: runs of white space are one space, no control characters."""
    if text.isprintable() and "  " not in text:  # then its only white space is single spaces
        return text.strip()
    return _BLANK.sub(" ", lines(text)).strip()


def lines(text: str) -> str:
    """``text`` with its lines, without control characters, and no blank lines around it."""
    if not text.isprintable():  # a line end is not printable either
        text = _COLOUR.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
        text = _UNPRINTABLE.sub("\ufffd", text)
    return text.rstrip().lstrip("\n")


def printable(text: str) -> str:
    """``text``, of the same length, with a replacement character for each that no name has."""
    if text.isprintable():
        return text
    return _UNPRINTABLE.sub("\ufffd", text).replace("\n", "\ufffd").replace("\t", "\ufffd")


def clip(text: str, most: int) -> str:
    """``text``, or as much of it as fits into ``most`` characters with an ellipsis behind."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
