"""Whether a worktree is as git left it, seen without starting git.

Most worktrees that are looked at hold just what was checked out or committed there, and libgit2
says so in a fraction of the time that a process takes. What it does not judge by the bytes, or may
judge otherwise than git, counts as changed here: then git is asked, which decides.
"""

from __future__ import annotations

import os

import pygit2
from pygit2.enums import DiffOption

from gitbaton.git.odb import SUBMODULE
from gitbaton.git.repo import Repository

_MOST = 2_000
"""Files up to which this is quicker than git, which looks at many of them side by side."""

_TOLERANT = ("core.attributesfile", "core.autocrlf", "core.ignorestat", "core.trustctime")
"""Settings by which other bytes may pass for the same."""

_OTHERS = DiffOption.INCLUDE_UNTRACKED | DiffOption.INCLUDE_IGNORED


def holds_only(place: Repository, tree: pygit2.Tree) -> bool:
    """Whether the worktree holds ``tree``, and beside it no file or folder at all."""
    handle = _open(place)
    if handle is None or not _is_plain(place, handle) or not _is_clean(handle, _OTHERS):
        return False
    return not len(handle.index.diff_to_tree(tree))


def holds_its_index(place: Repository) -> bool:
    """Whether each file is as the index of the worktree has it; there may be others."""
    handle = _open(place)
    return handle is not None and _is_plain(place, handle) and _is_clean(handle, DiffOption.NORMAL)


def holds_nothing_beside_its_index(place: Repository) -> bool:
    """Whether there is no file or folder, ignored or not, that the index does not have."""
    handle = _open(place)
    return handle is not None and _is_clean(handle, _OTHERS)


def has_plain_entries(index: bytes) -> bool:
    """Whether no entry can have a flag that leaves it out of a checkout: version 2 has none."""
    return index[4:8] == b"\0\0\0\2"


def _open(place: Repository) -> pygit2.Repository | None:
    """A handle for just this worktree: that of ``place`` obeys variables, which may name others."""
    handle = pygit2.Repository(str(place.git_dir))
    here = handle.workdir and place.worktree and os.path.samefile(handle.workdir, place.worktree)
    return handle if here else None


def _is_clean(handle: pygit2.Repository, looking_at: DiffOption) -> bool:
    try:
        return not len(handle.index.diff_to_workdir(looking_at))
    except pygit2.GitError:  # an index format that libgit2 does not read
        return False


def _is_plain(place: Repository, handle: pygit2.Repository) -> bool:
    """Whether files are compared byte by byte, none of them left out."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    rules = (f"{place.common_dir}/info/attributes", f"{home}/git/attributes")
    return (
        not any(key in handle.config for key in _TOLERANT)
        and not any(map(os.path.exists, rules))
        and _hides_nothing(f"{place.git_dir}/index")
    )


def _hides_nothing(path: str) -> bool:
    """Whether an index is short, and has neither flags, submodules nor attributes."""
    try:
        with open(path, "rb") as file:
            index = file.read()
    except FileNotFoundError:
        return False
    count = int.from_bytes(index[8:12])
    if not has_plain_entries(index) or count > _MOST or b".gitattributes" in index:
        return False
    at = 12
    for _ in range(count):
        mode, flags = (
            int.from_bytes(index[at + 24 : at + 28]),
            int.from_bytes(index[at + 60 : at + 62]),
        )
        length = flags & 0xFFF
        if flags & 0x8000 or mode == SUBMODULE or length == 0xFFF:  # that is: or longer
            return False
        at += (62 + length + 8) & ~7
    return True
