"""Files, trees and commits, read and written without a process.

The state of a run changes a few times a ticket and must cost about a millisecond, so only the
directories that an edit touches are written, and comparing two trees looks only into what differs.
Paths are text with ``/``; bytes that are not UTF-8 travel as surrogate escapes. Object ids are hex
text, never abbreviated and never interpreted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

import pygit2
from pygit2.enums import ObjectType

from gitbaton.errors import RepositoryError
from gitbaton.git import odb, signing
from gitbaton.git.commit import CommitInfo, read_commit
from gitbaton.git.odb import DIRECTORY, EXECUTABLE, FILE, SUBMODULE, Entry
from gitbaton.git.repo import Repository, clean_name

Edit = bytes | Entry | None
"""New content, an existing object with its mode, or None to delete."""

T = TypeVar("T")


class Change(NamedTuple):
    """One path that differs between two trees; None is absence."""

    path: str
    old: Entry | None
    new: Entry | None


def exists(repo: Repository, oid: str) -> bool:
    """Whether the object is present here."""
    return odb.has(repo, oid)


def read_blob(repo: Repository, oid: str) -> bytes:
    """The content of a blob, fetched by git if this is a partial clone."""
    return odb.read(repo, oid, ObjectType.BLOB)


def write_blob(repo: Repository, data: bytes) -> str:
    """Store ``data``; returns its id."""
    return odb.write(repo, ObjectType.BLOB, data)


def tree_of(repo: Repository, commit_or_tree: str) -> str:
    """The tree of a commit; a tree's own id."""
    known = _known_commits.get(commit_or_tree)
    return known.tree if known else odb.tree_id(repo, commit_or_tree)


def entry_at(repo: Repository, commit_or_tree: str, path: str) -> Entry | None:
    """(oid, mode) of ``path``, which may be a directory; None if there is nothing."""
    found: Entry = (tree_of(repo, commit_or_tree), DIRECTORY)
    for name in os.fsencode(path).split(b"/") if path else ():
        if found[1] != DIRECTORY:
            return None
        below = odb.names(repo, found[0]).get(name)
        if below is None:
            return None
        found = below
    return found


def blob_at(repo: Repository, commit_or_tree: str, path: str) -> bytes | None:
    """The content of the file at ``path``; None if there is no file."""
    return content(repo, entry_at(repo, commit_or_tree, path))


def content(repo: Repository, entry: Entry | None) -> bytes | None:
    """The content of the file that ``entry`` is; None if it is none."""
    if entry is None or entry[1] in (DIRECTORY, SUBMODULE):
        return None
    return read_blob(repo, entry[0])


def list_tree(repo: Repository, commit_or_tree: str, path: str = "") -> list[tuple[str, str, int]]:
    """(name, oid, mode) of what lies directly in the directory ``path``; [] if there is none."""
    entry = entry_at(repo, commit_or_tree, path)
    if entry is None or entry[1] != DIRECTORY:
        return []
    return [(os.fsdecode(name), *below) for name, below in odb.names(repo, entry[0]).items()]


def walk_blobs(repo: Repository, commit_or_tree: str, path: str) -> Iterator[tuple[str, str]]:
    """(path, oid) of every file below the directory ``path``, "" for all of the tree."""
    entry = entry_at(repo, commit_or_tree, path)
    if entry is not None and entry[1] == DIRECTORY:
        for change in _differences(repo, None, entry[0], path and path + "/"):
            if change.new and change.new[1] != SUBMODULE:
                yield change.path, change.new[0]


def files_named(repo: Repository, tree: str, name: str) -> dict[str, str]:
    """Path -> oid of every regular file called ``name``, at any depth of a tree.

    What a subtree holds is remembered for the life of the process, so that a second look at a
    large tree costs only what has changed.
    """
    wanted = os.fsencode(name)

    def below(oid: str) -> tuple[tuple[str, str], ...]:
        known = _found_below.get((oid, wanted))
        if known is None:
            found: list[tuple[str, str]] = []
            for entry, (child, mode) in odb.names(repo, oid).items():
                if mode == DIRECTORY:
                    inside = below(child)
                    if inside:
                        found += [(f"{os.fsdecode(entry)}/{path}", blob) for path, blob in inside]
                elif entry == wanted and mode in (FILE, EXECUTABLE):
                    found.append((name, child))
            known = _found_below[oid, wanted] = tuple(found)
        return known

    return dict(below(tree))


_found_below: dict[tuple[str, bytes], tuple[tuple[str, str], ...]] = {}


def edit_tree(repo: Repository, base_tree: str | None, edits: Mapping[str, Edit]) -> str:
    """A tree with ``edits`` applied to ``base_tree``; writes only the directories touched.

    New content keeps the mode of the file it replaces; a directory that becomes empty goes away.
    """
    nested: _Node = {}
    for path, edit in edits.items():
        *directories, name = os.fsencode(path).split(b"/")
        node = nested
        for directory in directories:
            inner = node.setdefault(directory, {})
            if not isinstance(inner, dict):
                raise ValueError(f"{path!r} lies inside another edited path")
            node = inner
        if isinstance(node.get(name), dict):
            raise ValueError(f"{path!r} holds another edited path")
        node[name] = edit
    return _edited(repo, base_tree, nested) or odb.write_tree(repo, {})


_Node = dict[bytes, "Edit | _Node"]


def _edited(repo: Repository, base: str | None, node: _Node) -> str | None:
    names = dict(odb.names(repo, base)) if base else {}
    for name, edit in node.items():
        before = names.get(name)
        entry: Entry | None
        if isinstance(edit, dict):
            was_directory = before is not None and before[1] == DIRECTORY
            inner = _edited(repo, before[0] if before and was_directory else None, edit)
            if inner is None and before is not None and not was_directory:
                continue  # only deletions below a file: there is nothing to delete
            entry = (inner, DIRECTORY) if inner else None
        elif isinstance(edit, bytes):
            executable = before is not None and before[1] == EXECUTABLE
            entry = (write_blob(repo, edit), EXECUTABLE if executable else FILE)
        else:
            entry = edit
        if entry is None:
            names.pop(name, None)
        else:
            names[name] = entry
    if not names:
        return None
    return odb.write_tree(repo, names)


def commit_info(repo: Repository, oid: str) -> CommitInfo:
    """What the commit ``oid`` says."""
    known = _known_commits.get(oid)
    if known is None:
        known = read_commit(repo, oid)
        odb.remember(_known_commits, oid, known)
    return known


_known_commits: dict[str, CommitInfo] = {}


def create_commit(
    repo: Repository,
    tree: str,
    parents: Sequence[str],
    message: str,
    *,
    author: tuple[str, str],
    when: datetime,
    sign: bool = True,
) -> str:
    """Write a commit and return its id; no ref moves. ``author`` is the committer as well; it is
    signed if the user has every commit signed, unless it is only a copy of something (``sign``).

    Raises `RepositoryError` ``missing-object`` for a tree or a parent that does not exist, and
    `BatonError` ``signing-failed``.
    """
    for oid in (tree, *parents):
        if not exists(repo, oid):
            raise RepositoryError("missing-object", f"a commit needs {oid}: no such object")
    minutes = int((when.utcoffset() or timedelta()).total_seconds() // 60)
    zone = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}{abs(minutes) % 60:02d}"
    name, email = (clean_name(text) for text in author)
    who = f"{name or 'unknown'} <{email}>"
    then = f"{int(when.timestamp())} {zone}"
    lines = [f"tree {tree}", *(f"parent {oid}" for oid in parents)]
    lines += [f"author {who} {then}", f"committer {who} {then}", "", message]
    data = "\n".join(lines).encode(errors="surrogateescape")
    if sign:
        data = signing.signed(repo, data, who)
    return odb.write(repo, ObjectType.COMMIT, data)


def changes(repo: Repository, old: str | None, new: str | None) -> Iterator[Change]:
    """Every path, in tree order, whose object or mode differs between two commits or trees.

    A rename shows as its two paths; None stands for the empty tree.
    """
    yield from _differences(
        repo, tree_of(repo, old) if old else None, tree_of(repo, new) if new else None, ""
    )


def changed_paths(repo: Repository, old: str, new: str) -> list[str]:
    """The paths of `changes`."""
    return [change.path for change in changes(repo, old, new)]


def _differences(
    repo: Repository, old: str | None, new: str | None, prefix: str
) -> Iterator[Change]:
    if old == new:
        return
    before, after = (odb.names(repo, tree) if tree else {} for tree in (old, new))
    for name in sorted({name for name, _ in before.items() ^ after.items()}):
        was, now = before.get(name), after.get(name)
        path = prefix + os.fsdecode(name)
        was_tree = was[0] if was and was[1] == DIRECTORY else None
        now_tree = now[0] if now and now[1] == DIRECTORY else None
        if was_tree or now_tree:
            yield from _differences(repo, was_tree, now_tree, path + "/")
        file_before, file_after = (None if was_tree else was), (None if now_tree else now)
        if file_before or file_after:
            yield Change(path, file_before, file_after)


def added_lines(repo: Repository, old: str, new: str) -> Iterator[tuple[str, int, bytes]]:
    """(path, line number from 1, line without its newline) of each line that ``new`` adds.

    Binary files and files that only moved are left out.
    """
    found = list(changes(repo, old, new))
    gone = {change.old[0] for change in found if change.old and not change.new}
    for path, was, now in found:
        if now is None or now[1] not in (FILE, EXECUTABLE) or now[0] in gone:
            continue
        after = read_blob(repo, now[0])
        if b"\0" in after[:8000]:
            continue
        if was is None or was[1] not in (FILE, EXECUTABLE):
            for number, line in enumerate(after.removesuffix(b"\n").split(b"\n"), 1):
                yield path, number, line
            continue
        read_blob(repo, was[0])  # so that a partial clone has it
        patch = repo.handle[was[0]].peel(pygit2.Blob).diff(repo.handle[now[0]].peel(pygit2.Blob))
        for hunk in patch.hunks:
            for added in hunk.lines:
                if added.origin == "+":
                    yield path, added.new_lineno, added.raw_content.removesuffix(b"\n")


def resolve(repo: Repository, revision: str) -> str | None:
    """The commit that a user's revision names; None if it names none, or several."""
    try:
        return str(repo.handle.revparse_single(revision).peel(pygit2.Commit).id)
    except (KeyError, ValueError, pygit2.GitError):
        return None
