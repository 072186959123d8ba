"""Finding and opening the repository, and saying in one line why one cannot be opened."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pygit2
from pygit2.enums import RepositoryOpenFlag

from gitbaton.errors import RepositoryError
from gitbaton.git import command_config, process
from gitbaton.git.repo import Repository, common_dir_of

_OID_DIGITS = frozenset("0123456789abcdef")


def open_repository(start: Path | None = None) -> Repository:
    """The repository that ``start`` lies in, or that git's own variables and the directory name.

    With ``start`` those variables are not looked at. Raises `RepositoryError` for whatever
    cannot be served, before anything was written.
    """
    pygit2.settings.enable_fsync_gitdir(process.fsync_enabled())
    flags = RepositoryOpenFlag.DEFAULT
    where = str(start) if start else "."
    if start is None:
        flags = RepositoryOpenFlag.FROM_ENV
        if os.environ.get("GIT_DIR"):
            where = os.environ["GIT_DIR"]
            flags |= RepositoryOpenFlag.NO_SEARCH
    try:
        located = _open(where, flags)
    except (pygit2.GitError, OSError) as error:
        raise _diagnosis(where, error) from error
    git_dir = Path(located.path)
    head = git_dir / "HEAD"
    try:
        text = head.read_text(errors="surrogateescape").strip()
    except OSError as error:
        raise _corrupt(str(error)) from error
    if not text.startswith("ref:") and not (len(text) == 40 and _OID_DIGITS.issuperset(text)):
        raise _corrupt(f"{head} does not name a commit or a branch")
    return Repository(git_dir, Path(located.workdir) if located.workdir else None)


def _open(where: str, flags: RepositoryOpenFlag) -> pygit2.Repository:
    """Open, also where ``git -c safe.directory=...`` permits it: libgit2 sees no such setting."""
    try:
        return pygit2.Repository(where, flags)
    except pygit2.GitError:
        found = _foreign_directory(where)
        if found is None or not _command_allows(found):
            raise
    pygit2.settings.owner_validation = False
    return pygit2.Repository(where, flags)


def _command_allows(directory: Path) -> bool:
    allowed = False
    for name, value in command_config.settings():
        if name == "safe.directory":
            allowed = bool(value) and (allowed or value in ("*", str(directory)))
    return allowed


def _foreign_directory(where: str) -> Path | None:
    """The directory of the repository at ``where`` that belongs to somebody else, if one does."""
    git_dir = pygit2.discover_repository(where)
    if git_dir is None:
        return None
    top = Path(git_dir)
    top = top.parent if top.name == ".git" else top
    owners = {os.geteuid()}
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdigit():
        owners.add(int(os.environ["SUDO_UID"]))
    foreign = any(Path(p).stat().st_uid not in owners for p in (top, git_dir))
    return top if foreign else None


def _diagnosis(where: str, error: Exception) -> RepositoryError:
    """Why libgit2 would not open: looked up in the repository, not in the message."""
    try:
        git_dir = pygit2.discover_repository(where)
    except (KeyError, pygit2.GitError, OSError):
        git_dir = None
    if git_dir is None:
        return RepositoryError(
            "no-repository",
            f"no git repository at or above {Path(where).absolute()}",
            "go to one, or name it: git -C DIR baton ...",
        )
    foreign = _foreign_directory(where)
    if foreign is not None:
        return RepositoryError(
            "unsafe-ownership",
            f"the repository at {foreign} belongs to another user",
            "if you trust it: git config --global --add safe.directory "
            + shlex.quote(str(foreign)),
        )
    try:
        config = pygit2.Config(str(common_dir_of(Path(git_dir)) / "config"))
        extensions = {
            str(e.name).removeprefix("extensions."): e.value
            for e in config
            if e.name and e.name.startswith("extensions.")
        }
    except (pygit2.GitError, OSError):
        return _corrupt(str(error))
    if str(extensions.get("objectformat", "sha1")).lower() != "sha1":
        return RepositoryError(
            "unsupported-object-format",
            f"repositories with {extensions['objectformat']} object ids are not supported",
        )
    if str(extensions.get("refstorage", "files")).lower() != "files":
        return RepositoryError(
            "unsupported-ref-format",
            f"repositories with {extensions['refstorage']} refs are not supported",
            "run: git refs migrate --ref-format=files",
        )
    if extensions:
        return RepositoryError(
            "unknown-extension",
            f"the repository uses an extension that is not supported: {', '.join(extensions)}",
        )
    return _corrupt(str(error))


def _corrupt(detail: str) -> RepositoryError:
    return RepositoryError("corrupt-repository", f"the repository is damaged: {detail}", "git fsck")
