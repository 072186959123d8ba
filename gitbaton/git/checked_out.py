"""Moving a branch that is checked out, together with its files.

Nothing uncommitted may be lost by that, and a kill in the middle must leave what the same call can
finish: files change first and the ref last, and each file may then be as it was or as it will be.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gitbaton.errors import BatonError, Busy, Conflict, Refused
from gitbaton.git import objects, refs
from gitbaton.git.checkout import file_mode, git_at, place_of, scratch_index
from gitbaton.git.odb import Entry
from gitbaton.git.repo import Repository


def dirty_paths(repo: Repository, worktree: Path, old: str, new: str) -> list[str]:
    """What stands in the way of `move`: paths that would lose something."""
    changes = list(objects.changes(repo, old, new))
    if not _in_the_way(worktree, changes) and _read_tree(worktree, old, new, dry_run=True):
        return []
    return sorted(_lost(worktree, changes))


def move(
    repo: Repository,
    worktree: Path,
    ref: str,
    old: str,
    new: str,
    *,
    code: str = "integration-checked-out",
    ours: bool = False,
) -> None:
    """Move the branch ``ref``, checked out at ``worktree``, from ``old`` to ``new`` with its files.

    Nothing uncommitted is lost: what differs between the commits must be clean there, or
    `Refused` (with ``code``) names the directory; anything else may be dirty. Files change first
    and the ref last, so after a crash the same call finishes: each file may then be as in ``old``
    or as in ``new``. Raises `Conflict` ``ref-moved`` (files put back) when the ref is neither.
    ``ours`` is that of `refs.cas`.
    """
    place = place_of(worktree)
    if place.head_branch() != ref:
        raise Conflict("worktree-switched", f"{worktree} has another branch now", "try again")
    if refs.read(repo, ref) not in (old, new):
        raise Conflict("ref-moved", f"{ref} was moved by another process", "try again")
    if (place.git_dir / "index.lock").exists():
        raise Busy("index-locked", f"another process holds {place.git_dir / 'index.lock'}")
    changes = list(objects.changes(repo, old, new))
    if _in_the_way(worktree, changes) or not _read_tree(worktree, old, new):
        _move_by_hand(worktree, changes, code)
    try:
        refs.cas(repo, ref, old, new, "baton: moved with its worktree", ours=ours)
    except BatonError:
        if refs.read(repo, ref) == new:
            return
        _read_tree(worktree, new, old)
        raise


def _in_the_way(worktree: Path, changes: Iterable[objects.Change]) -> bool:
    """Whether a file is where one will be added: git would overwrite it if it is ignored."""
    return any(c.old is None and os.path.lexists(worktree / c.path) for c in changes)


def _read_tree(worktree: Path, old: str, new: str, *, dry_run: bool = False) -> bool:
    """git's own two-way switch, which refuses to lose anything; False if it refused."""
    args = ["read-tree", "-m", "-u", *(["--dry-run"] if dry_run else []), old, new]
    return not git_at(worktree, args, check=False, durable=True).code


def _lost(worktree: Path, changes: Sequence[objects.Change]) -> set[str]:
    """Paths whose file, or entry in the index, is neither as it was nor as it will be."""
    index = _index_entries(worktree)
    lost = {c.path for c in changes if index.get(c.path) not in (c.old, c.new)}
    not_old = _unlike(worktree, {c.path: c.old for c in changes})
    after = {c.path: c.new for c in changes if c.path in not_old}
    neither = _unlike(worktree, after)
    return lost | {path for path in neither if not _is_begun(worktree, path, after[path])}


def _is_begun(worktree: Path, path: str, entry: Entry | None) -> bool:
    """Whether the file is missing, or the beginning of what a checkout would write there: a git
    that was killed or ran out of space leaves such, and to go on loses nothing."""
    if not os.path.lexists(worktree / path):
        return True
    if entry is None or entry[1] != file_mode(worktree / path, entry[1]):
        return False
    whole = git_at(worktree, ["cat-file", "--filters", f"--path={path}", entry[0]], check=False)
    return whole.code == 0 and whole.out.startswith((worktree / path).read_bytes())


def _unlike(path: Path, expected: Mapping[str, Entry | None]) -> set[str]:
    """Those of ``expected`` whose file in the worktree is not that object; None: no file."""
    present = {name: entry for name, entry in expected.items() if entry is not None}
    found = {
        name
        for name in expected.keys() - present.keys()
        if os.path.lexists(path / name) and not _is_real_directory(path / name)
    }
    if present:
        with scratch_index() as index:
            env = {"GIT_INDEX_FILE": str(index)}
            _fill_index(path, present, env)
            args = ["diff", "--name-only", "-z", "--no-ext-diff", "--ignore-submodules=dirty"]
            listed = git_at(path, ["-c", "core.fsmonitor=false", *args], env=env).out
            found |= {os.fsdecode(name) for name in listed.split(b"\0") if name}
    return found


def _move_by_hand(worktree: Path, changes: Sequence[objects.Change], code: str) -> None:
    """Finish a switch that was cut off: accept what is old or new, refuse what is neither."""
    lost = _lost(worktree, changes)
    if lost:
        some = ", ".join(sorted(lost)[:3]) + (", ..." if len(lost) > 3 else "")
        raise Refused(
            code,
            f"{worktree} has the branch checked out, with changes that would be lost: {some}",
            "commit or stash them there, or switch to another branch",
            {"worktree": str(worktree), "paths": sorted(lost)},
        )
    after = {change.path: change.new for change in changes}
    stale = _unlike(worktree, after)
    for name in sorted(stale, reverse=True):
        if after[name] is None:
            (worktree / name).unlink(missing_ok=True)
            _remove_empty_parents(worktree, worktree / name)
    wanted = {name: entry for name in stale if (entry := after[name]) is not None}
    with scratch_index() as scratch:
        env = {"GIT_INDEX_FILE": str(scratch)}
        _fill_index(worktree, wanted, env)
        git_at(worktree, ["checkout-index", "-q", "-f", "-a"], env=env)
    _fill_index(worktree, after, {})
    git_at(worktree, ["update-index", "-q", "--refresh"], check=False)


def _fill_index(path: Path, entries: Mapping[str, Entry | None], env: Mapping[str, str]) -> None:
    lines = (
        b"%o %s\t%s\0" % (mode, oid.encode(), os.fsencode(name))
        for name, (oid, mode) in ((name, entry or ("0" * 40, 0)) for name, entry in entries.items())
    )
    git_at(path, ["update-index", "-z", "--index-info"], stdin=b"".join(lines), env=env)


def _index_entries(path: Path) -> dict[str, Entry | None]:
    found: dict[str, Entry | None] = {}
    for line in git_at(path, ["ls-files", "--stage", "-z"]).out.split(b"\0"):
        if line:
            facts, _, name = line.partition(b"\t")
            mode, oid, _stage = facts.decode().split(" ")
            found[os.fsdecode(name)] = (oid, int(mode, 8))
    return found


def _is_real_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _remove_empty_parents(top: Path, path: Path) -> None:
    for parent in path.parents:
        if parent == top:
            return
        try:
            parent.rmdir()
        except OSError:
            return
