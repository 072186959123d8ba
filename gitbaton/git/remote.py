"""What setting a repository up needs to know about remotes, and to write into its configuration."""

from __future__ import annotations

from collections.abc import Callable

import pygit2

from gitbaton.errors import Busy, RepositoryError
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
    # the pattern matches no value, so that one is added
    _change(repo, key, lambda config: config.set_multivar(key, "^$.", value))


def config_set(repo: Repository, key: str, value: str) -> None:
    """Make ``value`` the only one of ``key`` in the repository's own configuration."""

    def change(config: pygit2.Config) -> None:
        if key in config:
            config.delete_multivar(key, ".*")
        config[key] = value

    _change(repo, key, change)


def _change(repo: Repository, key: str, change: Callable[[pygit2.Config], None]) -> None:
    path = repo.common_dir / "config"
    try:
        change(pygit2.Config(str(path)))
    except (pygit2.GitError, OSError, ValueError) as error:
        if (path.parent / "config.lock").exists():
            raise Busy("config-locked", f"another process holds {path}.lock") from error
        raise process.storage_error(str(error)) or RepositoryError(
            "bad-config", f"{key} could not be set: {error}"
        ) from error


def default_branch(repo: Repository) -> str | None:
    """The tracking ref of the branch that a remote's HEAD points to; None if no clone set one."""
    for name in remotes(repo):
        head = repo.handle.references.get(f"refs/remotes/{name}/HEAD")
        if head is not None and isinstance(head.target, str):
            return head.target
    return None


def push(repo: Repository, name: str, ref: str) -> None:
    """Push one ref to the same name at a remote, with the user's credentials and hooks. Raises
    `RepositoryError` with the server's words."""
    process.git(["push", "--quiet", name, f"{ref}:{ref}"], repo.worktree or repo.common_dir)
