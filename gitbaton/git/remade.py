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
from gitbaton.git.odb import DIRECTORY
from gitbaton.git.repo import Repository


class _Tree(NamedTuple):
    """The entries of a tree as they are written, in git's order, and what they are ordered by."""

    keys: list[bytes]
    lines: list[bytes]

    def put(self, change: Change) -> None:
        """Nothing else may have the name of what is put; if something had, the digest will tell."""
        name = os.fsencode(change.path.rpartition("/")[2])
        if change.new is None:
            gone = change.old is not None and change.old[1] == DIRECTORY
            self._without(name + b"/" if gone else name)
            return
        oid, mode = change.new
        at = self._without(name)
        beside = self._without(name + b"/")
        at, key = (beside, name + b"/") if mode == DIRECTORY else (at, name)
        self.keys.insert(at, key)
        self.lines.insert(at, b"%o %s\0%s" % (mode, name, bytes.fromhex(oid)))

    def _without(self, key: bytes) -> int:
        """The place of ``key``, from which it was taken."""
        at = bisect_left(self.keys, key)
        if at < len(self.keys) and self.keys[at] == key:
            del self.keys[at], self.lines[at]
        return at


_ENTRY = re.compile(rb"((\d+) ([^\0/]+)\0.{20})", re.DOTALL)
_MODES = frozenset((b"100644", b"100755", b"120000", b"160000", b"40000"))
"""All that git writes today; it shows others, such as 100664 in very old trees, as one of these."""

_MOST = 1 << 16  # lines that are remembered


class Remade:
    """Trees that were found to be what their ids say."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self._known: dict[str, _Tree] = {}
        self._count = 0

    def require(
        self, before: str | None, after: str, files: Iterable[Change], trees: Iterable[Change]
    ) -> None:
        """Raise `RepositoryError` unless the changes of ``files`` and of ``trees``, the directories
        on the way to them, are all that there is between ``before`` and ``after``."""
        inside: dict[str, list[Change]] = defaultdict(list)
        for change in (*trees, *files):
            inside[change.path.rpartition("/")[0]].append(change)
        self._require(before, after, inside[""])
        for path, old, new in trees:
            if new and new[1] == DIRECTORY:
                had = old[0] if old and old[1] == DIRECTORY else None
                self._require(had, new[0], inside[path])

    def _require(self, before: str | None, after: str, changes: Iterable[Change]) -> None:
        was = self._read(before) if before else _Tree([], [])
        if after not in self._known:
            made = _Tree(*map(list.copy, was))
            for change in changes:
                made.put(change)
            self._remember(after, made)

    def _read(self, tree: str) -> _Tree:
        if tree not in self._known:
            entries = _ENTRY.findall(odb.read(self._repo, tree, ObjectType.TREE))
            names = {name for *_, name in entries}
            keys = [name + b"/" * (mode == b"40000") for _, mode, name in entries]
            is_plain = _MODES.issuperset(mode for _, mode, _ in entries)
            if len(names) != len(keys) or sorted(keys) != keys or not is_plain:
                raise _odd(tree)
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


def _odd(tree: str) -> RepositoryError:
    return RepositoryError("corrupt-repository", f"tree {tree} is not as git writes it", "git fsck")
