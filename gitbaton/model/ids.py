"""Names: run ids, ticket keys and assignment ids, and how a key lies in a path or a ref.

A ticket key is any text a plan came up with. In paths and refs everything outside
``[A-Za-z0-9._-]`` is percent-encoded, also a leading ``.`` and a ``.`` after ``.``, so that every
key is one valid path segment and one valid ref component.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple
from urllib.parse import unquote

from gitbaton.errors import UsageError

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_AS_IT_IS = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")
_OID = re.compile(r"[0-9a-f]{40}")
SHARDS = 64
_MOST_DIGITS = 9


class AttemptId(NamedTuple):
    """One try at a ticket; its number is the fencing token."""

    ticket: str
    number: int

    def __str__(self) -> str:
        return f"{self.ticket}@{self.number}"

    @classmethod
    def parse(cls, name: str) -> AttemptId:
        """The inverse of `str`."""
        ticket, _, number = name.rpartition("@")
        return cls(ticket, int(number))

    @property
    def slug(self) -> str:
        """As a path segment and as the last part of a branch name."""
        return f"{encode_key(self.ticket)}-a{self.number}"


def is_run_id(text: str) -> bool:
    """Whether ``text`` can name a run: one path segment that is also a valid ref component."""
    return (
        _RUN_ID.fullmatch(text) is not None
        and not text.endswith((".", ".lock"))
        and ".." not in text
        and len(text) <= 200
    )


def run_id(text: str) -> str:
    """``text`` if it can name a run; raises `UsageError` otherwise."""
    if not is_run_id(text):
        raise UsageError(
            "bad-run-id",
            f"{text!r} cannot name a run",
            "use letters, digits, '.', '_' and '-', beginning with a letter or digit",
        )
    return text


def is_oid(text: str) -> bool:
    """Whether ``text`` is an object id, in full."""
    return _OID.fullmatch(text) is not None


def encode_key(key: str) -> str:
    """A ticket key as one path segment and one ref component."""
    if _AS_IT_IS.fullmatch(key):
        return key
    out: list[str] = []
    previous = "."
    for byte in key.encode():
        char = chr(byte)
        if byte in _PLAIN and not (char == "." and previous == "."):
            out.append(char)
        else:
            out.append(f"%{byte:02X}")
        previous = char
    text = "".join(out)
    if text.endswith("."):
        text = text[:-1] + "%2E"
    if text.endswith(".lock"):
        text = text[:-5] + "%2Elock"
    return text


def decode_key(text: str) -> str:
    """The inverse of `encode_key`."""
    return unquote(text)


def shard(key: str) -> str:
    """The shard directory of a key: first SHA-256 byte & 63, two hex digits."""
    return f"{hashlib.sha256(key.encode()).digest()[0] & (SHARDS - 1):02x}"


def assignment_id(run: str, attempt: AttemptId) -> str:
    """``RUN/TICKET@N``."""
    return f"{run}/{attempt}"


def parse_attempt(text: str) -> tuple[str, int | None]:
    """``TICKET[@N]`` as (ticket, number or None); a key that itself ends in ``@N`` wins nothing."""
    ticket, at, number = text.rpartition("@")
    if at and ticket and is_number(number):
        return ticket, int(number)
    return text, None


def is_number(text: str) -> bool:
    """Whether ``text`` can be the number of an attempt: at most nine digits."""
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


_LETTERS = str.maketrans("0123456789abcdef", "zyxwvutsrqponmlk")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._]+")
_MOST_LETTERS = 24


def made_name(stem: str, digest: str, length: int) -> str:
    """A name of what has none: a word, and so many letters for the first digits of a hash in hex.
    Letters only, so that it is taken neither for a number nor for an object id."""
    plain = _NOT_PLAIN.sub("-", stem).strip("-.")[:_MOST_LETTERS].rstrip("-.")
    return f"{plain or 'item'}-{digest[:length].translate(_LETTERS)}"


_DIGITS = re.compile(r"[0-9]+")


def natural_key(key: str) -> str:
    """Sort key under which ``1.10`` follows ``1.9``, and a number comes before a letter."""
    return _DIGITS.sub(_by_length, key)


def _by_length(digits: re.Match[str]) -> str:
    """A number such that more digits are more; of any length, so never an int."""
    number = digits[0].lstrip("0")
    return f"\1{chr(len(number))}{number}"
