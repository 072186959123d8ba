"""Starting git, the program.

libgit2 serves objects and refs without a process; merging, checking out and committing belong to
git itself, because only git honours every filter, driver and hook of the user. A child never
inherits the variables that say which repository the *caller* works on, or its commit would land
there; and a failure always surfaces as one line with a code, whatever git printed.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

from gitbaton.errors import RepositoryError

LOCAL_VARIABLES = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_OBJECT_DIRECTORY",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_REPLACE_REF_BASE",
    "GIT_PREFIX",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_COMMON_DIR",
)
"""What ``git rev-parse --local-env-vars`` lists, the union over git's versions."""

COMMAND_CONFIG = ("GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT")
"""Those of them that carry ``git -c`` settings: kept for git itself, it is the same repository."""

NO_HOOKS = ("-c", "core.hooksPath=/dev/null")

OLDEST_GIT = (2, 38)

_FIXED = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_FLUSH": "0",  # nobody reads before the end: rev-list would write commit by commit
    "GIT_NO_REPLACE_OBJECTS": "1",  # libgit2 knows no replacements; both must see one history
}

_UNWRITTEN = re.compile(r"(unable|failed|could not|cannot) (to )?(write|create|checkout|append)")
_LEAST = 1 << 20  # bytes free
_CHUNK = 1 << 16  # bytes

_durability = {"fsync": True}


class Output(NamedTuple):
    """What a git process left: exit code, raw standard output, decoded standard error."""

    code: int
    out: bytes
    err: str


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's environment without the variables that point into a repository."""
    env = {name: value for name, value in os.environ.items() if name not in LOCAL_VARIABLES}
    if extra:
        env.update(extra)
    return env


def set_fsync(enabled: bool) -> None:
    """Whether what git-baton writes is synced before a verb reports success (default: yes)."""
    import pygit2

    _durability["fsync"] = enabled
    pygit2.settings.enable_fsync_gitdir(enabled)


def fsync_enabled() -> bool:
    """The present state of the switch of `set_fsync`."""
    return _durability["fsync"]


def git(
    args: Sequence[str],
    cwd: Path,
    *,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    check: bool = True,
    durable: bool = False,
    timeout: float | None = None,
) -> Output:
    """Run git with ``args`` in ``cwd``; ``env`` is added to the clean environment.

    ``durable`` makes git sync all it writes. With ``check``, a non-zero exit raises
    `RepositoryError`: ``git-failed``, or ``disk-full`` or ``repository-read-only`` if that is
    the cause; ``git-timeout`` after ``timeout`` seconds.
    """
    command = ["git"]
    if durable and _durability["fsync"]:
        command += ["-c", "core.fsync=all"]
    command += args
    environment = _environment(env)
    try:
        done = subprocess.run(
            command,
            executable=_program(environment.get("PATH")),
            cwd=cwd,
            env=environment,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            check=False,
            timeout=timeout,
        )
    except FileNotFoundError as error:
        raise _not_started(cwd) from error
    except subprocess.TimeoutExpired as error:
        raise RepositoryError(
            "git-timeout", f"git {_verb(args)} gave no answer in {timeout:g} seconds"
        ) from error
    output = Output(done.returncode, done.stdout, done.stderr.decode(errors="replace"))
    if check and output.code:
        raise failure(output, args, cwd)
    return output


def words(args: Sequence[str], cwd: Path, *, env: Mapping[str, str] | None = None) -> Iterator[str]:
    """What git prints, between NUL bytes, while it goes on. Raises as `git`, at the end at the
    latest."""
    environment = _environment(env)
    with TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                ["git", *args],
                executable=_program(environment.get("PATH")),
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=err,
            )
        except FileNotFoundError as error:
            raise _not_started(cwd) from error
        with process:
            assert process.stdout is not None
            try:
                parts: list[bytes] = []  # of a word that may be long
                while chunk := os.read(process.stdout.fileno(), _CHUNK):
                    rest, *more = chunk.split(b"\0")
                    parts.append(rest)
                    for start in more:
                        yield b"".join(parts).decode(errors="surrogateescape")
                        parts = [start]
                if any(parts):
                    yield b"".join(parts).decode(errors="surrogateescape")
            except BaseException:  # whoever reads it has had enough
                process.kill()
                raise
        if process.returncode:
            err.seek(0)
            said = err.read().decode(errors="replace")
            raise failure(Output(process.returncode, b"", said), args, cwd)


def _environment(further: Mapping[str, str] | None) -> dict[str, str]:
    environment = clean_environment(_FIXED)
    environment.update((n, os.environ[n]) for n in COMMAND_CONFIG if n in os.environ)
    environment.update(further or {})
    return environment


def failure(output: Output, args: Sequence[str], cwd: Path) -> RepositoryError:
    """The error that tells what a git process that failed in ``cwd`` said."""
    line = _useful_line(output.err) or f"exit status {output.code}"
    if _UNWRITTEN.search(output.err) and _is_full(cwd):
        return _disk_full(line)
    return storage_error(output.err) or RepositoryError(
        "git-failed", f"git {_verb(args)}: {line}", payload={"stderr": output.err[-2000:]}
    )


def _verb(args: Sequence[str]) -> str:
    return next((word for word in args if not word.startswith("-") and "=" not in word), "")


def storage_error(text: str) -> RepositoryError | None:
    """The error for a full disk or missing permission, if ``text`` names one.

    libgit2 and git both quote the system's message and keep no error number, so the words of
    ``strerror`` are all there is to go by. Python's own number before them tells people nothing.
    """
    text = re.sub(r"^\[Errno \d+\] ", "", text)
    full = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT), "Out of diskspace")
    for words in full:
        if words in text:
            return _disk_full(_useful_line(text))
    for number in (errno.EROFS, errno.EACCES, errno.EPERM):
        if os.strerror(number) in text:
            return RepositoryError(
                "repository-read-only",
                f"the repository cannot be written: {_useful_line(text)}",
                "check the permissions of the git directory",
            )
    return None


def _disk_full(line: str) -> RepositoryError:
    return RepositoryError("disk-full", line, "free some space, then repeat")


def _is_full(place: Path) -> bool:
    """Whether nothing to speak of can be written at ``place``: git does not always say why."""
    try:
        facts = os.statvfs(place)
    except OSError:
        return False
    no_inodes = facts.f_files > 0 and facts.f_favail == 0
    return no_inodes or facts.f_bavail * facts.f_frsize < _LEAST


@contextmanager
def file_errors(code: str, doing: str) -> Iterator[None]:
    """Turn an `OSError` of what is done inside into a `RepositoryError` with a code."""
    try:
        yield
    except OSError as error:
        raise storage_error(str(error)) or RepositoryError(code, f"{doing}: {error}") from error


@functools.lru_cache
def _program(search: str | None) -> str:
    """The git program, looked up once rather than in each directory of the path for each start."""
    return shutil.which("git", path=search) or "git"


@functools.cache
def git_version() -> tuple[int, ...]:
    """The version of the git program, as numbers."""
    said = git(["version"], Path("/")).out.decode()
    found = re.search(r"\d+(\.\d+)+", said)
    if found is None:
        raise RepositoryError("git-failed", f"git version says {said.strip()!r}")
    return tuple(int(part) for part in found[0].split("."))


def require_git() -> tuple[int, ...]:
    """`git_version`, refused if it cannot merge without a working tree."""
    version = git_version()
    if version < OLDEST_GIT:
        have, need = (".".join(map(str, v)) for v in (version, OLDEST_GIT))
        raise RepositoryError(
            "git-too-old", f"git {have} is too old: {need} or newer is needed", "upgrade git"
        )
    return version


def _useful_line(text: str) -> str:
    """The first line that states the failure: warnings and hints only if there is nothing else."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        for prefix in ("fatal: ", "error: "):
            if line.startswith(prefix):
                return line.removeprefix(prefix)
    plain = [line for line in lines if not line.startswith(("hint:", "warning:"))]
    return (plain or lines or [""])[0]


def _not_started(cwd: Path) -> RepositoryError:
    if not cwd.is_dir():
        return RepositoryError("no-directory", f"the directory {cwd} does not exist")
    return RepositoryError("git-not-found", "the git program is not installed", "install git")
