"""The files of one worktree: what is changed there, and changing it.

A worker may hide an edit behind ``assume-unchanged``, a leftover behind an ignore rule or a whole
directory behind a repository of its own; so what decides anything is compared with a fresh index,
and a directory that is used again is emptied down to what its commit holds. git is only ever
started where the directory is proved to be the worktree it says it is: one that lost its ``.git``
would otherwise make git work on whatever repository lies above.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pygit2

from gitbaton.errors import BatonError, Busy, Conflict, Refused, RepositoryError
from gitbaton.git import objects, process, refs
from gitbaton.git.odb import EXECUTABLE, FILE, Entry
from gitbaton.git.repo import Repository, common_dir_of

NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
EXACT = (
    *("-c", "core.sparseCheckout=false", "-c", "core.attributesFile=/dev/null"),
    *("-c", "core.autocrlf=false", "-c", "submodule.recurse=false"),
    *("-c", "core.trustctime=true", "-c", "core.checkStat=default", "-c", "core.fsmonitor=false"),
)
"""Settings under which git checks out a commit as such, whatever this repository's settings say."""

_STATUS = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
_SPECIAL = re.compile(r"([*?\[\]\\!# ])")
_TAIL = 2000


_REWRITTEN = ("index.lock", "HEAD.lock", "index", "config.worktree", "info/sparse-checkout")

_OWN_INDEX = "baton-index"
"""A copy of the index of a verification worktree, made when git had just checked it out: with the
times of change in it, it tells which files anybody has touched, whatever the index itself says."""

_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
}


class Status(NamedTuple):
    """What differs from HEAD: (two letters as `git status --porcelain` prints them, path)."""

    entries: list[tuple[str, str]]

    @property
    def clean(self) -> bool:
        return not self.entries


def place_of(path: Path) -> Repository:
    """The repository as seen from the worktree whose top is ``path``.

    Raises `RepositoryError` ``not-a-worktree`` if the directory is not one, or if its ``.git``
    points to a place that does not point back.
    """
    link = f"{path}/.git"
    try:
        with open(link, errors="surrogateescape") as file:
            named = file.read().removeprefix("gitdir:").strip("\n ")
        git_dir = Path(os.path.normpath(os.path.join(path, named)))
        common_dir = common_dir_of(git_dir)
        if common_dir != git_dir:
            with open(f"{git_dir}/gitdir", errors="surrogateescape") as file:
                back = os.path.join(git_dir, file.read().rstrip("\n"))
            if back != link and not os.path.samefile(back, link):
                raise FileNotFoundError(back)
        os.lstat(f"{git_dir}/HEAD")
        return Repository(git_dir, path, common_dir)
    except IsADirectoryError:
        return Repository(path / ".git", path)
    except OSError as error:
        raise RepositoryError(
            "not-a-worktree", f"{path} is not a worktree any more: {error.strerror or error}"
        ) from error


def status(path: Path, *, fresh_index: bool) -> Status:
    """What is not committed in the worktree at ``path``, untracked files included.

    With ``fresh_index`` every file is compared with HEAD anew and no flag of the worktree's own
    index hides anything. A file that is exactly what a checkout of HEAD would write is clean,
    whatever end-of-line rules say of it; one left out by a sparse checkout is not missing.
    """
    place = place_of(path)
    if not fresh_index:
        return Status(_entries(_git(path, _STATUS).out))
    tree = place.handle.head.peel(pygit2.Tree)
    entries = _compared(path, tree, _STATUS)
    edited = [name for letters, name in entries if letters == " M"]
    missing = {name for letters, name in entries if letters == " D"}
    harmless = _as_checked_out(place, str(tree.id), edited) if edited else set()
    if missing and place.config_get("core.sparseCheckout") in ("true", "yes", "on", "1"):
        harmless |= missing & _skipped(path)
    return Status([entry for entry in entries if entry[1] not in harmless])


def altered(path: Path, commit: str) -> list[str]:
    """Paths of ``commit`` whose file in a verification worktree is not what it holds: whoever
    worked there since `checkout_detached` changed them."""
    place = place_of(path)
    own = place.git_dir / _OWN_INDEX
    if not own.exists():  # just made, and never checked out again
        tree = place.handle[commit].peel(pygit2.Tree)
        args = (*EXACT, *_STATUS, "--untracked-files=no")
        return [name for _, name in _compared(path, tree, args)]
    with _scratch_index() as index:
        shutil.copy2(own, index)
        words = ("diff", "--name-only", "-z", "--no-ext-diff", "--ignore-submodules=dirty")
        listed = _git(path, [*EXACT, *words], env={"GIT_INDEX_FILE": str(index)}).out
    return [os.fsdecode(name) for name in listed.split(b"\0") if name]


def _compared(path: Path, tree: pygit2.Tree, status: Sequence[str]) -> list[tuple[str, str]]:
    """What ``git status`` says with an index that is new and holds ``tree``."""
    with _scratch_index() as index:
        fresh = pygit2.Index(str(index))
        try:
            fresh.read_tree(tree)
        except pygit2.GitError as error:
            raise Refused(
                "bad-path",
                f"the commit holds a path that no checkout would write: {error}",
                "undo that in a new commit",
            ) from error
        fresh.write()
        args = ("-c", "core.fsmonitor=false", *status, "--ignore-submodules=untracked")
        return _entries(_git(path, args, env={"GIT_INDEX_FILE": str(index)}).out)


def untracked(path: Path, ignored: bool) -> set[str]:
    """Untracked files at ``path``; with ``ignored`` those as well that ignore rules hide.

    A directory that a rule ignores as a whole is named once, with a ``/`` at its end.
    """
    args = [*_STATUS, *(["--ignored=matching"] if ignored else [])]
    return {name for letters, name in _entries(_git(path, args).out) if letters in ("??", "!!")}


def checkout_detached(path: Path, commit: str, keep: Collection[str] = ()) -> None:
    """Make the worktree at ``path`` hold exactly ``commit``, and beside it only ``keep``.

    Under `EXACT` settings, tracked files that anybody has touched since the last time are written
    anew; everything else goes, ignored files and nested repositories too. ``keep`` names untracked
    files and directories, as `untracked` gives them. For worktrees that nobody else uses: locks of
    git found there are removed, and flags in the index there mean nothing.
    """
    place = place_of(path)
    own, index = place.git_dir / _OWN_INDEX, place.git_dir / "index"
    with process.file_errors("worktree-failed", f"{path} cannot be emptied"):
        for name in _REWRITTEN:
            (place.git_dir / name).unlink(missing_ok=True)
        if own.exists():
            shutil.copy2(own, index)  # with its time, by which git tells what may be racy
    _git(path, [*NO_HOOKS, *EXACT, "checkout", "-q", "-f", "--detach", commit])
    if not _has_plain_entries(index) and _skipped(path):
        raise Conflict("sparse-worktree", f"{path} was made sparse by another process", "try again")
    shutil.copy2(index, own.with_suffix(".new"))
    own.with_suffix(".new").replace(own)
    excludes = ["--exclude=/" + _SPECIAL.sub(r"\\\1", name) for name in keep]
    clean = ["clean", "-ffdxq", *excludes]
    if _git(path, clean, check=False).code:
        make_writable(path)  # caches of some tools are read-only directories
        _git(path, clean)


def _has_plain_entries(index: Path) -> bool:
    """Whether no entry can have a flag that leaves it out of a checkout: version 2 has none."""
    return index.read_bytes()[4:8] == b"\0\0\0\2"


def commit_all(path: Path, message: str, exclude: Collection[str] = ()) -> str | None:
    """Commit all that is changed or untracked, but for the paths in ``exclude``.

    Hooks and settings of the user apply; a merge in progress is finished. Returns the new HEAD,
    None when there was nothing to commit; raises `Refused` ``commit-failed`` with the output.
    ``exclude`` names files, and directories with a ``/`` at the end, as `untracked` gives them.
    In a linked worktree, a lock of the index that a killed git left behind is removed.
    """
    place = place_of(path)
    if place.git_dir != place.common_dir:
        remove_leftover_lock(place, path)
    specs = [":(top)"]
    if exclude:  # not by an exclude pathspec: git fails on one that names an ignored file
        listed = _entries(_git(path, _STATUS).out)
        wanted = (name for _, name in listed if not _covered(name, exclude))
        specs = [f":(top,literal){name}" for name in wanted]
    if specs:
        add = ["add", "-A", "--pathspec-from-file=-", "--pathspec-file-nul"]
        staged = _git(path, add, stdin=b"\0".join(map(os.fsencode, specs)), check=False)
        if staged.code:
            raise _commit_failed(path, staged)
    if not (place.git_dir / "MERGE_HEAD").exists() and not _anything_staged(path, place):
        return None
    done = _git(
        path,
        # git's housekeeping is nothing to wait for after each of many commits
        ["-c", "maintenance.auto=false", "commit", "-q", "--cleanup=whitespace", "-F", "-"],
        stdin=message.encode(errors="surrogateescape"),
        env={"LC_ALL": os.environ.get("LC_ALL", "")},  # hooks run as the user's
        check=False,
    )
    if done.code:
        raise _commit_failed(path, done)
    return str(place.handle.head.target)


def head_ref(path: Path) -> str | None:
    """The branch checked out at ``path``, as a full ref; None when HEAD is detached."""
    return place_of(path).head_branch()


def under_way(place: Repository) -> str | None:
    """What a person has begun in a worktree and not finished ("a merge"), or None."""
    return next(
        (what for name, what in _UNDER_WAY.items() if (place.git_dir / name).exists()), None
    )


def dirty_paths(repo: Repository, worktree: Path, old: str, new: str) -> list[str]:
    """What stands in the way of `move_checked_out`: paths that would lose something."""
    changes = list(objects.changes(repo, old, new))
    if not _in_the_way(worktree, changes) and _read_tree(worktree, old, new, dry_run=True):
        return []
    return sorted(_lost(worktree, changes))


def move_checked_out(
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


def remove_leftover_lock(repo: Repository, worktree: Path) -> bool:
    """Remove the lock of the index that a killed git left in ``worktree``; waits two seconds to see
    that nobody is at work on it. False if there is none, or somebody is."""
    return refs.remove_leftover_lock(repo, str(place_of(worktree).git_dir / "index.lock"))


def _in_the_way(worktree: Path, changes: Iterable[objects.Change]) -> bool:
    """Whether a file is where one will be added: git would overwrite it if it is ignored."""
    return any(c.old is None and os.path.lexists(worktree / c.path) for c in changes)


def _read_tree(worktree: Path, old: str, new: str, *, dry_run: bool = False) -> bool:
    """git's own two-way switch, which refuses to lose anything; False if it refused."""
    args = ["read-tree", "-m", "-u", *(["--dry-run"] if dry_run else []), old, new]
    return not _git(worktree, args, check=False, durable=True).code


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
    if entry is None or entry[1] != _file_mode(worktree / path, entry[1]):
        return False
    whole = _git(worktree, ["cat-file", "--filters", f"--path={path}", entry[0]], check=False)
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
        with _scratch_index() as index:
            env = {"GIT_INDEX_FILE": str(index)}
            _fill_index(path, present, env)
            args = ["diff", "--name-only", "-z", "--no-ext-diff", "--ignore-submodules=dirty"]
            listed = _git(path, ["-c", "core.fsmonitor=false", *args], env=env).out
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
    with _scratch_index() as scratch:
        env = {"GIT_INDEX_FILE": str(scratch)}
        _fill_index(worktree, wanted, env)
        _git(worktree, ["checkout-index", "-q", "-f", "-a"], env=env)
    _fill_index(worktree, after, {})
    _git(worktree, ["update-index", "-q", "--refresh"], check=False)


def _git(
    path: Path,
    args: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    check: bool = True,
    durable: bool = False,
) -> process.Output:
    """git in the worktree at ``path``, and in no repository above it."""
    fenced = {"GIT_CEILING_DIRECTORIES": str(path.parent), **(env or {})}
    return process.git(args, path, env=fenced, stdin=stdin, check=check, durable=durable)


def _entries(listing: bytes) -> list[tuple[str, str]]:
    records = (record for record in listing.split(b"\0") if record)
    return [(record[:2].decode(), os.fsdecode(record[3:])) for record in records]


@contextmanager
def _scratch_index() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="baton-index-") as directory:
        yield Path(directory) / "index"


def _fill_index(path: Path, entries: Mapping[str, Entry | None], env: Mapping[str, str]) -> None:
    lines = (
        b"%o %s\t%s\0" % (mode, oid.encode(), os.fsencode(name))
        for name, (oid, mode) in ((name, entry or ("0" * 40, 0)) for name, entry in entries.items())
    )
    _git(path, ["update-index", "-z", "--index-info"], stdin=b"".join(lines), env=env)


def _index_entries(path: Path) -> dict[str, Entry | None]:
    found: dict[str, Entry | None] = {}
    for line in _git(path, ["ls-files", "--stage", "-z"]).out.split(b"\0"):
        if line:
            facts, _, name = line.partition(b"\t")
            mode, oid, _stage = facts.decode().split(" ")
            found[os.fsdecode(name)] = (oid, int(mode, 8))
    return found


def _as_checked_out(place: Repository, tree: str, paths: Sequence[str]) -> set[str]:
    """Those of ``paths`` whose file is byte for byte what checking ``tree`` out would write."""
    top = place.worktree
    if top is None:
        return set()
    candidates: list[tuple[str, str]] = []
    for name in paths:
        entry = objects.entry_at(place, tree, name)
        if entry and entry[1] == _file_mode(top / name, entry[1]):
            candidates.append((name, entry[0]))
    asked = b"".join(b"%s %s\0" % (oid.encode(), os.fsencode(name)) for name, oid in candidates)
    mark = os.urandom(16).hex()  # sizes in the listing are those before the filters
    listing = _git(top, ["cat-file", f"--batch={mark}", "--filters", "-z"], stdin=asked).out
    contents = listing.split(f"{mark}\n".encode())[1:]
    return {
        name
        for (name, _), content in zip(candidates, contents, strict=True)
        if (top / name).read_bytes() == content.removesuffix(b"\n")
    }


def _file_mode(path: Path, recorded: int) -> int:
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode) or recorded not in (FILE, EXECUTABLE):
        return -1
    return EXECUTABLE if mode & stat.S_IXUSR else FILE


def _skipped(path: Path) -> set[str]:
    """Paths that the worktree's index leaves out of a sparse checkout."""
    listing = _git(path, ["ls-files", "-t", "-z"]).out.split(b"\0")
    return {os.fsdecode(line[2:]) for line in listing if line.startswith(b"S ")}


def _anything_staged(path: Path, place: Repository) -> bool:
    handle = place.handle
    if handle.head_is_unborn:
        return True
    try:
        return bool(len(handle.index.diff_to_tree(handle.head.peel(pygit2.Tree))))
    except pygit2.GitError:  # an index format that libgit2 does not read
        return bool(_git(path, ["diff", "--cached", "--quiet"], check=False).code)


def _covered(name: str, listed: Collection[str]) -> bool:
    return any(name == one or name.startswith(one.rstrip("/") + "/") for one in listed)


def _commit_failed(path: Path, output: process.Output) -> BatonError:
    cause = process.failure(output, ["commit"], path)
    if cause.code == "disk-full":
        return cause
    said = (output.out.decode(errors="replace") + output.err).strip()
    return Refused(
        "commit-failed",
        f"the changes in {path} could not be committed: {cause}",
        "commit there by hand, or repair what refuses",
        {"output": said[-_TAIL:]},
    )


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


def make_writable(top: Path) -> None:
    """Give the user all rights to every directory below ``top``."""
    for directory, _, _ in os.walk(top):
        os.chmod(directory, os.stat(directory).st_mode | stat.S_IRWXU)
