"""The repository of a test, opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository


@pytest.fixture
def repo(repo_dir: Path) -> Repository:
    return open_repository(repo_dir)
