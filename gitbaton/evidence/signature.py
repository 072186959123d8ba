"""Who made a receipt: an ssh signature over its exact bytes, which anyone can verify.

The signature is what ``ssh-keygen -Y sign -n git-baton`` makes of the receipt's DSSE encoding, so
plain ssh-keygen verifies it and any DSSE tool can carry it. Trust comes from the settings of who
verifies, and from files outside of any working tree: never from what is being judged.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import tempfile
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from gitbaton.clock import parse_stamp
from gitbaton.config import Settings
from gitbaton.errors import BatonError, Refused
from gitbaton.evidence import statement
from gitbaton.git import objects, signing
from gitbaton.git.repo import Repository

PAYLOAD_TYPE = "application/vnd.in-toto+json"
NAMESPACE = "git-baton"

REASONS = {
    "no-signature": "there is no signature",
    "unreadable": "the signature is not an ssh signature",
    "wrong-namespace": "the signature was made for another purpose",
    "altered": "the signature is not one of these bytes",
    "foreign-key": "the key is not among the allowed signers",
    "expired-key": "the key had expired when this was signed",
    "not-yet-valid": "the key was not valid yet when this was signed",
    "revoked-key": "the key is revoked",
    "not-permitted": "the key is not allowed for this namespace",
    "not-verified": "ssh-keygen did not verify it",
}
"""Why a signature is not good."""

_BROKEN = ("unreadable", "wrong-namespace", "altered", "not-verified")
"""Those for which no list of signers is to blame."""

_BEGIN, _END = b"-----BEGIN SSH SIGNATURE-----", b"-----END SSH SIGNATURE-----"
_SECONDS = 30
_SAID = {
    "has expired": "expired-key",
    "not yet valid": "not-yet-valid",
    "is not permitted": "not-permitted",
    "No principal matched": "foreign-key",
}


class Signer(NamedTuple):
    """The key that receipts are signed with: a file, or a public key that an agent holds the
    private half of. ``chosen`` for git-baton, rather than taken over from git's settings."""

    key: str
    program: str = "ssh-keygen"
    chosen: bool = True


class Signers(NamedTuple):
    """Whom the verifier trusts: a file in the format of ALLOWED SIGNERS of ssh-keygen(1), and one
    of revoked keys."""

    path: Path
    revoked: Path | None = None
    program: str = "ssh-keygen"


class Verified(NamedTuple):
    """What a signature is worth. ``good``: it is one of these bytes by a key that, where allowed
    signers are known, is one of theirs. ``signer`` is the principal that they give the key (None
    if unknown), ``key`` its fingerprint, ``reason`` one of `REASONS` or "" if good."""

    good: bool
    signer: str | None
    reason: str
    key: str | None = None

    @property
    def trusted(self) -> bool:
        """Whether it was made by an allowed signer."""
        return self.good and self.signer is not None

    @property
    def why(self) -> str:
        """The reason for people, with the key it is about."""
        said = REASONS.get(self.reason, "its key is not known here: there are no allowed signers")
        return f"{said} ({self.key})" if self.key else said


def pae(receipt: bytes) -> bytes:
    """What is signed: the DSSE pre-authentication encoding of the receipt's bytes."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(receipt), receipt)


def digest(signature: bytes) -> str:
    """The SHA-256 that a state records a signature by."""
    return hashlib.sha256(signature).hexdigest()


def fingerprint(signature: bytes) -> str | None:
    """The fingerprint of the key that a signature says it is of; None if it is no signature."""
    read = _read(signature)
    return _fingerprint(read.key) if read else None


def signer_of(repo: Repository, settings: Settings) -> Signer | None:
    """The key to sign with: ``baton.signingKey``, else ``user.signingKey`` if that is an ssh key;
    None if there is none, and receipts stay unsigned."""
    key = settings.signing_key or repo.config_get("user.signingKey")
    if not key:
        return None
    where = signing.at_home(repo, key)
    if not settings.signing_key:
        of_ssh = repo.config_get("gpg.format") == "ssh" or signing.is_literal_key(key)
        if not (of_ssh or os.path.isfile(where)):
            return None
    return Signer(where, signing.ssh_program(repo), chosen=bool(settings.signing_key))


def sign(signer: Signer, receipt: bytes) -> bytes:
    """The armored signature of a receipt. Raises `BatonError` ``signing-failed``."""
    return signing.ssh_sign(signer.program, signer.key, NAMESPACE, pae(receipt))


def signers_of(repo: Repository, settings: Settings) -> Signers | None:
    """The allowed signers of this verifier: ``baton.allowedSigners``, else
    ``gpg.ssh.allowedSignersFile``; None if there are none.

    A file in a working tree is nobody's to trust: there, git's setting does not count, and
    git-baton's is `Refused` ``untrusted-signers``. Raises `BatonError` ``no-allowed-signers`` if
    the file named for git-baton does not exist.
    """
    given = settings.allowed_signers or repo.config_get("gpg.ssh.allowedSignersFile")
    if not given:
        return None
    path = Path(signing.at_home(repo, given))
    inside = _in_worktree(repo, path)
    if not settings.allowed_signers and (inside or not path.is_file()):
        return None
    if inside:
        raise Refused(
            "untrusted-signers",
            f"baton.allowedSigners names {path}, which who is judged could change",
            f"keep a copy elsewhere: {repo.common_dir / 'allowed_signers'}",
        )
    if not path.is_file():
        raise BatonError(
            "no-allowed-signers",
            f"the file of allowed signers {path} does not exist",
            "git config baton.allowedSigners FILE",
        )
    revoked = repo.config_get("gpg.ssh.revocationFile")
    return Signers(
        path,
        Path(signing.at_home(repo, revoked)) if revoked else None,
        signing.ssh_program(repo),
    )


def verify(
    receipt: bytes,
    signature: bytes | None,
    signers: Signers | None,
    *,
    at: datetime | None = None,
) -> Verified:
    """Judge the signature of a receipt. Keys must be valid ``at`` that time, by default when the
    receipt says that it was sealed."""
    return _judge(pae(receipt), signature, NAMESPACE, signers, at or _sealed_at(receipt))


def problem_of(
    receipt: bytes,
    signature: bytes | None,
    recorded: str | None,
    signers: Signers | None,
    *,
    required: bool,
) -> str | None:
    """What is wrong with the signature of a receipt, or its absence; None if nothing is.

    ``recorded`` is the SHA-256 that the state names. A signature by a key that nobody here trusts
    is a problem only where a trusted one is ``required``; one that is none always is.
    """
    if recorded != (None if signature is None else digest(signature)):
        return "signature is not the one recorded" if signature else "signature is missing"
    if signature is None:
        return "signature is required, and there is none" if required else None
    found = verify(receipt, signature, signers)
    if found.reason in _BROKEN or (required and not found.trusted):
        return f"signature: {found.why}"
    return None


def verify_commit(repo: Repository, commit: str, signers: Signers | None) -> Verified:
    """Judge git's own signature of a commit, if it is one by ssh; at the time it was committed."""
    found = signing.signature_of(repo, commit)
    if found is None:
        return Verified(False, None, "no-signature")
    at = objects.commit_info(repo, commit).committer_time
    return _judge(*found, signing.COMMIT_NAMESPACE, signers, at)


def _judge(
    data: bytes,
    signature: bytes | None,
    namespace: str,
    signers: Signers | None,
    at: datetime | None,
) -> Verified:
    if not signature:
        return Verified(False, None, "no-signature")
    read = _read(signature)
    if read is None:
        return Verified(False, None, "unreadable")
    key = _fingerprint(read.key)
    if read.namespace != namespace.encode():
        return Verified(False, None, "wrong-namespace", key)
    with tempfile.NamedTemporaryFile(prefix="baton-sig-") as file:
        file.write(signature)
        file.flush()
        question = _Question(data, file.name, namespace, at)
        if signers is None:
            good = question.is_sound("ssh-keygen")
            return Verified(good, None, "" if good else "altered", key)
        signer, reason = question.signer(signers, read.key)
        return Verified(signer is not None, signer, reason, key)


class _Question(NamedTuple):
    """One signature of ``data``, in ``file``, as ssh-keygen is asked about it."""

    data: bytes
    file: str
    namespace: str
    at: datetime | None

    def is_sound(self, program: str) -> bool:
        """Whether it is a signature of these bytes, by whatever key."""
        words = [program, "-Y", "check-novalidate", "-n", self.namespace, "-s", self.file]
        return signing.run(words, self.data, _SECONDS).code == 0

    def signer(self, signers: Signers, key: bytes) -> tuple[str | None, str]:
        """The principal whose key made it; else None and why."""
        known = _principals.get((signers.path, key))
        if known is not None and not self._refused(signers, known):
            return known, ""
        words = [signers.program, "-Y", "find-principals", *self._when()]
        found = signing.run([*words, "-f", str(signers.path), "-s", self.file], b"", _SECONDS)
        said = found.err
        for principal in found.out.decode(errors="replace").splitlines():
            if principal.startswith("!"):
                continue
            said = self._refused(signers, principal)
            if not said:
                _principals[signers.path, key] = principal
                return principal, ""
            if signers.revoked and not self._refused(signers._replace(revoked=None), principal):
                return None, "revoked-key"  # of which ssh-keygen says nothing
        if not self.is_sound(signers.program):
            return None, "altered"
        return None, next((code for words, code in _SAID.items() if words in said), "not-verified")

    def _refused(self, signers: Signers, principal: str) -> str:
        """What ssh-keygen says against the signature; "" if it is good."""
        words = [signers.program, "-Y", "verify", *self._when(), "-n", self.namespace]
        words += ["-f", str(signers.path), "-I", principal, "-s", self.file]
        if signers.revoked is not None:
            words += ["-r", str(signers.revoked)]
        done = signing.run(words, self.data, _SECONDS)
        return (done.err or done.out.decode(errors="replace") or "refused") if done.code else ""

    def _when(self) -> list[str]:
        if self.at is None:
            return []
        try:  # local time, as git does it: older versions of ssh-keygen know no other
            at = self.at.astimezone()
        except (OverflowError, ValueError, OSError):  # at an end of all times
            at = self.at
        return [f"-Overify-time={at:%Y%m%d%H%M%S}"]


_principals: dict[tuple[Path, bytes], str] = {}
"""Whose key it was the last time: tried first, and judged all the same."""


class _Read(NamedTuple):
    key: bytes
    namespace: bytes


def _read(signature: bytes) -> _Read | None:
    """Public key and namespace that an armored SSHSIG holds; None if it is none."""
    text = signature.strip()
    if not (text.startswith(_BEGIN) and text.endswith(_END)):
        return None
    try:
        raw = base64.b64decode(b"".join(text[len(_BEGIN) : -len(_END)].split()), validate=True)
    except binascii.Error:
        return None
    fields, rest = [], raw[10:]  # magic and version
    for _ in range(2):
        size = int.from_bytes(rest[:4])
        fields.append(rest[4 : 4 + size])
        rest = rest[4 + size :]
    return _Read(*fields) if raw.startswith(b"SSHSIG\0\0\0\1") and rest else None


def _fingerprint(key: bytes) -> str:
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def _sealed_at(receipt: bytes) -> datetime | None:
    try:
        return parse_stamp(statement.parse(receipt).predicate.sealed_at)
    except (BatonError, ValueError):
        return None


def _in_worktree(repo: Repository, path: Path) -> bool:
    tops = [top.resolve() for top in (repo.worktree, repo.main_worktree) if top is not None]
    found, own = path.resolve(), repo.common_dir.resolve()
    return any(found.is_relative_to(t) for t in tops) and not found.is_relative_to(own)
