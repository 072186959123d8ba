"""Making what git wrote survive a power loss.

git syncs neither objects nor refs unless it is told to, and a worker's git is told nothing; so
before a state speaks of a commit, its objects are synced here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pygit2
from pygit2.enums import SortMode

from gitbaton.git import objects, odb, process
from gitbaton.git.odb import DIRECTORY, SUBMODULE
from gitbaton.git.repo import Repository


def sync_objects(repo: Repository, tip: str, exclude: str) -> None:
    """Make the objects of ``exclude..tip`` survive a power loss.

    What git writes, for a worker or for us, is not synced by default; a file already on disk costs
    little to sync again.
    """
    if process.fsync_enabled():
        walker = repo.handle.walk(pygit2.Oid(hex=tip), SortMode.NONE)
        walker.hide(pygit2.Oid(hex=exclude))
        sync_commits(repo, [str(commit.id) for commit in walker])


def sync_commits(repo: Repository, commits: Iterable[str]) -> None:
    """The same for ``commits``, with what each has beyond its first parent."""
    if not process.fsync_enabled():
        return
    folder = f"{repo.common_dir}/objects"
    oids = dict.fromkeys(oid for commit in commits for oid in _new_objects(repo, commit))
    if odb.sync_files([f"{folder}/{oid[:2]}/{oid[2:]}" for oid in oids]):
        with os.scandir(f"{folder}/pack") as listing:  # those that are missing are packed
            odb.sync_files([item.path for item in listing])


def _new_objects(repo: Repository, commit: str) -> Iterator[str]:
    yield commit
    info = objects.commit_info(repo, commit)
    old = odb.tree_id(repo, info.parents[0]) if info.parents else None
    yield from _new_below(repo, old, info.tree)


def _new_below(repo: Repository, old: str | None, new: str) -> Iterator[str]:
    if old == new:
        return
    yield new
    before = odb.names(repo, old) if old else {}
    for name, (oid, mode) in odb.names(repo, new).items():
        was = before.get(name)
        if mode == DIRECTORY:
            yield from _new_below(repo, was[0] if was and was[1] == DIRECTORY else None, oid)
        elif mode != SUBMODULE and (was is None or was[0] != oid):
            yield oid
