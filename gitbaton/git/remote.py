"""Remotes: what setting a repository up needs to know of them, and asking and fetching from them.

Transport is git's, with the user's credentials and ssh settings; nothing waits longer than it is
allowed to.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from gitbaton.errors import Busy
from gitbaton.git import process
from gitbaton.git.repo import Repository


def remotes(repo: Repository) -> dict[str, str]:
    """Name -> URL it is fetched from, for every remote that has one."""
    urls = repo.config_all("remote.")
    return {
        key.removeprefix("remote.").removesuffix(".url"): values[0][0]
        for key, values in sorted(urls.items())
        if key.endswith(".url")
    }


def add_fetch_refspec(repo: Repository, remote: str, refspec: str) -> bool:
    """Fetch ``refspec`` as well; False if the remote does so already."""
    key = f"remote.{remote}.fetch"
    if any(value == refspec for value, _ in repo.config_all(key).get(key, [])):
        return False
    config_add(repo, key, refspec)
    return True


def config_add(repo: Repository, key: str, value: str) -> None:
    """Give ``key`` one more value in the repository's own configuration."""
    _config(repo, "--add", key, value)


def _config(repo: Repository, how: str, key: str, value: str) -> None:
    # by git, for libgit2 does not quote what it writes: a value with quotes breaks the file
    path = repo.common_dir / "config"
    args = ["config", "--file", str(path), how, key, value]
    output = process.git(args, repo.common_dir, check=False)
    repo.forget_config()
    if output.code and path.with_name("config.lock").exists():
        raise Busy("config-locked", f"another process holds {path}.lock")
    if output.code:
        raise process.failure(output, args, repo.common_dir)


def default_branch(repo: Repository) -> str | None:
    """The tracking ref of the branch that a remote's HEAD points to; None if no clone set one."""
    for name in remotes(repo):
        head = repo.handle.references.get(f"refs/remotes/{name}/HEAD")
        if head is not None and isinstance(head.target, str):
            return head.target
    return None


def push(repo: Repository, name: str, refs: Sequence[str], *, together: bool = False) -> None:
    """Push refs to the same names at a remote, with the user's credentials and hooks; ``together``:
    all or none of them. Raises `RepositoryError` with the server's words."""
    specs = [f"{ref}:{ref}" for ref in refs]
    how = ["--atomic"] if together else []
    process.git(["push", "--quiet", *how, name, *specs], repo.worktree or repo.common_dir)


def listing(repo: Repository, name: str, patterns: Sequence[str], seconds: float) -> dict[str, str]:
    """Full name -> object of the refs at a remote that match ``patterns``. Raises `RepositoryError`
    with the server's words, or ``git-timeout``."""
    args = ["ls-remote", "--quiet", "--refs", "--", name, *patterns]
    said = process.git(args, repo.worktree or repo.common_dir, timeout=seconds).out
    pairs = (line.partition(b"\t") for line in said.splitlines())
    return {os.fsdecode(ref): oid.decode() for oid, _, ref in pairs}


def fetch(repo: Repository, name: str, refspecs: Sequence[str], seconds: float) -> None:
    """Fetch ``refspecs`` and nothing else; FETCH_HEAD and tags stay as they are."""
    quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
    args = ["-c", "maintenance.auto=false", "fetch", *quiet, "--", name, *refspecs]
    process.git(args, repo.worktree or repo.common_dir, durable=True, timeout=seconds)
