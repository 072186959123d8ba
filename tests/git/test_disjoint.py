"""What is told of merges without making them is what git makes of them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pygit2.enums import ObjectType

from gitbaton.git import merge, objects, odb
from gitbaton.git.disjoint import Disjoint, Kept
from gitbaton.git.objects import Edit
from gitbaton.git.odb import SUBMODULE
from gitbaton.git.repo import Repository

from .shell import git

TASKS = "plan/tasks.md"
FILES = ("a", "b", "plan/design.md", "src/one", "src/two", "src/deep/three", "lib/four")
LINES = b"".join(b"line %d\n" % number for number in range(20))


class Branch:
    """A branch onto which lines of commits are merged; each merge ticks a box."""

    def __init__(self, repo: Repository, workspace: Path) -> None:
        self.repo = repo
        self.workspace = workspace
        files: dict[str, Edit] = {path: path.encode() + b"\n" + LINES for path in FILES}
        self.base = self.commit(None, {**files, TASKS: b"0\n"})
        self.tip = self.base
        self.merges: list[str] = []

    def commit(self, parent: str | None, edits: Mapping[str, Edit], *more: str) -> str:
        tree = objects.edit_tree(self.repo, parent and objects.tree_of(self.repo, parent), edits)
        return self.made(tree, *filter(None, (parent, *more)))

    def made(self, tree: str, *parents: str) -> str:
        when = datetime(2024, 1, 1, tzinfo=UTC)
        return objects.create_commit(
            self.repo, tree, parents, "change", author=("A", "a@example.com"), when=when
        )

    def bare(self, ours: str, theirs: str) -> str | None:
        """The tree that git makes."""
        return merge.merge(self.repo, ours, theirs, keep=[TASKS], workspace=self.workspace).tree

    def merge(self, side: str, beside: Mapping[str, Edit] | None = None) -> str | None:
        tree = self.bare(self.tip, side)
        if tree is None:
            return None
        edits = {TASKS: b"%d\n" % (len(self.merges) + 1), **(beside or {})}
        self.tip = self.made(objects.edit_tree(self.repo, tree, edits), self.tip, side)
        self.merges.append(self.tip)
        return self.tip

    def kept(self, commit: str) -> Kept | None:
        return Disjoint(self.repo, self.base, self.tip).kept(commit, TASKS)


@pytest.fixture
def branch(repo: Repository, tmp_path: Path) -> Branch:
    return Branch(repo, tmp_path / "workspace")


def test_what_workers_do_by_far_most_often(branch: Branch) -> None:
    one = branch.commit(branch.base, {"src/one": b"1\n", "src/new": b"n\n"})
    two = branch.commit(branch.commit(branch.base, {"a": b"2\n"}), {"a": b"22\n", "c": b"c\n"})
    first = branch.merge(one)
    second = branch.merge(two)
    assert first and second
    kept = branch.kept(second)
    assert kept is not None
    assert kept.before == objects.entry_at(branch.repo, first, TASKS)
    assert kept.after == objects.entry_at(branch.repo, second, TASKS)
    assert kept.others == ["a", "c"]
    assert branch.kept(first) is not None


def test_more_than_the_sides_changed(branch: Branch) -> None:
    side = branch.commit(branch.base, {"a": b"1\n"})
    for beside in ({"b": b"2\n"}, {"new": b"n\n"}, {"a": b"3\n"}, {"lib/four": None}):
        forged = branch.merge(side, beside)
        assert forged and branch.kept(forged) is None
        branch.tip = branch.base


def test_what_has_to_be_merged(branch: Branch) -> None:
    ours = branch.merge(branch.commit(branch.base, {"a": b"first\na\n" + LINES}))
    assert ours is not None
    same = branch.merge(branch.commit(branch.base, {"a": b"a\n" + LINES + b"last\n"}))
    assert same and branch.kept(same) is None  # the same file
    removed = branch.merge(branch.commit(ours, {"lib/four": None}))
    assert removed and branch.kept(removed) is None  # it might have moved
    added = branch.merge(branch.commit(ours, {"lib/five": b"5\n"}))
    assert added and branch.kept(added) is None  # it might have to move along
    later = branch.merge(branch.commit(added, {"lib/six": b"6\n"}))
    assert later and branch.kept(later) is not None


def test_a_submodule_that_git_is_told_to_ignore(branch: Branch, repo_dir: Path) -> None:
    rules = b'[submodule "s"]\n\tpath = s\n\turl = ./s\n\tignore = all\n'
    branch.tip = branch.base = branch.commit(
        branch.base, {".gitmodules": rules, "s": ("1" * 40, SUBMODULE)}
    )
    git(repo_dir, "reset", "-q", "--hard", branch.base)
    side = branch.commit(branch.base, {"a": b"1\n"})
    forged = branch.merge(side, {"s": ("2" * 40, SUBMODULE)})
    assert forged and branch.kept(forged) is None


def test_trees_that_git_would_not_write(branch: Branch) -> None:
    """It shows odd modes as others, and a name that stands twice as if that were nothing."""
    ours = branch.merge(branch.commit(branch.base, {"x": b"a file\n"}))
    side = branch.commit(branch.base, {"x/y": b"in a directory\n"})
    assert ours and branch.merge(side) is None
    tree = objects.edit_tree(branch.repo, objects.tree_of(branch.repo, ours), {TASKS: b"2\n"})
    plain = odb.read(branch.repo, tree, ObjectType.TREE)
    directory = objects.entry_at(branch.repo, side, "x")
    assert directory
    twice = plain + b"40000 x\0" + bytes.fromhex(directory[0])
    branch.tip = branch.made(odb.write(branch.repo, ObjectType.TREE, twice), ours, side)
    assert branch.kept(branch.tip) is None

    other = branch.commit(branch.base, {"c": b"c\n"})
    for mode in (b"100664", b"100600", b"0100644"):
        branch.tip = ours
        merge = branch.merge(other)
        assert merge and branch.kept(merge) is not None
        plain = odb.read(branch.repo, objects.tree_of(branch.repo, merge), ObjectType.TREE)
        odd = plain.replace(b"100644 a\0", mode + b" a\0")
        branch.tip = branch.made(odb.write(branch.repo, ObjectType.TREE, odd), ours, other)
        assert branch.kept(branch.tip) is None


def test_lines_that_begin_elsewhere(branch: Branch) -> None:
    line = branch.commit(branch.base, {"a": b"1\n"})
    longer = branch.commit(line, {"b": b"2\n"})
    assert branch.merge(line)
    again = branch.merge(longer)  # its merge base is the line, not the base
    assert again and branch.kept(again) is None
    inner = branch.commit(branch.base, {"src/one": b"1\n"}, branch.commit(branch.base, {"c": b""}))
    crossed = branch.merge(inner)
    assert crossed and branch.kept(crossed) is None


def test_nothing_is_told_that_git_would_not_make(repo: Repository, tmp_path: Path) -> None:
    told = 0
    for seed in range(6):
        branch = Branch(repo, tmp_path / "workspace")
        _work_at_random(branch, random.Random(seed))
        disjoint = Disjoint(repo, branch.base, branch.tip)
        for commit in branch.merges:
            kept = disjoint.kept(commit, TASKS)
            if kept is not None:
                told += 1
                bare = branch.bare(*objects.commit_info(repo, commit).parents)
                meant = objects.edit_tree(repo, bare, {TASKS: kept.after})
                assert meant == objects.tree_of(repo, commit)
    assert told > 5


def _work_at_random(branch: Branch, chance: random.Random) -> None:
    """Lines of one or two commits, and merges of which some hold more than these."""

    def edit(at: str) -> dict[str, Edit]:
        path = chance.choice([*FILES, f"src/new{chance.randrange(9)}", "a/below", TASKS])
        there = objects.entry_at(branch.repo, at, path)
        what = chance.randrange(16)
        if what == 0 and there and path != TASKS:
            return {path: None}
        if what == 1 and there and path != TASKS:
            return {path: None, f"{path}.moved": there}
        return {path: b"%d\n" % chance.randrange(99) + LINES}

    tips = [branch.base]
    for _ in range(14):
        at = chance.choice(tips[-4:])
        side = branch.commit(at, edit(at))
        for _ in range(chance.randrange(2)):
            side = branch.commit(side, edit(side))
        beside = edit(branch.tip) if chance.random() < 0.3 else {}
        beside.pop(TASKS, None)
        tips += filter(None, [branch.merge(side, beside)])
