"""Merging without a working tree, so that the same two commits give the same tree everywhere.

libgit2's own merge differs from git's, so git merges; and what git would read from the place it
runs in - attribute files of a checkout, renaming and conflict settings of the user - is fixed here
and written into a recipe. A conflict moves nothing. Files named by ``keep`` are not merged at all:
they stay as ``ours`` has them, because git-baton writes them itself.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from gitbaton.git import ancestry, objects, odb, process
from gitbaton.git.repo import Repository

SETTINGS = {
    "core.attributesFile": "/dev/null",
    "diff.algorithm": "histogram",
    "merge.conflictStyle": "merge",
    "merge.default": "text",
    "merge.directoryRenames": "conflict",
    "merge.renameLimit": "7000",
    "merge.renames": "true",
    "merge.renormalize": "false",
    "rerere.enabled": "false",
    "submodule.recurse": "false",
}
"""Whatever of the configuration changes what a merge yields, at git's own defaults."""

_ATTRIBUTES = ".gitattributes"
_MANY_AT_ONCE = (2, 39)  # git that knows `merge-tree --stdin`
_KEEPER = ("git-baton", "git-baton@localhost")
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class Merge(NamedTuple):
    """The merged tree, or None and the paths in conflict; and how to do it again."""

    tree: str | None
    conflicts: tuple[str, ...]
    recipe: dict[str, str]


class Asked(NamedTuple):
    """A merge to be made of two commits, and the paths that stay as ``ours`` has them."""

    ours: str
    theirs: str
    keep: tuple[str, ...] = ()


def merge(
    repo: Repository, ours: str, theirs: str, *, keep: Sequence[str] = (), workspace: Path
) -> Merge:
    """Merge commit ``theirs`` into commit ``ours``; a scratch directory is made in ``workspace``.

    What is written is not synced yet: `durable.sync_commits` does so when the merge is to count.
    Raises `RepositoryError` when git cannot merge at all (unrelated histories, missing objects), or
    when history or attributes are not those of the commits alone.
    """
    repo.require_history()
    repo.require_attributes()
    recipe = merge_recipe(repo)
    side = _keeping(repo, ours, theirs, keep)
    output = _merge_tree(repo, ours, [ours, side], workspace)
    if output.code not in (0, 1) or not output.out:  # 1 is also said of a commit that is missing
        raise process.failure(output, ["merge-tree"], repo.common_dir)
    tree, *names = output.out.split(b"\0")
    if output.code == 0:
        return Merge(tree.decode(), (), recipe)
    # where a file and a directory meet, git adds "~" and the commit to the file's name
    plain = (os.fsdecode(n).removesuffix(f"~{ours}").removesuffix(f"~{side}") for n in names if n)
    return Merge(None, tuple(dict.fromkeys(plain)), recipe)


def merge_trees(repo: Repository, asked: Sequence[Asked], workspace: Path) -> list[str | None]:
    """The tree of each merge in ``asked``, as `merge` makes it; None for a conflict.

    As few processes as possible: one for all tips that hold the same attribute files. Raises as
    `merge` does, if only one of them cannot be merged.
    """
    if process.require_git() < _MANY_AT_ONCE:
        return [merge(repo, a.ours, a.theirs, keep=a.keep, workspace=workspace).tree for a in asked]
    repo.require_history()
    repo.require_attributes()
    trees: list[str | None] = [None] * len(asked)
    with odb.batch(repo, durable=False):
        sides = [_keeping(repo, a.ours, a.theirs, a.keep) for a in asked]
    alike: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for number, (ours, theirs, _) in enumerate(asked):
        if sides[number] == theirs and ancestry.is_near(repo, ours, theirs):
            trees[number] = objects.tree_of(repo, theirs)  # there is nothing to merge it with
            continue
        found = objects.files_named(repo, objects.tree_of(repo, ours), _ATTRIBUTES)
        alike.setdefault(tuple(found.items()), []).append(number)
    for numbers in alike.values():
        lines = "".join(f"{asked[n].ours} {sides[n]}\n" for n in numbers)
        one = asked[numbers[0]].ours
        output = _merge_tree(repo, one, ["--stdin"], workspace, stdin=lines.encode())
        if output.code:
            raise process.failure(output, ["merge-tree"], repo.common_dir)
        for number, tree in zip(numbers, _trees(output.out), strict=True):
            trees[number] = tree
    return trees


def _trees(output: bytes) -> Iterator[str | None]:
    """What `git merge-tree --stdin -z` says: for each merge 1 or 0, the tree, the paths in
    conflict, and nothing."""
    fields = iter(output.split(b"\0"))
    for clean in fields:
        if clean:
            tree = next(fields).decode()
            while next(fields):
                pass
            yield tree if clean == b"1" else None


def _merge_tree(
    repo: Repository, tip: str, args: Sequence[str], workspace: Path, stdin: bytes | None = None
) -> process.Output:
    """Run ``git merge-tree`` where there is nothing but the attribute files of ``tip``."""
    words = [
        *_settings(),
        f"--git-dir={repo.common_dir}",
        *("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", *args),
    ]
    with process.file_errors("merge-failed", f"{workspace} cannot be written"):
        workspace.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="merge-", dir=workspace))
    try:
        with process.file_errors("merge-failed", f"{workspace} cannot be written"):
            _write_attributes(repo, objects.tree_of(repo, tip), scratch)
        env = {"GIT_WORK_TREE": str(scratch), "GIT_INDEX_FILE": str(scratch / ".git-no-index")}
        env |= repo.object_environment
        return process.git(words, scratch, env=env, stdin=stdin, check=False)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def merge_recipe(repo: Repository) -> dict[str, str]:
    """All that a merge's result depends on beside its commits: version, settings, drivers."""
    recipe = {"git": ".".join(map(str, process.require_git())), **SETTINGS}
    for key, values in repo.config_all("merge.").items():
        if key.count(".") > 1 and key.endswith((".driver", ".recursive")):
            recipe[key] = values[-1][0]
    attributes = repo.common_dir / "info" / "attributes"
    if attributes.is_file():
        recipe["info/attributes"] = attributes.read_text(errors="replace")
    return recipe


def start_merge(worktree: Path, theirs: str, keep: Sequence[str] = ()) -> tuple[str, ...]:
    """Begin a real merge of ``theirs`` in a linked worktree and leave it uncommitted.

    Returns the paths in conflict; those in ``keep`` are already as HEAD has them.
    """
    output = process.git(
        [*_settings(), "merge", "-q", "--no-commit", "--no-ff", "--no-edit", theirs],
        worktree,
        env={"GIT_MERGE_AUTOEDIT": "no"},
        check=False,
    )
    if output.code not in (0, 1):
        raise process.failure(output, ["merge"], worktree)
    unmerged = _unmerged(worktree)
    if output.code == 1 and not unmerged:
        raise process.failure(output, ["merge"], worktree)
    if keep:
        _restore(worktree, keep)
    return tuple(path for path in unmerged if path not in keep)


def _settings() -> list[str]:
    return [word for key, value in SETTINGS.items() for word in ("-c", f"{key}={value}")]


def _keeping(repo: Repository, ours: str, theirs: str, keep: Sequence[str]) -> str:
    """``theirs``, or a child of it, always the same, that has the kept paths as ``ours``.

    A path that ``theirs`` has not changed since the merge base ends as ``ours`` has it anyway.
    """
    mine, other = ({path: objects.entry_at(repo, c, path) for path in keep} for c in (ours, theirs))
    differing = [path for path in keep if mine[path] != other[path]]
    base = ancestry.merge_base(repo, ours, theirs) if differing else None
    edits = {
        path: mine[path]
        for path in differing
        if base is None or objects.entry_at(repo, base, path) != other[path]
    }
    if not edits:
        return theirs
    with odb.batch(repo, durable=False):
        kept = objects.edit_tree(repo, objects.tree_of(repo, theirs), edits)
        return objects.create_commit(
            repo, kept, [theirs], "keep", author=_KEEPER, when=_EPOCH, sign=False
        )


def _write_attributes(repo: Repository, tree: str, directory: Path) -> None:
    """git reads attributes from the working tree only, so give it one that has nothing else."""
    for path, oid in objects.files_named(repo, tree, _ATTRIBUTES).items():
        if ".." in path.split("/"):
            continue  # no checkout would have such a path
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(objects.read_blob(repo, oid))


def _unmerged(worktree: Path) -> list[str]:
    listed = process.git(["ls-files", "--unmerged", "-z"], worktree).out
    names = (line.partition(b"\t")[2] for line in listed.split(b"\0") if line)
    return list(dict.fromkeys(os.fsdecode(name) for name in names))


def _restore(worktree: Path, paths: Sequence[str]) -> None:
    """Bring ``paths`` back to HEAD in index and files; what HEAD has not goes away."""
    literal = {"GIT_LITERAL_PATHSPECS": "1"}
    known = process.git(
        ["ls-tree", "-z", "--name-only", "HEAD", "--", *paths], worktree, env=literal
    )
    present = {os.fsdecode(name) for name in known.out.split(b"\0") if name}
    if present:
        process.git(["checkout", "-q", "HEAD", "--", *sorted(present)], worktree, env=literal)
    absent = [path for path in paths if path not in present]
    if absent:
        process.git(["rm", "-q", "-f", "--ignore-unmatch", "--", *absent], worktree, env=literal)
