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
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pygit2

from gitbaton.errors import BatonError, Conflict, Refused, RepositoryError
from gitbaton.git import objects, process, refs, unchanged
from gitbaton.git.odb import EXECUTABLE, FILE
from gitbaton.git.repo import Repository, common_dir_of

EXACT = (
    *("-c", "core.sparseCheckout=false", "-c", "core.attributesFile=/dev/null"),
    *("-c", "core.autocrlf=false", "-c", "submodule.recurse=false"),
    *("-c", "core.trustctime=true", "-c", "core.checkStat=default", "-c", "core.fsmonitor=false"),
)
"""Settings under which git checks out a commit as such, whatever this repository's settings say."""

_STATUS = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
_SPECIAL = re.compile(r"([*?\[\]\\!# ])")
_TAIL = 2000


_REWRITTEN = ("index.lock", "HEAD.lock", "config.worktree", "info/sparse-checkout")

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
    if fresh_index:
        return Status(differences(place_of(path)))
    place_of(path)
    return Status(_entries(git_at(path, _STATUS).out))


def differences(place: Repository) -> list[tuple[str, str]]:
    """The entries of a `status` with a fresh index, of a worktree that was looked up before."""
    path = place.worktree
    assert path is not None
    tree = place.handle.head.peel(pygit2.Tree)
    if unchanged.holds_only(place, tree):
        return []
    entries = _compared(path, tree, _STATUS)
    edited = [name for letters, name in entries if letters == " M"]
    missing = {name for letters, name in entries if letters == " D"}
    harmless = _as_checked_out(place, str(tree.id), edited) if edited else set()
    if missing and place.config_get("core.sparseCheckout") in ("true", "yes", "on", "1"):
        harmless |= missing & _skipped(path)
    return [entry for entry in entries if entry[1] not in harmless]


def altered(path: Path, commit: str) -> list[str]:
    """Paths of ``commit`` whose file in a verification worktree is not what it holds: whoever
    worked there since `checkout_detached` changed them."""
    place = place_of(path)
    own = place.git_dir / _OWN_INDEX
    if not own.exists():  # whoever worked there removed it
        tree = place.handle[commit].peel(pygit2.Tree)
        args = (*EXACT, *_STATUS, "--untracked-files=no")
        return [name for _, name in _compared(path, tree, args)]
    if _are_same(own, place.git_dir / "index") and unchanged.holds_its_index(place):
        return []
    with scratch_index() as index:
        shutil.copy2(own, index)
        words = ("diff", "--name-only", "-z", "--no-ext-diff", "--ignore-submodules=dirty")
        listed = git_at(path, [*EXACT, *words], env={"GIT_INDEX_FILE": str(index)}).out
    return [os.fsdecode(name) for name in listed.split(b"\0") if name]


def _compared(path: Path, tree: pygit2.Tree, status: Sequence[str]) -> list[tuple[str, str]]:
    """What ``git status`` says with an index that is new and holds ``tree``."""
    with scratch_index() as index:
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
        return _entries(git_at(path, args, env={"GIT_INDEX_FILE": str(index)}).out)


def untracked(path: Path, ignored: bool) -> set[str]:
    """Untracked files at ``path``; with ``ignored`` those as well that ignore rules hide.

    A directory that a rule ignores as a whole is named once, with a ``/`` at its end.
    """
    args = [*_STATUS, *(["--ignored=matching"] if ignored else [])]
    return {name for letters, name in _entries(git_at(path, args).out) if letters in ("??", "!!")}


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
        if not _are_same(own, index):
            index.unlink(missing_ok=True)
            if own.exists():
                shutil.copy2(own, index)  # with its time, by which git tells what may be racy
    git_at(path, [*process.NO_HOOKS, *EXACT, "checkout", "-q", "-f", "--detach", commit])
    if not unchanged.has_plain_entries(index.read_bytes()) and _skipped(path):
        raise Conflict("sparse-worktree", f"{path} was made sparse by another process", "try again")
    keep_index(place.git_dir)
    if unchanged.holds_nothing_beside_its_index(place):
        return
    excludes = ["--exclude=/" + _SPECIAL.sub(r"\\\1", name) for name in keep]
    clean = ["clean", "-ffdxq", *excludes]
    if git_at(path, clean, check=False).code:
        make_writable(path)  # caches of some tools are read-only directories
        git_at(path, clean)


def keep_index(git_dir: Path) -> None:
    """Remember the index of a verification worktree in which nothing has run yet."""
    own = git_dir / _OWN_INDEX
    begun = own.with_suffix(".new")
    shutil.copy2(git_dir / "index", begun)
    begun.replace(own)


def _are_same(one: Path, other: Path) -> bool:
    """Whether two files hold the same, and are of the same time."""
    try:
        return (
            one.stat().st_mtime_ns == other.stat().st_mtime_ns
            and one.read_bytes() == other.read_bytes()
        )
    except FileNotFoundError:
        return False


def commit_all(path: Path, message: str, exclude: Collection[str] = ()) -> str | None:
    """Commit all that is changed or untracked, but for the paths in ``exclude``.

    Hooks and settings of the user apply; a merge in progress is finished. Returns the new HEAD,
    None when there was nothing to commit; raises `Refused` ``commit-failed`` with the output.
    ``exclude`` names files, and directories with a ``/`` at the end, as `untracked` gives them.
    In a linked worktree, locks that a killed git left behind are removed: of the index, of HEAD and
    of the branch.
    """
    place = place_of(path)
    if place.git_dir != place.common_dir:
        own = (str(place.git_dir / name) for name in ("index.lock", "HEAD.lock"))
        for lock in filter(None, (*own, place.head_branch())):
            refs.remove_leftover_lock(place, lock)
    specs = [":(top)"]
    if exclude:  # not by an exclude pathspec: git fails on one that names an ignored file
        listed = _entries(git_at(path, _STATUS).out)
        wanted = (name for _, name in listed if not _covered(name, exclude))
        specs = [f":(top,literal){name}" for name in wanted]
    if specs:
        add = ["add", "-A", "--pathspec-from-file=-", "--pathspec-file-nul"]
        staged = git_at(path, add, stdin=b"\0".join(map(os.fsencode, specs)), check=False)
        if staged.code:
            raise _commit_failed(path, staged)
    if not (place.git_dir / "MERGE_HEAD").exists() and not _anything_staged(path, place):
        return None
    done = git_at(
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


def remove_leftover_lock(repo: Repository, worktree: Path) -> bool:
    """Remove the lock of the index that a killed git left in ``worktree``; waits two seconds to see
    that nobody is at work on it. False if there is none, or somebody is."""
    return refs.remove_leftover_lock(repo, str(place_of(worktree).git_dir / "index.lock"))


def git_at(
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
def scratch_index() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="baton-index-") as directory:
        yield Path(directory) / "index"


def _as_checked_out(place: Repository, tree: str, paths: Sequence[str]) -> set[str]:
    """Those of ``paths`` whose file is byte for byte what checking ``tree`` out would write."""
    top = place.worktree
    if top is None:
        return set()
    candidates: list[tuple[str, str]] = []
    for name in paths:
        entry = objects.entry_at(place, tree, name)
        if entry and entry[1] == file_mode(top / name, entry[1]):
            candidates.append((name, entry[0]))
    asked = b"".join(b"%s %s\0" % (oid.encode(), os.fsencode(name)) for name, oid in candidates)
    mark = os.urandom(16).hex()  # sizes in the listing are those before the filters
    listing = git_at(top, ["cat-file", f"--batch={mark}", "--filters", "-z"], stdin=asked).out
    contents = listing.split(f"{mark}\n".encode())[1:]
    return {
        name
        for (name, _), content in zip(candidates, contents, strict=True)
        if (top / name).read_bytes() == content.removesuffix(b"\n")
    }


def file_mode(path: Path, recorded: int) -> int:
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode) or recorded not in (FILE, EXECUTABLE):
        return -1
    return EXECUTABLE if mode & stat.S_IXUSR else FILE


def _skipped(path: Path) -> set[str]:
    """Paths that the worktree's index leaves out of a sparse checkout."""
    listing = git_at(path, ["ls-files", "-t", "-z"]).out.split(b"\0")
    return {os.fsdecode(line[2:]) for line in listing if line.startswith(b"S ")}


def _anything_staged(path: Path, place: Repository) -> bool:
    handle = place.handle
    if handle.head_is_unborn:
        return True
    try:
        return bool(len(handle.index.diff_to_tree(handle.head.peel(pygit2.Tree))))
    except pygit2.GitError:  # an index format that libgit2 does not read
        return bool(git_at(path, ["diff", "--cached", "--quiet"], check=False).code)


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


def make_writable(top: Path) -> None:
    """Give the user all rights to every directory below ``top``."""
    for directory, _, _ in os.walk(top):
        os.chmod(directory, os.stat(directory).st_mode | stat.S_IRWXU)
