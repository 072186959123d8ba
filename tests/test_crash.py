"""A sample of `tests/crash.py`: each verb cut off at a few points, the same ones every time.

`python tests/crash.py --all` plays every point.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import crash
import pytest

SECONDS = 3.5


@cache
def _traceable() -> str:
    """Why nothing can be traced here; empty if it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(["strace", "-o", "/dev/null", "true"], check=False, capture_output=True)
    return "" if tried.returncode == 0 else "processes may not be traced here"


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="baton-crash-", dir=crash.fast_folder()) as made:
        yield Path(made)


@pytest.mark.parametrize("verb", crash.VERBS)
def test_nothing_is_lost_wherever_a_verb_is_cut_off(verb: str, folder: Path) -> None:
    if _traceable():
        pytest.skip(_traceable())
    failed = crash.sweep(folder / verb, verb, SECONDS)
    assert not failed, "\n".join(f"{point}: {why}" for point, why in failed.items())
