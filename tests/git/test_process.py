"""Starting git: a clean environment, one clear line when it fails."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from gitbaton.errors import RepositoryError
from gitbaton.git import process


def test_the_variables_are_those_git_itself_lists() -> None:
    listed = subprocess.run(
        ["git", "rev-parse", "--local-env-vars"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert set(listed) <= set(process.LOCAL_VARIABLES)


def test_a_child_does_not_see_the_callers_repository(
    repo_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert "GIT_DIR" not in process.clean_environment()
    out = process.git(["rev-parse", "--show-toplevel"], repo_dir).out
    assert out.decode().strip() == str(repo_dir)


def test_settings_of_the_command_line_reach_git_but_not_other_programs(
    repo_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.name")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "From The Command")
    assert process.git(["config", "user.name"], repo_dir).out == b"From The Command\n"
    assert "GIT_CONFIG_COUNT" not in process.clean_environment()


def test_a_failure_is_one_line_with_a_code(repo_dir: Path) -> None:
    with pytest.raises(RepositoryError) as caught:
        process.git(["rev-parse", "--verify", "no-such-thing"], repo_dir)
    assert caught.value.code == "git-failed"
    assert caught.value.message == "git rev-parse: Needed a single revision"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("error: unable to write file x: No space left on device", "disk-full"),
        ("fatal: Unable to create '/x/index.lock': Read-only file system", "repository-read-only"),
        ("error: insufficient permission: Permission denied", "repository-read-only"),
    ],
)
def test_storage_failures_have_codes_of_their_own(said: str, code: str, tmp_path: Path) -> None:
    error = process.failure(process.Output(128, b"", said), ["add"], tmp_path)
    assert error.code == code


@pytest.mark.parametrize(
    ("free", "code"), [({"f_bavail": 3}, "disk-full"), ({"f_favail": 0}, "disk-full"), ({}, None)]
)
def test_a_full_disk_that_git_does_not_name(
    free: dict[str, int], code: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"f_bavail": 1 << 20, "f_frsize": 4096, "f_files": 1 << 20, "f_favail": 9, **free}
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(**facts))
    output = process.Output(128, b"", "error: unable to write file src/x\n")
    assert process.failure(output, ["read-tree"], tmp_path).code == (code or "git-failed")


def test_a_missing_directory_is_not_a_missing_git(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError) as caught:
        process.git(["version"], tmp_path / "gone")
    assert caught.value.code == "no-directory"


def test_an_old_git_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "git_version", lambda: (2, 37, 9))
    with pytest.raises(RepositoryError) as caught:
        process.require_git()
    assert caught.value.code == "git-too-old"


def test_a_full_disk_is_told_without_a_number() -> None:
    error = process.storage_error(str(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    assert error is not None
    assert (error.code, error.message) == ("disk-full", os.strerror(errno.ENOSPC))


def test_words_of_any_length(repo_dir: Path) -> None:
    say = "alias.say=!printf 'a\\0\\0'; head -c 200000 /dev/zero | tr '\\0' x; printf '\\0z'"
    assert list(process.words(["-c", say, "say"], repo_dir)) == ["a", "", "x" * 200000, "z"]


def test_words_are_told_one_after_the_other(repo_dir: Path) -> None:
    listed = process.git(["ls-files", "-z"], repo_dir).out.decode().split("\0")[:-1]
    assert list(process.words(["ls-files", "-z"], repo_dir)) == listed
    with pytest.raises(RepositoryError) as caught:
        list(process.words(["log", "-z", "nonsense"], repo_dir))
    assert caught.value.code == "git-failed"
    assert "nonsense" in caught.value.message


def test_who_has_heard_enough_ends_git(repo_dir: Path) -> None:
    words = process.words(["-c", "alias.say=!yes | tr '\\n' '\\0'", "say"], repo_dir)
    assert next(words) == "y"
    words.close()
