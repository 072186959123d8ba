"""Merges computed again: what git makes of them, and nothing left behind."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gitbaton.errors import RepositoryError
from gitbaton.evidence.recompute import Recomputer
from gitbaton.git import merge, objects
from gitbaton.git.merge import Asked
from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository

from .conftest import git


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


class Branches:
    """Commits on top of one another, each on its own branch."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def commit(self, name: str, files: dict[str, str], onto: str = "trunk") -> str:
        git(self.path, "checkout", "-q", "-B", name, onto)
        for file, text in files.items():
            (self.path / file).parent.mkdir(parents=True, exist_ok=True)
            (self.path / file).write_text(text)
        git(self.path, "add", "-A")
        git(self.path, "commit", "-q", "-m", name)
        return git(self.path, "rev-parse", "HEAD")

    def file(self, tree: str, name: str) -> str:
        return git(self.path, "show", f"{tree}:{name}")


@pytest.fixture
def branches(path: Path) -> Branches:
    return Branches(path)


def test_many_merges_are_what_git_makes_of_each(
    repo: Repository, branches: Branches, tmp_path: Path
) -> None:
    a = branches.commit("a", {"a": "a\n"})
    b = branches.commit("b", {"b": "b\n", "plan": "of b\n"})
    after_a = branches.commit("after-a", {"more": "m\n", "plan": "of a\n"}, "a")
    union = branches.commit("u", {".gitattributes": "*.log merge=union\n", "x.log": "u\n"})
    one = branches.commit("one", {"x.log": "u\none\n"}, "u")
    two = branches.commit("two", {"x.log": "u\ntwo\n"}, "u")
    asked = [
        Asked(a, b),
        Asked(b, a, ("plan",)),
        Asked(after_a, b, ("plan",)),
        Asked(a, after_a),  # nothing to merge it with
        Asked(a, after_a, ("plan",)),
        Asked(one, two),
        Asked(b, union),
    ]
    made = [merge.merge(repo, *each[:2], keep=each.keep, workspace=tmp_path).tree for each in asked]
    assert None not in made
    with Recomputer(repo) as recomputer:
        recomputer.prepare(asked)
        assert [recomputer.merged(*each) for each in asked] == made
        assert [objects.blob_at(recomputer.repo, str(tree), "plan") for tree in made[:3]] == [
            b"of b\n",
            b"of b\n",
            b"of a\n",
        ]
    assert branches.file(str(made[5]), "x.log") == "u\none\ntwo"


def test_nothing_is_written_to_the_repository_and_nothing_stays(
    repo: Repository, path: Path, branches: Branches, tmp_path: Path
) -> None:
    a = branches.commit("a", {"a": "a\n", "plan": "of a\n"})
    b = branches.commit("b", {"b": "b\n", "plan": "of b\n"})
    before = files_below(path / ".git")
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    with Recomputer(repo, objects_in=folder) as recomputer:
        tree = recomputer.merged(a, b, ["plan"])
        assert tree is not None
        assert recomputer.differences(tree, a) == ["b"]
        assert not objects.exists(repo, tree)
        assert files_below(path / ".git") == before
    assert not list(folder.iterdir())


def test_a_conflict_is_none_and_what_cannot_be_merged_is_told_when_it_is_asked_for(
    repo: Repository, path: Path, branches: Branches
) -> None:
    a = branches.commit("a", {"f": "a\n"})
    b = branches.commit("b", {"f": "b\n"})
    c = branches.commit("c", {"c": "c\n"})
    git(path, "checkout", "-q", "--orphan", "stranger")
    git(path, "commit", "-q", "-m", "unrelated")
    stranger = git(path, "rev-parse", "HEAD")
    with Recomputer(repo) as recomputer:
        recomputer.prepare([Asked(a, b), Asked(a, stranger), Asked(a, "1" * 40), Asked(a, c)])
        assert recomputer.merged(a, b) is None
        for strange in (stranger, "1" * 40):
            with pytest.raises(RepositoryError):
                recomputer.merged(a, strange)
        assert objects.blob_at(recomputer.repo, str(recomputer.merged(b, c)), "f") == b"b\n"


def test_an_older_git_merges_one_after_the_other(
    repo: Repository, branches: Branches, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = branches.commit("a", {"a": "a\n"})
    b = branches.commit("b", {"b": "b\n"})
    with Recomputer(repo) as recomputer:
        expected = recomputer.merged(a, b)
    monkeypatch.setattr(merge, "_MANY_AT_ONCE", (99,))
    with Recomputer(repo) as recomputer:
        assert recomputer.merged(a, b) == expected


@pytest.mark.parametrize("name", ["quarantine", "with:colon"])
def test_what_is_in_quarantine_is_seen_and_not_written_to(
    path: Path, branches: Branches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    a = branches.commit("a", {"a": "a\n"})
    b = branches.commit("b", {"b": "b\n"})
    quarantine = tmp_path / name
    quarantine.mkdir()
    store = path / ".git" / "objects"
    env = {
        "GIT_DIR": str(path / ".git"),
        "GIT_OBJECT_DIRECTORY": str(quarantine),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(store),
    }
    command = ["git", "commit-tree", "-p", b, "-m", "arriving", f"{b}^{{tree}}"]
    made = subprocess.run(command, env={**os.environ, **env}, check=True, capture_output=True)
    arriving = made.stdout.decode().strip()
    before = files_below(quarantine), files_below(store)
    for variable, value in env.items():
        monkeypatch.setenv(variable, value)
    with Recomputer(open_repository()) as recomputer:
        tree = recomputer.merged(a, arriving)
        assert tree is not None
        assert set(recomputer.differences(tree, a)) == {"b"}
    assert (files_below(quarantine), files_below(store)) == before
