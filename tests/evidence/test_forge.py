"""Runs that a forge landed: squashed, rebased, merged by its own button."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from gitbaton.model.run import Base, Recorded

from .conftest import git
from .tampering import TASKS, Evidence, commit


@pytest.fixture
def onto(evidence: Evidence) -> str:
    """The target as it was before the run landed, with work of others."""
    git(evidence.top, "checkout", "-q", "-f", "--detach", "trunk~1")
    return git(evidence.top, "rev-parse", "HEAD")


def uncovered(evidence: Evidence, tip: str, onto: str) -> set[str]:
    listed = git(evidence.top, "rev-list", tip, f"^{onto}").split()
    return set(evidence.coverage().uncovered(listed, tip))


def changed(evidence: Evidence, oid: str, name: str, text: str) -> str:
    """The tree of a commit with one more file."""
    git(evidence.top, "checkout", "-q", "-f", "--detach", oid)
    (evidence.top / name).write_text(text)
    git(evidence.top, "add", name)
    return git(evidence.top, "write-tree")


def test_a_squash(evidence: Evidence, onto: str) -> None:
    squashed = evidence.squash(onto, evidence.loaded.state.run.tip)
    assert uncovered(evidence, squashed, onto) == set()


def test_a_squash_of_an_earlier_tip(evidence: Evidence, onto: str) -> None:
    squashed = evidence.squash(onto, evidence.claim("merge", "2.2").commit)
    assert uncovered(evidence, squashed, onto) == set()


def test_a_squash_after_somebody_elses_commit(evidence: Evidence, onto: str) -> None:
    mine = commit(evidence.top, "mine.txt", "mine")
    squashed = evidence.squash(mine, evidence.loaded.state.run.tip)
    git(evidence.top, "checkout", "-q", "--detach", squashed)
    later = commit(evidence.top, "later.txt", "later")
    assert uncovered(evidence, later, onto) == {mine, later}


@pytest.mark.parametrize("name", ["more.txt", "shared.txt"])
def test_a_squash_with_something_else(evidence: Evidence, onto: str, name: str) -> None:
    squashed = evidence.squash(onto, evidence.loaded.state.run.tip)
    other = evidence.commit_tree(changed(evidence, squashed, name, "slipped in\n"), onto)
    assert uncovered(evidence, other, onto) == {other}


def test_a_squash_that_ticks_more(evidence: Evidence, onto: str) -> None:
    run = evidence.loaded.state.run
    earlier = evidence.claim("merge", "2.2").commit
    assert b"- [ ] 2.1" in evidence.text(earlier)
    squashed = evidence.squash(onto, earlier)
    text = evidence.text(squashed).decode().replace("- [ ] 2.1", "- [x] 2.1")
    other = evidence.commit_tree(changed(evidence, squashed, TASKS, text), onto)
    assert uncovered(evidence, other, onto) == {other}
    assert run.tip != earlier


def test_a_squash_of_a_tip_that_is_not_covered(evidence: Evidence, onto: str) -> None:
    evidence.set_attempt("2.1", tested_by=None)
    squashed = evidence.squash(onto, evidence.loaded.state.run.tip)
    assert uncovered(evidence, squashed, onto) == {squashed}


def test_a_merge_button(evidence: Evidence, onto: str) -> None:
    tip = evidence.loaded.state.run.tip
    tree = git(evidence.top, "merge-tree", "--write-tree", onto, tip)
    merged = evidence.commit_tree(tree, onto, tip)
    assert uncovered(evidence, merged, onto) == set()
    other = evidence.commit_tree(changed(evidence, merged, "more.txt", "x\n"), onto, tip)
    assert uncovered(evidence, other, onto) == {other}


def rebased(evidence: Evidence, onto: str) -> str:
    git(evidence.top, "checkout", "-q", "-f", "--detach", evidence.loaded.state.run.tip)
    git(evidence.top, "rebase", "-q", "--empty=drop", onto)
    return git(evidence.top, "rev-parse", "HEAD")


def test_a_rebase(evidence: Evidence, onto: str) -> None:
    """It replays what workers and people committed, and drops the merges, ticks and all."""
    tip = rebased(evidence, onto)
    assert len(git(evidence.top, "rev-list", tip, f"^{onto}").split()) > 5
    assert uncovered(evidence, tip, onto) == set()


def test_a_rebase_with_somebodys_commit_in_between(evidence: Evidence, onto: str) -> None:
    git(evidence.top, "checkout", "-q", "-f", "--detach", onto)
    mine = commit(evidence.top, "mine.txt", "mine")
    git(evidence.top, "rm", "-q", "mine.txt")
    git(evidence.top, "commit", "-q", "-m", "not mine")
    not_mine = git(evidence.top, "rev-parse", "HEAD")
    tip = rebased(evidence, not_mine)
    # What is undone again changes no tree, and is nobody's work that was tested.
    assert uncovered(evidence, tip, onto) == {mine, not_mine}


def test_ordinary_commits_are_not_taken_for_it(evidence: Evidence, onto: str) -> None:
    git(evidence.top, "checkout", "-q", "-f", "--detach", onto)
    made = {commit(Path(evidence.top), f"file-{n}", str(n)) for n in range(40)}
    tip = git(evidence.top, "rev-parse", "HEAD")
    assert uncovered(evidence, tip, onto) == made


@pytest.mark.parametrize("kind", ["plan", "update"])
def test_a_run_brings_nobody_elses_commit_along(
    evidence: Evidence, onto: str, kind: Literal["plan", "update"]
) -> None:
    """A run that only took a commit in, as its base or by an update, makes that no squash of it."""
    git(evidence.top, "checkout", "-q", "-f", "--detach", onto)
    stray = commit(evidence.top, "stray.txt", "nobody looked at it")
    tree = git(evidence.top, "rev-parse", f"{stray}^{{tree}}")
    base, parents = (stray, [stray]) if kind == "plan" else (onto, [onto, stray])
    message = f"x\n\nBaton-Run: {evidence.loaded.state.run.id}\nBaton-Event: {kind}\n"
    words = [word for parent in parents for word in ("-p", parent)]
    tip = git(evidence.top, "commit-tree", *words, "-m", message, tree)
    evidence.set_run(
        base=Base(ref="refs/heads/trunk", commit=base),
        tip=tip,
        recorded=(Recorded(commit=tip, kind=kind),),
    )
    assert evidence.coverage().judge(tip) == []
    assert uncovered(evidence, stray, onto) == {stray}
    squashed = evidence.commit_tree(tree, onto)
    assert uncovered(evidence, squashed, onto) == {squashed}
