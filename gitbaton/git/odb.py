"""The object database: git's raw bytes in and out, by object id.

libgit2's tree builder cannot express a name that is not UTF-8, so trees are read and written as
the bytes they are. A long-lived handle may look for a pack that a repack has removed, and in a
partial clone an object may have to be fetched first: both are settled here, once.

libgit2 syncs one object after the other, each with its name, and holds Python's lock while it
waits. `batch` stages loose objects as git would write them and syncs them together, so that other
threads go on and the names of all cost little more than the name of one.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from typing import NamedTuple, TypeVar

import pygit2
from pygit2.enums import ObjectType

from gitbaton.errors import RepositoryError
from gitbaton.git import process
from gitbaton.git.repo import Repository

T = TypeVar("T")

FILE, EXECUTABLE, SYMLINK, DIRECTORY, SUBMODULE = 0o100644, 0o100755, 0o120000, 0o40000, 0o160000

_MODES = {b"%o" % mode: mode for mode in (FILE, EXECUTABLE, SYMLINK, DIRECTORY, SUBMODULE)}

Entry = tuple[str, int]
"""(oid, mode) of one name in a tree."""
Names = dict[bytes, Entry]
"""What lies directly in a tree."""

_OPEN = 64
"""How many files are open at once while they are synced."""

_TRIES = 5
"""How often an object is given its name while a gc removes directories under it."""

_ENTRY = re.compile(rb"(\d+) ([^\0]+)\0(.{20})", re.DOTALL)
_TYPES = {ObjectType.COMMIT: "commit", ObjectType.TREE: "tree", ObjectType.BLOB: "blob"}
_KINDS = {name.encode(): kind for kind, name in _TYPES.items()} | {b"tag": ObjectType.TAG}


def read(repo: Repository, oid: str, expected: ObjectType) -> bytes:
    """The content of an object of the ``expected`` type."""
    kind, data = read_any(repo, oid)
    if kind != expected:
        raise RepositoryError("wrong-object", f"object {oid} is not a {_TYPES[expected]}")
    return data


def read_any(repo: Repository, oid: str) -> tuple[int, bytes]:
    """(type, content) of an object; `RepositoryError` ``missing-object`` if it is not to be had."""
    staged = getattr(repo.local, "staged", None)
    if staged and oid in staged:
        return staged[oid].kind, staged[oid].data
    try:
        key = pygit2.Oid(hex=oid)
    except ValueError as error:
        raise _missing(oid, error) from error
    loose = _loose(repo, oid)
    if loose is not None:
        return loose
    try:
        return repo.handle.odb.read(key)
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


def _loose(repo: Repository, oid: str) -> tuple[int, bytes] | None:
    """An object that has a file of its own. libgit2 1.9 never returns from reading one that was cut
    off, as a crash may leave it (libgit2 issue 7342)."""
    for folder in dict.fromkeys((repo.objects_dir, *_folders(f"{repo.common_dir}/objects"))):
        place = f"{folder}/{oid[:2]}"
        if oid[2:] not in _names_in(place):
            continue
        try:
            with open(f"{place}/{oid[2:]}", "rb") as file:
                data = zlib.decompress(file.read())
        except FileNotFoundError:
            continue
        except (zlib.error, OSError) as error:
            return _packed(folder, oid, error)
        head, _, content = data.partition(b"\0")
        word, _, size = head.partition(b" ")
        is_whole = word in _KINDS and size == b"%d" % len(content)
        if not is_whole or hashlib.sha1(data, usedforsecurity=False).hexdigest() != oid:
            return _packed(folder, oid, ValueError("its content is not what its id says"))
        return _KINDS[word], content
    return None


def _packed(folder: str, oid: str, error: Exception) -> tuple[int, bytes]:
    """The same object in a pack, where git looks first, since its own file is no good."""
    packs = pygit2.Odb()
    packs.add_backend(pygit2.OdbBackendPack(folder), 1)
    try:
        return packs.read(pygit2.Oid(hex=oid))
    except (pygit2.GitError, KeyError):
        raise _missing(oid, error) from error


@cache
def _folders(objects: str) -> tuple[str, ...]:
    """Where git looks for objects: there, and in what is named as an alternate."""
    found = [objects]
    for folder in found:
        with suppress(OSError), open(f"{folder}/info/alternates", "rb") as file:
            lines = os.fsdecode(file.read()).splitlines()
            named = (os.path.realpath(os.path.join(folder, line)) for line in lines)
            found += [each for each in named if each not in found]
    return tuple(found)


@cache
def _names_in(folder: str) -> frozenset[str]:
    """The loose objects in a directory, as they were when somebody first asked: what has been
    written since then was not cut off."""
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()


def has(repo: Repository, oid: str) -> bool:
    """Whether the object is present here, or staged by this thread."""
    if oid in _staged(repo) or _loose(repo, oid):
        return True
    try:
        return pygit2.Oid(hex=oid) in repo.handle
    except ValueError:  # no object id at all
        return False


def write(repo: Repository, kind: ObjectType, data: bytes) -> str:
    """Store an object; returns its id. Inside a `batch` it is visible to this thread only, until
    the batch ends."""
    if getattr(repo.local, "staged", None) is None:
        return stored(lambda: repo.handle.write(kind, data))
    whole = b"%s %d\0%s" % (_TYPES[kind].encode(), len(data), data)
    oid = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    final = f"{repo.objects_dir}/{oid[:2]}/{oid[2:]}"
    # Looking into the packs as well would cost more than a second copy, which a gc removes.
    if oid not in _staged(repo) and not os.path.exists(final):
        _staged(repo)[oid] = _stage(final, kind, data, whole)
    return oid


@contextmanager
def batch(repo: Repository, *, durable: bool = True) -> Iterator[None]:
    """What this thread writes inside becomes durable, and visible to others, when it ends; after an
    exception it never was. Objects come before any ref that needs them, so end it first. Without
    ``durable`` they are to be synced by the caller before any ref needs them."""
    if getattr(repo.local, "staged", None) is not None or repo.is_shared:
        yield
        return
    staged: dict[str, _Staged] = {}
    repo.local.staged = staged
    published = False
    try:
        yield
        _publish(list(staged.values()), durable and process.fsync_enabled())
        published = True
    except OSError as error:
        raise process.storage_error(str(error)) or RepositoryError(
            "write-failed", f"an object could not be stored: {error}"
        ) from error
    finally:
        repo.local.staged = None
        for item in () if published else staged.values():
            with suppress(FileNotFoundError):
                os.unlink(item.temporary)


class _Staged(NamedTuple):
    """A loose object that lies under a temporary name, complete but not synced."""

    kind: int
    data: bytes
    temporary: str
    final: str


def _staged(repo: Repository) -> dict[str, _Staged]:
    found: dict[str, _Staged] | None = getattr(repo.local, "staged", None)
    return {} if found is None else found


def _stage(final: str, kind: int, data: bytes, whole: bytes) -> _Staged:
    # git's own gc knows this name and removes what a kill leaves behind.
    temporary = f"{final[:-41]}tmp_obj_{secrets.token_hex(8)}"
    with open(temporary, "xb", 0, opener=_read_only) as file:
        file.write(zlib.compress(whole, 1))
    return _Staged(kind, data, temporary, final)


def _read_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o444)


def _publish(staged: list[_Staged], durable: bool) -> None:
    """Sync the contents, then give them their names.

    The names are made durable by what comes next, a ref that is synced with its directory: a
    journaling file system keeps the order of names. git goes by the same rule.
    """
    if durable:
        sync_files([item.temporary for item in staged])
    for item in staged:
        _give_name(item)


def _give_name(item: _Staged) -> None:
    for _ in range(_TRIES):
        try:
            os.replace(item.temporary, item.final)
            return
        except FileNotFoundError:  # no such directory yet, or gc has removed it as empty
            with suppress(FileExistsError):
                os.mkdir(os.path.dirname(item.final))
    os.replace(item.temporary, item.final)


def sync_files(paths: Sequence[str]) -> list[str]:
    """Sync the contents of ``paths``; returns those that do not exist.

    The system is first told to begin writing each, so that the disk settles them in one go.
    """
    missing = []
    for at in range(0, len(paths), _OPEN):
        with ExitStack() as opened:
            fds = []
            for path in paths[at : at + _OPEN]:
                try:
                    fd = os.open(path, os.O_RDONLY)
                except FileNotFoundError:
                    missing.append(path)
                    continue
                opened.callback(os.close, fd)
                fds.append(fd)
            if sys.platform == "linux":
                for fd in fds:
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            for fd in fds:
                os.fsync(fd)
    return missing


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
            name: (oid.hex(), _MODES.get(mode) or int(mode, 8))
            for mode, name, oid in _ENTRY.findall(read(repo, tree, ObjectType.TREE))
        }
        _remember_names(tree, found)
    return found


def remember(known: dict[str, T], oid: str, what: T) -> None:
    """Keep what an object says: it never changes."""
    if len(known) >= _MOST_KNOWN:
        known.clear()
    known[oid] = what


def _remember_names(tree: str, entries: Names) -> None:
    """The same for a tree, which may be large: what counts is how many names are kept in all."""
    _known_count[0] += len(entries)
    if _known_count[0] > _MOST_NAMES:
        _known_names.clear()
        _known_count[0] = len(entries)
    _known_names[tree] = entries


_known_names: dict[str, Names] = {}
_known_count = [0]
_known_trees: dict[str, str] = {}  # of commits
_MOST_KNOWN = 16_384
_MOST_NAMES = 131_072


def write_tree(repo: Repository, entries: Names) -> str:
    """Store a tree; git sorts directories as if their names ended in ``/``."""
    ordered = sorted(entries.items(), key=lambda item: item[0] + b"/" * (item[1][1] == DIRECTORY))
    lines = (b"%o %s\0%s" % (mode, name, bytes.fromhex(oid)) for name, (oid, mode) in ordered)
    tree = write(repo, ObjectType.TREE, b"".join(lines))
    _remember_names(tree, entries)
    return tree


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
    tree = data[5:45].decode()  # "tree " and the id
    remember(_known_trees, commit_or_tree, tree)
    return tree


def _missing(oid: str, error: Exception) -> RepositoryError:
    if isinstance(error, KeyError):
        return RepositoryError("missing-object", f"object {oid} is missing", "git fsck")
    return RepositoryError("corrupt-repository", f"object {oid}: {error}", "git fsck")
