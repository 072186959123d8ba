"""Sealing binds what checks said to one commit, as bytes that nobody can change unnoticed.

The checks run on the commit in a verification worktree, where hidden edits, stray files and
leftovers of the worker prove nothing. The same is done to merged trees. `reverify` judges a stored
receipt again, before anything is merged because of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gitbaton.clock import Moment
from gitbaton.config import Settings
from gitbaton.errors import BatonError, Refused
from gitbaton.evidence import statement
from gitbaton.evidence.checks import OnOutput, require_green, run_checks
from gitbaton.evidence.examine import NAMED, Examined, printable
from gitbaton.evidence.signature import Signers, problem_of
from gitbaton.evidence.slots import verification_worktree
from gitbaton.git import ancestry, checkout, objects, refs
from gitbaton.git.repo import Repository
from gitbaton.model import codec
from gitbaton.model.ids import assignment_id
from gitbaton.model.packet import Packet
from gitbaton.model.receipt import CheckResult, Predicate, SealedIn, Statement
from gitbaton.model.run import Attempt, Failure


class Verified(NamedTuple):
    """What `verify_in_place` saw; ``made`` are untracked paths that were not there before."""

    checks: tuple[CheckResult, ...]
    made: tuple[str, ...]


def verify_in_place(
    attempt: Attempt,
    packet: Packet,
    settings: Settings,
    *,
    logs: Path,
    on_output: OnOutput | None = None,
) -> Verified:
    """Run the packet's checks in the attempt's own worktree: feedback, not evidence.

    Raises `RepositoryError` ``not-a-worktree`` when it is gone.
    """
    top = Path(attempt.worktree)
    before = checkout.untracked(top, ignored=True)
    checks = run_checks(
        packet.checks,
        top / packet.project_dir,
        timeout=settings.check_timeout,
        logs=logs,
        on_output=on_output,
    )
    return Verified(checks, tuple(sorted(checkout.untracked(top, ignored=True) - before)))


def seal_checks(
    repo: Repository,
    attempt: Attempt,
    packet: Packet,
    examined: Examined,
    settings: Settings,
    *,
    logs: Path,
    on_output: OnOutput | None = None,
) -> tuple[CheckResult, ...]:
    """The packet's checks on the examined commit, all of them, red or green.

    With ``baton.sealIn worktree`` they run in the attempt's worktree. Either worktree must still be
    at that commit, with no tracked file changed, when they have ended and all are green.
    """
    if settings.seal_in != "worktree":
        tested = _test(
            repo,
            settings,
            examined.commit,
            packet.checks,
            project_dir=packet.project_dir,
            logs=logs,
            on_output=on_output,
        )
        if tested.altered:
            raise Refused(
                "changed-while-sealing",
                f"files of the commit changed while its checks ran: {_some(tested.altered)}",
                "have the checks leave them alone: ignore what they write, or commit the outcome",
                {"paths": list(map(printable, tested.altered))},
            )
        return tested.checks
    top = Path(attempt.worktree)
    before = set(checkout.status(top, fresh_index=True).entries)
    checks = verify_in_place(attempt, packet, settings, logs=logs, on_output=on_output).checks
    after = set(checkout.status(top, fresh_index=True).entries)
    changed = sorted(path for letters, path in after - before if letters != "??")
    if changed or refs.read(repo, attempt.branch) != examined.commit:
        raise Refused(
            "changed-while-sealing",
            f"{top} changed while its checks ran" + (f": {changed[0]}" if changed else ""),
            "commit or undo the change and seal again; or unset baton.sealIn",
        )
    return checks


def test_commit(
    repo: Repository,
    settings: Settings,
    commit: str,
    checks: Sequence[str],
    *,
    project_dir: str,
    logs: Path,
    on_output: OnOutput | None = None,
) -> tuple[CheckResult, ...]:
    """Run ``checks`` on exactly ``commit`` in a verification worktree, all of them.

    Files of the commit that changed meanwhile are one red check more.
    """
    tested = _test(
        repo, settings, commit, checks, project_dir=project_dir, logs=logs, on_output=on_output
    )
    if not tested.altered:
        return tested.checks
    said = f"files of the commit changed while its checks ran: {_some(tested.altered)}\n"
    unclean = CheckResult(
        command="git status --untracked-files=no",
        exit_code=1,
        duration_ms=0,
        output_sha256=statement.digest(said.encode()),
        output_tail=said,
    )
    return (*tested.checks, unclean)


class _Tested(NamedTuple):
    """What checks said of a commit, and if all were green: its files that were altered by then."""

    checks: tuple[CheckResult, ...]
    altered: tuple[str, ...]


def _test(
    repo: Repository,
    settings: Settings,
    commit: str,
    checks: Sequence[str],
    *,
    project_dir: str,
    logs: Path,
    on_output: OnOutput | None,
) -> _Tested:
    with verification_worktree(repo, settings, commit, project_dir=project_dir) as slot:
        results = run_checks(
            checks,
            slot.path,
            timeout=settings.check_timeout,
            logs=logs,
            keep_open=(slot.lock_fd,),
            on_output=on_output,
        )
        green = all(result.green for result in results)
        return _Tested(results, tuple(checkout.altered(slot.top, commit)) if green else ())


def _some(paths: Sequence[str]) -> str:
    return ", ".join(map(printable, paths[:NAMED])) + (", ..." if len(paths) > NAMED else "")


def make_receipt(
    run: str,
    attempt: Attempt,
    packet: Packet,
    examined: Examined,
    checks: Sequence[CheckResult],
    settings: Settings,
    moment: Moment,
    *,
    findings: Sequence[str] = (),
    followups: Sequence[str] = (),
) -> bytes:
    """The exact bytes of the receipt; raises `Refused` ``checks-failed`` unless all are green."""
    require_green(checks)
    sealed_in: SealedIn = settings.seal_in
    predicate = Predicate(
        assignment=assignment_id(run, attempt.id),
        run=run,
        mode=packet.mode,
        ticket=attempt.ticket,
        attempt=attempt.number,
        session=attempt.session,
        plan_revision=attempt.plan_revision,
        packet_sha256=attempt.packet_sha256,
        token_sha256=attempt.lease.token_sha256,
        base_commit=attempt.base_commit,
        changed_files=examined.changed_files,
        checks=tuple(checks),
        findings=tuple(findings),
        followups=tuple(followups),
        sealed_in=sealed_in,
        sealed_at=moment.stamp,
        environment=statement.environment(),
    )
    return statement.build(commit=examined.commit, tree=examined.tree, predicate=predicate)


def reverify(
    repo: Repository,
    run: str,
    attempt: Attempt,
    receipt: bytes | None,
    *,
    packet: bytes | None = None,
    reference: bytes | None = None,
    signature: bytes | None = None,
    signers: Signers | None = None,
    require_signature: bool = False,
) -> Failure | None:
    """Judge the stored bytes of a receipt against what the attempt recorded.

    ``reference`` is another copy (the one in the notes): it only helps to name the field that was
    altered. ``packet``, if given, are the bytes whose digest the receipt must hold. With
    ``require_signature``, one of ``signers`` must have signed it. None means that the receipt
    stands; otherwise the failure's message names the field.
    """
    if attempt.sealed is None or receipt is None:
        return _rejected("there is none" if attempt.sealed is None else "its bytes are missing")
    if statement.digest(receipt) != attempt.sealed.receipt_sha256:
        where = statement.first_difference(receipt, reference) if reference is not None else None
        return _rejected(
            "its bytes are not the ones recorded"
            + (f"; {where} was altered" if where else f" (SHA-256 {statement.digest(receipt)})")
        )
    try:
        parsed = statement.parse(receipt)
    except BatonError as error:
        return _rejected(error.message)
    return (
        _compare(run, attempt, parsed)
        or _judge_checks(attempt, parsed, packet)
        or _judge_subject(repo, attempt, parsed)
        or _judge_signature(attempt, receipt, signature, signers, require_signature)
    )


def _compare(run: str, attempt: Attempt, parsed: Statement) -> Failure | None:
    """Field by field against the attempt."""
    assert attempt.sealed is not None
    predicate = parsed.predicate
    for field, found, recorded in (
        ("predicate.run", predicate.run, run),
        ("predicate.ticket", predicate.ticket, attempt.ticket),
        ("predicate.attempt", predicate.attempt, attempt.number),
        ("predicate.assignment", predicate.assignment, assignment_id(run, attempt.id)),
        ("predicate.plan_revision", predicate.plan_revision, attempt.plan_revision),
        ("predicate.packet_sha256", predicate.packet_sha256, attempt.packet_sha256),
        ("predicate.token_sha256", predicate.token_sha256, attempt.lease.token_sha256),
        ("predicate.base_commit", predicate.base_commit, attempt.base_commit),
        ("predicate.sealed_in", predicate.sealed_in, attempt.sealed.sealed_in),
        ("subject commit", parsed.commit, attempt.sealed.commit),
        ("subject tree", parsed.tree, attempt.sealed.tree),
    ):
        if found != recorded:
            return _rejected(f"{field} is {found!r}, recorded is {recorded!r}")
    return None


def _judge_checks(attempt: Attempt, parsed: Statement, packet: bytes | None) -> Failure | None:
    """All green, and none left out of those that the packet asks for."""
    checks = parsed.predicate.checks
    if not checks:
        return _rejected("predicate.checks is empty")
    for index, check in enumerate(checks):
        if not check.green:
            return _rejected(f"predicate.checks[{index}].exit_code is {check.exit_code}")
    if packet is None:
        return None
    if statement.digest(packet) != attempt.packet_sha256:
        return _rejected("predicate.packet_sha256 is not the digest of the stored packet")
    missing = set(codec.decode(packet, Packet).checks) - {check.command for check in checks}
    if missing:
        return _rejected(f"predicate.checks lacks `{min(missing)}`")
    return None


def _judge_subject(repo: Repository, attempt: Attempt, parsed: Statement) -> Failure | None:
    """The commit exists, holds the tree, and descends from and differs from the base."""
    if not objects.exists(repo, parsed.commit):
        return _rejected(f"subject commit {parsed.commit} does not exist")
    if objects.tree_of(repo, parsed.commit) != parsed.tree:
        return _rejected(f"subject tree is not the tree of {parsed.commit}")
    if parsed.commit == attempt.base_commit:
        return _rejected("subject commit is the base itself")
    for needed in (attempt.base_commit, attempt.resolved_commit):
        if needed is not None and not ancestry.is_ancestor(repo, needed, parsed.commit):
            return _rejected(f"subject commit does not descend from {needed}")
    return None


def _judge_signature(
    attempt: Attempt,
    receipt: bytes,
    signature: bytes | None,
    signers: Signers | None,
    required: bool,
) -> Failure | None:
    assert attempt.sealed is not None
    recorded = attempt.sealed.signature_sha256
    problem = problem_of(receipt, signature, recorded, signers, required=required)
    return _rejected(problem) if problem else None


def _rejected(why: str) -> Failure:
    return Failure(code="receipt-rejected", message=f"the receipt was rejected: {why}")
