"""Files of a worktree: nothing hidden stays hidden, nothing uncommitted is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitbaton.errors import Refused, RepositoryError
from gitbaton.git import checkout, refs, worktree
from gitbaton.git.repo import Repository

from .shell import commit, git, write

ODD = ["sp ace", "quo'te\"", "$HOME", "new\nline", "-dash", "#x", "!y", "st*r", "[b]"]
ODD.append(os.fsdecode(b"by\xffte"))


@pytest.fixture
def head(repo_dir: Path) -> str:
    return commit(repo_dir, {"f": "1\n", "d/g": "2\n", ".gitignore": "*.o\nnode_modules/\n"})


@pytest.fixture
def top(repo: Repository, head: str, tmp_path: Path) -> Path:
    path = tmp_path / "work"
    worktree.add(repo, path, "refs/heads/work", head)
    return path


def fresh(top: Path) -> list[tuple[str, str]]:
    return checkout.status(top, fresh_index=True).entries


# --- status ------------------------------------------------------------------------------------


def test_what_is_changed(top: Path) -> None:
    assert fresh(top) == []
    write(top, {"f": "x\n", "d/g": None, "new": "", "deep/er/new": "", "a.o": ""})
    expected = [(" D", "d/g"), (" M", "f"), ("??", "deep/er/new"), ("??", "new")]
    assert fresh(top) == expected
    assert checkout.status(top, fresh_index=False).entries == expected
    assert checkout.untracked(top, ignored=False) == {"new", "deep/er/new"}
    write(top, {"node_modules/x/y": "", "node_modules/z": ""})
    assert checkout.untracked(top, ignored=True) == {"new", "deep/er/new", "a.o", "node_modules/"}


def test_odd_names_are_reported_as_they_are(top: Path) -> None:
    write(top, dict.fromkeys(ODD, "x"))
    assert fresh(top) == sorted((("??", name) for name in ODD), key=lambda e: os.fsencode(e[1]))


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_flags_of_the_index_hide_nothing(top: Path, flag: str) -> None:
    git(top, "update-index", flag, "f")
    write(top, {"f": "hidden\n"})
    assert checkout.status(top, fresh_index=False).clean
    assert fresh(top) == [(" M", "f")]


def edit_unnoticeably(file: Path) -> None:
    """Other bytes of the same length, under the time that the index knows."""
    time = file.stat().st_mtime_ns
    file.write_bytes(file.read_bytes().swapcase().translate(bytes.maketrans(b"12", b"21")))
    os.utime(file, ns=(time, time))


@pytest.mark.parametrize(
    "setting", ["core.trustctime=false", "core.checkStat=minimal", "core.ignoreStat=true"]
)
def test_settings_hide_nothing(top: Path, setting: str) -> None:
    git(top, "config", *setting.split("="))
    os.utime(top / "f", (1e9, 1e9))  # so long ago that nothing looks at the bytes again
    git(top, "add", "f")
    assert fresh(top) == []
    edit_unnoticeably(top / "f")
    assert fresh(top) == [(" M", "f")]


def test_what_only_a_rule_takes_for_the_same_is_a_change(
    repo_dir: Path, repo: Repository, tmp_path: Path
) -> None:
    first = commit(repo_dir, {"a": "1\n", ".gitattributes": "a text\n"})
    top = tmp_path / "slot"
    worktree.add_detached(repo, top, first)
    assert checkout.altered(top, first) == fresh(top) == []
    (top / "a").write_bytes(b"2\n")
    assert checkout.altered(top, first) == ["a"]


def test_a_staged_edit_and_a_mode_are_changes(top: Path) -> None:
    write(top, {"f": "staged\n"})
    git(top, "add", "f")
    (top / "d" / "g").chmod(0o755)
    assert fresh(top) == [(" M", "d/g"), (" M", "f")]


def test_line_endings_alone_are_not_dirt(repo_dir: Path, repo: Repository, tmp_path: Path) -> None:
    """A file committed with CRLF under a rule that says LF: git calls it changed for ever."""
    write(repo_dir, {"dos.txt": b"a\r\nb\r\n"})
    git(repo_dir, "add", "dos.txt")
    git(repo_dir, "commit", "-q", "-m", "dos")
    tip = commit(repo_dir, {".gitattributes": "other text\n", "sp ace.txt": b"c\r\n"})
    blob = git(repo_dir, "rev-parse", "HEAD:dos.txt")
    write(repo_dir, {".gitattributes": "*.txt text\n"})
    git(repo_dir, "add", ".gitattributes")
    git(repo_dir, "update-index", "--cacheinfo", f"100644,{blob},dos.txt")
    git(repo_dir, "commit", "-q", "-m", "rule")
    tip = git(repo_dir, "rev-parse", "HEAD")
    top = tmp_path / "crlf"
    worktree.add_detached(repo, top, tip)
    assert fresh(top) == []
    write(top, {"dos.txt": b"a\r\nB\r\n"})
    assert fresh(top) == [(" M", "dos.txt")]


def test_a_directory_that_lost_its_git_file_is_not_the_repository_above(
    repo: Repository, repo_dir: Path, head: str
) -> None:
    inner = repo_dir / "inner"
    worktree.add_detached(repo, inner, head)
    (inner / ".git").unlink()
    write(repo_dir, {"precious": "x"})
    for action in (
        lambda: fresh(inner),
        lambda: checkout.checkout_detached(inner, head),
        lambda: checkout.commit_all(inner, "x"),
    ):
        with pytest.raises(RepositoryError) as caught:
            action()
        assert caught.value.code == "not-a-worktree"
    assert (repo_dir / "precious").exists()


def test_a_git_file_that_points_elsewhere_is_no_worktree(
    repo: Repository, head: str, top: Path, tmp_path: Path
) -> None:
    worktree.add_detached(repo, tmp_path / "other", head)
    (top / ".git").write_text((tmp_path / "other" / ".git").read_text())
    with pytest.raises(RepositoryError):
        checkout.place_of(top)


# --- checkout_detached -------------------------------------------------------------------------


def test_a_used_worktree_becomes_exactly_the_commit(
    repo: Repository, repo_dir: Path, head: str, tmp_path: Path
) -> None:
    top = tmp_path / "slot"
    worktree.add_detached(repo, top, head)
    write(top, {"f": "tampered\n", "stray": "", "x.o": "", "node_modules/m": "", "d/g": None})
    git(top, "update-index", "--assume-unchanged", "f")
    git(top, "init", "-q", "nested")
    git(top, "init", "-q", "d/nested")
    write(top, {"nested/file": "", "ro/file": "", ".env": "kept", "cache/a/b": "kept"})
    (top / "ro").chmod(0o555)
    git(top, "checkout", "-q", "-b", "elsewhere")
    (checkout.place_of(top).git_dir / "index.lock").touch()
    new = commit(repo_dir, {"f": None, "f/now/deep": "dir\n", "d/g": None, "d/nested": "file\n"})
    checkout.checkout_detached(top, new, [".env", "cache/", "node_modules/"])
    assert git(top, "rev-parse", "HEAD") == new
    assert checkout.head_ref(top) is None
    assert fresh(top) == [("??", ".env"), ("??", "cache/a/b")]
    found = {str(p.relative_to(top)) for p in top.rglob("*") if p.is_file()} - {".git"}
    assert found == {
        ".env",
        ".gitignore",
        "README",
        "cache/a/b",
        "d/nested",
        "f/now/deep",
        "node_modules/m",
    }


@pytest.mark.parametrize("left", ["empty/", "d/empty/", "x.o", "d/x.o", "new"])
def test_nothing_is_left_of_whoever_was_there(
    repo: Repository, head: str, tmp_path: Path, left: str
) -> None:
    top = tmp_path / "slot"
    worktree.add_detached(repo, top, head)
    before = set(top.rglob("*"))
    for _ in range(2):
        checkout.checkout_detached(top, head)
        if left.endswith("/"):
            (top / left).mkdir()
        else:
            (top / left).touch()
    checkout.checkout_detached(top, head)
    assert set(top.rglob("*")) == before


def test_a_worktree_without_an_index_of_its_own_is_written_anew(
    repo: Repository, head: str, tmp_path: Path
) -> None:
    top = tmp_path / "slot"
    worktree.add_detached(repo, top, head)
    (checkout.place_of(top).git_dir / "baton-index").unlink()
    write(top, {"f": "tampered\n"})
    git(top, "update-index", "--assume-unchanged", "f")
    checkout.checkout_detached(top, head)
    assert (top / "f").read_text() == "1\n"
    assert checkout.altered(top, head) == fresh(top) == []


def test_kept_names_are_not_patterns(repo: Repository, head: str, tmp_path: Path) -> None:
    top = tmp_path / "slot"
    worktree.add_detached(repo, top, head)
    write(top, dict.fromkeys(ODD, "x"))
    write(top, {"stray": "", "starr": "", "b": "", "deep/sp ace": ""})
    checkout.checkout_detached(top, head, ODD)
    assert checkout.untracked(top, ignored=True) == set(ODD)


def test_nothing_of_a_detached_checkout_runs_hooks(
    repo: Repository, repo_dir: Path, head: str, tmp_path: Path
) -> None:
    hook = repo_dir / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ran\n")
    hook.chmod(0o755)
    top = tmp_path / "slot"
    worktree.add_detached(repo, top, head)
    checkout.checkout_detached(top, head)
    assert not (top / "ran").exists()


def test_altered_names_what_is_not_as_committed(repo_dir: Path, repo: Repository) -> None:
    first = commit(repo_dir, {"a": "1\n", "b": "1\n", "c": "1\n"})
    top = repo_dir.parent / "slot"
    worktree.add_detached(repo, top, first)
    write(top, {"new": "untracked"})
    assert checkout.altered(top, first) == []
    git(top, "update-index", "--assume-unchanged", "a")
    write(top, {"a": "2\n"})
    git(top, "sparse-checkout", "set", "--no-cone", "!/b", "/*", "!/c")
    (top / "b").unlink(missing_ok=True)
    assert checkout.altered(top, first) == ["a", "b", "c"]
    checkout.checkout_detached(top, first)
    assert checkout.altered(top, first) == []
    assert (top / "c").exists()


@pytest.mark.parametrize("setting", ["core.trustctime=false", "core.checkStat=minimal"])
def test_settings_hide_nothing_that_checks_altered(
    repo_dir: Path, repo: Repository, head: str, tmp_path: Path, setting: str
) -> None:
    git(repo_dir, "config", *setting.split("="))
    top = tmp_path / "slot"
    worktree.add_detached(repo, top, head)
    checkout.checkout_detached(top, head)
    assert checkout.altered(top, head) == []
    edit_unnoticeably(top / "f")
    assert checkout.altered(top, head) == ["f"]


def test_what_is_checked_out_exactly_ignores_settings(
    repo_dir: Path, repo: Repository, tmp_path: Path
) -> None:
    first = commit(repo_dir, {"a": "1\n"})
    top = tmp_path / "slot"
    worktree.add_detached(repo, top, first)
    write(tmp_path, {"attributes": "* eol=crlf\n"})
    git(repo_dir, "config", "core.attributesFile", str(tmp_path / "attributes"))
    git(repo_dir, "config", "core.autocrlf", "true")
    checkout.checkout_detached(top, first)
    assert (top / "a").read_bytes() == b"1\n"
    assert checkout.altered(top, first) == []


# --- commit_all --------------------------------------------------------------------------------


def test_committing_all_but(repo: Repository, top: Path) -> None:
    write(top, {"f": "2\n", "d/g": None, "new": "", ".env": "x", "made/by/setup": "", "a.o": ""})
    write(top, dict.fromkeys(ODD, "x"))
    done = checkout.commit_all(top, "# Title\n\nBody\n", [".env", "made/", "a.o"])
    assert done is not None
    assert refs.read(repo, "refs/heads/work") == done
    names = set(git(top, "ls-tree", "-r", "-z", "--name-only", "HEAD").split("\0")) - {""}
    assert names == {".gitignore", "README", "f", "new", *ODD}
    assert git(top, "log", "-1", "--format=%B") == "# Title\n\nBody\n"
    assert checkout.commit_all(top, "again", [".env", "made/", "a.o"]) is None
    assert fresh(top) == [("??", ".env"), ("??", "made/by/setup")]


def test_a_refusing_hook_says_why(repo_dir: Path, top: Path) -> None:
    hook = repo_dir / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho lint: line 7 >&2\nexit 1\n")
    hook.chmod(0o755)
    write(top, {"f": "2\n"})
    with pytest.raises(Refused) as caught:
        checkout.commit_all(top, "x")
    assert caught.value.code == "commit-failed"
    assert "lint: line 7" in str(caught.value.payload["output"])


@pytest.mark.parametrize("lock", ["index.lock", "HEAD.lock", "../../refs/heads/linked.lock"])
def test_a_lock_that_a_killed_git_left_in_a_linked_worktree(
    repo_dir: Path, repo: Repository, lock: str
) -> None:
    top = repo_dir.parent / "linked"
    worktree.add(repo, top, "refs/heads/linked", commit(repo_dir, {"a": "1\n"}))
    (checkout.place_of(top).git_dir / lock).touch()
    write(top, {"a": "2\n"})
    assert checkout.commit_all(top, "done") == git(top, "rev-parse", "HEAD")
