"""Commits are verified in worktrees that no worker ever touches, from a small pool that is reused.

A slot is a numbered worktree with a kernel lock; checks inherit the lock, so an orphaned check
keeps others out of the directory it still writes to. A slot whose user was killed, or whose
directory somebody deleted, is healed by the next one who takes it. Only directories that are on
record as slots are ever touched.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from gitbaton.config import Settings
from gitbaton.errors import BatonError, Busy, RepositoryError
from gitbaton.evidence.prepare import prepare_worktree, worktree_root
from gitbaton.git import checkout, worktree
from gitbaton.git.repo import Repository
from gitbaton.lock import Lock
from gitbaton.model import codec

SLOTS = 16


class Slot(NamedTuple):
    """A verification worktree at some commit: ``top``, the project's folder in it, and ``lock_fd``,
    what its checks have to inherit."""

    top: Path
    path: Path
    lock_fd: int


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """``slots/verify-<n>.json``: the directory, and how it was prepared for which commit (empty
    while that is under way)."""

    path: str
    commit: str = ""
    recipe: str = ""
    prepared: tuple[str, ...] = ()


@contextmanager
def verification_worktree(
    repo: Repository, settings: Settings, commit: str, *, project_dir: str
) -> Iterator[Slot]:
    """A clean, prepared worktree at ``commit``, for the duration of the context.

    Raises `Refused` ``setup-failed``, ``setup-changed-files`` or ``copy-failed``, and `Busy`
    ``no-verification-worktree`` when all have been in use for longer than a check may take.
    """
    repo.require_history()
    repo.require_attributes()
    number, lock = _take(repo, settings)
    try:
        path = worktree_root(repo, settings) / f"verify-{number}"
        _ready(repo, settings, number, path, commit, project_dir, lock)
        yield Slot(path, path / project_dir, lock.fd)
    finally:
        lock.release()


def remove_slots(repo: Repository, settings: Settings, *, dry_run: bool = False) -> list[Path]:
    """Remove the slots that nobody uses, and the folder of worktrees if that leaves it empty.

    Returns the directories removed (with ``dry_run``: that would be).
    """
    removed = list(_unused(repo, lambda *_: True, remove=not dry_run))
    if not dry_run:
        with contextlib.suppress(OSError):
            worktree_root(repo, settings).rmdir()
    return removed


def stale(repo: Repository, settings: Settings, *, remove: bool = False) -> list[Path]:
    """The slots that nobody uses and that are no whole worktree, or not where they would be looked
    for; with ``remove`` they are removed."""
    root = worktree_root(repo, settings)

    def is_stale(path: Path, state: str) -> bool:
        return state in ("absent", "broken") or path.parent != root

    return list(_unused(repo, is_stale, remove=remove))


def is_slot(root: Path, path: Path) -> bool:
    """Whether a worktree has the name of a slot of the pool in ``root``."""
    return path.parent == root and re.fullmatch(r"verify-[0-9]+", path.name) is not None


def _unused(
    repo: Repository, wanted: Callable[[Path, str], bool], *, remove: bool
) -> Iterator[Path]:
    """The slots on record that nobody uses, that are no directories of somebody else, and that are
    ``wanted`` in their state; with ``remove`` directory and record are gone then."""
    for number in range(1, SLOTS + 1):
        record = _read_record(repo, number)
        lock = _lock(repo, number)
        if record is None or not lock.try_acquire():
            continue
        try:
            path = Path(record.path)
            state = _state(repo, path, record)
            chosen = state != "foreign" and wanted(path, state)
            if remove and chosen:
                worktree.remove(repo, path, force=True, recorded=True)
            if remove and (chosen or state == "foreign"):
                _record_path(repo, number).unlink(missing_ok=True)
            if chosen:
                yield path
        finally:
            lock.release()


def _take(repo: Repository, settings: Settings) -> tuple[int, Lock]:
    """The first slot that is free and not a directory of somebody else."""
    root = worktree_root(repo, settings)
    deadline = time.monotonic() + settings.check_timeout
    while True:
        foreign = 0
        for number in range(1, SLOTS + 1):
            path = root / f"verify-{number}"
            lock = _lock(repo, number)
            if not lock.try_acquire():
                continue
            if _state(repo, path, _read_record(repo, number)) != "foreign":
                return number, lock
            lock.release()
            foreign += 1
        if foreign == SLOTS or time.monotonic() > deadline:
            raise Busy(
                "no-verification-worktree",
                f"all {SLOTS} verification worktrees in {root} are in use",
                "end the checks that still run there, or set baton.worktreeDir to another folder",
            )
        time.sleep(0.05 * (0.5 + random.random()))


def _ready(
    repo: Repository,
    settings: Settings,
    number: int,
    path: Path,
    commit: str,
    project_dir: str,
    lock: Lock,
) -> None:
    """Bring the slot to ``commit`` and prepare it; the caller holds its lock."""
    record = _read_record(repo, number)
    if record is not None and record.path != str(path):
        old = Path(record.path)
        if _state(repo, old, record) != "foreign":
            worktree.remove(repo, old, force=True, recorded=True)
        record = None
    recipe = _recipe(settings, project_dir)
    if record is None or record.recipe != recipe:
        record = _Record(path=str(path), recipe=recipe)
    record = _check_out(repo, number, path, commit, record)
    if record.commit == commit:
        return
    prepared = prepare_worktree(
        repo,
        path,
        settings,
        project_dir=project_dir,
        log=_record_path(repo, number).with_suffix(".log"),
        keep_open=(lock.fd,),
        verified_at=commit,
    )
    if recipe:
        record = msgspec.structs.replace(record, commit=commit, prepared=prepared)
        _write_record(repo, number, record)


def _check_out(repo: Repository, number: int, path: Path, commit: str, record: _Record) -> _Record:
    """Exactly ``commit`` in ``path``, beside what setup and copy made there before.

    Returns the record as it then is. It is written before anything is made: what is on record may
    be removed, and a preparation that is killed half way does not count as one.
    """
    if _state(repo, path, record) == "whole":
        if record.commit != commit:
            record = msgspec.structs.replace(record, commit="")
        _write_record(repo, number, record)
        try:
            checkout.checkout_detached(path, commit, keep=record.prepared)
            return record
        except BatonError:
            pass  # whatever is wrong with it, a new one is not
    record = msgspec.structs.replace(record, commit="", prepared=())
    _write_record(repo, number, record)
    worktree.remove(repo, path, force=True, recorded=True)
    worktree.add_detached(repo, path, commit)
    return record


def _state(repo: Repository, path: Path, record: _Record | None) -> str:
    """``absent``, ``whole``, ``broken`` (a slot by record, but no whole worktree), ``foreign``."""
    recorded = record is not None and record.path == str(path)
    try:
        if not path.is_symlink() and not os.listdir(path):
            return "absent"
    except FileNotFoundError:
        return "absent"
    except OSError:
        return "foreign"
    if not recorded:
        return "foreign"
    try:
        place = checkout.place_of(path)
    except RepositoryError:
        return "broken" if worktree.is_ours(repo, path, recorded=True) else "foreign"
    if not worktree.is_linked(repo, place):
        return "foreign"
    return "broken" if (place.git_dir / "locked").exists() else "whole"


def _recipe(settings: Settings, project_dir: str) -> str:
    if not settings.setup and not settings.copy:
        return ""
    parts = (settings.setup, settings.copy, project_dir)
    return hashlib.sha256(codec.encode(parts)).hexdigest()


def _lock(repo: Repository, number: int) -> Lock:
    return Lock(repo.baton_dir / "locks" / f"verify-{number}.lock")


def _record_path(repo: Repository, number: int) -> Path:
    return repo.baton_dir / "slots" / f"verify-{number}.json"


def _read_record(repo: Repository, number: int) -> _Record | None:
    try:
        return msgspec.convert(json.loads(_record_path(repo, number).read_bytes()), _Record)
    except (FileNotFoundError, ValueError, msgspec.MsgspecError):
        return None


def _write_record(repo: Repository, number: int, record: _Record) -> None:
    if _read_record(repo, number) == record:
        return
    path = _record_path(repo, number)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    # The json of the standard library also keeps paths that are not UTF-8.
    part.write_text(json.dumps(msgspec.to_builtins(record)))
    part.replace(path)
