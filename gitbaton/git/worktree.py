"""Linked worktrees: making, listing and removing them.

They are made by hand rather than by ``git worktree add``: that takes three processes and twice the
time, runs the user's post-checkout hook in the middle, and dies leaving what it cannot itself
clean up. What is written here is what git writes, in an order that every interruption leaves
recognisable by the recorded path. Nothing is synced: after a power loss no worker lives, and its
ticket gets a new worktree; but a sync would wait for every file just checked out.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pygit2

from gitbaton.errors import Refused, RepositoryError
from gitbaton.git import checkout, process, refs
from gitbaton.git.checkout import (
    Status,
    checkout_detached,
    commit_all,
    dirty_paths,
    head_ref,
    move_checked_out,
    status,
    untracked,
)
from gitbaton.git.repo import Repository

__all__ = [
    "Status",
    "WorktreeInfo",
    "add",
    "add_detached",
    "checked_out_at",
    "checkout_detached",
    "commit_all",
    "dirty_paths",
    "head_ref",
    "move_checked_out",
    "registered",
    "remove",
    "status",
    "untracked",
]

_MAKING = "initializing"  # git's own word for it
_REMOVING = "removing"


class WorktreeInfo(NamedTuple):
    """A linked worktree as recorded; its directory may be gone.

    ``branch`` is a full ref, None when HEAD is detached; ``head`` None when the branch is unborn;
    ``locked`` the reason, None when it is not locked; ``git_dir`` its part of the git directory.
    """

    path: Path
    head: str | None
    branch: str | None
    locked: str | None
    git_dir: Path


def add(repo: Repository, path: Path, branch_ref: str, commit: str) -> None:
    """Make a worktree at ``path`` on the branch ``branch_ref``, which is created at ``commit``.

    The branch may exist already if it is there. Raises `Refused` (``branch-exists``,
    ``branch-checked-out``, ``directory-exists``) before anything is written.
    """
    there = refs.read(repo, branch_ref)
    if there is not None and there != commit:
        raise Refused("branch-exists", f"{branch_ref} exists already, at {there[:12]}")
    taken = checked_out_at(repo, branch_ref)
    if taken is not None:
        raise Refused("branch-checked-out", f"{branch_ref} is checked out at {taken}")
    _require_free(path)
    if there is None:
        refs.cas(repo, branch_ref, None, commit, "branch: created by git-baton", ours=True)
    _make(repo, path, f"ref: {branch_ref}\n", commit)


def add_detached(repo: Repository, path: Path, commit: str) -> None:
    """Make a worktree at ``path`` with ``commit`` checked out and no branch."""
    _require_free(path)
    _make(repo, path, f"{commit}\n", commit)


def remove(repo: Repository, path: Path, force: bool) -> None:
    """Remove the worktree recorded at ``path``: its directory, then git's record of it.

    Whatever is half made, half removed or deleted by hand is finished. Without ``force`` it is
    refused when something is uncommitted there (``worktree-dirty``), it is locked
    (``worktree-locked``), or the directory is no worktree of this repository any more.
    """
    real = Path(os.path.realpath(path))
    if repo.common_dir.is_relative_to(real):
        raise Refused("not-a-worktree", f"{path} holds the repository itself")
    records = [info for info in _records(repo) if _same_place(info.path, real)]
    interrupted = any(info.locked in (_MAKING, _REMOVING) for info in records)
    if not force and not interrupted:
        _require_removable(path, records)
    for info in records:
        _write(info.git_dir / "locked", _REMOVING)
    if real.is_dir():
        _remove_directory(real)
    for git_dir in [info.git_dir for info in records] + _nameless(repo, real):
        _remove_directory(git_dir)


def registered(repo: Repository) -> dict[Path, WorktreeInfo]:
    """Every linked worktree that git has on record, by the path of its top directory."""
    found = {}
    for info in _records(repo):
        head = refs.read(repo, info.branch) if info.branch else info.head
        found[info.path] = info._replace(head=head)
    return found


def checked_out_at(repo: Repository, ref: str) -> Path | None:
    """The existing worktree, main or linked, that has the branch ``ref`` checked out."""
    main = repo.main_worktree
    if main is not None and _head(repo.common_dir) == f"ref: {ref}":
        return main
    for info in _records(repo):
        if info.branch == ref and (info.path / ".git").exists():
            return info.path
    return None


def _require_free(path: Path) -> None:
    if os.path.lexists(path) and not (path.is_dir() and not os.listdir(path)):
        raise Refused("directory-exists", f"{path} exists already", "remove it, or move it away")


def _make(repo: Repository, path: Path, head: str, commit: str) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        real = Path(os.path.realpath(path))
        for info in _records(repo):
            if _same_place(info.path, real):  # its directory was deleted by hand
                _remove_directory(info.git_dir)
        git_dir = _new_git_dir(repo, real.name)
        _write(git_dir / "gitdir", f"{real / '.git'}\n")
        _write(git_dir / "commondir", "../..\n")
        _write(git_dir / "HEAD", head)
        _inherit_sparseness(repo, git_dir)
        _write(real / ".git", f"gitdir: {git_dir}\n")
    except OSError as error:
        raise process.storage_error(str(error)) or RepositoryError(
            "worktree-failed", f"no worktree could be made at {path}: {error}"
        ) from error
    args = ["-c", "core.hooksPath=/dev/null", "-c", "submodule.recurse=false"]
    try:
        process.git([*args, "read-tree", "-m", "-u", commit], real)
    except RepositoryError:
        remove(repo, real, force=True)
        raise
    (git_dir / "locked").unlink()


def _new_git_dir(repo: Repository, name: str) -> Path:
    """A directory of its own below ``worktrees``, locked against ``git worktree prune``."""
    home = repo.common_dir / "worktrees"
    home.mkdir(exist_ok=True)
    base = _record_name(name)
    number = 0
    while True:
        git_dir = home / f"{base}{number or ''}"
        try:
            git_dir.mkdir()
        except FileExistsError:
            number += 1
            continue
        _write(git_dir / "locked", _MAKING)
        return git_dir


def _record_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.@+-]", "-", name).strip(".") or "worktree"


def _inherit_sparseness(repo: Repository, git_dir: Path) -> None:
    """As git does: a worktree made from a sparse one is sparse, with settings of its own."""
    settings = repo.git_dir / "config.worktree"
    if settings.is_file():
        shutil.copyfile(settings, git_dir / "config.worktree")
        config = pygit2.Config(str(git_dir / "config.worktree"))
        for key in ("core.bare", "core.worktree"):
            if key in config:
                del config[key]
    patterns = repo.git_dir / "info" / "sparse-checkout"
    if patterns.is_file():
        (git_dir / "info").mkdir()
        shutil.copyfile(patterns, git_dir / "info" / "sparse-checkout")


def _require_removable(path: Path, records: list[WorktreeInfo]) -> None:
    locked = next((info.locked for info in records if info.locked is not None), None)
    if locked is not None:
        raise Refused(
            "worktree-locked", f"the worktree {path} is locked {f': {locked}' if locked else ''}"
        )
    if not path.is_dir() or not os.listdir(path):
        return
    place = checkout.place_of(path)
    if all(place.git_dir != info.git_dir for info in records):
        raise Refused("not-a-worktree", f"{path} is no linked worktree of this repository")
    entries = checkout.status(path, fresh_index=False).entries
    if entries:
        names = ", ".join(name for _, name in entries[:3])
        raise Refused(
            "worktree-dirty",
            f"{path} has changes that are not committed: {names}",
            "commit them, or remove it with --force",
            {"worktree": str(path), "paths": [name for _, name in entries]},
        )


def _records(repo: Repository) -> list[WorktreeInfo]:
    """What `registered` gives, but for the commits that branches point to."""
    found = []
    for git_dir in _git_dirs(repo):
        link = _text(git_dir / "gitdir")
        if link is None:
            continue
        path = Path(os.path.dirname(os.path.normpath(os.path.join(git_dir, link))))
        head = _head(git_dir)
        branch = head.removeprefix("ref:").strip() if head.startswith("ref:") else None
        oid = None if branch else head or None
        found.append(WorktreeInfo(path, oid, branch, _lock_reason(git_dir), git_dir))
    return found


def _git_dirs(repo: Repository) -> list[Path]:
    home = repo.common_dir / "worktrees"
    try:
        return [home / name for name in sorted(os.listdir(home))]
    except FileNotFoundError:
        return []


def _nameless(repo: Repository, path: Path) -> list[Path]:
    """Records that a killed process began for ``path`` and left before it wrote which it was."""
    begun = re.compile(re.escape(_record_name(path.name)) + r"\d*")
    return [
        git_dir
        for git_dir in _git_dirs(repo)
        if begun.fullmatch(git_dir.name) and _text(git_dir / "gitdir") is None
    ]


def _lock_reason(git_dir: Path) -> str | None:
    try:
        return (git_dir / "locked").read_text(errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _head(git_dir: Path) -> str:
    return _text(git_dir / "HEAD") or ""


def _text(path: Path) -> str | None:
    """The content of a small file without its newline; None if it is absent or empty."""
    try:
        return path.read_text(errors="surrogateescape").rstrip("\n") or None
    except (FileNotFoundError, NotADirectoryError):
        return None


def _same_place(recorded: Path, real: Path) -> bool:
    if recorded.name != real.name:
        return False
    return recorded == real or os.path.realpath(recorded) == str(real)


def _write(path: Path, text: str) -> None:
    """Replace a small file as a whole: whoever is killed leaves the old one or the new."""
    begun = path.with_name(f"{path.name}.new")
    with begun.open("w", errors="surrogateescape") as file:
        file.write(text)
    begun.rename(path)


def _remove_directory(path: Path) -> None:
    for _ in range(3):  # a process that ends only now may still write there
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            if not os.path.lexists(path):
                return
        except OSError:
            checkout.make_writable(path)
        else:
            return
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise RepositoryError("worktree-failed", f"{path} cannot be removed: {error}") from error
