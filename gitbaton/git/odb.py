"""The object database: git's raw bytes in and out, by object id.

libgit2's tree builder cannot express a name that is not UTF-8, so trees are read and written as
the bytes they are. A long-lived handle may look for a pack that a repack has removed, and in a
partial clone an object may have to be fetched first: both are settled here, once.

libgit2 syncs one object after the other (and holds Python's lock while it waits), which makes a
transition of ten objects cost ten times the latency of the disk. `batch` stages loose objects as
git would write them and syncs them side by side.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pygit2
from pygit2.enums import ObjectType

from gitbaton.errors import RepositoryError
from gitbaton.git import process
from gitbaton.git.repo import Repository

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

FILE, EXECUTABLE, SYMLINK, DIRECTORY, SUBMODULE = 0o100644, 0o100755, 0o120000, 0o40000, 0o160000

Entry = tuple[str, int]
"""(oid, mode) of one name in a tree."""
Names = dict[bytes, Entry]
"""What lies directly in a tree."""

_WRITERS = 8
"""How many objects of a batch are synced at once."""

_TRIES = 5
"""How often an object is given its name while a gc removes directories under it."""

_ENTRY = re.compile(rb"(\d+) ([^\0]+)\0(.{20})", re.DOTALL)
_TYPES = {ObjectType.COMMIT: "commit", ObjectType.TREE: "tree", ObjectType.BLOB: "blob"}


def read(repo: Repository, oid: str, expected: ObjectType) -> bytes:
    """The content of an object of the ``expected`` type."""
    kind, data = read_any(repo, oid)
    if kind != expected:
        raise RepositoryError("wrong-object", f"object {oid} is not a {_TYPES[expected]}")
    return data


def read_any(repo: Repository, oid: str) -> tuple[int, bytes]:
    """(type, content) of an object; `RepositoryError` ``missing-object`` if it is not to be had."""
    staged = _staged(repo).get(oid)
    if staged is not None:
        return staged.kind, staged.data
    key = pygit2.Oid(hex=oid)
    try:
        return repo.handle.read(key)
    except (pygit2.GitError, OSError):
        pass
    try:  # a repack may have removed the pack under the handle
        return repo.reopen().read(key)
    except (pygit2.GitError, OSError) as error:
        if repo.is_partial:
            process.git(["cat-file", "-e", oid], repo.common_dir, check=False)
            try:
                return repo.reopen().read(key)
            except (pygit2.GitError, OSError):
                pass
        raise _missing(oid, error) from error


def has(repo: Repository, oid: str) -> bool:
    """Whether the object is present here, or staged by this thread."""
    return oid in _staged(repo) or pygit2.Oid(hex=oid) in repo.handle


def write(repo: Repository, kind: ObjectType, data: bytes) -> str:
    """Store an object; returns its id. Inside a `batch` it is visible to this thread only, until
    the batch ends."""
    if getattr(repo.local, "staged", None) is None:
        return stored(lambda: repo.handle.write(kind, data))
    whole = b"%s %d\0%s" % (_TYPES[kind].encode(), len(data), data)
    oid = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    if not has(repo, oid):
        _staged(repo)[oid] = _stage(_objects_dir(repo), oid, kind, data, whole)
    return oid


@contextmanager
def batch(repo: Repository) -> Iterator[None]:
    """What this thread writes inside becomes durable, and visible to others, when it ends; after an
    exception it never was. Objects come before any ref that needs them, so end it first."""
    if getattr(repo.local, "staged", None) is not None or _is_shared(repo):
        yield
        return
    staged: dict[str, _Staged] = {}
    repo.local.staged = staged
    try:
        yield
        _publish(list(staged.values()))
    except OSError as error:
        raise process.storage_error(str(error)) or RepositoryError(
            "write-failed", f"an object could not be stored: {error}"
        ) from error
    finally:
        repo.local.staged = None
        for item in staged.values():
            item.temporary.unlink(missing_ok=True)


class _Staged(NamedTuple):
    """A loose object that lies under a temporary name, complete but not synced."""

    kind: int
    data: bytes
    temporary: Path
    final: Path


def _staged(repo: Repository) -> dict[str, _Staged]:
    found: dict[str, _Staged] | None = getattr(repo.local, "staged", None)
    return {} if found is None else found


def _stage(directory: Path, oid: str, kind: int, data: bytes, whole: bytes) -> _Staged:
    # git's own gc knows this name and removes what a kill leaves behind.
    temporary = directory / f"tmp_obj_{secrets.token_hex(8)}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
    with os.fdopen(fd, "wb") as file:
        file.write(zlib.compress(whole, 1))
    return _Staged(kind, data, temporary, directory / oid[:2] / oid[2:])


def _publish(staged: list[_Staged]) -> None:
    """Sync all, then give them their names, then sync the names."""
    durable = process.fsync_enabled()
    if durable:
        _sync_all(item.temporary for item in staged)
    for item in staged:
        _give_name(item)
    if durable:
        directories = {item.final.parent for item in staged}
        # One that is gone by now was emptied by a gc, into a pack that it has synced.
        _sync_all(directories, gone=True)
        _sync_all({directory.parent for directory in directories})


def _give_name(item: _Staged) -> None:
    for _ in range(_TRIES):
        try:
            os.replace(item.temporary, item.final)
            return
        except FileNotFoundError:  # no such directory yet, or gc has removed it as empty
            item.final.parent.mkdir(exist_ok=True)
    os.replace(item.temporary, item.final)


def _sync_all(paths: Iterable[Path], *, gone: bool = False) -> None:
    """Sync files or directories side by side: the disk settles them in one go. With ``gone`` they
    may cease to exist."""
    list(_syncers().map(lambda path: _sync(path, gone), paths))


def _sync(path: Path, gone: bool) -> None:
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        if gone:
            return
        raise
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@functools.cache
def _syncers() -> ThreadPoolExecutor:
    """Threads that wait for the disk; made at the first need, for who only reads has none."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(_WRITERS, "sync")


def _objects_dir(repo: Repository) -> Path:
    given = os.environ.get("GIT_OBJECT_DIRECTORY")
    return Path(given) if given else repo.common_dir / "objects"


def _is_shared(repo: Repository) -> bool:
    """Whether files must get other permissions than the umask's, which libgit2 knows how to do."""
    value: str | None = getattr(repo.local, "shared", None)
    if value is None:
        value = repo.config_get("core.sharedRepository") or "umask"
        repo.local.shared = value
    return value.lower() not in ("umask", "false", "0", "no", "off")


def stored(write_object: Callable[[], pygit2.Oid]) -> str:
    """The id of what ``write_object`` stores; a full disk or the like as `RepositoryError`."""
    for last in (False, False, True):
        try:
            return str(write_object())
        except (pygit2.GitError, OSError) as error:
            # A gc removes directories of loose objects as it empties them, also one that is just
            # about to get an object; writing it once more makes the directory again.
            full = process.storage_error(str(error))
            if full or last:
                raise full or RepositoryError(
                    "write-failed", f"an object could not be stored: {error}"
                ) from error
    raise AssertionError("unreachable")


def names(repo: Repository, tree: str) -> Names:
    """What lies directly in ``tree``; not to be changed, since it is remembered: the same few trees
    are asked for again and again."""
    found = _known_names.get(tree)
    if found is None:
        found = {
            name: (oid.hex(), int(mode, 8))
            for mode, name, oid in _ENTRY.findall(read(repo, tree, ObjectType.TREE))
        }
        if len(_known_names) >= _MOST_KNOWN:
            _known_names.clear()
        _known_names[tree] = found
    return found


_known_names: dict[str, Names] = {}
_known_trees: dict[str, str] = {}  # of commits
_MOST_KNOWN = 1024


def write_tree(repo: Repository, entries: Names) -> str:
    """Store a tree; git sorts directories as if their names ended in ``/``."""
    ordered = sorted(entries.items(), key=lambda item: item[0] + b"/" * (item[1][1] == DIRECTORY))
    lines = (b"%o %s\0%s" % (mode, name, bytes.fromhex(oid)) for name, (oid, mode) in ordered)
    return write(repo, ObjectType.TREE, b"".join(lines))


def tree_id(repo: Repository, commit_or_tree: str) -> str:
    """The tree of a commit; a tree's own id."""
    if commit_or_tree in _known_names:
        return commit_or_tree
    known = _known_trees.get(commit_or_tree)
    if known is not None:
        return known
    kind, data = read_any(repo, commit_or_tree)
    if kind == ObjectType.TREE:
        return commit_or_tree
    if kind != ObjectType.COMMIT:
        raise RepositoryError("wrong-object", f"object {commit_or_tree} holds no tree")
    if len(_known_trees) >= _MOST_KNOWN:
        _known_trees.clear()
    tree = _known_trees[commit_or_tree] = data[5:45].decode()  # "tree " and the id
    return tree


def _missing(oid: str, error: Exception) -> RepositoryError:
    if isinstance(error, KeyError):
        return RepositoryError("missing-object", f"object {oid} is missing", "git fsck")
    return RepositoryError("corrupt-repository", f"object {oid}: {error}", "git fsck")
