"""Signatures as git makes them: by ssh-keygen, gpg or gpgsm, with the key the user has configured.

Commits that libgit2 or we write are not signed by themselves; `signed` does for them what ``git
commit`` does under ``commit.gpgSign``. No program started here asks a terminal for a passphrase or
runs longer than a timeout, since the caller may hold a lock, or be a worker that nobody watches.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gitbaton.errors import BatonError
from gitbaton.git import odb
from gitbaton.git.process import LOCAL_VARIABLES, Output
from gitbaton.git.repo import Repository

COMMIT_NAMESPACE = "git"
"""The SSHSIG namespace of git's own signatures."""

_SECONDS = 60  # a hardware key waits for a touch
_LITERALS = ("key::", "ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-")
_PROGRAMS = {"openpgp": "gpg", "x509": "gpgsm", "ssh": "ssh-keygen"}
_HEADER = b"gpgsig "


def signed(repo: Repository, commit: bytes, who: str) -> bytes:
    """The content of a commit with its ``gpgsig`` header, where ``commit.gpgSign`` wants one.

    ``who`` is the committer as ``Name <email>``, whose key gpg takes if none is configured. Raises
    `BatonError` ``signing-failed``.
    """
    if not repo.signs_commits:
        return commit
    kind = repo.config_get("gpg.format") or "openpgp"
    key = repo.config_get("user.signingKey")
    if kind == "ssh":
        key = key or _default_ssh_key(repo)
        signature = ssh_sign(ssh_program(repo), at_home(repo, key), COMMIT_NAMESPACE, commit)
    elif kind in _PROGRAMS:
        signature = _gpg_sign(_program(repo, kind), key or who, commit)
    else:
        raise _failed("commit.gpgSign is set", f"gpg.format is {kind!r}")
    headers, blank, message = commit.partition(b"\n\n")
    lines = signature.rstrip(b"\n").replace(b"\n", b"\n ")
    return headers + b"\n" + _HEADER + lines + blank + message


def signature_of(repo: Repository, commit: str) -> tuple[bytes, bytes] | None:
    """What of a commit was signed, and the signature; None if it has none."""
    _, data = odb.read_any(repo, commit)
    headers, blank, message = data.partition(b"\n\n")
    kept: list[bytes] = []
    signature: list[bytes] = []
    within = False
    for line in headers.split(b"\n"):
        within = line.startswith(_HEADER) or (within and line.startswith(b" "))
        if within:
            signature.append(line.removeprefix(_HEADER if not signature else b" "))
        else:
            kept.append(line)
    if not signature:
        return None
    return b"\n".join(kept) + blank + message, b"\n".join(signature) + b"\n"


def ssh_program(repo: Repository) -> str:
    """What does the work of ssh-keygen: ``gpg.ssh.program``, as for git."""
    return _program(repo, "ssh")


def is_literal_key(key: str) -> bool:
    """Whether a configured ssh key is the public key itself rather than a file."""
    return key.startswith(_LITERALS)


def at_home(repo: Repository, key: str) -> str:
    """A configured key; of a file, the path: ``~`` expanded, from the top of the main worktree."""
    if is_literal_key(key):
        return key
    return str((repo.main_worktree or repo.common_dir) / Path(key).expanduser())


def ssh_sign(program: str, key: str, namespace: str, data: bytes) -> bytes:
    """The armored SSHSIG of ``data``; ``key`` is a file, or a public key whose private half an
    agent has. Raises `BatonError` ``signing-failed``."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="baton-sign-") as folder:
        where = [key]
        if is_literal_key(key):
            file = Path(folder) / "key.pub"
            file.write_text(key.removeprefix("key::") + "\n")
            where = [str(file), "-U"]
        done = run([program, "-Y", "sign", "-n", namespace, "-f", *where], data)
    if done.code or not done.out.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        file_hint = "" if is_literal_key(key) else f" {shlex.quote(key.removesuffix('.pub'))}"
        raise _failed(
            f"nothing could be signed with the ssh key {key}",
            _last_line(done),
            f"have the agent hold it: ssh-add{file_hint}",
        )
    return done.out


def run(command: Sequence[str], data: bytes, seconds: float = _SECONDS) -> Output:
    """Run a signing program on ``data``. Code 127 if it is not there, 124 if it took too long."""
    env = {name: value for name, value in os.environ.items() if name not in LOCAL_VARIABLES}
    env.update(LC_ALL="C", SSH_ASKPASS_REQUIRE="never")
    try:
        done = subprocess.run(
            command,
            input=data,
            env=env,
            capture_output=True,
            check=False,
            timeout=seconds,
            start_new_session=True,  # so that there is no terminal to ask
        )
    except subprocess.TimeoutExpired:
        return Output(124, b"", f"{command[0]} gave no answer in {seconds:g} seconds")
    except OSError as error:
        return Output(127, b"", f"{command[0]} cannot be started: {error.strerror}")
    return Output(done.returncode, done.stdout, done.stderr.decode(errors="replace"))


def _gpg_sign(program: str, key: str, data: bytes) -> bytes:
    done = run([program, "--status-fd=2", "-bsau", key], data)
    if done.code or "[GNUPG:] SIG_CREATED " not in done.err:
        raise _failed(f"{program} signed nothing as {key}", _last_line(done))
    return done.out.replace(b"\r\n", b"\n")


def _program(repo: Repository, kind: str) -> str:
    given = repo.config_get(f"gpg.{kind}.program")
    if given is None and kind == "openpgp":
        given = repo.config_get("gpg.program")
    return os.path.expanduser(given or _PROGRAMS[kind])


def _default_ssh_key(repo: Repository) -> str:
    """The first key that ``gpg.ssh.defaultKeyCommand`` prints."""
    command = repo.config_get("gpg.ssh.defaultKeyCommand")
    done = run(shlex.split(command), b"") if command else None
    key = done.out.decode(errors="replace").partition("\n")[0] if done and not done.code else ""
    if not is_literal_key(key):
        raise _failed("commit.gpgSign is set", "there is no user.signingKey")
    return key


def _last_line(done: Output) -> str:
    lines = [line for line in done.err.splitlines() if line.strip("[]") and "[GNUPG:]" not in line]
    return lines[-1].strip() if lines else f"exit status {done.code}"


def _failed(what: str, why: str, hint: str = "see `git help config`, commit.gpgSign") -> BatonError:
    return BatonError("signing-failed", f"{what}: {why}", hint)
