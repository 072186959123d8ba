"""Trees made again from the tree before and what `git log` says has changed.

git log reads trees without looking at their digests, and there are trees of which it does not tell
all: odd modes look like others, a name that stands twice like nothing. If the tree that was and the
changes come to the digest of the tree that is, nothing was hidden. That takes less time than
reading each tree.
"""

from __future__ import annotations

import hashlib
import os
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from pygit2.enums import ObjectType

from gitbaton.errors import RepositoryError
from gitbaton.git import odb
from gitbaton.git.objects import Change
from gitbaton.git.odb import DIRECTORY, Entry
from gitbaton.git.repo import Repository


class _Tree(NamedTuple):
    """The entries of a tree as they are written, in git's order, and what they are ordered by."""

    keys: list[bytes]
    lines: list[bytes]

    def drop(self, key: bytes) -> None:
        at = bisect_left(self.keys, key)
        if at < len(self.keys) and self.keys[at] == key:
            del self.keys[at], self.lines[at]

    def add(self, key: bytes, entry: Entry) -> None:
        oid, mode = entry
        name = key.removesuffix(b"/")
        self.drop(name)  # nothing else may have the name: if something had, the digest will differ
        self.drop(name + b"/")
        at = bisect_left(self.keys, key)
        self.keys.insert(at, key)
        self.lines.insert(at, b"%o %s\0%s" % (mode, name, bytes.fromhex(oid)))


_ENTRY = re.compile(rb"((\d+) ([^\0]+)\0.{20})", re.DOTALL)
_MODES = frozenset((b"100644", b"100755", b"120000", b"160000", b"40000"))
"""All that git writes today; it shows others, such as 100664 in very old trees, as one of these."""

_MOST = 1 << 18  # lines that are remembered


class Remade:
    """Trees that were found to be what their ids say."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self._known: dict[str, _Tree] = {}
        self._count = 0

    def require(self, before: str | None, after: str, changes: Iterable[Change]) -> None:
        """Raise `RepositoryError` unless ``changes`` to ``before``, those of directories among
        them, are all that there is between it and ``after``."""
        inside: dict[str, list[Change]] = defaultdict(list)
        trees: list[tuple[str, str | None, str | None]] = [("", before, after)]
        for change in changes:
            inside[change.path.rpartition("/")[0]].append(change)
            if any(entry and entry[1] == DIRECTORY for entry in change[1:]):
                trees.append((change.path, _directory(change.old), _directory(change.new)))
        for path, old, new in trees:
            if new is not None and new not in self._known:
                made = _Tree(*map(list.copy, self._read(old))) if old else _Tree([], [])
                for change in inside[path]:
                    if change.old:
                        made.drop(_key(change, change.old))
                for change in inside[path]:
                    if change.new:
                        made.add(_key(change, change.new), change.new)
                self._remember(new, made)

    def _read(self, tree: str) -> _Tree:
        if tree not in self._known:
            entries = _ENTRY.findall(odb.read(self._repo, tree, ObjectType.TREE))
            names = {name for *_, name in entries}
            if len(names) != len(entries) or not _MODES.issuperset(mode for _, mode, _ in entries):
                raise _odd(tree)
            keys = [name + b"/" * (mode == b"40000") for _, mode, name in entries]
            self._remember(tree, _Tree(keys, [line for line, *_ in entries]))
        return self._known[tree]

    def _remember(self, tree: str, made: _Tree) -> None:
        data = b"".join(made.lines)
        if hashlib.sha1(b"tree %d\0%s" % (len(data), data)).hexdigest() != tree:
            raise _odd(tree)
        self._count += len(made.lines)
        if self._count > _MOST:
            self._known.clear()
            self._count = len(made.lines)
        self._known[tree] = made


def _key(change: Change, entry: Entry) -> bytes:
    """git sorts directories as if their names ended in ``/``."""
    return os.fsencode(change.path.rpartition("/")[2]) + b"/" * (entry[1] == DIRECTORY)


def _directory(entry: Entry | None) -> str | None:
    return entry[0] if entry and entry[1] == DIRECTORY else None


def _odd(tree: str) -> RepositoryError:
    return RepositoryError("corrupt-repository", f"tree {tree} is not as git writes it", "git fsck")
