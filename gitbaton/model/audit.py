"""What guard and audit find: problems that name a place and a field, and the verdict on each run.

The place is written as git would: a commit, ``<commit>:<path>`` for a file in its tree, and after a
``#`` the field of that file, the header or the trailer that is meant.
"""

from __future__ import annotations

import msgspec


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it must be: a stable code, where, and one line for people."""

    code: str
    where: str
    message: str


class RunAudit(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one run.

    ``transitions`` are state commits, ``receipts`` and ``merges`` those judged, ``unanchored`` the
    transitions that no anchor holds yet, ``rerun`` the receipts whose checks ran once more.
    ``resolved_by_hand`` are listed, and are no problems.
    """

    run: str
    ok: bool
    transitions: int = 0
    receipts: int = 0
    merges: int = 0
    unanchored: int = 0
    rerun: int = 0
    resolved_by_hand: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """All that was judged; ``problems`` are those of protected branches, which belong to no run."""

    runs: tuple[RunAudit, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems and all(run.ok for run in self.runs)
