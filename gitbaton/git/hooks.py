"""Where git looks for hooks: a folder, which any setting may have moved, or the configuration."""

from __future__ import annotations

from pathlib import Path

from gitbaton.git import process
from gitbaton.git.repo import Repository

CONFIG_HOOKS = (2, 54)
"""The git that runs hooks named in its configuration."""


def folder(repo: Repository) -> Path:
    """The folder in which git looks for the hooks of this worktree. A relative ``core.hooksPath``
    is one of the top of the worktree, or of a bare repository."""
    top = repo.worktree or repo.git_dir
    said = process.git([f"--git-dir={repo.git_dir}", "rev-parse", "--git-path", "hooks"], top)
    return top / said.out.decode(errors="surrogateescape").removesuffix("\n")


def set_by(repo: Repository) -> str:
    """The level of the configuration that chose the folder; "" if nobody did."""
    values = repo.config_all("core.hookspath").get("core.hookspath")
    return values[-1][1] if values else ""


def by_configuration() -> bool:
    """Whether this git runs hooks that its configuration names."""
    return process.git_version() >= CONFIG_HOOKS


def is_configured(repo: Repository, name: str) -> bool:
    """Whether the configuration of this repository names the hook ``name``."""
    return repo.config_get(f"hook.{name}.command") is not None


def runs(repo: Repository, name: str) -> bool:
    """Whether git runs the configured hook ``name``."""
    enabled = (repo.config_get(f"hook.{name}.enabled") or "true").lower()
    wanted = enabled not in ("false", "no", "off", "0")
    return wanted and is_configured(repo, name) and by_configuration()


def configure(repo: Repository, name: str, event: str, command: str) -> None:
    """Have git run ``command`` at ``event``."""
    for key, value in (("event", event), ("command", command)):
        _config(repo, "--replace-all", f"hook.{name}.{key}", value)


def forget(repo: Repository, name: str) -> None:
    """Remove the configured hook ``name``."""
    _config(repo, "--remove-section", f"hook.{name}")


def _config(repo: Repository, *args: str) -> None:
    process.git(["config", "--file", str(repo.common_dir / "config"), *args], repo.common_dir)
    repo.forget_config()
