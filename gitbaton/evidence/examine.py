"""What must hold before a check is even started: that there is one commit to speak of.

Every condition has a code of its own and one line that says what to do, for the worker who reads
it is often a program. All look at the repository as it is; none changes anything.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from gitbaton.config import Settings
from gitbaton.errors import Refused, RepositoryError
from gitbaton.evidence.prepare import within
from gitbaton.git import ancestry, checkout, objects, refs
from gitbaton.git.repo import Repository
from gitbaton.model.packet import Packet
from gitbaton.model.run import Attempt
from gitbaton.rules.globs import glob_match

NAMED = 5  # paths that a message names


class Examined(NamedTuple):
    """A commit that may be sealed if its checks are green; ``changed_files`` are those that differ
    from the base, sorted; ``warnings`` are lines for the worker."""

    commit: str
    tree: str
    changed_files: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def examine(
    repo: Repository,
    attempt: Attempt,
    packet: Packet,
    settings: Settings,
    *,
    prepared: Collection[str] = (),
    made_by_checks: Collection[str] = (),
    tasks_paths: Collection[str] = (),
    integrated: str | None = None,
) -> Examined:
    """The commit that sealing ``attempt`` is about.

    ``prepared`` are the untracked paths that copy and setup made, ``made_by_checks`` those of
    `verify`; ``tasks_paths`` are the change's own tasks files, which integration puts back. All are
    relative to the top of the worktree. ``integrated`` is the integration tip: what a worker merged
    from there is not the worker's change. Raises `Refused`, each condition with a code of its own.
    """
    repo.require_history()
    repo.require_attributes()
    warnings: list[str] = []
    top = Path(attempt.worktree)
    tip = refs.read(repo, attempt.branch)
    place = _place(top)
    if place is None:
        _require_tip_alone(attempt, settings, tip)
        warnings.append(f"{top} is gone; only what {_short(attempt.branch)} holds was judged")
    else:
        _require_own(attempt, repo, place)
        _require_branch(attempt, place, tip)
    assert tip is not None
    changed = tuple(sorted(objects.changed_paths(repo, attempt.base_commit, tip)))
    _require_plain_paths(changed)
    if place is not None:
        _require_committed(place, frozenset((*prepared, *made_by_checks)))
    _require_descent(repo, attempt, packet, tip)
    for path in changed:
        if path in tasks_paths:
            warnings.append(f"changes to {path} are put back when the work is integrated")
    judged = (
        p for p in changed if p not in tasks_paths and not _is_as_in(repo, p, tip, integrated)
    )
    require_scope(packet, judged, frozenset(prepared))
    _require_no_markers(repo, attempt.base_commit, tip)
    tree = objects.tree_of(repo, tip)
    return Examined(tip, tree, tuple(map(printable, changed)), tuple(warnings))


def _place(top: Path) -> Repository | None:
    try:
        return checkout.place_of(top)
    except RepositoryError:
        return None


def _require_tip_alone(attempt: Attempt, settings: Settings, tip: str | None) -> None:
    """A commit is evidence without its worktree, unless there is none or checks belong there."""
    if tip is None or tip == attempt.base_commit or settings.seal_in == "worktree":
        raise Refused(
            "worktree-missing",
            f"the worktree {attempt.worktree} is gone",
            f"git worktree prune && git worktree add {attempt.worktree} {_short(attempt.branch)}",
        )


def _require_own(attempt: Attempt, repo: Repository, place: Repository) -> None:
    if not place.belongs_to(repo):
        raise Refused(
            "worktree-missing",
            f"{attempt.worktree} belongs to another repository: {place.common_dir}",
            "move it away; what was committed to the branch can then be sealed without it",
        )


def _require_branch(attempt: Attempt, place: Repository, tip: str | None) -> None:
    branch = _short(attempt.branch)
    what = checkout.under_way(place)
    if what is not None:
        raise Refused(
            "merge-in-progress",
            f"{what} is under way in {attempt.worktree}",
            "finish it and commit, or abort it, then seal again",
        )
    head = place.head_branch()
    if head != attempt.branch:
        at = "a detached HEAD" if head is None else _short(head)
        raise Refused(
            "wrong-branch",
            f"{attempt.worktree} is on {at}, but this attempt's branch is {branch}",
            f"git switch {branch}, and bring your commits there",
        )
    if tip is None:
        raise Refused("wrong-branch", f"the branch {branch} is gone", f"git branch {branch} COMMIT")


def _require_committed(place: Repository, made: frozenset[str]) -> None:
    entries = checkout.differences(place)
    dirty = [path for letters, path in entries if letters != "??" or not within(path, made)]
    if dirty:
        raise Refused(
            "uncommitted-changes",
            f"not committed: {named(dirty)}",
            "commit them, ignore them, or remove them, then seal again",
            {"paths": list(map(printable, dirty))},
        )


def _require_descent(repo: Repository, attempt: Attempt, packet: Packet, tip: str) -> None:
    if tip == attempt.base_commit:
        empty, none = "git commit --allow-empty -m", "git baton dispose --as obe --reason"
        raise Refused(
            "nothing-committed",
            f"{_short(attempt.branch)} has no commit beyond its base {tip[:12]}",
            "commit the work; if nothing had to change, say so: "
            f"{none if packet.mode else empty} 'WHY'",
        )
    for needed in (attempt.base_commit, attempt.resolved_commit):
        if needed is not None and not ancestry.is_ancestor(repo, needed, tip):
            raise Refused(
                "not-descended",
                f"{tip[:12]} does not descend from {needed[:12]}",
                f"git merge {needed[:12]}, then seal again",
            )


def _require_plain_paths(changed: Iterable[str]) -> None:
    for path in changed:
        if any(part.lower() in ("", ".", "..", ".git") for part in path.split("/")):
            raise Refused(
                "bad-path",
                f"{printable(path)} is a path that no checkout would write",
                "undo it in a new commit, then seal again",
            )


def _is_as_in(repo: Repository, path: str, commit: str, integrated: str | None) -> bool:
    if integrated is None:
        return False
    return objects.entry_at(repo, commit, path) == objects.entry_at(repo, integrated, path)


def require_scope(
    packet: Packet, changed: Iterable[str], prepared: frozenset[str] = frozenset()
) -> None:
    """Raise `Refused` for the first path that the packet does not allow to be changed."""
    project = "" if packet.project_dir in ("", ".") else packet.project_dir.rstrip("/") + "/"
    undo = (
        f"undo it: git checkout {packet.base_commit[:12]} -- PATH (or git rm), commit, seal again"
    )
    for path in changed:
        name = printable(path)
        if within(path, prepared):
            raise Refused(
                "prepared-file-committed",
                f"{name} was put there by baton.copy or baton.setup and must not be committed",
                f"git rm -r --cached {name}, commit, and seal again",
            )
        if glob_match(path, packet.protected_paths):
            raise Refused(
                "protected-path",
                f"{name} is protected by baton.protectPaths ({' '.join(packet.protected_paths)})",
                undo,
            )
        allowed = packet.allowed_paths
        inside = path.startswith(project) and glob_match(path.removeprefix(project), allowed)
        if allowed and not inside:
            below = f" below {project}" if project else ""
            raise Refused(
                "outside-allowed-paths",
                f"{name} is outside of what this ticket may change: {named(list(allowed))}{below}",
                undo,
            )


def _require_no_markers(repo: Repository, base: str, tip: str) -> None:
    opened: dict[str, int] = {}
    for path, number, line in objects.added_lines(repo, base, tip):
        if line.startswith(b"<<<<<<< "):
            opened.setdefault(path, number)
        elif line.startswith(b">>>>>>> ") and path in opened:
            raise Refused(
                "conflict-markers",
                f"{printable(path)}:{opened[path]} holds the markers of an unresolved conflict",
                "resolve it, commit, and seal again",
            )


def printable(path: str) -> str:
    """A path as text that JSON can hold; bytes that are not UTF-8 as ``\\xNN``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def named(paths: list[str]) -> str:
    """The first few of ``paths``, and how many more there are."""
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return ", ".join(map(printable, paths[:NAMED])) + more


def _short(ref: str) -> str:
    return ref.removeprefix("refs/heads/")
