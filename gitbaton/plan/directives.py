"""``<!-- baton: ... -->`` comments: what prose cannot say about a ticket or the file.

A mistyped word would silently drop a check or a limit, so anything that is not understood is an
error with its line.
"""

from __future__ import annotations

import re
from typing import get_args

import msgspec

from gitbaton.model.plan import Order, Remark, Unit
from gitbaton.plan.lines import Directive

_WORD = re.compile(
    r"""([A-Za-z][\w-]*)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'([^']*)'|([^\s"',;]+))""", re.DOTALL
)
_ESCAPE = re.compile(r'\\(["\\])')
_SPAN = re.compile(r"(\d+)\s*([smhdw]?)", re.IGNORECASE)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_LONGEST = 366 * 86400
_FILE_WORDS = {"order": Order, "unit": Unit}
_TICKET_WORDS = ("verify", "paths", "after", "agent", "lease")


class Settings(msgspec.Struct):
    """What directives say about a ticket, an umbrella or the file."""

    order: Order | None = None
    unit: Unit | None = None
    checks: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    after: tuple[tuple[int, str], ...] = ()
    agent: str | None = None
    lease_seconds: int | None = None


def read(directive: Directive, file: Settings, errors: list[Remark]) -> Settings:
    """What ``directive`` says about what it stands at; what it says about the file goes to
    ``file``, what is wrong with it to ``errors``."""
    said = Settings()
    text = directive.words.strip()
    if not text.startswith(":"):
        if "=" in text:
            _error(errors, directive, "bad-directive", "write 'baton:' with a colon")
        return said
    for word in _WORD.sub(" ", text[1:]).split():
        _error(errors, directive, "unknown-directive", f"unknown word {word!r} in a baton comment")
    for found in _WORD.finditer(text):
        name = found[1].lower()
        into = file if name in _FILE_WORDS else said
        if problem := _set(into, name, _value(found), directive.line):
            known = name in (*_FILE_WORDS, *_TICKET_WORDS)
            _error(errors, directive, "bad-directive" if known else "unknown-directive", problem)
    return said


def both(first: Settings, second: Settings) -> Settings:
    """What two directives say about the same ticket."""
    return Settings(
        checks=first.checks + second.checks,
        paths=first.paths + second.paths,
        after=first.after + second.after,
        agent=second.agent or first.agent,
        lease_seconds=second.lease_seconds or first.lease_seconds,
    )


def under(outer: Settings, inner: Settings) -> Settings:
    """``inner`` as it applies below an umbrella with ``outer``: checks and edges add up, of the
    rest the inner word wins."""
    return Settings(
        checks=tuple(dict.fromkeys(outer.checks + inner.checks)),
        paths=inner.paths or outer.paths,
        after=outer.after + inner.after,
        agent=inner.agent or outer.agent,
        lease_seconds=inner.lease_seconds or outer.lease_seconds,
    )


def seconds(text: str) -> int | None:
    """A length of time such as ``4h``, ``90m``, ``1h30m`` or ``7200`` in seconds."""
    total, at = 0, 0
    for found in _SPAN.finditer(text):
        if found.start() != at or len(found[1]) > 9:
            return None
        total += int(found[1]) * _SECONDS[found[2].lower()]
        at = found.end()
    return total if at == len(text) and 0 < total <= _LONGEST else None


def _error(errors: list[Remark], directive: Directive, code: str, message: str) -> None:
    errors.append(Remark(line=directive.line, code=code, message=message))


def _value(found: re.Match[str]) -> str:
    if found[2] is not None:
        return " ".join(_ESCAPE.sub(r"\1", found[2]).splitlines()).strip()
    return (found[3] if found[3] is not None else found[4]).strip()


def _set(into: Settings, name: str, value: str, line: int) -> str:
    """Take one word; return what is wrong with it."""
    if name not in (*_FILE_WORDS, *_TICKET_WORDS):
        known = ", ".join((*_TICKET_WORDS, *_FILE_WORDS))
        return f"unknown word {name!r} in a baton comment; known are {known}"
    if not value:
        return f"{name} is empty"
    match name:
        case "verify":
            into.checks += (value,)
        case "paths":
            into.paths += tuple(value.split())
        case "after":
            into.after += ((line, value),)
        case "agent":
            into.agent = value
        case "lease":
            into.lease_seconds = seconds(value)
            if into.lease_seconds is None:
                return f"lease is {value!r}, not a length of time such as 4h, 90m or 7200"
        case _:
            return _choose(into, name, value)
    return ""


def _choose(into: Settings, name: str, value: str) -> str:
    """Take order or unit; return what is wrong with it."""
    choices = get_args(_FILE_WORDS[name])
    before = getattr(into, name)
    if value not in choices:
        return f"{name} is {value!r}, not one of {', '.join(choices)}"
    if before not in (None, value):
        return f"{name} is {value!r} here, {before!r} above"
    setattr(into, name, value)
    return ""
