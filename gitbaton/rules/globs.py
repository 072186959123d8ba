"""Patterns of paths, as a ticket's ``paths`` and ``baton.protectPaths`` hold them.

They read like lines of a .gitignore, with one difference: a pattern without wildcards means just
that file or folder, not one of that name anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

_SPECIAL = re.compile(r"[*?\[]|\A\s|\s\Z")


def glob_match(path: str, patterns: Iterable[str]) -> bool:
    """Whether ``path`` (with "/", relative to where the patterns are) matches one of them.

    ``src/**`` and ``src/`` are everything below src, ``*.py`` a name at any depth, ``docs/*.md``
    stays in its folder (``*`` and ``?`` never match "/"), ``**/`` is any number of folders,
    ``README`` and ``src/app`` are exactly that. A folder that matches has all below it match.
    """
    return any(_compile(pattern).fullmatch(path) for pattern in patterns)


def literal(path: str) -> str:
    """The pattern that means just this file or folder, whatever characters are in its name."""
    escaped = _SPECIAL.sub(r"[\g<0>]", path)
    return escaped if escaped == path else f"/{escaped}"


@lru_cache(maxsize=4096)
def _compile(pattern: str) -> re.Pattern[str]:
    text = pattern.strip().removeprefix("./")
    body = text.strip("/")
    if body in ("", "."):
        return re.compile("(?s).+" if pattern.strip() else "(?!)")
    below = "/.+" if text.endswith("/") else "(?:/.+)?"
    anywhere = "/" not in text.rstrip("/") and body != "**" and re.search(r"[*?\[]", body)
    prefix = "(?:.+/)?" if anywhere else ""
    try:
        return re.compile(f"(?s){prefix}{''.join(_parts(body))}{below}")
    except re.error:  # such as [z-a]
        return re.compile(re.escape(body))


def _parts(body: str) -> Iterator[str]:
    """The regular expression of a pattern, piece by piece."""
    at = 0
    while at < len(body):
        if body.startswith("**/", at) and (at == 0 or body[at - 1] == "/"):
            yield "(?:.+/)?"
            at += 3
        elif body[at] == "*":
            end = at
            while end < len(body) and body[end] == "*":
                end += 1
            whole = end - at > 1 and end == len(body) and (at == 0 or body[at - 1] == "/")
            yield ".+" if whole else "[^/]*"
            at = end
        elif body[at] == "?":
            yield "[^/]"
            at += 1
        elif body[at] == "[" and (found := re.compile(r"\[([!^]?)(\]?[^\]]*)\]").match(body, at)):
            negated, members = found[1], found[2].replace("\\", "\\\\").replace("[", "\\[")
            yield f"(?!/)[{'^' if negated else ''}{members.replace(']', chr(92) + ']')}]"
            at = found.end()
        else:
            yield re.escape(body[at])
            at += 1
