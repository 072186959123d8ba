"""The work contract of an attempt: written once, never changed, its SHA-256 kept in the attempt."""

from __future__ import annotations

import msgspec

from gitbaton.model.root import Mode
from gitbaton.model.run import Failure


class Packet(msgspec.Struct, frozen=True, kw_only=True):
    """``packet.json``. Paths in ``context_files`` are relative to the worktree; ``dependencies``
    are the keys this ticket waited for; ``checks`` all commands that must be green; ``mode`` is a
    batch's."""

    run: str
    ticket: str
    attempt: int
    assignment: str
    title: str
    body: str
    section: str
    section_text: str
    criteria: tuple[str, ...]
    dependencies: tuple[str, ...]
    plan_revision: int
    base_commit: str
    worktree: str
    branch: str
    checks: tuple[str, ...]
    allowed_paths: tuple[str, ...]
    protected_paths: tuple[str, ...]
    context_files: tuple[str, ...]
    previous_failure: Failure | None
    project_dir: str
    conflicts: tuple[str, ...] = ()
    mode: Mode | None = None
