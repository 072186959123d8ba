"""A queue of a hundred thousand items: filling it, choosing from it, taking one, looking at it.

SQLite holds the same items in one table with an index for just this query, and is as durable. It
need not keep the past, nor be readable by anybody who has only git.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

from msgspec.structs import replace

from benchmarks import scene
from benchmarks.report import Bench, Line, Row, process, take_turns, timed
from gitbaton.engine import queue as engine
from gitbaton.engine.context import Context
from gitbaton.model.queue import SEVERITIES, Claim, Filters
from gitbaton.rules.select import select
from gitbaton.store import queues

NAME = "bench"
FIRST = 50

_TABLE = """
PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;
CREATE TABLE item (id TEXT PRIMARY KEY, title, body, severity INTEGER, labels, path,
                   state, claim, created);
CREATE INDEX next ON item (state, severity, created, id);
"""
_SELECT = (
    "SELECT id, title, severity FROM item WHERE state = 'open' {} ORDER BY severity, created, id"
)
_COLD = """
import sqlite3, sys
for row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2]): print(*row)
"""


def queue(bench: Bench) -> Iterator[Line]:
    """Import, select, claim and `queue list`, each beside the same of SQLite."""
    size = bench.pick(100_000, 2_000)
    ctx, _ = scene.repository(bench.scratch / "repo")
    file = bench.scratch / "findings.json"
    file.write_text(json.dumps(findings(size)))
    yield from _import(bench, ctx, file, size)
    engine.import_files(ctx, NAME, [str(file)], format="json", source="bench")
    table = bench.scratch / "items.db"
    fill(table, file)
    yield from _select(bench, ctx, table, size)
    yield from _claim(bench, ctx, table, size)
    yield from _list(bench, ctx, table, size)


def findings(size: int) -> list[dict[str, object]]:
    """What a linter finds in a large project."""
    return [
        {
            "title": f"name number {at} is assigned to but never used",
            "body": "what a linter says of it, and where it is explained; " * 4,
            "severity": SEVERITIES[at % 5],
            "labels": [f"F{at % 700}", "lint"],
            "path": f"src/pkg{at % 50}/mod{at % 1000}.py",
            "fingerprint": hashlib.sha256(str(at).encode()).hexdigest(),
        }
        for at in range(size)
    ]


def fill(table: Path, file: Path) -> None:
    """The findings of ``file`` in a new table."""
    rows = [
        (
            f"{found['labels'][0]}-{found['fingerprint'][:7]}-{at}",
            found["title"],
            found["body"],
            SEVERITIES.index(found["severity"]),
            " ".join(found["labels"]),
            found["path"],
            "open",
            None,
            "2030-01-02T12:00:00Z",
        )
        for at, found in enumerate(json.loads(file.read_bytes()))
    ]
    with closing(sqlite3.connect(table)) as db:
        db.executescript(_TABLE)
        with db:
            db.executemany("INSERT INTO item VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def _import(bench: Bench, ctx: Context, file: Path, size: int) -> Iterator[Line]:
    names = count()

    def ours() -> float:
        name = f"import-{next(names)}"
        took = timed(partial(engine.import_files, ctx, name, [str(file)], format="json"))
        again = partial(engine.import_files, ctx, name, [str(file)], format="json")
        repeated.append(timed(again))
        return took

    def theirs() -> float:
        return timed(partial(fill, bench.scratch / f"import-{next(names)}.db", file))

    repeated: list[float] = []
    first, again, sqlite = (
        f"import of {size:,} findings",
        "the same once more, nothing new",
        "SQLite: the file into an indexed table",
    )
    samples = {first: ours, again: lambda: repeated[-1], sqlite: theirs}
    found = take_turns(samples, bench.pick(3, 2), warm_up=0, budget=60)
    yield Row(found[first], found[sqlite])
    yield Row(found[again], found[sqlite])


def _select(bench: Bench, ctx: Context, table: Path, size: int) -> Iterator[Line]:
    below = Filters(paths=("src/pkg7/**",))
    with closing(sqlite3.connect(table)) as db:

        def ours(filters: Filters) -> float:
            items = queues.load(ctx.repo, NAME).items
            return timed(lambda: select(items, filters, limit=FIRST))

        def theirs(where: str) -> float:
            query = f"{_SELECT.format(where)} LIMIT {FIRST}"
            return timed(lambda: db.execute(query).fetchall())

        every, some = f"first {FIRST} of {size:,}", f"first {FIRST} below one folder"
        found = take_turns(
            {
                every: partial(ours, Filters()),
                some: partial(ours, below),
                f"SQLite, {every}": partial(theirs, ""),
                f"SQLite, {some}": partial(theirs, "AND path GLOB 'src/pkg7/*'"),
            },
            bench.pick(15, 3),
        )
    yield Row(found[every], found[f"SQLite, {every}"])
    yield Row(found[some], found[f"SQLite, {some}"])


def _claim(bench: Bench, ctx: Context, table: Path, size: int) -> Iterator[Line]:
    def step(queue: queues.Queue) -> tuple[queues.Changes, queues.QueueEvent]:
        [first] = select(queue.items, Filters(), limit=1)
        claim = Claim(run="bench", attempt=f"{first}@1", capability="c" * 64)
        item = replace(queue.items[first], state="claimed", claimed_by=claim)
        return {first: item}, queues.QueueEvent("claim", f"claim {first}", "bench")

    with closing(sqlite3.connect(table, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous=FULL")

        def theirs() -> None:
            db.execute("BEGIN IMMEDIATE")
            first = db.execute(f"{_SELECT.format('')} LIMIT 1").fetchone()[0]
            db.execute("UPDATE item SET state = 'claimed', claim = ? WHERE id = ?", ("c", first))
            db.execute("COMMIT")

        ours, sqlite = f"select and claim one of {size:,}, durable", "SQLite WAL, synchronous=FULL"
        found = take_turns(
            {
                ours: lambda: timed(lambda: queues.transact(ctx.repo, NAME, step, ctx.clock)),
                sqlite: lambda: timed(theirs),
            },
            bench.pick(15, 3),
        )
    yield Row(found[ours], found[sqlite])


def _list(bench: Bench, ctx: Context, table: Path, size: int) -> Iterator[Line]:
    top = ctx.repo.worktree or ctx.repo.common_dir
    python = sys.executable
    ours, bare, sqlite = (
        f"queue list of {size:,}, whole process",
        'python -c "import pygit2, click"',
        "python and SQLite, same list",
    )
    program = [python, "-m", "gitbaton", "queue", "list", "--queue", NAME]
    query = [python, "-c", _COLD, str(table), f"{_SELECT.format('')} LIMIT {FIRST}"]
    found = take_turns(
        {
            ours: partial(process, program, top),
            bare: partial(process, [python, "-c", "import pygit2, click"], top),
            sqlite: partial(process, query, top),
        },
        bench.pick(15, 3),
    )
    yield Row(found[ours], found[bare])
    yield Row(found[ours], found[sqlite])
