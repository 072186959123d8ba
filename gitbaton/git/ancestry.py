"""What descends from what.

Of states, only first parents count: a rewritten chain can name the old tip as a further parent, and
then passes git's own test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

import pygit2

from gitbaton.errors import RepositoryError
from gitbaton.git.commit import CommitInfo
from gitbaton.git.objects import commit_info
from gitbaton.git.repo import Repository

T = TypeVar("T")

_NEAR = 8  # first parents


def is_ancestor(repo: Repository, ancestor: str, descendant: str) -> bool:
    """Whether ``descendant`` is ``ancestor`` or has it in its history."""
    if ancestor == descendant or is_near(repo, ancestor, descendant):
        return True
    return _graph(repo, lambda handle: handle.descendant_of(descendant, ancestor))


def is_near(repo: Repository, ancestor: str, descendant: str) -> bool:
    """Whether a few first parents lead from one commit to the other. By far most often they do, and
    libgit2 may look at all that is as old."""
    try:
        near = islice(first_parent_chain(repo, descendant, ancestor), _NEAR)
        return any(ancestor in info.parents for info in near)
    except RepositoryError as error:
        if error.code == "corrupt-repository":
            raise
        return False


def merge_base(repo: Repository, a: str, b: str) -> str | None:
    """A best common ancestor, or None for unrelated histories."""
    found = _graph(repo, lambda handle: handle.merge_base(a, b))
    return str(found) if found else None


def first_parent_chain(repo: Repository, tip: str, until: str | None) -> Iterator[CommitInfo]:
    """Commits from ``tip`` down by first parents, without ``until``; to the root if not met."""
    oid: str | None = tip
    while oid is not None and oid != until:
        info = commit_info(repo, oid)
        yield info
        oid = info.parents[0] if info.parents else None


def _graph(repo: Repository, question: Callable[[pygit2.Repository], T]) -> T:
    """Ask about ancestry, once more on a new handle if packs vanished."""
    try:
        return question(repo.handle)
    except pygit2.GitError:
        pass
    try:
        return question(repo.reopen())
    except pygit2.GitError as error:
        raise RepositoryError("missing-object", str(error), "git fsck") from error
