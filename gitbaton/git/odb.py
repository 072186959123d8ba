"""The object database: git's raw bytes in and out, by object id.

libgit2's tree builder cannot express a name that is not UTF-8, so trees are read and written as
the bytes they are. A long-lived handle may look for a pack that a repack has removed, and in a
partial clone an object may have to be fetched first: both are settled here, once.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pygit2
from pygit2.enums import ObjectType

from gitbaton.errors import RepositoryError
from gitbaton.git import process
from gitbaton.git.repo import Repository

FILE, EXECUTABLE, SYMLINK, DIRECTORY, SUBMODULE = 0o100644, 0o100755, 0o120000, 0o40000, 0o160000

Entry = tuple[str, int]
"""(oid, mode) of one name in a tree."""
Names = dict[bytes, Entry]
"""What lies directly in a tree."""

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


def write(repo: Repository, kind: ObjectType, data: bytes) -> str:
    """Store an object; returns its id."""
    return stored(lambda: repo.handle.write(kind, data))


def stored(write_object: Callable[[], pygit2.Oid]) -> str:
    """The id of what ``write_object`` stores; a full disk or the like as `RepositoryError`."""
    try:
        return str(write_object())
    except (pygit2.GitError, OSError) as error:
        raise process.storage_error(str(error)) or RepositoryError(
            "write-failed", f"an object could not be stored: {error}"
        ) from error


def names(repo: Repository, tree: str) -> Names:
    """What lies directly in ``tree``."""
    return {
        name: (oid.hex(), int(mode, 8))
        for mode, name, oid in _ENTRY.findall(read(repo, tree, ObjectType.TREE))
    }


def write_tree(repo: Repository, entries: Names) -> str:
    """Store a tree; git sorts directories as if their names ended in ``/``."""
    ordered = sorted(entries.items(), key=lambda item: item[0] + b"/" * (item[1][1] == DIRECTORY))
    lines = (b"%o %s\0%s" % (mode, name, bytes.fromhex(oid)) for name, (oid, mode) in ordered)
    return write(repo, ObjectType.TREE, b"".join(lines))


def tree_id(repo: Repository, commit_or_tree: str) -> str:
    """The tree of a commit; a tree's own id."""
    kind, data = read_any(repo, commit_or_tree)
    if kind == ObjectType.COMMIT:
        return data[5:45].decode()  # a commit begins with "tree " and the id
    if kind == ObjectType.TREE:
        return commit_or_tree
    raise RepositoryError("wrong-object", f"object {commit_or_tree} holds no tree")


def _missing(oid: str, error: Exception) -> RepositoryError:
    if isinstance(error, KeyError):
        return RepositoryError("missing-object", f"object {oid} is missing", "git fsck")
    return RepositoryError("corrupt-repository", f"object {oid}: {error}", "git fsck")
