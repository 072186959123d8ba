"""Where a run's plan comes from, and how people's edits of it reach the integration branch.

A plan lives in a change folder of some working tree or revision. It is read anew at each claim;
what people changed there since the last reading is committed onto the integration branch (a *plan
commit*, touching only that folder), so that a worker's worktree always holds the plan it works on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from gitbaton.engine.context import Context, attempt_here, nearest
from gitbaton.errors import NotFound, PlanError
from gitbaton.evidence.examine import printable
from gitbaton.evidence.ticks import TreeFolder
from gitbaton.git import objects, process
from gitbaton.model.plan import Order, Plan, Unit
from gitbaton.model.root import ChangeTarget
from gitbaton.model.run import PlanSource
from gitbaton.plan import openspec, tasksmd


class Found(NamedTuple):
    """A change folder and where it was found."""

    target: ChangeTarget
    source: PlanSource
    folder: openspec.Folder

    @property
    def tasks_path(self) -> str:
        """The tasks file, as a path in the tree."""
        return openspec.tasks_path(self.folder, self.target.folder)


class Reading(NamedTuple):
    """A plan as read from its source: the blobs of its folder (path -> object id) and the text of
    its tasks file."""

    plan: Plan
    files: dict[str, str]
    tasks_path: str
    text: bytes


def active_changes(ctx: Context) -> list[str]:
    """The ids of the changes of the nearest project, wherever a plan would be looked for."""
    seen: dict[str, None] = {}
    for folder, project, _ in _places(ctx, None, None, None):
        seen.update(dict.fromkeys(openspec.changes(_Below(folder, project))))
    return list(seen)


def find(  # the order of the places is the contract
    ctx: Context,
    change: str,
    *,
    project: str | None,
    branch: str,
    base: str | None,
    plan_from: str | None = None,
) -> Found:
    """The change folder: in ``plan_from`` if given, else in the current working tree, the main one,
    the integration branch, the base branch. Raises `NotFound` with the nearest changes."""
    places = (
        _given_place(ctx, plan_from, project)
        if plan_from is not None
        else _places(ctx, project, branch, base)
    )
    known: set[str] = set()
    archived: dict[str, str] = {}
    for folder, where, source in places:
        target = ChangeTarget(change=change, project=where)
        below = _Below(folder, where)
        if change in (changes := openspec.changes(below)):
            return Found(target, source, folder)
        known.update(changes)
        archived.update(openspec.archived(below))
    if change in archived:
        raise NotFound(
            "change-archived",
            f"change {change} is archived ({archived[change]}): it can be read, not run",
            f"`git baton plan {change}` shows it",
        )
    raise NotFound("unknown-change", f"there is no change {change}", nearest(change, known))


def project_of(ctx: Context, change: str, project: str | None) -> str | None:
    """The project that holds the change, as seen from the current working tree; None if none."""
    for folder, where, source in _places(ctx, project, None, None):
        if source.kind == "worktree" and change in openspec.changes(_Below(folder, where)):
            return where
    return None


def find_archived(ctx: Context, change: str, project: str | None) -> tuple[openspec.Folder, str]:
    """Folder and path of an archived change, for reading; raises `NotFound`."""
    known: set[str] = set()
    for folder, where, _ in _places(ctx, project, None, None):
        archived = openspec.archived(_Below(folder, where))
        if change in archived:
            return folder, "/".join(filter(None, (where, archived[change])))
        known.update(archived)
        known.update(openspec.changes(_Below(folder, where)))
    raise NotFound("unknown-change", f"there is no change {change}", nearest(change, known))


def again(ctx: Context, target: ChangeTarget, source: PlanSource) -> Found | None:
    """The change folder at the place a run remembers; None when it is not there any more."""
    folder: openspec.Folder
    if source.kind == "worktree":
        folder = openspec.DiskFolder(Path(source.at))
    else:
        commit = objects.resolve(ctx.repo, source.at)
        if commit is None:
            return None
        folder = TreeFolder(ctx.repo, commit)
    found = Found(target, source, folder)
    return found if folder.read(found.tasks_path) is not None else None


def read(ctx: Context, found: Found, order: Order | None, unit: Unit | None) -> Reading:
    """The plan and the blobs of its folder, which are written to the object store. Raises
    `PlanError` that names the line."""
    path = found.tasks_path
    text = found.folder.read(path)
    if text is None:
        raise PlanError("no-tasks", f"{path} does not exist", "write the tasks of the change there")
    plan = tasksmd.read(text, order=order, unit=unit)
    if plan.errors:
        first = plan.errors[0]
        raise PlanError(
            first.code,
            f"{path}:{first.line}: {first.message}" if first.line else f"{path}: {first.message}",
            "`git baton plan --check` shows everything that was read",
        )
    files = _blobs(ctx, found)
    for name in files:
        if printable(name) != name:
            raise PlanError(
                "file-name", f"the name of {printable(name)} is not UTF-8", "rename the file"
            )
    return Reading(plan, files, path, text)


# --- places ------------------------------------------------------------------------------------


class _Below:
    """A folder seen from a project inside it."""

    def __init__(self, folder: openspec.Folder, project: str) -> None:
        self._folder = folder
        self._project = project

    def _path(self, path: str) -> str:
        return "/".join(filter(None, (self._project, path)))

    def read(self, path: str) -> bytes | None:
        return self._folder.read(self._path(path))

    def list(self, path: str) -> list[str]:
        return self._folder.list(self._path(path))


def _places(
    ctx: Context, project: str | None, branch: str | None, base: str | None
) -> Iterator[tuple[openspec.Folder, str, PlanSource]]:
    """Folder, project and source of each place where a plan may lie, nearest first."""
    tops: list[Path] = []
    if ctx.repo.worktree is not None and attempt_here(ctx) is None:
        tops.append(ctx.repo.worktree)
    if ctx.repo.main_worktree is not None and ctx.repo.main_worktree not in tops:
        tops.append(ctx.repo.main_worktree)
    for top in tops:
        where = _project(ctx, top, project)
        if where is not None:
            yield (
                openspec.DiskFolder(top),
                where,
                PlanSource(kind="worktree", at=str(top)),
            )
    for ref in (branch, base):
        commit = objects.resolve(ctx.repo, ref) if ref else None
        if ref and commit:
            source = PlanSource(kind="revision", at=ref)
            yield TreeFolder(ctx.repo, commit), project or "", source


def _given_place(
    ctx: Context, given: str, project: str | None
) -> Iterator[tuple[openspec.Folder, str, PlanSource]]:
    path = Path(os.path.abspath(ctx.cwd / given))
    if path.is_dir():
        where = _project(ctx, path, project)
        if where is not None:
            yield openspec.DiskFolder(path), where, PlanSource(kind="worktree", at=str(path))
        return
    commit = objects.resolve(ctx.repo, given)
    if commit is None:
        raise NotFound(
            "unknown-plan-source",
            f"{given} is neither a folder nor a revision",
            "--plan-from takes the top of a working tree, or a branch, tag or commit",
        )
    ref = f"refs/heads/{given}"
    at = ref if objects.resolve(ctx.repo, ref) == commit else commit
    yield TreeFolder(ctx.repo, commit), project or "", PlanSource(kind="revision", at=at)


def _project(ctx: Context, top: Path, project: str | None) -> str | None:
    """The project below ``top``: the one given (relative to the current directory), else the
    nearest folder from there upwards that holds ``openspec/``."""
    start = ctx.cwd if ctx.cwd.is_relative_to(top) else top
    if project is None:
        return openspec.find_project(start, top)
    folder = Path(os.path.abspath(start / project))
    if not folder.is_relative_to(top):
        raise NotFound(
            "unknown-project", f"{project} is not inside {top}", "--project takes a folder"
        )
    where = folder.relative_to(top).as_posix()
    return "" if where == "." else where


# --- the files of the change folder ------------------------------------------------------------


_Signature = tuple[tuple[str, int, int], ...]
_read_before: dict[Path, tuple[_Signature, dict[str, str]]] = {}


def _blobs(ctx: Context, found: Found) -> dict[str, str]:
    """Path in the tree and object id of every file of the change folder."""
    root = found.target.folder
    if not isinstance(found.folder, openspec.DiskFolder):
        commit = objects.resolve(ctx.repo, found.source.at)
        return dict(objects.walk_blobs(ctx.repo, commit, root)) if commit else {}
    # A runner asks after every ticket: as long as no file looks different, the answer stands.
    top = Path(found.source.at)
    signature = _signature(top / root)
    before = _read_before.get(top / root)
    if before is None or before[0] != signature:
        blobs = {}
        for path in dict.fromkeys((*_files_on_disk(top, root), found.tasks_path)):
            data = found.folder.read(path)
            if data is not None:
                blobs[path] = objects.write_blob(ctx.repo, data)
        before = _read_before[top / root] = (signature, blobs)
    return before[1]


def _signature(folder: Path) -> _Signature:
    """Name, size and time of change of every file below ``folder``."""
    found = []
    for here, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(here, name)
            facts = os.lstat(path)
            found.append((path, facts.st_size, facts.st_mtime_ns))
    return tuple(sorted(found))


def _files_on_disk(top: Path, root: str) -> list[str]:
    """Files below ``root`` that git would add: tracked or not ignored."""
    listed = process.git(
        ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", root], top
    )
    return sorted({os.fsdecode(name) for name in listed.out.split(b"\0") if name})


def edits(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str | None]:
    """What people changed between two readings: path -> object id, None for a removed file."""
    changed: dict[str, str | None] = {p: oid for p, oid in new.items() if old.get(p) != oid}
    changed.update(dict.fromkeys(old.keys() - new.keys()))
    return changed
