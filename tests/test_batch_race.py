"""Several processes on batches over one queue: every item once, each root closes once.

The issue's full figure of 16 processes is run by `python tests/batch_race.py`.
"""

from __future__ import annotations

from pathlib import Path

import batch_race
import pytest
import scene

SECONDS = 120.0


@pytest.mark.parametrize("roots", [1, 2])
def test_processes_share_the_items(roots: int, tmp_path: Path) -> None:
    top = tmp_path / "repo"
    scene.make_repository(top, [1])
    batch_race.go(top, roots, 6, 12, SECONDS, tidy=roots == 2)
