"""Sealed evidence: an in-toto Statement v1 whose exact bytes are kept and never re-encoded.

Format: https://in-toto.io/Statement/v1 with predicate type ``urn:git-baton:receipt:v1``; JSON,
UTF-8, sorted keys, no floats. Attempts have one; so do merged, update, landing and accepted
commits on which checks ran.
"""

from __future__ import annotations

from typing import Literal

import msgspec

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:git-baton:receipt:v1"

SealedIn = Literal["verification-worktree", "worktree"]


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """One check that ran: exit code (124 timed out, 126 not executable, 127 not found, 128+n killed
    by signal n), milliseconds, SHA-256 of its whole output, last 2,000 characters of it."""

    command: str
    exit_code: int
    duration_ms: int
    output_sha256: str
    output_tail: str

    @property
    def green(self) -> bool:
        return self.exit_code == 0


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """``digest`` is ``{gitCommit: oid}`` or ``{gitTree: oid}``."""

    name: Literal["commit", "tree"]
    digest: dict[str, str]


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    git: str
    git_baton: str
    python: str
    platform: str


class Predicate(msgspec.Struct, frozen=True, kw_only=True):
    """``covers`` are the merge commits that checks on the subject also tested (merged receipts);
    ``merge`` is the recipe of a recomputable merge."""

    assignment: str
    run: str
    mode: str | None
    ticket: str
    attempt: int
    session: str
    plan_revision: int
    packet_sha256: str
    token_sha256: str
    base_commit: str
    changed_files: tuple[str, ...]
    checks: tuple[CheckResult, ...]
    findings: tuple[str, ...] = ()
    followups: tuple[str, ...] = ()
    result: Literal["PASSED"] = "PASSED"
    sealed_in: SealedIn
    covers: tuple[str, ...] = ()
    sealed_at: str
    environment: Environment
    merge: dict[str, str] = {}


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    type_: str = msgspec.field(name="_type", default=STATEMENT_TYPE)
    subject: tuple[Subject, ...]
    predicateType: str = PREDICATE_TYPE
    predicate: Predicate

    @property
    def commit(self) -> str:
        return next(s.digest["gitCommit"] for s in self.subject if s.name == "commit")

    @property
    def tree(self) -> str:
        return next(s.digest["gitTree"] for s in self.subject if s.name == "tree")
