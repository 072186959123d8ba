"""What one transition costs: time when durable, time under contention, bytes.

The least that durability takes is two synced files; the least that git objects take is the same
blobs, trees and commit by bare pygit2; and the least that a database takes is SQLite, which is
built for nothing else. All write the same bytes.
"""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import count, pairwise
from multiprocessing.synchronize import Barrier
from pathlib import Path
from queue import Empty
from typing import Any

import pygit2
from pygit2.enums import FileMode

from benchmarks import scene
from benchmarks.report import Bench, Line, Row, Series, take_turns, timed
from gitbaton.engine.context import Context
from gitbaton.evidence import statement
from gitbaton.git import objects
from gitbaton.model.run import Attempt
from gitbaton.store import runs

Files = dict[str, bytes]

_CLAIM_AND_FINISH = 2  # transitions a ticket


def transition(bench: Bench) -> Iterator[Line]:
    """One claim, made durable: on a young run, and on one with a long past."""
    rounds = bench.pick(60, 10)
    for past in (10, bench.pick(10_000, 100)):
        folder = bench.scratch / f"transition-{past}"
        scenery = _Transitions(folder, past, rounds + 10)
        claim = f"durable claim, {past:,} finished attempts"
        raw, bare = "two synced files", "bare pygit2: same blobs, trees, commit, ref"
        found = take_turns(
            {claim: scenery.claim, raw: scenery.two_files, bare: scenery.bare_git},
            rounds,
            warm_up=3,
            budget=20,
        )
        yield Row(found[claim], found[raw])
        yield Row(found[claim], found[bare])


class _Transitions:
    """A run to claim in, and the yardsticks that write the bytes of its last claim."""

    def __init__(self, folder: Path, past: int, most: int) -> None:
        top = folder / "repo"
        scene.worked_off(top, past, left=most)
        self.ctx = scene.opened(top)
        self.bare = _BareGit(folder / "bare.git", self.ctx)
        self.folder = folder / "files"
        self.folder.mkdir()
        self.names = count()
        self.written: Files = {}
        self.claim()

    def claim(self) -> float:
        before = runs.tip(self.ctx.repo, scene.RUN)
        attempts: list[Attempt] = []
        took = timed(lambda: attempts.append(scene.claim_one(self.ctx, scene.RUN, "bench")))
        self.written = _changed(self.ctx, before, runs.tip(self.ctx.repo, scene.RUN))
        scene.finish_one(self.ctx, scene.RUN, attempts[0])
        return took

    def two_files(self) -> float:
        both = [data for path, data in self.written.items() if not path.endswith("run.json")]

        def write() -> None:
            for data in both:
                self._synced(data)

        return timed(write)

    def bare_git(self) -> float:
        return timed(lambda: self.bare.commit(self.written))

    def _synced(self, data: bytes) -> None:
        fd = os.open(self.folder / str(next(self.names)), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(fd, data)
        os.fsync(fd)
        os.close(fd)


class _BareGit:
    """A commit chain by pygit2 alone that begins with the same tree; objects and refs are
    synced."""

    def __init__(self, folder: Path, ctx: Context) -> None:
        top = ctx.repo.main_worktree
        assert top is not None
        scene.git(top, "clone", "-q", "--mirror", ".", str(folder))
        self.repo = pygit2.Repository(str(folder))
        self.who = pygit2.Signature("Bench", "bench@example.com")
        self.tree: Any = pygit2.Oid(hex=runs.load(ctx.repo, scene.RUN).tree)
        self.repo.create_commit("refs/bench", self.who, self.who, "first", self.tree, [])

    def commit(self, files: Files) -> None:
        """One commit with ``files`` on top, by compare-and-swap."""
        ref = self.repo.references["refs/bench"]
        nested: dict[str, Any] = {}
        for path, data in files.items():
            *folders, name = path.split("/")
            node = nested
            for folder in folders:
                node = node.setdefault(folder, {})
            node[name] = data
        self.tree = self._with(self.tree, nested)
        oid = self.repo.create_commit(None, self.who, self.who, "claim", self.tree, [ref.target])
        ref.set_target(oid)

    def _with(self, tree: Any, nested: dict[str, Any]) -> Any:
        builder = self.repo.TreeBuilder(tree) if tree else self.repo.TreeBuilder()
        for name, what in nested.items():
            if isinstance(what, bytes):
                builder.insert(name, self.repo.create_blob(what), FileMode.BLOB)
            else:
                known = builder.get(name)
                builder.insert(name, self._with(known and known.id, what), FileMode.TREE)
        return builder.write()


def _changed(ctx: Context, old: str, new: str) -> Files:
    """What a transition wrote: the files that differ between two states."""
    paths = objects.changed_paths(ctx.repo, old, new)
    found = {path: objects.blob_at(ctx.repo, new, path) for path in paths}
    return {path: data for path, data in found.items() if data is not None}


# --- contention --------------------------------------------------------------------------------


def claims(bench: Bench) -> Iterator[Line]:
    """Processes that claim and finish tickets of one run; milliseconds from one transition of any
    of them to the next."""
    tickets = bench.pick(160, 16)
    top = bench.scratch / "claims" / "repo"
    ctx, base = scene.repository(top)
    fresh = count()
    payloads = _payloads(bench.scratch / "payload" / "repo")

    def by_baton(processes: int) -> float:
        run = f"claims-{next(fresh)}"
        scene.start(ctx, tickets, base, run)
        return _contend(processes, tickets, _claim_and_finish, (top, run))

    def by_sqlite(processes: int) -> float:
        database = bench.scratch / f"claims-{next(fresh)}.sqlite"
        with closing(_database(database)) as connection:
            connection.execute("CREATE TABLE files (path TEXT PRIMARY KEY, data BLOB)")
            connection.execute("CREATE TABLE log (id INTEGER PRIMARY KEY, text TEXT)")
        return _contend(processes, tickets, _write_rows, (database, payloads))

    for processes in (1, 8):
        mine = f"claim, finish by {processes} process{'es' if processes > 1 else ''}, a transition"
        yard = "SQLite WAL, synchronous=FULL, same payload"
        found = take_turns(
            {mine: partial(by_baton, processes), yard: partial(by_sqlite, processes)},
            bench.pick(5, 2),
            warm_up=0,
            budget=25,
        )
        yield Row(found[mine], found[yard])


def _contend(
    processes: int, tickets: int, worker: Callable[..., None], args: tuple[Any, ...]
) -> float:
    """Milliseconds a transition while ``processes`` share the tickets, once all are ready."""
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(processes)
    spans: multiprocessing.Queue[tuple[float, float] | str] = spawn.Queue()
    each = tickets // processes
    started = [
        spawn.Process(target=_timed_worker, args=(worker, barrier, spans, each, at, args))
        for at in range(processes)
    ]
    for process in started:
        process.start()
    try:
        found = [_span(spans.get(timeout=120)) for _ in started]
    except Empty:
        raise RuntimeError("a process did not come to its end") from None
    finally:
        for process in started:
            process.join(5)
            if process.is_alive():
                process.kill()
    begin, end = min(span[0] for span in found), max(span[1] for span in found)
    return (end - begin) * 1000 / (each * processes * _CLAIM_AND_FINISH)


def _span(told: tuple[float, float] | str) -> tuple[float, float]:
    if isinstance(told, str):
        raise RuntimeError(f"a process failed: {told}")
    return told


def _timed_worker(
    worker: Callable[..., None],
    barrier: Barrier,
    spans: multiprocessing.Queue[tuple[float, float] | str],
    each: int,
    number: int,
    args: tuple[Any, ...],
) -> None:
    begin: list[float] = []

    def ready() -> None:
        barrier.wait(60)
        begin.append(time.monotonic())

    try:
        worker(ready, each, number, *args)
        spans.put((begin[0], time.monotonic()))
    except Exception as error:
        barrier.abort()
        spans.put(repr(error))


def _claim_and_finish(
    ready: Callable[[], None], each: int, number: int, top: Path, run: str
) -> None:
    ctx = scene.opened(top)
    statement.environment()  # asks git for its version, once a process
    runs.load(ctx.repo, run)
    ready()
    for _ in range(each):
        scene.finish_one(ctx, run, scene.claim_one(ctx, run, f"session-{number}"))


def _write_rows(
    ready: Callable[[], None], each: int, number: int, database: Path, payloads: list[Files]
) -> None:
    with closing(_database(database)) as connection:
        ready()
        for at in range(each):
            for files in payloads:
                _one_transaction(connection, files, f"{number}-{at}")


def _one_transaction(connection: sqlite3.Connection, files: Files, own: str) -> None:
    """The state read, then replaced; files of an attempt have a place of their own."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("SELECT data FROM files WHERE path IN ('run.json', 'live.json')").fetchall()
    rows = [(f"{own}/{path}" if "/" in path else path, data) for path, data in files.items()]
    connection.executemany("REPLACE INTO files VALUES (?, ?)", rows)
    connection.execute("INSERT INTO log (text) VALUES (?)", (f"claim {own}",))
    connection.execute("COMMIT")


def _database(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=60, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def _payloads(top: Path) -> list[Files]:
    """The files that a claim and a finish in the middle of a run write."""
    ctx, base = scene.repository(top)
    scene.start(ctx, 100, base)
    for _ in range(50):
        scene.finish_one(ctx, scene.RUN, scene.claim_one(ctx, scene.RUN, "bench"))
    tips = [runs.tip(ctx.repo, scene.RUN)]
    attempt = scene.claim_one(ctx, scene.RUN, "bench")
    tips.append(runs.tip(ctx.repo, scene.RUN))
    scene.finish_one(ctx, scene.RUN, attempt)
    tips.append(runs.tip(ctx.repo, scene.RUN))
    return [_changed(ctx, tips[0], tips[1]), _changed(ctx, tips[1], tips[2])]


# --- bytes -------------------------------------------------------------------------------------


def size(bench: Bench) -> Iterator[Line]:
    """Bytes that a transition adds to the object database, as it is written and once packed."""
    past, tickets = bench.pick(1_000, 100), bench.pick(100, 20)
    top = bench.scratch / "size" / "repo"
    scene.worked_off(top, past, left=tickets)
    ctx = scene.opened(top)
    transitions = tickets * _CLAIM_AND_FINISH
    scene.git(top, "gc", "-q")
    before = _bytes_of(top)
    tips = [runs.tip(ctx.repo, scene.RUN)]
    for _ in range(tickets):
        attempt = scene.claim_one(ctx, scene.RUN, "bench")
        tips.append(runs.tip(ctx.repo, scene.RUN))
        scene.finish_one(ctx, scene.RUN, attempt)
        tips.append(runs.tip(ctx.repo, scene.RUN))
    loose = (_bytes_of(top) - before) / transitions
    scene.git(top, "gc", "-q")
    packed = (_bytes_of(top) - before) / transitions
    written = [
        float(sum(len(data) for data in _changed(ctx, old, new).values()))
        for old, new in pairwise(tips)
    ]
    text = Series("the JSON it writes, plain", tuple(written), "B")
    name = f"a transition, {past:,} finished attempts"
    yield Row(Series(f"{name}, loose", (loose,), "B"), text)
    yield Row(Series(f"{name}, after gc", (packed,), "B"), text)


def _bytes_of(top: Path) -> int:
    """Bytes of all files of the object database (not the blocks that they take)."""
    files = (top / ".git" / "objects").rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())
