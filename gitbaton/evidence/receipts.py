"""Judging stored receipts: their bytes, who signed them, and whether they say what they must.

An attempt's receipt speaks of the worker's commit, a commit's own receipt of a merged, updated,
landed or accepted tree. Both are held against what the state recorded and against the verifier's
policy, and every problem names the file and what in it is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gitbaton.config import Settings
from gitbaton.errors import BatonError
from gitbaton.evidence import seal, signature, statement
from gitbaton.evidence.claims import Claim, Stored, of_attempt
from gitbaton.evidence.examine import named
from gitbaton.git import objects
from gitbaton.git.repo import Repository
from gitbaton.model.audit import Problem
from gitbaton.model.receipt import CheckResult, Predicate, Statement
from gitbaton.model.run import Attempt
from gitbaton.rules.globs import glob_match
from gitbaton.store import runs

if TYPE_CHECKING:
    from gitbaton.evidence.signature import Signers

Copies = Callable[[str], bytes | None]
"""The note of a commit: another copy of its receipt."""


class Policy(NamedTuple):
    """What the verifier demands beyond what the run recorded."""

    require: tuple[str, ...] = ()
    protect_paths: tuple[str, ...] = ()
    require_signature: bool = False
    signers: Signers | None = None

    def wants_trust(self, signature: bytes | None) -> bool:
        """Whether an allowed signer must have made a signature. Who says whom to trust trusts
        nobody else, also where receipts may be unsigned."""
        return self.require_signature or (signature is not None and self.signers is not None)


def policy_of(repo: Repository, settings: Settings) -> Policy:
    """The policy of whoever verifies here. Raises as `signature.signers_of`."""
    return Policy(
        settings.require,
        settings.protect_paths,
        settings.require_signature,
        signature.signers_of(repo, settings),
    )


class Judge:
    """Judges the receipts of one run."""

    def __init__(
        self, repo: Repository, loaded: runs.Loaded, policy: Policy, copies: Copies
    ) -> None:
        self._repo = repo
        self._loaded = loaded
        self._policy = policy
        self._copies = copies

    def of_attempt(self, attempt: Attempt, tasks: str | None) -> list[Problem]:
        """The receipt of a sealed attempt. With ``tasks`` (the path of the tasks file) the attempt
        is integrated, so the policy for landed trees holds as well."""
        stored = of_attempt(self._loaded, attempt)
        return list(self._attempt(attempt, stored, tasks))

    def of_commit(self, claim: Claim) -> list[Problem]:
        """The receipt that is ``claim.commit``'s own; there must be one."""
        assert claim.stored is not None
        return list(self._commit(claim, claim.stored))

    def covers(self, claim: Claim) -> tuple[str, ...]:
        """The commits that a commit's own receipt also speaks of; none if it cannot be read."""
        try:
            return statement.parse(claim.receipt or b"").predicate.covers
        except BatonError:
            return ()

    # --- attempts --------------------------------------------------------------------------------

    def _attempt(self, attempt: Attempt, stored: Stored, tasks: str | None) -> Iterator[Problem]:
        run = self._loaded.state.run.id
        if attempt.sealed is None:
            yield _problem("receipt-missing", stored, f"{run}/{attempt.id} has no receipt")
            return
        packet = self._loaded.packet(attempt.id)
        if packet is None:
            yield _problem("packet-missing", stored, f"the packet of {run}/{attempt.id} is missing")
        copy = None
        if stored.receipt and statement.digest(stored.receipt) != stored.digest:
            copy = self._copies(attempt.sealed.commit)
        try:
            failure = seal.reverify(
                self._repo,
                run,
                attempt,
                stored.receipt,
                packet=packet,
                reference=copy,
                signature=stored.signature,
                signers=self._policy.signers,
                require_signature=self._policy.wants_trust(stored.signature),
            )
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            yield _problem("packet-damaged", stored, f"the packet cannot be read: {error}")
            return
        if failure is not None:
            yield _problem(failure.code, stored, failure.message)
            return
        predicate = statement.parse(stored.receipt or b"").predicate
        mode = self._loaded.state.run.target.mode
        if predicate.mode != mode:
            said = f"predicate.mode is {predicate.mode!r}, but must be {mode!r}"
            yield _rejected(stored, said)
        if tasks is not None and (self._policy.require or self._policy.protect_paths):
            yield from self._required(stored, predicate.checks)
            yield from self._protected(attempt, stored, tasks)

    def _protected(self, attempt: Attempt, stored: Stored, tasks: str) -> Iterator[Problem]:
        """What the attempt changed in the tip it was merged into, or else in its base."""
        patterns = self._policy.protect_paths
        assert attempt.sealed is not None
        old, new = attempt.base_commit, attempt.sealed.commit
        if attempt.merge_commit is not None:
            new = attempt.merge_commit
            old = objects.commit_info(self._repo, new).parents[0]
        changed = objects.changed_paths(self._repo, old, new) if patterns else []
        found = [path for path in changed if path != tasks and glob_match(path, patterns)]
        if found:
            yield Problem(
                code="protected-path",
                where=f"{new}:{found[0]}",
                message=f"{attempt.id} changed what baton.protectPaths protects: {named(found)}",
            )

    # --- commits ---------------------------------------------------------------------------------

    def _commit(self, claim: Claim, stored: Stored) -> Iterator[Problem]:
        data = stored.receipt
        if data is None:
            yield _problem("receipt-missing", stored, f"the receipt of {claim.commit} is missing")
            return
        if stored.digest is None:
            said = f"the digest of the receipt of {claim.commit} is not recorded"
            yield _problem("receipt-unrecorded", stored, said)
            return
        if statement.digest(data) != stored.digest:
            copy = self._copies(claim.commit)
            other = copy.rpartition(b"\n\n")[2] if copy else None
            field = statement.first_difference(data, other) if other else None
            what = f"; {field} was altered" if field else f" (SHA-256 {statement.digest(data)})"
            yield _rejected(stored, f"its bytes are not the ones recorded{what}")
            return
        try:
            parsed = statement.parse(data)
        except BatonError as error:
            yield _rejected(stored, error.message)
            return
        for field, found, recorded in self._fields(claim, parsed):
            if found != recorded:
                yield _rejected(stored, f"{field} is {found!r}, but must be {recorded!r}")
        yield from self._checks(claim, stored, parsed.predicate)
        problem = signature.problem_of(
            data,
            stored.signature,
            stored.signature_digest,
            self._policy.signers,
            required=self._policy.wants_trust(stored.signature),
        )
        if problem:
            yield _rejected(stored, problem)

    def _fields(self, claim: Claim, parsed: Statement) -> Iterator[tuple[str, object, object]]:
        run = self._loaded.state.run.id
        info = objects.commit_info(self._repo, claim.commit)
        predicate = parsed.predicate
        whole = f"{run}/{claim.attempt}" if claim.attempt else run
        ticket, number = claim.attempt or ("", 0)
        yield "subject commit", parsed.commit, claim.commit
        yield "subject tree", parsed.tree, info.tree
        yield "predicate.run", predicate.run, run
        yield "predicate.mode", predicate.mode, self._loaded.state.run.target.mode
        yield "predicate.assignment", predicate.assignment, whole
        yield "predicate.ticket", predicate.ticket, ticket
        yield "predicate.attempt", predicate.attempt, number
        yield "predicate.base_commit", (predicate.base_commit,), info.parents[:1]
        yield "predicate.sealed_in", predicate.sealed_in, "verification-worktree"

    def _checks(self, claim: Claim, stored: Stored, predicate: Predicate) -> Iterator[Problem]:
        if claim.commit not in predicate.covers:
            yield _rejected(stored, f"predicate.covers lacks {claim.commit}")
        if not predicate.checks:
            yield _rejected(stored, "predicate.checks is empty")
        for index, check in enumerate(predicate.checks):
            if not check.green:
                said = f"predicate.checks[{index}].exit_code is {check.exit_code}"
                yield _rejected(stored, said)
        yield from self._required(stored, predicate.checks)

    def _required(self, stored: Stored, checks: Sequence[CheckResult]) -> Iterator[Problem]:
        ran = {check.command for check in checks}
        for command in self._policy.require:
            if command not in ran:
                said = f"predicate.checks lacks `{command}`, which baton.require asks for"
                yield _problem("required-check-missing", stored, said)


def _problem(code: str, stored: Stored, message: str) -> Problem:
    return Problem(code=code, where=stored.where, message=message)


def _rejected(stored: Stored, why: str) -> Problem:
    return _problem("receipt-rejected", stored, f"the receipt was rejected: {why}")
