"""With commit.gpgSign our commits are signed as git would, and git says that they are good."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gitbaton.errors import BatonError
from gitbaton.git import objects, signing
from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository

from .shell import git

WHEN = datetime(2030, 1, 2, tzinfo=UTC)
ANN = "Ann <ann@example.com>"
MESSAGE = "Subject\n\nBody\n\nBaton-Run: r\n"


def commit(repo: Repository, *, sign: bool = True) -> str:
    tree = objects.edit_tree(repo, None, {"file": b"text\n"})
    author = ("Ann", "ann@example.com")
    return objects.create_commit(repo, tree, [], MESSAGE, author=author, when=WHEN, sign=sign)


@pytest.fixture
def key(tmp_path: Path, repo_dir: Path) -> Path:
    """An ssh key that git and git-baton sign commits with, and that git trusts."""
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    allowed = tmp_path / "allowed"
    allowed.write_text(f"ann@example.com {Path(f'{path}.pub').read_text()}")
    for name, value in (
        ("commit.gpgSign", "true"),
        ("gpg.format", "ssh"),
        ("user.signingKey", str(path)),
        ("gpg.ssh.allowedSignersFile", str(allowed)),
    ):
        git(repo_dir, "config", name, value)
    return path


def verified(repo_dir: Path, oid: str) -> str:
    return git(repo_dir, "log", "-1", "--format=%G? %GS", oid)


def test_nothing_is_signed_by_default(repo_dir: Path) -> None:
    oid = commit(open_repository(repo_dir))
    assert b"gpgsig" not in git(repo_dir, "cat-file", "commit", oid).encode()
    assert signing.signature_of(open_repository(repo_dir), oid) is None


@pytest.mark.usefixtures("key")
def test_an_ssh_key(repo_dir: Path) -> None:
    repo = open_repository(repo_dir)
    oid = commit(repo)
    assert verified(repo_dir, oid) == "G ann@example.com"
    assert objects.commit_info(repo, oid).message == MESSAGE
    unsigned = commit(repo, sign=False)
    assert verified(repo_dir, unsigned).strip() == "N"
    found = signing.signature_of(repo, oid)
    assert found is not None
    payload, signature = found
    assert payload == subprocess.check_output(["git", "cat-file", "commit", unsigned], cwd=repo_dir)
    assert signature.startswith(b"-----BEGIN SSH") and signature.endswith(b"SIGNATURE-----\n")
    git(repo_dir, "fsck", "--strict")


def test_a_literal_key_and_the_command_that_names_one(repo_dir: Path, key: Path) -> None:
    """Without an agent neither can sign, but it is they that were tried."""
    literal = "key::" + Path(f"{key}.pub").read_text().strip()
    git(repo_dir, "config", "user.signingKey", literal)
    with pytest.raises(BatonError) as refused:
        commit(open_repository(repo_dir))
    assert "key::ssh-ed25519" in refused.value.message
    git(repo_dir, "config", "--unset", "user.signingKey")
    with pytest.raises(BatonError) as refused:
        commit(open_repository(repo_dir))
    assert "no user.signingKey" in refused.value.message
    git(repo_dir, "config", "gpg.ssh.defaultKeyCommand", f"echo '{literal}'")
    with pytest.raises(BatonError) as refused:
        commit(open_repository(repo_dir))
    assert "key::ssh-ed25519" in refused.value.message


def test_a_key_that_fails_stops_the_commit(repo_dir: Path, key: Path) -> None:
    key.unlink()
    with pytest.raises(BatonError) as refused:
        commit(open_repository(repo_dir))
    assert refused.value.code == "signing-failed"
    assert "ssh-add" in refused.value.hint


@pytest.mark.skipif(shutil.which("gpg") is None, reason="gpg is not installed")
def test_gpg(repo_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Path(os.environ["HOME"]) / "gnupg"  # short: it holds a socket
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    subprocess.run(
        ["gpg", "--batch", "--passphrase", "", "--quick-gen-key", ANN, "ed25519", "sign", "never"],
        check=True,
        capture_output=True,
    )
    try:
        git(repo_dir, "config", "commit.gpgSign", "true")
        repo = open_repository(repo_dir)
        assert verified(repo_dir, commit(repo)) == f"G {ANN}"  # by the committer
        git(repo_dir, "config", "user.signingKey", "nobody@example.com")
        repo.forget_config()
        with pytest.raises(BatonError) as refused:
            commit(repo)
        assert refused.value.code == "signing-failed"
    finally:
        subprocess.run(["gpgconf", "--kill", "all"], check=False)


@pytest.mark.parametrize(
    ("form", "setting"),
    [("x509", "gpg.x509.program"), ("openpgp", "gpg.openpgp.program"), ("openpgp", "gpg.program")],
)
def test_the_program_that_is_configured(
    repo_dir: Path, tmp_path: Path, form: str, setting: str
) -> None:
    program = tmp_path / "sign it"
    program.write_text(
        "#!/bin/sh\necho '[GNUPG:] SIG_CREATED x' >&2\n"
        r'printf -- "-----BEGIN SIGNED MESSAGE-----\r\n%s\r\n-----END SIGNED MESSAGE-----\r\n" "$*"'
    )
    program.chmod(0o755)
    for name, value in (
        ("commit.gpgSign", "yes"),
        ("gpg.format", form),
        (setting, str(program)),
        ("user.signingKey", "ME"),
    ):
        git(repo_dir, "config", name, value)
    repo = open_repository(repo_dir)
    oid = commit(repo)
    signature = (
        "-----BEGIN SIGNED MESSAGE-----\n--status-fd=2 -bsau ME\n-----END SIGNED MESSAGE-----\n"
    )
    found = signing.signature_of(repo, oid)
    assert found is not None and found[1].decode() == signature
    header = "gpgsig " + signature.rstrip("\n").replace("\n", "\n ")
    assert header in git(repo_dir, "cat-file", "commit", oid)
    git(repo_dir, "fsck", "--strict")


def test_an_unknown_format(repo_dir: Path) -> None:
    git(repo_dir, "config", "commit.gpgSign", "true")
    git(repo_dir, "config", "gpg.format", "wax")
    with pytest.raises(BatonError) as refused:
        commit(open_repository(repo_dir))
    assert "wax" in refused.value.message
