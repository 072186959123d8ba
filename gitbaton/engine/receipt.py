"""One receipt, for people and for other tools: shown, verified, or exported.

A receipt is named by the attempt that earned it or by a commit that it speaks of. What leaves here
in another format still carries the exact bytes that were sealed and signed.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from gitbaton.engine.context import Context, resolve_attempt
from gitbaton.errors import BatonError, NotFound
from gitbaton.evidence import signature as signatures
from gitbaton.evidence import statement
from gitbaton.evidence.covered import Coverage, policy_of
from gitbaton.evidence.recompute import Recomputer
from gitbaton.git import objects
from gitbaton.model import layout
from gitbaton.model.audit import Problem
from gitbaton.model.ids import assignment_id
from gitbaton.model.receipt import STATEMENT_TYPE, Statement
from gitbaton.model.run import Attempt
from gitbaton.store import runs

Format = Literal["statement", "dsse", "intoto-jsonl", "test-result"]

_TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A receipt; ``assignment`` is only the run's id for a commit that no ticket made. ``merged``
    says that it is not a worker's, but of a commit that git-baton tested."""

    run: str
    assignment: str
    merged: bool
    commit: str
    receipt_sha256: str
    signed: bool
    signer: str | None
    key: str | None
    receipt: Statement


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a receipt stands. ``signed`` says that it has a signature, ``signer`` who of the
    allowed signers made that, ``key`` with which key."""

    receipt_sha256: str
    signed: bool
    signer: str | None
    key: str | None
    problems: tuple[Problem, ...]


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    receipt_sha256: str
    format: Format
    content: str


class _Receipt(NamedTuple):
    """The stored bytes: of an attempt's own receipt, or (``attempt`` or not) of a commit's."""

    loaded: runs.Loaded
    attempt: Attempt | None
    commit: str
    data: bytes
    signature: bytes | None
    of_attempt: bool


def show(ctx: Context, what: str | None, *, merged: bool = False) -> Shown:
    """The receipt of an assignment, ticket (its newest attempt) or commit; ``merged``: that of the
    commit on which the merged tree was checked. Raises `NotFound` ``no-receipt``."""
    found = _find(ctx, what, merged)
    judged = _signature(ctx, found)
    receipt = statement.parse(found.data)
    return Shown(
        run=found.loaded.state.run.id,
        assignment=receipt.predicate.assignment,
        merged=not found.of_attempt,
        commit=found.commit,
        receipt_sha256=statement.digest(found.data),
        signed=found.signature is not None,
        signer=judged.signer,
        key=judged.key,
        receipt=receipt,
    )


def verify(ctx: Context, what: str | None, *, merged: bool = False) -> Verdict:
    """Judge a receipt by the rule that guard and audit go by."""
    found = _find(ctx, what, merged)
    with Recomputer(ctx.repo) as recomputer:
        policy = policy_of(ctx.repo, ctx.settings)
        coverage = Coverage(ctx.repo, found.loaded, policy, recomputer)
        if found.of_attempt and found.attempt is not None:
            problems = coverage.receipt_problems(found.attempt)
        else:
            problems = coverage.judge(found.commit) or []
    judged = _signature(ctx, found)
    return Verdict(
        receipt_sha256=statement.digest(found.data),
        signed=found.signature is not None,
        signer=judged.signer,
        key=judged.key,
        problems=tuple(problems),
    )


def export(ctx: Context, what: str | None, form: Format, *, merged: bool = False) -> Exported:
    """A receipt for another tool. All formats but ``test-result``, which is made from it and so
    cannot be signed, hold its exact bytes."""
    found = _find(ctx, what, merged)
    if form == "statement":
        content = found.data.decode()
    elif form == "dsse":
        content = _json(_envelope(found.data, found.signature), indent=1)
    elif form == "intoto-jsonl":
        content = _json(_envelope(found.data, found.signature))
    else:
        content = _json(_test_result(statement.parse(found.data)), indent=1)
    return Exported(receipt_sha256=statement.digest(found.data), format=form, content=content)


# --- formats -----------------------------------------------------------------------------------


def _envelope(receipt: bytes, signature: bytes | None) -> dict[str, Any]:
    """The DSSE envelope; ``sig`` holds the armored signature, as it is stored."""
    signed = []
    if signature is not None:
        signed.append({"keyid": signatures.fingerprint(signature) or "", "sig": _base64(signature)})
    return {
        "payload": _base64(receipt),
        "payloadType": signatures.PAYLOAD_TYPE,
        "signatures": signed,
    }


def _test_result(receipt: Statement) -> dict[str, Any]:
    """The receipt as the in-toto predicate that test tools know."""
    predicate = receipt.predicate
    packet = {"name": "packet.json", "digest": {"sha256": predicate.packet_sha256}}
    commands = [
        {"name": check.command, "digest": {"sha256": _sha256(check.command)}}
        for check in predicate.checks
    ]
    return {
        "_type": STATEMENT_TYPE,
        "subject": msgspec.to_builtins(receipt.subject),
        "predicateType": _TEST_RESULT,
        "predicate": {
            "result": predicate.result,
            "configuration": [*([packet] if predicate.packet_sha256 else []), *commands],
            "passedTests": [check.command for check in predicate.checks if check.green],
            "failedTests": [check.command for check in predicate.checks if not check.green],
        },
    }


def _json(document: dict[str, Any], indent: int = 0) -> str:
    text = msgspec.json.encode(document, order="sorted")
    return (msgspec.json.format(text, indent=indent) if indent else text).decode() + "\n"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# --- finding -----------------------------------------------------------------------------------


def _signature(ctx: Context, found: _Receipt) -> signatures.Verified:
    signers = signatures.signers_of(ctx.repo, ctx.settings)
    return signatures.verify(found.data, found.signature, signers)


def _find(ctx: Context, what: str | None, merged: bool) -> _Receipt:
    try:
        run, attempt_id = resolve_attempt(ctx, what)
    except BatonError as error:
        commit = objects.resolve(ctx.repo, what) if what else None
        if commit is None:
            raise error
        return _of_commit(ctx, commit, merged)
    loaded = runs.load(ctx.repo, run)
    attempt = loaded.attempt(attempt_id)
    assert attempt is not None
    return _of_attempt(loaded, attempt, merged)


def _of_attempt(loaded: runs.Loaded, attempt: Attempt, merged: bool) -> _Receipt:
    name = assignment_id(loaded.state.run.id, attempt.id)
    if merged:
        tested = attempt.tested_by
        own = next((a for a in loaded.all_attempts() if tested and a.merge_commit == tested), None)
        data = loaded.merged_receipt(own.id) if own else None
        if own is None or tested is None or data is None:
            raise NotFound(
                "no-receipt",
                f"no checks ran on the merged tree of {name}",
                "without --merged: the receipt of the worker's commit",
            )
        return _Receipt(loaded, own, tested, data, loaded.merged_signature(own.id), False)
    data = loaded.receipt(attempt.id)
    if data is None or attempt.sealed is None:
        raise NotFound("no-receipt", f"{name} has no receipt: it is {attempt.state}", "")
    signature = loaded.signature(attempt.id)
    return _Receipt(loaded, attempt, attempt.sealed.commit, data, signature, True)


def _of_commit(ctx: Context, commit: str, merged: bool) -> _Receipt:
    """The receipt that speaks of a commit, in whatever run."""
    for run in runs.list_runs(ctx.repo):
        try:
            loaded = runs.load(ctx.repo, run)
        except BatonError as error:
            ctx.warn(error.message)
            continue
        data = loaded.file(layout.commit_path(commit))
        if data is not None:
            signature = loaded.file(layout.commit_path(commit, "sig"))
            return _Receipt(loaded, None, commit, data, signature, False)
        for attempt in _attempts(loaded):
            if commit == attempt.merge_commit or (
                attempt.sealed is not None and commit == attempt.sealed.commit
            ):
                return _of_attempt(loaded, attempt, merged)
    raise NotFound("no-receipt", f"no receipt speaks of commit {commit[:12]}", "git baton list")


def _attempts(loaded: runs.Loaded) -> Iterator[Attempt]:
    """All attempts, those that came to something first: a commit may have been sealed twice."""
    every = list(loaded.all_attempts())
    yield from sorted(every, key=lambda a: (a.state != "succeeded", -a.number))
