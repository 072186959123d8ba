"""Refs: listing them reliably, and compare-and-swap.

libgit2 offers no compare-and-swap: creation without force has two winners now and then, and a
transaction checks nothing. So a ref is locked, read again, compared, its new target looked up, and
only then set. Only deleting is left to git. Why a step failed is decided by looking at the ref
again, never by the words of an error.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pygit2

from gitbaton.errors import BatonError, Busy, Conflict, Refused, RepositoryError
from gitbaton.git import process
from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository

PATIENCE = 4.0
"""Seconds that `cas` waits for somebody else's lock."""
QUIET = 2.0
"""Seconds without change after which a lock counts as left behind."""
_ZERO = "0" * 40
_MOST_LINKS = 5  # git follows no more
_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # what /proc tells as well
_CLOSE_THEIR_LOCKS = frozenset(
    b"branch fetch pack-refs push receive-pack remote update-ref".split()
)
"""Verbs of git that close the lock of what they are about to change or remove, also that of the
packed refs; not those that may wait for an editor, and hold no such lock meanwhile."""


def read(repo: Repository, ref: str) -> str | None:
    """The object that ``ref`` points to, through symbolic refs; None if it does not exist."""
    try:
        return str(repo.handle.lookup_reference(ref).resolve().target)
    except (KeyError, ValueError):
        return None
    except pygit2.GitError as error:
        if _lies_below_a_ref(repo, ref):
            return None
        raise RepositoryError(
            "corrupt-ref", f"{ref} cannot be read: {error}", "git fsck"
        ) from error


def moved_by(repo: Repository, ref: str) -> str:
    """The name of the ref that moves when ``ref`` does: another one, if that is symbolic."""
    for _ in range(_MOST_LINKS):
        try:
            target = repo.handle.lookup_reference(ref).raw_target
        except (KeyError, ValueError, pygit2.GitError):
            break
        if not isinstance(target, bytes):
            break
        ref = os.fsdecode(target)
    return ref


def list_refs(repo: Repository, prefix: str) -> dict[str, str]:
    """Full name -> object of every ref whose name begins with ``prefix``.

    A ref that exists all the time is never missed, also while others pack: packing writes the
    packed file before it removes the loose one, so loose refs are read first, and once more after
    for those that moved the other way.
    """
    before = dict(_loose(repo, prefix))
    found = dict(_packed(repo, prefix))
    found.update(before)
    found.update(_loose(repo, prefix))
    return dict(sorted(found.items()))


def cas(
    repo: Repository,
    ref: str,
    old: str | None,
    new: str | None,
    message: str,
    *,
    ours: bool = False,
) -> None:
    """Move ``ref`` from ``old`` to ``new``; None is absence, so this creates and deletes as well.

    Raises `Conflict` ``ref-moved`` when the value is not ``old``, `Busy` ``ref-locked`` when
    somebody holds the lock, `Refused` ``branch-in-the-way`` when another name forbids this one.
    With ``ours`` (a ref only git-baton writes, its own lock held) a lock left behind by a killed
    process is removed, with a warning on standard error.
    """
    deadline = time.monotonic() + PATIENCE
    pause = 0.002
    while True:
        try:
            _swap(repo, ref, old, new, message.replace("\n", " "))
            return
        except (_NotLocked, pygit2.GitError, OSError) as error:
            if not isinstance(error, _NotLocked) and _took_place(repo, ref, new):
                _unlink_second_name(repo, ref)
                return
            lock = _held_lock(repo, ref)
            _explain(repo, ref, old, new, error, locked=lock is not None)
            if ours and lock is not None and remove_leftover_lock(repo, str(lock), QUIET):
                print(f"git-baton: removed a lock left behind: {lock}", file=sys.stderr)
            elif lock is None and _remove_unfinished_packing(repo):
                continue
            elif time.monotonic() > deadline:
                if lock is None:
                    raise RepositoryError("ref-not-written", f"{ref}: {error}") from error
                raise Busy(
                    "ref-locked",
                    f"another process holds {lock}",
                    "if no git runs here, remove that file; `git baton doctor` looks after it",
                ) from error
        time.sleep(pause * (0.5 + random.random()))
        pause = min(pause * 2, 0.2)


def delete(repo: Repository, values: Mapping[str, str], *, ours: bool) -> dict[str, BatonError]:
    """Delete refs that have these values, at once if that can be, else as `cas` does it; returns
    why one is still there."""
    failed: dict[str, BatonError] = {}
    left = list(values.items()) if values and _delete(repo, values).code else []
    while left:
        ref, value = left.pop()
        try:
            cas(repo, ref, value, None, "", ours=ours)
        except BatonError as error:
            failed[ref] = error
            if isinstance(error, Busy) and not _lock_path(repo, ref).exists():
                failed |= {each: error for each, _ in left}  # the packed refs are locked, for all
                break
    return {ref: error for ref, error in failed.items() if read(repo, ref) is not None}


def remove_leftover_lock(repo: Repository, ref_or_path: str, quiet_seconds: float = QUIET) -> bool:
    """Remove the lock of a ref, or the lock file named by an absolute path, if it was left behind.

    Left behind is what does not change (file, time of change) for ``quiet_seconds`` of monotonic
    time and is not in use (where the system tells): a process that is merely slow would go on as if
    it still had the lock. Returns at once, with False, when there is no lock or as soon as it
    changes.
    """
    path = Path(ref_or_path)
    lock = path if path.is_absolute() else _lock_path(repo, ref_or_path)
    since = time.clock_gettime(_SINCE_BOOT)
    first = _identity(lock)
    end = time.monotonic() + quiet_seconds
    while first is not None and _identity(lock) == first:
        if time.monotonic() >= end:
            if _is_in_use(repo, lock, since):
                return False
            lock.unlink(missing_ok=True)
            return True
        time.sleep(0.05)
    return False


class _NotLocked(Exception):
    """The ref could not even be locked: whatever it holds now, this process did not set it."""


def _swap(repo: Repository, ref: str, old: str | None, new: str | None, message: str) -> None:
    if old is not None and new is None:
        deleted = _delete(repo, {ref: old})
        if deleted.code:
            raise _NotLocked(deleted.err)
        return
    with repo.handle.transaction() as transaction:
        try:
            transaction.lock_ref(ref)
        except (pygit2.GitError, OSError, ValueError) as error:
            raise _NotLocked(str(error)) from error
        if read(repo, ref) != old:
            raise _moved(ref)
        if new is None:
            return
        if pygit2.Oid(hex=new) not in repo.handle:  # one that is only staged does not count
            raise RepositoryError("missing-object", f"{ref} cannot point to {new}: no such object")
        if old is None:
            blocking = _lies_below_a_ref(repo, ref)
            if blocking:
                raise _in_the_way(ref, blocking)
        transaction.set_target(ref, new, message=message)


def _delete(repo: Repository, values: Mapping[str, str]) -> process.Output:
    """libgit2 reads the packed refs before it locks them, or does not lock them at all: what a `git
    pack-refs` does at that time is undone, for other refs too, or brings this one back."""
    command = [*process.NO_HOOKS, f"--git-dir={repo.common_dir}", "update-ref", "--no-deref"]
    lines = "".join(f"delete {ref} {value}\n" for ref, value in values.items())
    return process.git(
        [*command, "--stdin"], repo.common_dir, stdin=os.fsencode(lines), check=False, durable=True
    )


def _took_place(repo: Repository, ref: str, new: str | None) -> bool:
    """Whether a swap that failed had been done: it may fail in what comes after, taking the lock
    away or syncing a directory that `git pack-refs` has removed, and others may have moved on."""
    now = read(repo, ref)
    return now == new or (now is not None and new is not None and _descends(repo, now, new))


def _descends(repo: Repository, oid: str, ancestor: str) -> bool:
    try:
        return repo.handle.descendant_of(oid, ancestor)
    except (pygit2.GitError, ValueError, KeyError):  # not both of them commits
        return False


def _unlink_second_name(repo: Repository, ref: str) -> None:
    """libgit2 links a new ref to its lock and then unlinks the lock: if that fails, both names are
    one file. Any other lock belongs to somebody else, who relies on it: see `git pack-refs`."""
    lock = _lock_path(repo, ref)
    with suppress(OSError):
        if lock.samefile(repo.common_dir / ref):
            lock.unlink()


def _explain(
    repo: Repository, ref: str, old: str | None, new: str | None, error: Exception, locked: bool
) -> None:
    """Raise the reason why a swap cannot succeed; return if it may, when tried again."""
    if not pygit2.reference_is_valid_name(ref):
        raise Refused("bad-ref-name", f"{ref!r} is not a valid ref name") from error
    if read(repo, ref) != old:
        raise _moved(ref) from error
    if locked:
        return
    if old is None and new is not None:
        blocking = _lies_below_a_ref(repo, ref) or next(iter(list_refs(repo, ref + "/")), None)
        if blocking:
            raise _in_the_way(ref, blocking) from error
    full = process.storage_error(str(error))
    if full:
        raise full from error


def _moved(ref: str) -> Conflict:
    return Conflict("ref-moved", f"{ref} was moved by another process", "try again")


def _in_the_way(ref: str, blocking: str) -> Refused:
    short = blocking.removeprefix("refs/heads/")
    return Refused(
        "branch-in-the-way",
        f"{ref} cannot be created, because {short} exists",
        "rename that branch, or choose another prefix: git config baton.branchPrefix PREFIX",
        {"ref": blocking},
    )


def _lies_below_a_ref(repo: Repository, ref: str) -> str | None:
    """The existing ref whose name is a directory of ``ref``, if there is one."""
    parts = ref.split("/")
    for length in range(len(parts) - 1, 1, -1):
        above = "/".join(parts[:length])
        try:
            repo.handle.lookup_reference(above)
        except (KeyError, ValueError, pygit2.GitError):
            continue
        return above
    return None


def _lock_path(repo: Repository, ref: str) -> Path:
    return repo.common_dir / f"{ref}.lock"


def _held_lock(repo: Repository, ref: str) -> Path | None:
    """The lock file that made a swap fail; packed refs are locked as a whole for a deletion."""
    locks = (_lock_path(repo, ref), repo.common_dir / "packed-refs.lock")
    return next((lock for lock in locks if lock.exists()), None)


def _remove_unfinished_packing(repo: Repository) -> bool:
    """Remove the packed refs that a git was writing when it was killed: git never writes over them,
    so that no ref could be deleted again. Only who holds the lock writes them."""
    unfinished = repo.common_dir / "packed-refs.new"
    if not unfinished.exists():
        return False
    lock = repo.common_dir / "packed-refs.lock"
    try:
        lock.touch(exist_ok=False)
    except OSError:
        return False
    with suppress(OSError):
        unfinished.unlink()
    lock.unlink()
    return not unfinished.exists()


def _is_in_use(repo: Repository, lock: Path, since: float) -> bool:
    """Whether a process may still rely on ``lock``, as far as /proc tells: it has the file open, or
    is a git here that closes its locks. One that began after ``since`` only waits for it."""
    wanted = os.path.realpath(lock)
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, BatonError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            closes = not _CLOSE_THEIR_LOCKS.isdisjoint(words) and _began(entry) <= since
            if closes and open_repository((entry / "cwd").readlink()).belongs_to(repo):
                return True
            if any(os.readlink(descriptor) == wanted for descriptor in (entry / "fd").iterdir()):
                return True
    return False


def _began(process: Path) -> float:
    """When a process in /proc began, in seconds since boot."""
    facts = (process / "stat").read_bytes().rpartition(b")")[2].split()
    return int(facts[19]) / os.sysconf("SC_CLK_TCK")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_ino, status.st_mtime_ns


def _loose(repo: Repository, prefix: str) -> Iterator[tuple[str, str]]:
    top = repo.common_dir
    pending = [prefix.rpartition("/")[0]]
    while pending:
        directory = pending.pop()
        try:
            listing = list(os.scandir(top / directory))
        except (FileNotFoundError, NotADirectoryError):
            continue
        for item in listing:
            name = f"{directory}/{item.name}"
            if item.is_dir(follow_symlinks=False):
                if name.startswith(prefix) or prefix.startswith(name + "/"):
                    pending.append(name)
            elif name.startswith(prefix) and not name.endswith(".lock"):
                oid = _loose_value(repo, name)
                if oid is not None:
                    yield name, oid


def _loose_value(repo: Repository, ref: str) -> str | None:
    try:
        text = (repo.common_dir / ref).read_bytes().strip().decode("ascii", "replace")
    except FileNotFoundError:
        return None
    if text.startswith("ref:"):
        return read(repo, text.removeprefix("ref:").strip())
    return text if len(text) == len(_ZERO) else None


def _packed(repo: Repository, prefix: str) -> Iterator[tuple[str, str]]:
    try:
        data = (repo.common_dir / "packed-refs").read_bytes()
    except FileNotFoundError:
        return
    wanted = os.fsencode(prefix)
    for line in data.splitlines():
        oid, _, name = line.partition(b" ")
        if name.startswith(wanted) and len(oid) == len(_ZERO):
            yield os.fsdecode(name), oid.decode()
