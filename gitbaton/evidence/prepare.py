"""A worktree as git makes it lacks what a project needs to run: packages, an ``.env``.

``baton.copy`` and ``baton.setup`` supply that, in the worktrees of workers and in those where
commits are verified. What they make is listed, so that it is neither taken for dirt nor for work.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Collection, Sequence
from pathlib import Path, PurePosixPath

from gitbaton.config import Settings
from gitbaton.errors import Refused, UsageError
from gitbaton.evidence.checks import describe, run_command
from gitbaton.git import checkout
from gitbaton.git.repo import Repository


def worktree_root(repo: Repository, settings: Settings) -> Path:
    """The folder of all worktrees: ``baton.worktreeDir``, relative to the repository's top, or the
    sibling ``<name>.baton`` of the main worktree or of the bare repository."""
    top = repo.main_worktree or repo.common_dir
    if settings.worktree_dir:
        return Path(os.path.normpath(top / Path(settings.worktree_dir).expanduser()))
    name = top.name.removesuffix(".git") or top.name if repo.main_worktree is None else top.name
    return top.parent / f"{name}.baton"


def prepare_worktree(
    repo: Repository,
    path: Path,
    settings: Settings,
    *,
    project_dir: str,
    log: Path,
    keep_open: Sequence[int] = (),
    verified_at: str | None = None,
) -> tuple[str, ...]:
    """Copy what ``baton.copy`` names into the worktree ``path``, then run ``baton.setup`` in its
    ``project_dir``; ``log`` gets the output.

    May be repeated. Returns the untracked paths (ignored ones too; a folder ends in "/") that are
    there afterwards. A file that the commit holds is never overwritten by a copy, nor may setup
    change one; a verification worktree must be exactly at ``verified_at``. Raises `Refused`
    ``copy-failed``, ``setup-changed-files``, or ``setup-failed`` with the output's tail in the
    payload.
    """
    if not settings.copy and not settings.setup:
        return ()
    if settings.copy:
        refreshed = checkout.untracked(path, ignored=True)
        for entry in settings.copy:
            _copy_entry(_sources(repo), path, entry, refreshed)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    for command in settings.setup:
        result = run_command(
            command,
            path / project_dir,
            timeout=settings.setup_timeout,
            log=log,
            keep_open=keep_open,
        )
        if not result.green:
            raise Refused(
                "setup-failed",
                f"setup failed: `{command}` {describe(result.exit_code)}",
                f"correct baton.setup; its output is in {log}",
                {"output_tail": result.output_tail},
            )
    if settings.setup:
        _require_untouched(path, verified_at)
    return tuple(sorted(checkout.untracked(path, ignored=True)))


def _require_untouched(path: Path, commit: str | None) -> None:
    """A setup that changes tracked files would have checks speak of files that no commit holds."""
    if commit is not None:
        changed = checkout.altered(path, commit)
    else:
        entries = checkout.status(path, fresh_index=True).entries
        changed = [name for letters, name in entries if letters != "??"]
    if changed:
        raise Refused(
            "setup-changed-files",
            f"baton.setup changed files of the commit: {', '.join(changed[:5])}",
            "commit what it writes, or set baton.setup to a command that leaves them alone",
            {"paths": changed},
        )


def within(path: str, paths: Collection[str]) -> bool:
    """Whether ``path`` is one of ``paths`` or lies below one (a folder may end in "/")."""
    if not paths:
        return False
    if path in paths or path + "/" in paths:
        return True
    parts = path.rstrip("/").split("/")
    above = ("/".join(parts[:n]) for n in range(1, len(parts)))
    return any(folder in paths or folder + "/" in paths for folder in above)


def _sources(repo: Repository) -> list[Path]:
    """Where copies come from: the main worktree, else the current one."""
    found = [top for top in (repo.main_worktree, repo.worktree) if top is not None]
    return list(dict.fromkeys(found))


def _copy_entry(sources: list[Path], target: Path, entry: str, refreshed: Collection[str]) -> None:
    relative = PurePosixPath(os.path.normpath(entry))
    if not relative.parts or relative.is_absolute() or relative.parts[0] in ("..", ".git"):
        raise UsageError(
            "bad-setting",
            f"baton.copy is {entry!r}, but must be a path inside the repository",
            "git config --unset baton.copy, then add paths relative to the top",
        )
    source = next((top / relative for top in sources if os.path.lexists(top / relative)), None)
    if source is None:
        raise _copy_failed(
            entry, f"there is none in {sources[0] if sources else 'a bare repository'}"
        )
    if target.is_relative_to(source):
        raise _copy_failed(entry, "it holds the worktree itself")
    try:
        parent = (target / relative).parent
        if not parent.resolve().is_relative_to(target.resolve()):
            raise _copy_failed(entry, "a symbolic link of the commit leads out of the worktree")
        parent.mkdir(parents=True, exist_ok=True)
        _copy(source, target, relative, refreshed)
    except OSError as error:
        raise _copy_failed(entry, f"{error.strerror}: {error.filename}") from error


def _copy(source: Path, target: Path, relative: PurePosixPath, refreshed: Collection[str]) -> None:
    """Copy one file, link or folder; what exists and is not ``refreshed`` belongs to the commit."""
    place = target / relative
    made = os.lstat(source)
    if stat.S_ISDIR(made.st_mode):
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            return
        place.mkdir(exist_ok=True)
        with os.scandir(source) as entries:
            for name in sorted(entry.name for entry in entries if entry.name != ".git"):
                _copy(source / name, target, relative / name, refreshed)
        return
    if os.path.lexists(place):
        there = os.lstat(place)
        same = (there.st_size, there.st_mtime_ns) == (made.st_size, made.st_mtime_ns)
        if same or stat.S_ISDIR(there.st_mode) or not within(str(relative), refreshed):
            return
    if not (stat.S_ISREG(made.st_mode) or stat.S_ISLNK(made.st_mode)):
        return  # a socket or a pipe: nothing that could be copied
    # Whoever is killed here leaves no half-written file under the name that counts.
    part = place.with_name(f".{place.name}.{os.getpid()}.part")
    shutil.copy2(source, part, follow_symlinks=False)
    part.replace(place)


def _copy_failed(entry: str, why: str) -> Refused:
    return Refused(
        "copy-failed",
        f"baton.copy names {entry}, but {why}",
        "create it, or correct the setting with `git config baton.copy`",
    )
