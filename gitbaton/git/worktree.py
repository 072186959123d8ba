"""Linked worktrees: making, listing and removing them.

They are made by hand rather than by ``git worktree add``: that takes three processes and twice the
time, runs the user's post-checkout hook in the middle, and dies leaving what it cannot itself
clean up. What is written here is what git writes, in an order that every interruption leaves
recognisable by the recorded path. Nothing is synced: after a power loss no worker lives, and its
ticket gets a new worktree; but a sync would wait for every file just checked out.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pygit2

from gitbaton.errors import BatonError, Refused, RepositoryError
from gitbaton.git import checkout, process, refs, spread
from gitbaton.git.repo import Repository

_MAKING = "initializing"  # git's own word for it
_REMOVING = "removing"
INTERRUPTED = (_MAKING, _REMOVING)
"""Reasons of a lock that say: whoever made or removed this worktree did not get to its end."""
_AWAY = "move it away, or have worktrees elsewhere: git config baton.worktreeDir FOLDER"


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
    if there is not None:
        require_not_checked_out(repo, branch_ref)
    _require_free(path)
    if there is None:
        refs.cas(repo, branch_ref, None, commit, "branch: created by git-baton", ours=True)
    else:  # who was killed just as the branch was there may have left its lock
        refs.remove_leftover_lock(repo, branch_ref)
    _make(repo, path, f"ref: {branch_ref}\n", commit, sparse=True)


def add_detached(repo: Repository, path: Path, commit: str) -> None:
    """Make a worktree at ``path`` with all of ``commit`` checked out, never sparse, no branch."""
    _require_free(path)
    checkout.keep_index(_make(repo, path, f"{commit}\n", commit, sparse=False))


def remove(repo: Repository, path: Path, force: bool, *, recorded: bool = False) -> None:
    """Remove the worktree recorded at ``path``: its directory, then git's record of it.

    Whatever is half made, half removed or deleted by hand is finished. What `is_ours` denies is
    refused (``not-a-worktree``) whatever ``force`` says; without it also what is locked
    (``worktree-locked``) or has something uncommitted (``worktree-dirty``).
    """
    real = _real(path)
    if repo.common_dir.is_relative_to(real):
        raise Refused("not-a-worktree", f"{path} holds the repository itself")
    if not is_ours(repo, path, recorded=recorded):
        raise Refused("not-a-worktree", f"{path} is no worktree of this repository", _AWAY)
    records = _records_at(repo, real)
    interrupted = any(info.locked in INTERRUPTED for info in records)
    if not force and not interrupted:
        _require_removable(path, records)
    with process.file_errors("worktree-failed", f"{path} cannot be removed"):
        for info in records:
            with suppress(OSError):  # on a full disk, say, and this is what makes room
                _write(info.git_dir / "locked", _REMOVING)
        if real.is_dir():
            _remove_directory(real)
        for info in records:
            _remove_directory(info.git_dir)


def is_ours(repo: Repository, path: Path, *, recorded: bool = False) -> bool:
    """Whether what is at ``path`` may be removed for this repository: nothing, an empty directory,
    a worktree whose ``.git`` leads here, or one on record here that lost its ``.git``. ``recorded``
    says that the caller has a record of it, whether git still has one or not.

    Folders of worktrees may be shared by repositories, and a worker can put a link anywhere.
    """
    if path.is_symlink():
        return False
    if not os.path.lexists(path) or (path.is_dir() and not os.listdir(path)):
        return True
    try:
        place = checkout.place_of(path)
    except RepositoryError:
        link = _text(path, ".git")
    else:
        return is_linked(repo, place)
    named = Path(os.path.normpath(path / (link or "").removeprefix("gitdir:").strip()))
    lost = link is None or named.is_relative_to(repo.common_dir / "worktrees")
    return lost and (recorded or bool(_records_at(repo, _real(path))))


def is_linked(repo: Repository, place: Repository) -> bool:
    """Whether ``place`` is a linked worktree of this repository."""
    return place.git_dir != place.common_dir and place.belongs_to(repo)


def require_available(repo: Repository, path: Path) -> None:
    """Raise `Refused` ``directory-exists`` if `is_ours` denies what is at ``path``."""
    if not is_ours(repo, path):
        raise _exists(path)


def registered(repo: Repository) -> dict[Path, WorktreeInfo]:
    """Every linked worktree that git has on record, by the path of its top directory."""
    found = {}
    for git_dir, path in _linked(repo):
        info = _info(git_dir, path)
        head = refs.read(repo, info.branch) if info.branch else info.head
        found[path] = info._replace(head=head)
    return found


def checked_out_at(repo: Repository, ref: str, but: Path | None = None) -> Path | None:
    """The existing worktree, main or linked and not ``but``, that has the branch ``ref`` checked
    out."""
    wanted = f"ref: {ref}"
    if _text(repo.common_dir, "HEAD") == wanted and repo.main_worktree is not None:
        return repo.main_worktree
    for name in _record_names(repo):
        if _text(f"{repo.common_dir}/worktrees/{name}", "HEAD") == wanted:
            path = _recorded_path(repo.common_dir / "worktrees" / name)
            if path is not None and path != but and (path / ".git").exists():
                return path
    return None


def delete_branches(repo: Repository, values: Mapping[str, str]) -> dict[str, BatonError]:
    """`refs.delete`, but for branches that are checked out: HEAD would name nothing there."""
    kept: dict[str, BatonError] = {}
    for ref in values:
        try:
            require_not_checked_out(repo, ref)
        except Refused as error:
            kept[ref] = error
    free = {ref: value for ref, value in values.items() if ref not in kept}
    return kept | refs.delete(repo, free, ours=True)


def require_not_checked_out(repo: Repository, ref: str, but: Path | None = None) -> None:
    """Raise `Refused` if a worktree other than ``but`` has the branch ``ref`` checked out."""
    where = checked_out_at(repo, ref, but)
    if where is not None:
        raise Refused("branch-checked-out", f"{ref} is checked out at {where}")


def _require_free(path: Path) -> None:
    empty = path.is_dir() and not path.is_symlink() and not os.listdir(path)
    if os.path.lexists(path) and not empty:
        raise _exists(path)


def _exists(path: Path) -> Refused:
    return Refused("directory-exists", f"{path} exists already", _AWAY, {"worktree": str(path)})


def _real(path: Path) -> Path:
    """``path`` without links above it; one at ``path`` itself is never followed."""
    return Path(os.path.realpath(path.parent)) / path.name


def _make(repo: Repository, path: Path, head: str, commit: str, *, sparse: bool) -> Path:
    """Returns the worktree's part of the git directory."""
    with process.file_errors("worktree-failed", f"no worktree could be made at {path}"):
        spread.make(path.parent)
        path.mkdir(exist_ok=True)
        real = Path(os.path.realpath(path))
        for stale, recorded in _linked(repo, _record_name(real)):
            if recorded == real:  # its directory was deleted by hand
                _remove_directory(stale)
        git_dir = _new_record(repo, real, head, sparse)
        _write(real / ".git", f"gitdir: {git_dir}\n")
    settings = ("-c", "submodule.recurse=false") if sparse else checkout.EXACT
    try:
        process.git([*process.NO_HOOKS, *settings, "read-tree", "-m", "-u", commit], real)
        with process.file_errors("worktree-failed", f"no worktree could be made at {path}"):
            (git_dir / "locked").unlink()
    except RepositoryError:
        remove(repo, real, force=True)
        raise
    return git_dir


def _new_record(repo: Repository, real: Path, head: str, sparse: bool) -> Path:
    """A directory below ``worktrees`` that from its first moment says whose it is.

    It is locked, against ``git worktree prune``, until the files are there.
    """
    begun = repo.baton_dir / "making" / hashlib.sha256(os.fsencode(real)).hexdigest()[:16]
    _remove_directory(begun)
    begun.mkdir(parents=True)
    for name, text in (
        ("locked", _MAKING),
        ("gitdir", f"{real / '.git'}\n"),
        ("commondir", "../..\n"),
        ("HEAD", head),
    ):
        (begun / name).write_text(text, errors="surrogateescape")
    if sparse:
        _inherit_sparseness(repo, begun)
    home = repo.common_dir / "worktrees"
    home.mkdir(exist_ok=True)
    base = _record_name(real)
    number = 0
    while True:
        record = home / f"{base}{number or ''}"
        try:
            record.mkdir()
        except FileExistsError:
            number += 1
            continue
        begun.rename(record)
        return record


def _record_name(real: Path) -> str:
    """What a record of ``real`` is called, before a number makes it unique."""
    return re.sub(r"[^A-Za-z0-9_.@+-]", "-", real.name).strip(".") or "worktree"


def _inherit_sparseness(repo: Repository, git_dir: Path) -> None:
    """A worktree is sparse if the main one is; the one called from may be that of a worker."""
    settings = repo.common_dir / "config.worktree"
    if settings.is_file():
        shutil.copyfile(settings, git_dir / "config.worktree")
        config = pygit2.Config(str(git_dir / "config.worktree"))
        for key in ("core.bare", "core.worktree"):
            if key in config:
                del config[key]
    patterns = repo.common_dir / "info" / "sparse-checkout"
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


def _records_at(repo: Repository, real: Path) -> list[WorktreeInfo]:
    """What is on record for the path ``real``, without the commits of branches."""
    try:
        git_dir = checkout.place_of(real).git_dir
        if git_dir.parent == repo.common_dir / "worktrees":
            return [_info(git_dir, real)]
    except RepositoryError:
        pass
    return [
        _info(git_dir, path)
        for git_dir, path in _linked(repo)
        if path == real or (path.name == real.name and os.path.realpath(path) == str(real))
    ]


def _info(git_dir: Path, path: Path) -> WorktreeInfo:
    head = _text(git_dir, "HEAD") or ""
    branch = head.removeprefix("ref:").strip() if head.startswith("ref:") else None
    locked = (_text(git_dir, "locked") or "") if (git_dir / "locked").exists() else None
    return WorktreeInfo(path, None if branch else head or None, branch, locked, git_dir)


def _linked(repo: Repository, name: str = "") -> Iterator[tuple[Path, Path]]:
    """(git directory, recorded path) of every linked worktree whose path is on record.

    With ``name``, only of those whose git directory is called so, or begins so.
    """
    for one in _record_names(repo):
        if one.startswith(name):
            git_dir = repo.common_dir / "worktrees" / one
            if (path := _recorded_path(git_dir)) is not None:
                yield git_dir, path


def _record_names(repo: Repository) -> list[str]:
    try:
        return sorted(os.listdir(repo.common_dir / "worktrees"))
    except FileNotFoundError:
        return []


def _recorded_path(git_dir: Path) -> Path | None:
    """The top of the worktree that ``git_dir`` belongs to, as it says itself."""
    link = _text(git_dir, "gitdir")
    if link is None:
        return None
    return Path(os.path.dirname(os.path.normpath(os.path.join(git_dir, link))))


def _text(directory: Path | str, name: str) -> str | None:
    """The content of a small file without its newline; None if it is absent or empty."""
    try:
        with open(f"{directory}/{name}", errors="surrogateescape") as file:
            return file.read().rstrip("\n") or None
    except (FileNotFoundError, NotADirectoryError):
        return None


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
    shutil.rmtree(path)
