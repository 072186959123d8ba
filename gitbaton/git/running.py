"""Whether some git is at work in a folder: who is about to remove a lock has to know.

Git closes the lock files that it holds, so they tell nothing. Its processes tell, where the system
lets them be seen.
"""

from __future__ import annotations

import os
from pathlib import Path

_PROCESSES = Path("/proc")


def git_runs_in(*places: Path) -> bool:
    """Whether a git process may be at work below one of ``places``; True where nobody can tell."""
    tops = [os.path.realpath(place) for place in places]
    if not (_PROCESSES / "self" / "cwd").exists():
        return True
    for process in _PROCESSES.iterdir():
        if process.name.isdigit() and _is_git(process) and _is_below(process, tops):
            return True
    return False


def _is_git(process: Path) -> bool:
    """Whether it is git, and not the one that only waits for this process: ``git baton VERB``."""
    try:
        name = (process / "comm").read_text().strip()
        if name != "git" and (not name.startswith("git-") or name == "git-baton"):
            return False
        words = (process / "cmdline").read_bytes().split(b"\0")
        return process.name != str(os.getppid()) or b"baton" not in words
    except OSError:
        return False


def _is_below(process: Path, tops: list[str]) -> bool:
    try:
        where = os.readlink(process / "cwd")
    except FileNotFoundError:
        return False  # it has ended
    except OSError:
        return True  # somebody else's
    return any(os.path.commonpath((where, top)) == top for top in tops)
