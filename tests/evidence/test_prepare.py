"""What copy and setup make is listed, stays inside the worktree, and never replaces the commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitbaton.config import Settings
from gitbaton.errors import BatonError
from gitbaton.evidence.prepare import prepare_worktree, within, worktree_root
from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository

from .conftest import Work, git


def prepare(work: Work, tmp_path: Path) -> tuple[str, ...]:
    return prepare_worktree(
        work.repo, work.top, work.settings, project_dir="", log=tmp_path / "setup.log"
    )


def test_nothing_configured_makes_nothing(work: Work, tmp_path: Path) -> None:
    assert prepare(work, tmp_path) == ()


def test_copies_then_setup_and_all_is_listed(work: Work, path: Path, tmp_path: Path) -> None:
    (path / ".env").write_text("KEY=1\n")
    (path / "deps" / "inner").mkdir(parents=True)
    (path / "deps" / "inner" / "tool").write_text("tool\n")
    (path / "deps" / "inner" / "tool").chmod(0o755)
    (path / "deps" / "link").symlink_to("/outside/of/it")
    work.with_settings(copy=(".env", "deps"), setup=("cat .env > made.tmp", "echo 2 > 'two words'"))
    made = prepare(work, tmp_path)
    assert (work.top / "made.tmp").read_text() == "KEY=1\n"
    assert (work.top / "deps" / "inner" / "tool").stat().st_mode & 0o777 == 0o755
    assert (work.top / "deps" / "link").readlink() == Path("/outside/of/it")
    for file in (".env", "made.tmp", "two words", "deps/inner/tool", "deps/link"):
        assert within(file, made)
    assert not within("src/app.py", made)
    assert prepare(work, tmp_path) == made


def test_an_older_copy_is_refreshed(work: Work, path: Path, tmp_path: Path) -> None:
    (path / ".env").write_text("KEY=1\n")
    work.with_settings(copy=(".env",))
    prepare(work, tmp_path)
    (path / ".env").write_text("KEY=22\n")
    prepare(work, tmp_path)
    assert (work.top / ".env").read_text() == "KEY=22\n"


def test_what_the_commit_holds_is_never_replaced(work: Work, path: Path, tmp_path: Path) -> None:
    (path / "src" / "app.py").write_text("edited in the main worktree\n")
    (path / "src" / "extra").write_text("untracked\n")
    work.with_settings(copy=("src", "check.sh"))
    assert prepare(work, tmp_path) == ("src/extra",)
    assert (work.top / "src" / "app.py").read_text() == "print('old')\n"


@pytest.mark.parametrize("entry", ["absent", "../x", "/etc/passwd", ".git/config", ".", "a/../.."])
def test_bad_entries_are_one_clear_error(work: Work, tmp_path: Path, entry: str) -> None:
    work.with_settings(copy=(entry,))
    with pytest.raises(BatonError) as error:
        prepare(work, tmp_path)
    assert error.value.code == ("copy-failed" if entry == "absent" else "bad-setting")
    assert entry in error.value.message


def test_a_link_of_the_commit_leads_no_copy_outside(work: Work, path: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (work.top / "conf").symlink_to(outside)
    (path / "conf").mkdir()
    (path / "conf" / "x").write_text("x")
    for entry in ("conf/x", "conf"):
        work.with_settings(copy=(entry,))
        if entry == "conf/x":
            with pytest.raises(BatonError, match="leads out"):
                prepare(work, tmp_path)
        else:
            prepare(work, tmp_path)
    assert list(outside.iterdir()) == []


def test_a_failing_setup_tells_its_output(work: Work, tmp_path: Path) -> None:
    work.with_settings(setup=("echo no network; exit 9", "touch never"))
    with pytest.raises(BatonError) as error:
        prepare(work, tmp_path)
    assert error.value.code == "setup-failed"
    assert "exit 9" in error.value.message
    assert error.value.payload["output_tail"] == "no network\n"
    assert (tmp_path / "setup.log").read_text() == "no network\n"
    assert not (work.top / "never").exists()


def test_setup_has_a_limit_only_if_one_is_set(work: Work, tmp_path: Path) -> None:
    work.with_settings(setup=("sleep 30",), setup_timeout=1)
    with pytest.raises(BatonError, match="timed out"):
        prepare(work, tmp_path)


def test_where_worktrees_lie(repo: Repository, path: Path, tmp_path: Path) -> None:
    assert worktree_root(repo, Settings()) == tmp_path / "it's a $repo.baton"
    assert worktree_root(repo, Settings(worktree_dir="../w/")) == tmp_path / "w"
    assert worktree_root(repo, Settings(worktree_dir="/w")) == Path("/w")
    git(path, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    linked = open_repository(tmp_path / "linked")
    assert worktree_root(linked, Settings()) == tmp_path / "it's a $repo.baton"
    git(path, "clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    assert worktree_root(open_repository(tmp_path / "bare.git"), Settings()) == (
        tmp_path / "bare.baton"
    )
