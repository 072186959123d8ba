"""Every condition of a seal but its checks: one code, one line, one hint each."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gitbaton.errors import Refused

from .conftest import BRANCH, Work, git

MARKERS = "<<<<<<< ours\nprint('a')\n=======\nprint('b')\n>>>>>>> theirs\n"


def refused(work: Work, code: str, **how: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        work.examine(**how)
    assert caught.value.code == code, caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


def test_a_commit_in_order(work: Work) -> None:
    commit = work.commit({"src/app.py": "print('new')\n", "docs/a b": "x\n"})
    examined = work.examine()
    assert examined.commit == commit
    assert examined.tree == work.git("rev-parse", "HEAD^{tree}")
    assert examined.changed_files == ("docs/a b", "src/app.py")
    assert examined.warnings == ()


def test_another_branch_or_none(work: Work) -> None:
    work.git("switch", "-q", "-c", "own")
    work.commit()
    error = refused(work, "wrong-branch")
    assert "own" in error.message
    assert BRANCH in error.message
    work.git("checkout", "-q", "--detach")
    assert "detached" in refused(work, "wrong-branch").message


def test_nothing_committed(work: Work) -> None:
    assert "--allow-empty" in refused(work, "nothing-committed").hint
    work.git("commit", "-q", "--allow-empty", "-m", "nothing had to change")
    assert work.examine().changed_files == ()


def test_uncommitted_changes_are_named(work: Work) -> None:
    work.commit()
    for number in range(7):
        work.write(f"new/{number}", "x")
    error = refused(work, "uncommitted-changes")
    assert "new/0, new/1, new/2, new/3, new/4 and 2 more" in error.message
    shutil.rmtree(work.top / "new")
    work.write("ignored.tmp", "x")
    work.examine()
    work.write("src/app.py", "print('newer')\n")
    assert "src/app.py" in refused(work, "uncommitted-changes").message
    work.git("add", "src/app.py")
    refused(work, "uncommitted-changes")


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_hidden_edits_are_seen(work: Work, flag: str) -> None:
    work.commit()
    work.git("update-index", flag, "check.sh")
    work.write("check.sh", "true\n")
    assert work.git("status", "--porcelain") == ""
    assert "check.sh" in refused(work, "uncommitted-changes").message


def test_the_index_of_the_worker_is_left_as_it_is(work: Work) -> None:
    work.commit()
    work.git("update-index", "--assume-unchanged", "check.sh")
    work.examine()
    assert work.git("ls-files", "-v", "check.sh") == "h check.sh"


def test_untracked_files_are_seen_whatever_the_settings_say(work: Work) -> None:
    work.commit()
    work.git("config", "status.showUntrackedFiles", "no")
    work.write("stray", "x")
    assert "stray" in refused(work, "uncommitted-changes").message


def test_what_setup_and_checks_made_is_no_dirt(work: Work) -> None:
    work.commit()
    work.write("out/report", "x")
    work.write("conf", "x")
    refused(work, "uncommitted-changes", prepared=("conf",))
    work.examine(prepared=("conf",), made_by_checks=("out/",))


def test_what_setup_made_must_not_be_committed(work: Work) -> None:
    work.commit({"out/report": "x", "src/app.py": "print('new')\n"})
    error = refused(work, "prepared-file-committed", prepared=("out/",))
    assert "out/report" in error.message
    work.examine(made_by_checks=("out/",))


def test_a_merge_under_way(work: Work, path: Path) -> None:
    (path / "src" / "app.py").write_text("print('theirs')\n")
    git(path, "commit", "-qam", "theirs")
    work.commit()
    with pytest.raises(subprocess.CalledProcessError):
        work.git("merge", "-q", "trunk")
    refused(work, "merge-in-progress")
    work.write("src/app.py", "print('new theirs')\n")
    work.git("add", ".")
    refused(work, "merge-in-progress")
    work.git("commit", "-q", "-m", "merged")
    work.examine()


def test_history_without_the_base(work: Work) -> None:
    work.git("checkout", "-q", "--orphan", "other")
    work.git("commit", "-q", "-m", "other root")
    work.git("branch", "-f", BRANCH)
    work.git("switch", "-q", BRANCH)
    assert work.base[:12] in refused(work, "not-descended").message


def test_a_resolution_descends_from_both(work: Work, path: Path) -> None:
    sealed = work.commit({"other": "x\n"})
    work.git("reset", "-q", "--hard", work.base)
    work.commit()
    work.with_attempt(resolves=1, resolved_commit=sealed)
    assert sealed[:12] in refused(work, "not-descended").message
    work.git("merge", "-q", "-m", "resolved", sealed)
    assert work.examine().changed_files == ("other", "src/app.py")


def test_outside_allowed_paths(work: Work) -> None:
    work.with_packet(allowed_paths=("docs/**", "*.md"))
    work.commit({"docs/x": "x", "README.md": "x"})
    work.examine()
    work.commit({"src/app.py": "print('new')\n"})
    error = refused(work, "outside-allowed-paths")
    assert "src/app.py" in error.message
    assert "docs/**, *.md" in error.message


def test_allowed_paths_are_those_of_the_project(work: Work) -> None:
    work.with_packet(allowed_paths=("app/**",), project_dir="web")
    work.commit({"web/app/x": "x"})
    work.examine()
    work.commit({"app/x": "x"})
    refused(work, "outside-allowed-paths")


def test_protected_paths(work: Work) -> None:
    work.with_packet(protected_paths=("check.sh", "**/conftest.py"))
    work.commit()
    work.examine()
    work.commit({"tests/conftest.py": "x"})
    assert "tests/conftest.py" in refused(work, "protected-path").message
    work.git("reset", "-q", "--hard", "HEAD^")
    work.git("rm", "-q", "check.sh")
    work.git("commit", "-q", "-m", "no checks any more")
    assert "check.sh" in refused(work, "protected-path").message


def test_edits_of_the_plan_itself_are_a_warning(work: Work) -> None:
    tasks = "openspec/changes/add-login/tasks.md"
    work.with_packet(allowed_paths=("src/",), protected_paths=("openspec/**",))
    work.commit({tasks: "- [x] 1.1 Do it\n", "src/app.py": "print('new')\n"})
    examined = work.examine(tasks_paths=(tasks,))
    assert tasks in examined.changed_files
    assert len(examined.warnings) == 1
    assert tasks in examined.warnings[0]
    refused(work, "protected-path")


def test_committed_conflict_markers(work: Work) -> None:
    work.commit({"src/app.py": "import os\n" + MARKERS})
    assert "src/app.py:2" in refused(work, "conflict-markers").message


def test_what_only_looks_like_markers(work: Work) -> None:
    work.commit({"a": ">>>>>>> x\n<<<<<<< y\n", "b": "<<<<<<< x\n", "c": ">>>>>>> y\n"})
    work.commit({"d": "<<<<<<<< x\n >>>>>>> y\n=======\n"})
    work.examine()


def test_markers_that_were_there_before(work: Work) -> None:
    base = work.commit({"fixture": MARKERS})
    work.with_attempt(base_commit=base)
    work.commit({"fixture": MARKERS + "one more line\n"})
    work.examine()


def test_the_worktree_is_gone(work: Work) -> None:
    shutil.rmtree(work.top)
    assert str(work.top) in refused(work, "worktree-missing").message


def test_committed_work_outlives_its_worktree(work: Work) -> None:
    commit = work.commit()
    shutil.rmtree(work.top)
    examined = work.examine()
    assert examined.commit == commit
    assert str(work.top) in examined.warnings[0]
    work.with_settings(seal_in="worktree")
    refused(work, "worktree-missing")


def test_paths_that_are_no_utf8(work: Work) -> None:
    name = b"\xff.txt".decode(errors="surrogateescape")
    work.commit({name: "x\n"})
    assert work.examine().changed_files == ("\\xff.txt",)


@pytest.mark.parametrize("name", ["..", ".git", ".GIT"])
def test_a_path_that_no_checkout_would_write(work: Work, name: str) -> None:
    blob = work.git("rev-parse", "HEAD:check.sh")
    inner = _tree(work, f"100644 blob {blob}\t{name}\n")
    tree = _tree(work, f"{work.git('ls-tree', 'HEAD')}\n040000 tree {inner}\tevil\n")
    commit = work.git("commit-tree", "-p", "HEAD", "-m", "evil", tree)
    work.git("update-ref", f"refs/heads/{BRANCH}", commit)
    with pytest.raises(Refused) as refused:
        work.examine()
    assert refused.value.code == "bad-path"
    assert f"evil/{name}" in refused.value.message


def _tree(work: Work, listing: str) -> str:
    done = subprocess.run(
        ["git", "mktree"], cwd=work.top, input=listing, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_a_worktree_that_leads_to_another_repository(work: Work, tmp_path: Path) -> None:
    work.commit()
    git(tmp_path, "init", "-q", "other")
    (work.top / ".git").write_text(f"gitdir: {tmp_path / 'other' / '.git'}\n")
    with pytest.raises(Refused) as refused:
        work.examine()
    assert refused.value.code == "worktree-missing"
