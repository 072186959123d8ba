"""What git-baton itself writes into a plan's tasks file when it merges.

Integration writes it, and whoever verifies a merge computes the same text again; so both have it
from here. The file belongs to people: only marks of boxes are ever set.
"""

from __future__ import annotations

from collections.abc import Collection

from gitbaton.git import ancestry, objects
from gitbaton.git.repo import Repository
from gitbaton.model.plan import Unit
from gitbaton.plan import openspec, tasksmd, write


class TreeFolder:
    """A folder of a commit, as `plan.openspec` reads folders."""

    def __init__(self, repo: Repository, commit: str) -> None:
        self._repo = repo
        self._commit = commit

    def read(self, path: str) -> bytes | None:
        return objects.blob_at(self._repo, self._commit, path)

    def list(self, path: str) -> list[str]:
        return [entry[0] for entry in objects.list_tree(self._repo, self._commit, path)]


def tasks_path(repo: Repository, commit: str, folder: str) -> str:
    """The tasks file of the change in ``folder``, as a path in the tree of ``commit``."""
    return openspec.tasks_path(TreeFolder(repo, commit), folder)


def ticked_keys(text: bytes, unit: Unit | None = None) -> frozenset[str]:
    """The tickets of a tasks file whose boxes are ticked."""
    return frozenset(t.key for t in tasksmd.read(text, unit=unit).tickets if t.mark == "done")


def same_but_for_ticks(repo: Repository, tree: str, other: str, tasks: str) -> bool:
    """Whether two trees differ in nothing but markers of the tasks file."""
    if tree == other:
        return True
    if objects.changed_paths(repo, other, tree) != [tasks]:
        return False
    ours, theirs = (objects.blob_at(repo, each, tasks) for each in (tree, other))
    return ours is not None and theirs is not None and write.marks_only_difference(ours, theirs)


def ticked_text(
    repo: Repository, tree: str, tasks: str, keys: Collection[str], unit: Unit | None
) -> bytes | None:
    """The tasks file of ``tree`` with the boxes of ``keys`` ticked, unknown keys ignored; None if
    there is no such file."""
    text = objects.blob_at(repo, tree, tasks)
    return None if text is None else write.carry_ticks(text, keys, unit=unit)


def met_text(
    repo: Repository,
    ours: str,
    theirs: str,
    tasks: str,
    resolved: Collection[str],
    unit: Unit | None,
) -> bytes | None:
    """The tasks file that belongs there when a person's branch (commit ``theirs``) meets
    git-baton's ticks (commit ``ours``): the person's text if it was changed on their side, with
    every box ticked that is ticked there by hand or whose ticket is ``resolved``."""
    base = ancestry.merge_base(repo, ours, theirs)
    own = objects.blob_at(repo, ours, tasks)
    person = objects.blob_at(repo, theirs, tasks)
    before = objects.blob_at(repo, base, tasks) if base else None
    if person is None or person == before:
        text = own
    elif own is not None and before is not None and write.marks_only_difference(person, before):
        text = write.carry_ticks(own, ticked_keys(person), unit=unit)
    else:
        text = person
    return None if text is None else write.carry_ticks(text, resolved, unit=unit)


def with_text(repo: Repository, tree: str, tasks: str, text: bytes | None) -> str:
    """``tree`` with ``text`` as its tasks file; as it is, if there is none."""
    if text is None or text == objects.blob_at(repo, tree, tasks):
        return tree
    return objects.edit_tree(repo, tree, {tasks: text})
