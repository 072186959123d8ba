"""The skill that teaches coding agents the loop, put where the agents of a repository look for it.

It goes into a file of its own where a host loads skills, else into a section of AGENTS.md. What
was written ends with a digest of itself: text that still has it may be replaced by a newer one,
and text that has not was changed by a person and is left alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from gitbaton.engine.context import Context
from gitbaton.errors import Refused

_NAME = "git-baton"
_HOSTS = {".claude": (".claude", "CLAUDE.md"), ".agents": (".agents",)}
"""Folders that hold ``skills/``, and what in a repository says that somebody uses them."""
_SECTION = "AGENTS.md"
_BEGIN = "<!-- git-baton: written by `git baton init --agent-instructions` -->"
_END = re.compile(r"<!-- git-baton: end, ([0-9a-f]{12}) -->\n?")


class _Parts(NamedTuple):
    """A file that may hold our text: what is before, ours, what is behind."""

    before: str
    ours: str
    behind: str
    edited: bool


def write(ctx: Context, language: str) -> list[str]:
    """Bring the instructions to the version of this program, in the ``language`` en or zh; one
    line for each file that was changed, or could not be since a person changed it.

    Raises `Refused` ``no-worktree``, or ``outside-worktree`` for a link that leads out of it.
    """
    top = ctx.repo.worktree
    if top is None:
        raise Refused(
            "no-worktree", "there is no working tree to write instructions into", "use a clone"
        )
    skill = skill_text(language)
    hosts = [host for host, signs in _HOSTS.items() if any((top / sign).exists() for sign in signs)]
    changes: list[str] = []
    for host in hosts:
        changes += _put(top, Path(host, "skills", _NAME, "SKILL.md"), _signed(skill), whole=True)
    if not hosts:
        section = _signed(f"{_BEGIN}\n{_as_section(skill)}")
        changes += _put(top, Path(_SECTION), section, whole=False)
    return changes


def skill_text(language: str) -> str:
    """The skill as it is shipped, with its front matter."""
    plugin = files("gitbaton").joinpath("plugins", language)
    return plugin.joinpath("skills", _NAME, "SKILL.md").read_text("utf-8")


def _put(top: Path, name: Path, text: str, *, whole: bool) -> Iterator[str]:
    path = top / name
    if not path.resolve().is_relative_to(top.resolve()):
        raise Refused(
            "outside-worktree", f"{name} leads out of the working tree", "replace the link"
        )
    there = path.read_bytes().decode("utf-8", "surrogateescape") if path.exists() else ""
    parts = _whole(there) if whole else _section(there)
    if parts.edited:
        yield f"kept {name}: it was edited; remove what git-baton wrote to get it anew"
        return
    new = f"{parts.before}{text}{parts.behind}"
    if new == there:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(new.encode("utf-8", "surrogateescape"))
    what = "" if whole else " (a section)"
    yield f"{'updated' if parts.ours else 'wrote'} {name}{what}"


def _whole(there: str) -> _Parts:
    return _Parts("", there, "", bool(there) and not _is_signed(there))


def _section(there: str) -> _Parts:
    """Our section, or where it would go: at the end, below an empty line."""
    start = there.find(_BEGIN)
    if start < 0:
        gap = "" if not there else "\n" if there.endswith("\n") else "\n\n"
        return _Parts(there + gap, "", "", False)
    end = _END.search(there, start)
    stop = end.end() if end else len(there)
    ours = there[start:stop]
    return _Parts(there[:start], ours, there[stop:], not _is_signed(ours))


def _as_section(skill: str) -> str:
    """Without front matter, and each heading one level down."""
    body = skill.split("---\n", 2)[2].lstrip("\n")
    return re.sub(r"^#", "##", body, flags=re.MULTILINE)


def _signed(text: str) -> str:
    return f"{text}\n<!-- git-baton: end, {_digest(text)} -->\n"


def _is_signed(text: str) -> bool:
    end = _END.search(text)
    return (
        end is not None
        and end.end() == len(text)
        and _digest(text[: end.start()].removesuffix("\n")) == end[1]
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
