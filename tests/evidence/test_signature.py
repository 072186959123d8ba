"""A signature stands for exactly these bytes, this purpose, and a key that the verifier trusts."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gitbaton.config import Settings
from gitbaton.errors import BatonError, Refused
from gitbaton.evidence import signature as signatures
from gitbaton.evidence.signature import Signer, Signers
from gitbaton.git import signing
from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository

from .conftest import NOON, Work, git
from .test_seal import judged

RECEIPT = b'{"any": "bytes"}\n'
THEN = datetime(2030, 1, 2, tzinfo=UTC)


def keygen(*args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["ssh-keygen", *args], input=stdin, capture_output=True, check=False)


def make_key(path: Path, passphrase: str = "") -> Path:
    made = keygen("-q", "-t", "ed25519", "-N", passphrase, "-C", "test", "-f", str(path))
    assert made.returncode == 0, made.stderr
    return path


def public(key: Path) -> str:
    return " ".join(Path(f"{key}.pub").read_text().split()[:2])


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return make_key(tmp_path / "a key")


@pytest.fixture
def signers(tmp_path: Path, key: Path) -> Signers:
    """Ann, and another address of hers, have the key."""
    return allow(tmp_path, f"ann@example.com,ann@other.example {public(key)}")


def allow(tmp_path: Path, *lines: str) -> Signers:
    path = tmp_path / "allowed"
    path.write_text("".join(f"{line}\n" for line in lines))
    return Signers(path)


def reason(signature: bytes | None, signers: Signers | None, receipt: bytes = RECEIPT) -> str:
    verified = signatures.verify(receipt, signature, signers, at=THEN)
    assert not verified.good and verified.signer is None and not verified.trusted
    assert verified.reason in signatures.REASONS and verified.why
    return verified.reason


# --- verifying ---------------------------------------------------------------------------------


def test_what_is_signed_is_the_dsse_encoding() -> None:
    assert signatures.pae(b"hello") == b"DSSEv1 28 application/vnd.in-toto+json 5 hello"


def test_an_allowed_signer_is_named(key: Path, signers: Signers) -> None:
    signature = signatures.sign(Signer(str(key)), RECEIPT)
    for _ in range(2):  # the second time by the principal that is known
        verified = signatures.verify(RECEIPT, signature, signers, at=THEN)
        assert verified.trusted
        assert (verified.signer, verified.reason) == ("ann@example.com", "")
    listed = keygen("-l", "-f", f"{key}.pub").stdout.decode().split()
    assert verified.key == listed[1] == signatures.fingerprint(signature)


def test_plain_ssh_keygen_verifies_it(tmp_path: Path, key: Path, signers: Signers) -> None:
    file = tmp_path / "receipt.sig"
    file.write_bytes(signatures.sign(Signer(str(key)), RECEIPT))
    words = ("-Y", "verify", "-f", str(signers.path), "-I", "ann@example.com", "-s", str(file))
    encoded = b"DSSEv1 28 application/vnd.in-toto+json %d %s" % (len(RECEIPT), RECEIPT)
    assert keygen(*words, "-n", "git-baton", stdin=encoded).returncode == 0
    assert keygen(*words, "-n", "git-baton", stdin=encoded + b"\n").returncode != 0
    assert keygen(*words, "-n", "git", stdin=encoded).returncode != 0


def test_every_flipped_byte_of_the_receipt_is_found(key: Path, signers: Signers) -> None:
    signature = signatures.sign(Signer(str(key)), RECEIPT)
    for at in range(0, len(RECEIPT), 5):
        altered = RECEIPT[:at] + bytes([RECEIPT[at] ^ 1]) + RECEIPT[at + 1 :]
        assert reason(signature, signers, altered) == "altered"
        assert reason(signature, None, altered) == "altered"
    assert reason(signature, signers, RECEIPT + b"\n") == "altered"


def test_every_flipped_byte_of_the_signature_is_found(key: Path, signers: Signers) -> None:
    lines = signatures.sign(Signer(str(key)), RECEIPT).split()
    armored = b"".join(word for word in lines if b"-" not in word and len(word) > 10)
    raw = base64.b64decode(armored)
    for at in range(0, len(raw), 7):
        altered = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
        text = base64.encodebytes(altered)
        forged = b"-----BEGIN SSH SIGNATURE-----\n" + text + b"-----END SSH SIGNATURE-----\n"
        assert reason(forged, signers)
        assert reason(forged, None)


@pytest.mark.parametrize("text", [b"", b"junk", b"-----BEGIN SSH SIGNATURE-----\n"])
def test_no_signature_and_junk(signers: Signers, text: bytes) -> None:
    expected = "unreadable" if text else "no-signature"
    assert reason(text, signers) == expected
    assert reason(None, signers) == "no-signature"


def test_another_purpose(key: Path, signers: Signers) -> None:
    """A signature that was made for git, or a file, is none for a receipt."""
    other = signing.ssh_sign("ssh-keygen", str(key), "git", signatures.pae(RECEIPT))
    assert reason(other, signers) == "wrong-namespace"
    assert reason(other, None) == "wrong-namespace"


def test_the_bytes_alone_signed_are_not_the_receipt_signed(key: Path, signers: Signers) -> None:
    bare = signing.ssh_sign("ssh-keygen", str(key), signatures.NAMESPACE, RECEIPT)
    assert reason(bare, signers) == "altered"


def test_a_foreign_key(tmp_path: Path, signers: Signers) -> None:
    foreign = make_key(tmp_path / "foreign")
    signature = signatures.sign(Signer(str(foreign)), RECEIPT)
    assert reason(signature, signers) == "foreign-key"
    unjudged = signatures.verify(RECEIPT, signature, None)
    assert unjudged.good and not unjudged.trusted and "no allowed signers" in unjudged.why


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ('valid-before="20290101"', "expired-key"),
        ('valid-after="20310101"', "not-yet-valid"),
        ('namespaces="git,file"', "not-permitted"),
    ],
)
def test_a_key_that_may_not(tmp_path: Path, key: Path, options: str, expected: str) -> None:
    signature = signatures.sign(Signer(str(key)), RECEIPT)
    signers = allow(tmp_path, f"ann@example.com {options} {public(key)}")
    assert reason(signature, signers) == expected


def test_an_expired_key_is_found_though_it_was_good_before(tmp_path: Path, key: Path) -> None:
    """The principal that is remembered is judged by the file all the same."""
    signature = signatures.sign(Signer(str(key)), RECEIPT)
    signers = allow(tmp_path, f"ann@example.com {public(key)}")
    assert signatures.verify(RECEIPT, signature, signers, at=THEN).trusted
    allow(tmp_path, f'ann@example.com valid-before="20290101" {public(key)}')
    assert reason(signature, signers) == "expired-key"


def test_a_key_must_be_valid_when_the_receipt_was_sealed(
    work: Work, tmp_path: Path, key: Path
) -> None:
    """Not now: an old receipt stays good when its key is retired."""
    work.commit()
    receipt = work.seal()
    signature = signatures.sign(Signer(str(key)), receipt)
    for until, good in (("20300103", True), ("20300101", False)):
        signers = allow(tmp_path, f'ann@example.com valid-before="{until}" {public(key)}')
        assert signatures.verify(receipt, signature, signers).trusted is good, NOON.stamp


def test_a_revoked_key(tmp_path: Path, key: Path, signers: Signers) -> None:
    signature = signatures.sign(Signer(str(key)), RECEIPT)
    revoked = tmp_path / "revoked"
    revoked.write_text(public(key) + "\n")
    assert reason(signature, signers._replace(revoked=revoked)) == "revoked-key"


# --- signing -----------------------------------------------------------------------------------


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    socket = tmp_path / "agent"
    daemon = subprocess.Popen(
        ["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert daemon.stdout is not None
    daemon.stdout.readline()  # it listens by now
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    yield
    daemon.terminate()
    daemon.wait()
    daemon.stdout.close()


@pytest.mark.usefixtures("agent")
def test_a_key_of_the_agent_needs_no_file(key: Path, signers: Signers) -> None:
    subprocess.run(["ssh-add", "-q", str(key)], check=True, stderr=subprocess.DEVNULL)
    key.unlink()
    for name in (f"key::{public(key)}", public(key), f"{key}.pub"):
        signature = signatures.sign(Signer(name), RECEIPT)
        assert signatures.verify(RECEIPT, signature, signers, at=THEN).trusted


def test_a_key_that_does_not_sign_says_so_and_never_asks(
    tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    asked = tmp_path / "asked"
    askpass = tmp_path / "askpass"
    askpass.write_text(f"#!/bin/sh\ntouch '{asked}'\necho secret\n")
    askpass.chmod(0o755)
    monkeypatch.setenv("SSH_ASKPASS", str(askpass))
    monkeypatch.setenv("DISPLAY", ":0")
    locked = make_key(tmp_path / "locked", "secret")
    for name in (str(locked), str(tmp_path / "none"), f"key::{public(key)}"):
        with pytest.raises(BatonError) as refused:
            signatures.sign(Signer(name), RECEIPT)
        assert refused.value.code == "signing-failed"
        assert "ssh-add" in refused.value.hint
    assert not asked.exists()
    with pytest.raises(BatonError) as refused:
        signatures.sign(Signer(str(key), program="no-such-program"), RECEIPT)
    assert "no-such-program cannot be started" in refused.value.message


def test_a_program_that_hangs_is_given_up() -> None:
    done = signing.run(["sleep", "60"], b"", seconds=0.1)
    assert done.code == 124 and "gave no answer" in done.err


# --- settings ----------------------------------------------------------------------------------


def test_which_key_signs(path: Path, repo: Repository, key: Path) -> None:
    def chosen(**settings: Any) -> Signer | None:
        return signatures.signer_of(open_repository(path), Settings(**settings))

    assert chosen() is None
    git(path, "config", "user.signingKey", "0123456789ABCDEF")
    assert chosen() is None  # of gpg
    git(path, "config", "gpg.format", "ssh")
    git(path, "config", "user.signingKey", str(key))
    assert chosen() == Signer(str(key), chosen=False)
    git(path, "config", "--unset", "gpg.format")
    assert chosen() == Signer(str(key), chosen=False)  # a file is a key of ssh
    git(path, "config", "user.signingKey", f"key::{public(key)}")
    assert chosen() == Signer(f"key::{public(key)}", chosen=False)
    assert chosen(signing_key="~/mine") == Signer(os.path.expanduser("~/mine"))
    git(path, "config", "gpg.ssh.program", "/opt/sign")
    assert chosen(signing_key="/k") == Signer("/k", program="/opt/sign")


def test_whom_to_trust(path: Path, signers: Signers) -> None:
    def chosen(**settings: Any) -> Signers | None:
        return signatures.signers_of(open_repository(path), Settings(**settings))

    assert chosen() is None
    git(path, "config", "gpg.ssh.allowedSignersFile", str(signers.path))
    assert chosen() == signers
    git(path, "config", "gpg.ssh.allowedSignersFile", "/nowhere/allowed")
    assert chosen() is None
    (path / ".git" / "own").write_text("")
    assert chosen(allowed_signers=".git/own") == Signers(path / ".git" / "own")
    with pytest.raises(BatonError) as refused:
        chosen(allowed_signers="/nowhere/allowed")
    assert refused.value.code == "no-allowed-signers"


def test_a_file_of_the_branch_is_not_trusted(path: Path, key: Path) -> None:
    inside = path / "allowed"
    inside.write_text(f"mallory@example.com {public(key)}\n")
    git(path, "config", "gpg.ssh.allowedSignersFile", "allowed")
    assert signatures.signers_of(open_repository(path), Settings()) is None
    outside = path.parent / "link"
    outside.symlink_to(inside)
    for name in ("allowed", str(inside), str(outside)):
        with pytest.raises(Refused) as refused:
            signatures.signers_of(open_repository(path), Settings(allowed_signers=name))
        assert refused.value.code == "untrusted-signers"


# --- as a condition of integration -------------------------------------------------------------


def test_reverify_judges_the_signature(
    work: Work, key: Path, signers: Signers, tmp_path: Path
) -> None:
    work.commit()
    receipt = work.seal()
    signature = signatures.sign(Signer(str(key)), receipt)
    assert judged(work, receipt) is None
    required: dict[str, Any] = {"signers": signers, "require_signature": True}
    assert "there is none" in message(work, receipt, **required)
    assert "not the one recorded" in message(work, receipt, signature=signature)
    record(work, signature)
    assert judged(work, receipt, signature=signature, **required) is None
    assert "missing" in message(work, receipt)
    foreign = signatures.sign(Signer(str(make_key(tmp_path / "foreign"))), receipt)
    assert "not the one recorded" in message(work, receipt, signature=foreign)
    record(work, foreign)
    assert judged(work, receipt, signature=foreign, signers=signers) is None
    assert "not among the allowed" in message(work, receipt, signature=foreign, **required)
    other = signatures.sign(Signer(str(key)), receipt + b" ")
    record(work, other)
    assert "not one of these bytes" in message(work, receipt, signature=other)


def record(work: Work, signature: bytes) -> None:
    assert work.attempt.sealed is not None
    digest = signatures.digest(signature)
    work.with_attempt(sealed=replace(work.attempt.sealed, signature_sha256=digest))


def message(work: Work, receipt: bytes, **how: Any) -> str:
    failure = judged(work, receipt, **how)
    assert failure is not None and failure.code == "receipt-rejected"
    assert "signature" in failure.message
    return failure.message
