"""Measuring in turns, and one table for all of it.

Other work on a machine comes in waves. Figure and yardstick take turns, round by round and in a
changing order, so that a wave hits both; median and spread are kept, never a single best time.
"""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

Sample = Callable[[], float]
"""Does something once and returns what it cost."""

_COLUMNS = ("figure", "median", "min..max", "n", "yardstick", "median", "min..max", "ratio")
_RIGHT = {1, 2, 3, 5, 6, 7}


@dataclass(frozen=True)
class Series:
    """The samples of one thing that was measured; ``unit`` is ``ms`` or ``B``."""

    name: str
    values: tuple[float, ...]
    unit: str = "ms"

    @property
    def median(self) -> float:
        return median(self.values)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "unit": self.unit,
            "median": self.median,
            "min": min(self.values),
            "max": max(self.values),
            "samples": list(self.values),
        }


@dataclass(frozen=True)
class Row:
    """A figure beside one yardstick of the same run."""

    figure: Series
    yardstick: Series

    @property
    def ratio(self) -> float:
        """Median of the figure over median of the yardstick."""
        return self.figure.median / self.yardstick.median

    def as_json(self) -> dict[str, Any]:
        return {
            "figure": self.figure.as_json(),
            "yardstick": self.yardstick.as_json(),
            "ratio": self.ratio,
        }


@dataclass(frozen=True)
class Left:
    """A figure that was not measured, and why; ``failed`` if it should have been."""

    figure: str
    reason: str
    failed: bool = False

    def as_json(self) -> dict[str, Any]:
        return {"figure": self.figure, "not_measured": self.reason, "failed": self.failed}


Line = Row | Left


@dataclass(frozen=True)
class Bench:
    """Where a group may work, and how thoroughly: ``quick`` asks whether things work at all."""

    scratch: Path
    quick: bool

    def pick(self, full: int, quick: int) -> int:
        """The size or number of rounds that this run is to have."""
        return quick if self.quick else full


def timed(action: Callable[[], object]) -> float:
    """Milliseconds that ``action`` takes."""
    begin = time.perf_counter()
    action()
    return (time.perf_counter() - begin) * 1000


def process(args: Sequence[str], cwd: Path, extra: Mapping[str, str] | None = None) -> float:
    """Milliseconds from starting a program to its end; it must exit 0 within five minutes."""

    def run() -> None:
        subprocess.run(
            args,
            cwd=cwd,
            env={**os.environ, **(extra or {})},
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
        )

    return timed(run)


def take_turns(
    samples: Mapping[str, Sample], rounds: int, *, warm_up: int = 1, budget: float = 30.0
) -> dict[str, Series]:
    """Measure each of ``samples`` once a round; rounds beyond the second start only within
    ``budget`` seconds. The first ``warm_up`` rounds are not kept."""
    kept: dict[str, list[float]] = {name: [] for name in samples}
    names = list(samples)
    deadline = time.monotonic() + budget
    for turn in range(warm_up + rounds):
        if turn >= warm_up + 2 and time.monotonic() > deadline:
            break
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            value = samples[name]()
            if turn >= warm_up:
                kept[name].append(value)
    return {name: Series(name, tuple(values)) for name, values in kept.items()}


def machine(scratch: Path) -> dict[str, Any]:
    """What the figures depend on beside the program."""
    from importlib.metadata import version

    from pygit2 import LIBGIT2_VERSION

    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True)
    return {
        "python": platform.python_version(),
        "git": git.stdout.split()[2],
        "pygit2": version("pygit2"),
        "libgit2": LIBGIT2_VERSION,
        "sqlite": sqlite3.sqlite_version,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "file_system": _file_system(scratch),
    }


def _file_system(folder: Path) -> str:
    """The type of the file system of ``folder``: syncing costs nothing on some."""
    df = shutil.which("df")
    if df is None:
        return "unknown"
    told = subprocess.run([df, "-PT", str(folder)], capture_output=True, text=True, check=False)
    words = told.stdout.splitlines()[-1].split() if told.returncode == 0 else []
    return words[1] if len(words) > 1 else "unknown"


def table(lines: Iterable[Line]) -> str:
    """All lines, one below the other; a figure with two yardsticks is named once."""
    cells: list[tuple[str, ...]] = [_COLUMNS]
    notes: list[str] = []
    before: Series | None = None
    for line in lines:
        if isinstance(line, Left):
            notes.append(f"{line.figure}: {'FAILED' if line.failed else 'skipped'}, {line.reason}")
            continue
        figure, yard = line.figure, line.yardstick
        own = ("", "", "", "") if figure is before else (*_told(figure), str(len(figure.values)))
        cells.append((*own, *_told(yard), f"{line.ratio:.2f}"))
        before = figure
    widths = [max(len(row[at]) for row in cells) for at in range(len(_COLUMNS))]
    rows = [_aligned(row, widths) for row in cells]
    rows.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*rows, *notes])


def _told(series: Series) -> tuple[str, str, str]:
    low, high = min(series.values), max(series.values)
    return (
        series.name,
        f"{_number(series.median)} {series.unit}",
        f"{_number(low)}..{_number(high)}",
    )


def _aligned(row: tuple[str, ...], widths: list[int]) -> str:
    return "  ".join(
        cell.rjust(width) if at in _RIGHT else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(row, widths, strict=True))
    ).rstrip()


def _number(value: float) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"
