"""What setting a repository up needs to know about remotes, and to write into its configuration."""

from __future__ import annotations

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


def push(repo: Repository, name: str, ref: str) -> None:
    """Push one ref to the same name at a remote, with the user's credentials and hooks. Raises
    `RepositoryError` with the server's words."""
    process.git(["push", "--quiet", name, f"{ref}:{ref}"], repo.worktree or repo.common_dir)
