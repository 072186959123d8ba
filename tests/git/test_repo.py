"""Opening: from anywhere inside, by git's own variables, and what is refused."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from pathlib import Path

import pytest

from gitbaton.errors import RepositoryError
from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository

from .shell import commit, git


def refusal(start: Path) -> RepositoryError:
    with pytest.raises(RepositoryError) as caught:
        open_repository(start)
    assert "\n" not in caught.value.message
    return caught.value


def test_from_the_current_directory(repo_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repo_dir / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(repo_dir / "a" / "b")
    repo = open_repository()
    assert (repo.worktree, repo.main_worktree) == (repo_dir, repo_dir)
    assert repo.git_dir == repo.common_dir == repo_dir / ".git"
    assert repo.baton_dir == repo_dir / ".git" / "baton"
    assert not repo.baton_dir.exists()
    assert repo.head_branch() == "refs/heads/main"


def test_from_a_linked_worktree(repo_dir: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(repo_dir, "worktree", "add", "-q", "-b", "side", str(linked))
    repo = open_repository(linked)
    assert repo.worktree == linked
    assert repo.main_worktree == repo_dir
    assert repo.common_dir == repo_dir / ".git"
    assert repo.git_dir == repo_dir / ".git" / "worktrees" / "linked"
    assert repo.head_branch() == "refs/heads/side"


def test_a_bare_repository_and_a_worktree_of_it(repo_dir: Path, tmp_path: Path) -> None:
    bare, linked = tmp_path / "bare.git", tmp_path / "linked"
    git(tmp_path, "clone", "-q", "--bare", str(repo_dir), str(bare))
    git(bare, "worktree", "add", "-q", str(linked), "main")
    assert open_repository(bare).worktree is None
    assert open_repository(bare / "objects").main_worktree is None
    assert open_repository(linked).worktree == linked
    assert open_repository(linked).main_worktree is None


def test_by_the_variables_of_git(
    repo_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_DIR", os.path.relpath(repo_dir / ".git", tmp_path))
    assert open_repository().worktree == repo_dir
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path))
    assert open_repository().worktree == tmp_path
    assert open_repository(repo_dir).worktree == repo_dir


def test_threads_have_handles_of_their_own(repo: Repository) -> None:
    seen = []
    thread = threading.Thread(target=lambda: seen.append(repo.handle))
    thread.start()
    thread.join()
    assert seen[0] is not repo.handle
    assert repo.handle is repo.handle


def test_no_repository(tmp_path: Path) -> None:
    assert refusal(tmp_path).code == "no-repository"


def test_another_object_format(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256", "r")
    assert refusal(tmp_path / "r").code == "unsupported-object-format"


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("extensions.refStorage", "reftable", "unsupported-ref-format"),
        ("extensions.fancy", "true", "unknown-extension"),
    ],
)
def test_extensions(repo_dir: Path, key: str, value: str, code: str) -> None:
    git(repo_dir, "config", "core.repositoryFormatVersion", "1")
    git(repo_dir, "config", key, value)
    assert refusal(repo_dir).code == code


def test_a_damaged_repository(repo_dir: Path) -> None:
    (repo_dir / ".git" / "HEAD").write_text("")
    assert refusal(repo_dir).code == "corrupt-repository"
    (repo_dir / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (repo_dir / ".git" / "config").write_text("[[")
    assert refusal(repo_dir).code == "corrupt-repository"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_repository_of_somebody_else(repo_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.chown(repo_dir, 12345)
    error = refusal(repo_dir)
    assert error.code == "unsafe-ownership"
    assert "safe.directory" in error.hint
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", f"'safe.directory'={quoted(str(repo_dir))}")
    assert open_repository(repo_dir).worktree == repo_dir


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''").replace("!", "'\\!'") + "'"


def test_a_shallow_clone_is_refused_where_history_is_needed(repo_dir: Path, tmp_path: Path) -> None:
    commit(repo_dir, {"a": "1"})
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repo_dir}", "shallow")
    open_repository(repo_dir).require_history()
    repo = open_repository(tmp_path / "shallow")
    with pytest.raises(RepositoryError) as caught:
        repo.require_history()
    assert "--unshallow" in caught.value.hint


def test_no_commit_yet(tmp_path: Path, repo: Repository) -> None:
    git(tmp_path, "init", "-q", "-b", "trunk", "new")
    assert not open_repository(tmp_path / "new").has_commits()
    assert open_repository(tmp_path / "new").head_branch() == "refs/heads/trunk"
    assert repo.has_commits()


def test_settings_of_all_levels(
    repo_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everywhere = tmp_path / "everywhere"
    everywhere.write_text(f"[include]\n\tpath = {tmp_path / 'more'}\n[baton]\n\tVerify = one\n")
    (tmp_path / "more").write_text('[baton "Sub.X"]\n\tKey = V\n\tflag\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(everywhere))
    git(repo_dir, "config", "--add", "baton.verify", "two")
    git(repo_dir, "config", "extensions.worktreeConfig", "true")
    git(repo_dir, "config", "--worktree", "baton.verify", "three")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "Baton.Verify")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "four")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", r"'baton.verify'='it'\''s' 'baton.on'= 'baton.x=y'")
    repo = open_repository(repo_dir)
    found = repo.config_all()
    assert found["baton.verify"] == [
        ("one", "global"),
        ("two", "local"),
        ("three", "worktree"),
        ("four", "command"),
        ("it's", "command"),
    ]
    assert found["baton.Sub.X.key"] == [("V", "global")]
    assert found["baton.Sub.X.flag"] == [("true", "global")]
    assert repo.config_get("baton.on") == "true"
    assert repo.config_get("BATON.x") == "y"
    assert repo.config_get("baton.nothing") is None


def test_the_parser_agrees_with_git(repo_dir: Path) -> None:
    """What `git -c` exports is read back as git reads it."""
    script = "import sys; from gitbaton.git.opening import open_repository as o; r = o();"
    script += "sys.stdout.write(repr([r.config_get(k) for k in sys.argv[1:]]))"
    git(repo_dir, "config", "alias.ask", f'!f() {{ {sys.executable} -c "$SCRIPT" "$@"; }}; f')
    value = "a'b !\"$c = d"
    os.environ["SCRIPT"] = script
    try:
        out = git(
            repo_dir, "-c", f"baton.odd={value}", "-c", "baton.yes", "ask", "baton.odd", "baton.yes"
        )
    finally:
        del os.environ["SCRIPT"]
    assert out == repr([value, "true"])


def test_identity(repo_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = open_repository(repo_dir)
    assert repo.identity() == ("Test User", "test@example.com")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Other")
    assert repo.identity() == ("Other", "test@example.com")
    monkeypatch.delenv("GIT_AUTHOR_NAME")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "none"))
    git(repo_dir, "config", "user.useConfigOnly", "true")
    assert open_repository(repo_dir).identity() is None
    monkeypatch.setenv("EMAIL", "me@example.com")
    monkeypatch.setenv("GIT_COMMITTER_NAME", "Me")
    assert open_repository(repo_dir).identity() == ("Me", "me@example.com")


def test_an_unwritable_repository(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.writable_or_refuse()
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anything
    with pytest.raises(RepositoryError) as caught:
        repo.writable_or_refuse()
    assert caught.value.code == "repository-read-only"


def test_grafts_are_no_history(repo_dir: Path, repo: Repository) -> None:
    tip = commit(repo_dir, {"a": "1"})
    repo.require_history()
    (repo.common_dir / "info" / "grafts").write_text(f"{tip}\n")
    with pytest.raises(RepositoryError) as caught:
        repo.require_history()
    assert caught.value.code == "grafts"


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("", True),
        ("# *.c text\n", True),
        ("*.c diff=cpp\nfilter export-ignore\n", True),
        ("*.c filter=x\n", False),
        ("# yes\n*.c  diff=cpp -merge\n", False),
        ("[attr]mine eol=crlf\n", False),
        ("* !text\n", False),
        ("* working-tree-encoding=UTF-16\n", False),
    ],
)
def test_attributes_that_no_commit_holds(repo: Repository, text: str, allowed: bool) -> None:
    (repo.common_dir / "info" / "attributes").write_text(text)
    if allowed:
        repo.require_attributes()
        return
    with pytest.raises(RepositoryError) as caught:
        repo.require_attributes()
    assert caught.value.code == "untracked-attributes"
