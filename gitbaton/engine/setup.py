"""What a repository needs to show and share the work of git-baton, and the settings in force.

Nothing here is needed to run a plan; `init` only makes git fetch the refs of others into a place
of their own and show receipts in `git log`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from gitbaton.config import SETTINGS, read, unknown_keys
from gitbaton.engine import hooks, instructions
from gitbaton.engine.context import Context
from gitbaton.errors import BatonError
from gitbaton.git import remote
from gitbaton.git.repo import Repository
from gitbaton.model import layout

DISPLAY_REF = "refs/notes/baton/*"


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What `init` did, one line each."""

    changes: tuple[str, ...]


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A setting: ``origin`` is git's level (system, global, local, worktree, command) or
    ``default``. Of one that cannot be read, ``value`` is the text as given and ``error`` what is
    wrong with it."""

    key: str
    value: Any
    origin: str
    meaning: str
    error: str = ""


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """All settings; ``unknown`` are keys below ``baton.`` that mean nothing."""

    settings: tuple[Value, ...]
    unknown: tuple[str, ...]


def init(ctx: Context, *, with_hooks: bool = False, language: str | None = None) -> Changes:
    """Let every remote's baton refs be fetched to ``refs/baton-remote/``, and `git log` show the
    notes; `hooks.install` as well ``with_hooks``, and the instructions for agents in a
    ``language``. Idempotent."""
    changes: list[str] = []
    for name in remote.remotes(ctx.repo):
        refspec = f"+refs/baton/*:{layout.TRACKED}{name}/*"
        if remote.add_fetch_refspec(ctx.repo, name, refspec):
            changes.append(f"git config --add remote.{name}.fetch '{refspec}'")
    key = "notes.displayRef"
    shown = ctx.repo.config_all("notes.").get(key.lower(), [])
    if DISPLAY_REF not in [value for value, _ in shown]:
        remote.config_add(ctx.repo, key, DISPLAY_REF)
        changes.append(f"git config --add {key} '{DISPLAY_REF}'")
    try:
        if language:
            changes += instructions.write(ctx, language)
        if with_hooks:
            changes += hooks.install(ctx).changes
    except BatonError as error:
        error.payload["changes"] = changes
        raise
    return Changes(changes=tuple(changes))


def config(repo: Repository) -> Shown:
    """Every setting with its value, where that comes from, and what it means; also when another
    verb would refuse to work with one of them."""
    raw = repo.config_all()
    settings, errors = read({key: [value for value, _ in found] for key, found in raw.items()})
    shown = []
    for setting in SETTINGS:
        given = raw.get(f"baton.{setting.key.lower()}", [])
        error = errors.get(setting.key)
        shown.append(
            Value(
                key=setting.key,
                value=given[-1][0] if error else getattr(settings, setting.field),
                origin=_origin(given),
                meaning=setting.meaning,
                error=error.message if error else "",
            )
        )
    shown += [
        Value(
            key=f"agent.{name}.command",
            value=command,
            origin=_origin(raw.get(f"baton.agent.{name}.command", ())),
            meaning=f"command of `git baton run --agent {name}`",
        )
        for name, command in sorted(settings.agents.items())
    ]
    return Shown(settings=tuple(shown), unknown=unknown(repo))


def unknown(repo: Repository) -> tuple[str, ...]:
    """Keys below ``baton.`` that have no effect."""
    raw = repo.config_all()
    return tuple(unknown_keys({key: [value for value, _ in found] for key, found in raw.items()}))


def _origin(found: Sequence[tuple[str, str]]) -> str:
    return found[-1][1] if found else "default"
