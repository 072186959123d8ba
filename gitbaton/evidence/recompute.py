"""Computing merges again, exactly as integration made them, to see whether a recorded one is true.

Nothing is written to the repository that is judged: what git makes goes to a temporary object
directory. Starting git costs more than a merge, so whoever knows what will be asked says so first
(`Recomputer.prepare`), and all of it is one process.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from gitbaton.errors import RepositoryError
from gitbaton.git import merge, objects
from gitbaton.git.merge import Asked
from gitbaton.git.overlay import Overlay, overlay
from gitbaton.git.repo import Repository

_AT_ONCE = 1000  # merges of one git process: it keeps what it has read


class Recomputer:
    """Merges of commits of a repository; a context manager. ``repo`` sees the results, which lie in
    a temporary directory in ``objects_in`` (default: the system's) until the end."""

    def __init__(self, repo: Repository, *, objects_in: Path | None = None) -> None:
        self._beneath = repo
        self._folder = objects_in
        self._stack = ExitStack()
        self._known: dict[Asked, str | RepositoryError | None] = {}
        self.repo: Overlay

    def __enter__(self) -> Self:
        self.repo = self._stack.enter_context(overlay(self._beneath, self._folder))
        scratch = tempfile.TemporaryDirectory(prefix="baton-merge-", dir=self._folder)
        self._scratch = Path(self._stack.enter_context(scratch))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def prepare(self, asked: Iterable[Asked]) -> None:
        """Make these merges now. What cannot be made is raised when it is asked for."""
        wanted = [each for each in dict.fromkeys(asked) if each not in self._known]
        for at in range(0, len(wanted), _AT_ONCE):
            some = wanted[at : at + _AT_ONCE]
            try:
                trees = merge.merge_trees(self.repo, some, self._scratch)
            except RepositoryError:  # at least one of them cannot be made
                self._known.update({each: self._alone(each) for each in some})
            else:
                self._known.update(zip(some, trees, strict=True))

    def merged(self, ours: str, theirs: str, keep: Sequence[str] = ()) -> str | None:
        """The tree of commit ``theirs`` merged into commit ``ours``, where the files ``keep`` stay
        as they are in ``ours``; None for a conflict. Raises `RepositoryError` as `merge.merge`."""
        asked = Asked(ours, theirs, tuple(keep))
        self.prepare([asked])
        found = self._known[asked]
        if isinstance(found, RepositoryError):
            raise found
        return found

    def differences(self, tree: str, other: str) -> list[str]:
        """The paths in which two trees differ, computed ones or not."""
        return objects.changed_paths(self.repo, tree, other)

    def recipe(self) -> dict[str, str]:
        """All that merges depend on here, beside their commits."""
        return merge.merge_recipe(self._beneath)

    def _alone(self, asked: Asked) -> str | RepositoryError | None:
        try:
            ours, theirs, keep = asked
            made = merge.merge(self.repo, ours, theirs, keep=keep, workspace=self._scratch)
        except RepositoryError as error:
            return error
        return made.tree
