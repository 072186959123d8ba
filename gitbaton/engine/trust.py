"""Signing what is made here, and judging what is about to be merged, by this user's settings."""

from __future__ import annotations

from collections.abc import Mapping

from gitbaton.engine.context import Context
from gitbaton.errors import BatonError, Refused
from gitbaton.evidence import seal, signature
from gitbaton.model.run import Attempt, Failure
from gitbaton.store import notes, runs


def sign(ctx: Context, receipt: bytes) -> bytes | None:
    """The signature of a receipt; None if there is no key to sign with.

    Raises `BatonError` ``signing-failed`` if a key does not work that was chosen for git-baton, or
    if signatures are required; then also ``no-signing-key``. A key that is only taken over from
    git's settings leaves the receipt unsigned, with a warning.
    """
    signer = signature.signer_of(ctx.repo, ctx.settings)
    if signer is None:
        if ctx.settings.require_signature:
            raise Refused(
                "no-signing-key",
                "baton.requireSignature is set, and there is no key to sign receipts with",
                "git config baton.signingKey FILE (an ssh key)",
            )
        return None
    try:
        return signature.sign(signer, receipt)
    except BatonError as error:
        if signer.chosen or ctx.settings.require_signature:
            raise
        ctx.warn(f"the receipt is not signed: {error.message}; {error.hint}")
        return None


def sign_all(ctx: Context, receipts: Mapping[str, str]) -> dict[str, str]:
    """The signatures of receipts, by the same object ids; none if there is no key."""
    signed = {oid: sign(ctx, text.encode()) for oid, text in receipts.items()}
    return {oid: made.decode() for oid, made in signed.items() if made is not None}


def require_ready(ctx: Context) -> None:
    """Where signatures are required, raise before any work is done that could not count: there must
    be a key that works, and it must be an allowed signer's."""
    if not ctx.settings.require_signature:
        return
    trial, now = b"a trial", ctx.clock.now().wall
    found = signature.verify(trial, sign(ctx, trial), _signers(ctx), at=now)
    if not found.trusted:
        raise Refused(
            "untrusted-key",
            f"baton.requireSignature is set, but receipts signed here would not count: {found.why}",
            "see the file that baton.allowedSigners names",
        )


def judge(ctx: Context, loaded: runs.Loaded, attempt: Attempt) -> Failure | None:
    """Why the recorded receipt of a sealed attempt does not stand; None if it does. Raises as
    `signers_of` does, since then it is not the receipt that is wrong."""
    assert attempt.sealed is not None
    run = loaded.state.run.id
    signed = loaded.signature(attempt.id)
    needed = signed is not None or ctx.settings.require_signature
    return seal.reverify(
        ctx.repo,
        run,
        attempt,
        loaded.receipt(attempt.id),
        packet=loaded.packet(attempt.id),
        reference=notes.read(ctx.repo, run, attempt.sealed.commit),
        signature=signed,
        signers=_signers(ctx) if needed else None,
        require_signature=ctx.settings.require_signature,
    )


def _signers(ctx: Context) -> signature.Signers | None:
    """The allowed signers; raises `Refused` ``no-allowed-signers`` where nobody could be one."""
    signers = signature.signers_of(ctx.repo, ctx.settings)
    if signers is None and ctx.settings.require_signature:
        raise Refused(
            "no-allowed-signers",
            "baton.requireSignature is set, and nobody is an allowed signer",
            "git config baton.allowedSigners FILE, see ALLOWED SIGNERS in ssh-keygen(1)",
        )
    return signers
