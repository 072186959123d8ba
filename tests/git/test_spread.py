"""Folders of worktrees: created whole, marked where the file system knows the mark."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gitbaton.git import spread


def _attributes(folder: Path) -> str:
    told = subprocess.run(["lsattr", "-d", folder], capture_output=True, text=True, check=False)
    return told.stdout.partition(" ")[0]


def test_only_what_is_created_is_marked(tmp_path: Path) -> None:
    existing = tmp_path / "mine"
    existing.mkdir()
    before = _attributes(existing)
    spread.make(existing / "repo.baton" / "a")
    spread.make(existing / "repo.baton" / "b")
    assert (existing / "repo.baton" / "a").is_dir()
    assert (existing / "repo.baton" / "b").is_dir()
    assert _attributes(existing) == before
    marked = subprocess.run(["chattr", "+T", existing], capture_output=True, check=False)
    if marked.returncode == 0:  # this file system knows it
        assert "T" in _attributes(existing / "repo.baton")
        assert "T" in _attributes(existing / "repo.baton" / "a")


def test_a_file_in_the_way_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        spread.make(tmp_path / "file" / "below")
