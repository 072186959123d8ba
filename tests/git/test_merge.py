"""Merging in memory against a real `git merge` of the same commits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from gitbaton.errors import RepositoryError
from gitbaton.git import checkout, merge, objects, worktree
from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository

from .shell import commit, git, write

Files = Mapping[str, str | bytes | None]
LONG = "".join(f"line {n}\n" for n in range(20))


def fork(repo_dir: Path, base: Files, ours: Files, theirs: Files) -> tuple[str, str]:
    """Two commits made from one; the tip of each side."""
    start = commit(repo_dir, base, "base")
    git(repo_dir, "checkout", "-q", "-b", "theirs")
    their_tip = commit(repo_dir, theirs, "theirs")
    git(repo_dir, "checkout", "-q", "-B", "ours", start)
    return commit(repo_dir, ours, "ours"), their_tip


def really(repo_dir: Path, ours: str, theirs: str) -> tuple[str | None, set[str]]:
    """What `git merge` makes of it: the tree, or the paths in conflict."""
    git(repo_dir, "checkout", "-q", "--detach", ours)
    git(repo_dir, "merge", "-q", "--no-edit", "--no-ff", theirs, code=None)
    unmerged = git(repo_dir, "diff", "--name-only", "-z", "--diff-filter=U").split("\0")
    conflicts = {name.removesuffix("~HEAD").removesuffix(f"~{theirs}") for name in unmerged if name}
    tree = None if conflicts else git(repo_dir, "rev-parse", "HEAD^{tree}")
    git(repo_dir, "reset", "-q", "--hard", ours)
    return tree, conflicts


SHAPES: dict[str, tuple[Files, Files, Files]] = {
    "apart": ({"a": "1\n", "b": "1\n"}, {"a": "2\n"}, {"b": "2\n"}),
    "one file, two places": (
        {"a": LONG},
        {"a": LONG.replace("line 1\n", "ours\n")},
        {"a": LONG.replace("line 18\n", "theirs\n")},
    ),
    "rename and edit": ({"a": LONG}, {"a": None, "moved": LONG}, {"a": LONG + "more\n"}),
    "directory rename": (
        {"d/a": LONG, "d/b": LONG + "b"},
        {"d/a": None, "d/b": None, "e/a": LONG, "e/b": LONG + "b"},
        {"d/new": "new\n"},
    ),
    "conflict": ({"a": "1\n"}, {"a": "2\n"}, {"a": "3\n"}),
    "conflict in an odd name": ({"a\n\"'$ ü": "1\n"}, {"a\n\"'$ ü": "2\n"}, {"a\n\"'$ ü": "3\n"}),
    "removed and edited": ({"a": "1\n", "b": "1"}, {"a": None}, {"a": "2\n"}),
    "both add": ({"z": ""}, {"n": "1\n"}, {"n": "1\n"}),
    "file and directory": ({"z": ""}, {"n": "1\n"}, {"n/x": "1\n"}),
    "union driver": (
        {".gitattributes": "*.log merge=union\n", "x/a.log": "1\n"},
        {"x/a.log": "1\nours\n"},
        {"x/a.log": "1\ntheirs\n"},
    ),
    "union driver in a subdirectory": (
        {"x/.gitattributes": "*.log merge=union\n", "x/a.log": "1\n", "a.log": "same\n"},
        {"x/a.log": "1\nours\n"},
        {"x/a.log": "1\ntheirs\n"},
    ),
    "binary by attribute": (
        {".gitattributes": "a -merge\n", "a": LONG},
        {"a": LONG.replace("line 1\n", "ours\n")},
        {"a": LONG.replace("line 18\n", "theirs\n")},
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_as_git_merges(repo_dir: Path, repo: Repository, tmp_path: Path, shape: str) -> None:
    ours, theirs = fork(repo_dir, *SHAPES[shape])
    result = merge.merge(repo, ours, theirs, workspace=tmp_path / "scratch")
    tree, conflicts = really(repo_dir, ours, theirs)
    assert result.tree == tree
    assert set(result.conflicts) >= conflicts
    assert bool(result.conflicts) == bool(conflicts)
    assert not os.listdir(tmp_path / "scratch")
    assert git(repo_dir, "status", "--porcelain") == ""


def test_modes_links_and_submodules(repo_dir: Path, repo: Repository, tmp_path: Path) -> None:
    base = commit(repo_dir, {"run": "1\n", "old": "x"})
    tree = objects.tree_of(repo, base)
    blob = objects.write_blob(repo, b"target")
    ours = made(
        repo, base, objects.edit_tree(repo, tree, {"link": (blob, 0o120000), "run": b"2\n"})
    )
    run = objects.entry_at(repo, base, "run")
    assert run is not None
    edits = {"run": (run[0], 0o100755), "module": (base, 0o160000)}
    theirs = made(repo, base, objects.edit_tree(repo, tree, edits))
    result = merge.merge(repo, ours, theirs, workspace=tmp_path)
    assert result.tree is not None
    modes = {path: new[1] for path, _, new in objects.changes(repo, None, result.tree) if new}
    assert modes == {
        "README": 0o100644,
        "link": 0o120000,
        "module": 0o160000,
        "old": 0o100644,
        "run": 0o100755,
    }
    assert objects.blob_at(repo, result.tree, "run") == b"2\n"


def made(repo: Repository, parent: str, tree: str) -> str:
    when = objects.commit_info(repo, parent).committer_time
    return objects.create_commit(repo, tree, [parent], "x", author=("A", "a@b"), when=when)


def test_settings_of_the_user_change_nothing(
    repo_dir: Path, repo: Repository, tmp_path: Path
) -> None:
    ours, theirs = fork(repo_dir, *SHAPES["rename and edit"])
    expected = merge.merge(repo, ours, theirs, workspace=tmp_path)
    (tmp_path / "attributes").write_text("* -merge\n")
    write(repo_dir, {".gitattributes": "* -merge\n"})  # in the checkout, in no commit
    for key, value in (
        ("merge.renames", "false"),
        ("core.attributesFile", str(tmp_path / "attributes")),
        ("merge.conflictStyle", "diff3"),
        ("merge.default", "binary"),
    ):
        git(repo_dir, "config", key, value)
    assert merge.merge(repo, ours, theirs, workspace=tmp_path) == expected
    assert expected.tree is not None


def test_drivers_run_and_are_recorded(repo_dir: Path, repo: Repository, tmp_path: Path) -> None:
    git(repo_dir, "config", "merge.mine.driver", "cp %B %A")
    attributes = {".gitattributes": "a merge=mine\n", "a": "1\n"}
    ours, theirs = fork(repo_dir, attributes, {"a": "2\n"}, {"a": "3\n"})
    result = merge.merge(repo, ours, theirs, workspace=tmp_path)
    assert result.tree is not None
    assert objects.blob_at(repo, result.tree, "a") == b"3\n"
    assert result.recipe["merge.mine.driver"] == "cp %B %A"
    assert result.recipe["merge.renames"] == "true"
    assert git(repo_dir, "version").endswith(result.recipe["git"])


@pytest.mark.parametrize(
    ("ours", "theirs", "content"),
    [
        ({"tasks.md": "ours\n"}, {"tasks.md": "theirs\n"}, b"ours\n"),
        ({"z": ""}, {"tasks.md": "theirs\n"}, b"base\n"),
        ({"tasks.md": "ours\n"}, {"tasks.md": None}, b"ours\n"),
        ({"tasks.md": None}, {"tasks.md": "theirs\n"}, None),
    ],
)
def test_kept_files_stay_as_ours(
    repo_dir: Path, repo: Repository, tmp_path: Path, ours: Files, theirs: Files, content: bytes
) -> None:
    base = {"tasks.md": "base\n", "code": "1\n"}
    our_tip, their_tip = fork(repo_dir, base, ours, {**theirs, "code": "2\n"})
    keep = ["tasks.md", "no/such"]
    result = merge.merge(repo, our_tip, their_tip, keep=keep, workspace=tmp_path)
    assert result.tree is not None
    assert objects.blob_at(repo, result.tree, "tasks.md") == content
    assert objects.blob_at(repo, result.tree, "code") == b"2\n"
    assert merge.merge(repo, our_tip, their_tip, keep=keep, workspace=tmp_path) == result


def test_from_a_bare_repository(repo_dir: Path, tmp_path: Path) -> None:
    ours, theirs = fork(repo_dir, *SHAPES["union driver"])
    git(tmp_path, "clone", "-q", "--bare", str(repo_dir), "bare")
    bare = open_repository(tmp_path / "bare")
    there = merge.merge(bare, ours, theirs, workspace=tmp_path)
    here = merge.merge(open_repository(repo_dir), ours, theirs, workspace=tmp_path)
    assert there.tree == here.tree is not None


def test_what_cannot_be_merged_at_all(repo_dir: Path, repo: Repository, tmp_path: Path) -> None:
    ours = git(repo_dir, "rev-parse", "HEAD")
    git(repo_dir, "checkout", "-q", "--orphan", "alone")
    theirs = commit(repo_dir, {"a": "1"})
    with pytest.raises(RepositoryError) as caught:
        merge.merge(repo, ours, theirs, workspace=tmp_path)
    assert "unrelated histories" in caught.value.message
    assert os.listdir(tmp_path / "scratch") == [] if (tmp_path / "scratch").exists() else True


def test_a_merge_begun_for_a_person(repo_dir: Path, repo: Repository, tmp_path: Path) -> None:
    base = {"a": "1\n", "tasks.md": "base\n", "gone.md": "x\n", "b": "1\n"}
    ours, theirs = fork(
        repo_dir,
        base,
        {"a": "2\n", "tasks.md": "ours\n", "gone.md": None},
        {"a": "3\n", "tasks.md": "theirs\n", "gone.md": "y\n", "b": "2\n"},
    )
    top = tmp_path / "resolve"
    worktree.add(repo, top, "refs/heads/resolve", ours)
    assert merge.start_merge(top, theirs, ["tasks.md", "gone.md", "never"]) == ("a",)
    assert (top / "tasks.md").read_text() == "ours\n"
    assert not (top / "gone.md").exists()
    assert git(top, "status", "--porcelain") == "UU a\nM  b"
    assert git(top, "rev-parse", "MERGE_HEAD") == theirs
    write(top, {"a": "resolved\n"})
    done = checkout.commit_all(top, "resolved")
    assert done is not None
    assert objects.commit_info(repo, done).parents == (ours, theirs)


def test_a_merge_begun_without_conflict(repo_dir: Path, repo: Repository, tmp_path: Path) -> None:
    ours, theirs = fork(repo_dir, *SHAPES["apart"])
    top = tmp_path / "resolve"
    worktree.add(repo, top, "refs/heads/resolve", ours)
    assert merge.start_merge(top, theirs) == ()
    assert git(top, "rev-parse", "MERGE_HEAD") == theirs
    with pytest.raises(RepositoryError):
        merge.start_merge(top, theirs)
