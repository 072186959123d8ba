"""A hundred thousand findings dealt out to fixers, and what became of them added up.

To read the same file with the standard library, sort it by place and write it again is the least
that any planner does; it makes no ids, no scopes, and one file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import chdir
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.report import Bench, Line, Row, take_turns, timed
from gitbaton.engine import findings as engine
from gitbaton.model.queue import SEVERITIES

RULES = 700
FILES = 5_000


def findings(bench: Bench) -> Iterator[Line]:
    """Into shards of thirty, and from a status for each to a report, with a rescan."""
    size = bench.pick(100_000, 2_000)
    file = bench.scratch / "findings.json"
    file.write_text(json.dumps(found(size)))
    names = count()

    def dealt() -> float:
        out = bench.scratch / f"shards-{next(names)}"
        return timed(partial(engine.shard, [str(file)], out))

    def sorted_again() -> None:
        rows = json.loads(file.read_bytes())
        rows.sort(key=lambda row: (row["path"], row["line"], row["rule"]))
        (bench.scratch / "sorted.json").write_text(json.dumps(rows, indent=1))

    shards = bench.scratch / "shards"
    with chdir(bench.scratch):
        made = engine.shard([str(file)], shards)
        _all_fixed(shards, made.shards)
        ours = f"{size:,} findings into {made.shards:,} shards"
        report = f"{made.shards:,} statuses and a rescan added up"
        theirs = "json.load, sort, json.dump of the same file"
        samples = take_turns(
            {
                ours: dealt,
                report: lambda: timed(partial(engine.aggregate, shards, [str(file)])),
                theirs: lambda: timed(sorted_again),
            },
            bench.pick(5, 2),
            budget=60,
        )
    yield Row(samples[ours], samples[theirs])
    yield Row(samples[report], samples[theirs])


def found(size: int) -> list[dict[str, object]]:
    """What a linter finds in a large project."""
    return [
        {
            "path": f"src/pkg{at % 50}/mod{at % FILES}.py",
            "line": at % 997 + 1,
            "rule": f"F{at % RULES}",
            "severity": SEVERITIES[at % 5],
            "message": f"name number {at} is assigned to but never used",
        }
        for at in range(size)
    ]


def _all_fixed(shards: Path, number: int) -> None:
    for at in range(1, number + 1):
        given = json.loads((shards / f"shard-{at}.json").read_bytes())
        fixed = [finding["id"] for finding in given["findings"]]
        status = {"schema_version": 2, "kind": "status", "shard": at, "fixed": fixed}
        (shards / f"shard-{at}.status.json").write_text(json.dumps(status))
