"""Several worktrees at once: git's processes work on them side by side, Python only waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE = 8


def side_by_side(tasks: Sequence[T], work: Callable[[T], R]) -> list[R]:
    """``work`` done for each task, several at a time; raises what the first failure raised."""
    if len(tasks) < 2:
        return [work(task) for task in tasks]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(work, tasks))
