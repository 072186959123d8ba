"""What a verb costs whoever types it: a whole process, from nothing to its exit.

`status` is typed most and must not get slower with a run's past. Whatever it takes, importing the
command line library alone is the least that any Python program of its kind takes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

from benchmarks import scene
from benchmarks.report import Bench, Line, Row, process, take_turns


def status(bench: Bench) -> Iterator[Line]:
    """`status` on runs with a short and a long past; first with work in flight, then complete."""
    sizes = (10, bench.pick(1_000, 100), bench.pick(10_000, 1_000))
    tops = {size: bench.scratch / f"status-{size}" for size in sizes}
    for size, top in tops.items():
        scene.worked_off(top, size)
    for kind in ("in flight", "complete"):
        if kind == "complete":
            for top in tops.values():
                scene.complete(top)
        names = {size: f"status, {size:,} finished attempts, {kind}" for size in sizes}
        bare = 'python -c "import click"'
        program = [sys.executable, "-m", "gitbaton", "status"]
        samples = {names[size]: partial(process, program, tops[size]) for size in sizes}
        samples[bare] = partial(process, [sys.executable, "-c", "import click"], bench.scratch)
        found = take_turns(samples, bench.pick(25, 3), warm_up=bench.pick(2, 1))
        for name in names.values():
            yield Row(found[name], found[bare])
            if name is names[sizes[-1]]:
                yield Row(found[name], found[names[sizes[0]]])
