"""Several real processes at once on one repository, each with the whole loop of a caller.

    python tests/race.py                            8 processes, 8 sessions, 200 tickets
    python tests/race.py --tickets 40 --housekeeping
    python tests/race.py --one-session -j 4

Every process writes down what it was handed, so that afterwards it can be proved that nothing was
handed out twice and every ticket is integrated exactly once. With ``--housekeeping``, `git gc`,
`git pack-refs` and `git maintenance` run alongside all the time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO

import scene

from gitbaton.engine import worker
from gitbaton.engine.reconcile import reconcile
from gitbaton.model.action import Dispatch, ResolveMerge
from gitbaton.store import runs

HOUSEKEEPING = (
    ("gc", "--quiet"),
    ("pack-refs", "--all", "--prune"),
    ("maintenance", "run", "--quiet", "--task=loose-objects", "--task=incremental-repack"),
)


def loop(top: Path, session: str, capacity: int, seconds: float) -> list[str]:
    """One caller, until the run is complete; the assignments it was handed."""
    ctx = scene.context(top)
    handed: list[str] = []
    deadline = time.monotonic() + seconds
    batch = scene.act(ctx, session, capacity)
    todo: list[Dispatch | ResolveMerge] = []
    while True:
        fresh = scene.dispatches(batch)
        handed += [given.assignment for given in fresh]
        todo += fresh
        if todo:
            batch = scene.finish_one(ctx, todo.pop(0), session, capacity)
            continue
        if batch.state == "complete":
            return handed
        if batch.state == "blocked" or time.monotonic() > deadline:
            raise AssertionError(f"{session}: {batch}")
        time.sleep(0.05)
        batch = scene.act(ctx, session, capacity)


def report(top: Path, assignment: str, session: str) -> str:
    """Reconcile one assignment; the state its attempt is in afterwards, and the batch's."""
    batch = reconcile(scene.context(top), assignment, outcome="completed", session=session)
    return batch.state


# --- starting them -----------------------------------------------------------------------------


class Racer:
    """A file such as this as a process of its own, with its output kept in files."""

    def __init__(self, *words: str, file: str = __file__) -> None:
        self.out, self.err = (tempfile.TemporaryFile("w+") for _ in range(2))  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, file, *words],
            env=scene.with_package(),
            stdin=subprocess.DEVNULL,
            stdout=self.out,
            stderr=self.err,
        )

    def read(self, file: IO[str]) -> str:
        file.seek(0)
        return file.read()


def finish(racers: Sequence[Racer], seconds: float) -> list[object]:
    """What each process printed; all must succeed, and none complain. The first that does not ends
    the others, for they would wait for its tickets."""
    deadline = time.monotonic() + seconds
    running = list(racers)
    try:
        while running:
            for racer in [r for r in running if r.process.poll() is not None]:
                said = racer.read(racer.err)
                assert racer.process.returncode == 0 and "Traceback" not in said, said[-3000:]
                running.remove(racer)
            assert time.monotonic() < deadline, f"{len(running)} processes still run"
            time.sleep(0.02)
        return [json.loads(racer.read(racer.out)) for racer in racers]
    finally:
        for racer in racers:
            racer.process.kill()
            racer.process.wait()
            racer.out.close()
            racer.err.close()


@contextmanager
def housekeeping(top: Path) -> Iterator[None]:
    """git tidies up all the time, as it would by itself or by a timer."""
    over = threading.Event()

    def tidy() -> None:
        while not over.is_set():
            for command in HOUSEKEEPING:
                subprocess.run(["git", "-C", str(top), *command], check=False, capture_output=True)
            over.wait(0.2)

    thread = threading.Thread(target=tidy)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def race(
    top: Path,
    tickets: int,
    sessions: Sequence[str],
    capacity: int,
    seconds: float,
    *,
    tidy: bool = False,
) -> Counter[str]:
    """One process a session; how often each assignment was handed out, after all was checked."""
    with housekeeping(top) if tidy else nullcontext():
        racers = [
            Racer("--loop", str(top), session, str(capacity), str(seconds)) for session in sessions
        ]
        answers = finish(racers, seconds + 60)
    scene.check_run(top, scene.keys_of([tickets]))
    handed = Counter(a for answer in answers if isinstance(answer, list) for a in answer)
    twice = {name: n for name, n in handed.items() if n > 1}
    assert not twice, twice
    ctx = scene.context(top)
    made = {f"{scene.RUN}/{a}" for a in runs.load(ctx.repo, scene.RUN).attempt_ids()}
    assert set(handed) == made, set(handed) ^ made
    return handed


def prepare_reported(top: Path) -> str:
    """A repository with one sealed attempt that nobody has reported yet; its assignment."""
    scene.make_repository(top, [3])
    ctx = scene.context(top)
    given = scene.dispatches(scene.act(ctx, capacity=1))[0]
    scene.work(given)
    worker.seal(ctx, given.assignment, token=given.token)
    return given.assignment


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tickets", type=int, default=200)
    parser.add_argument("-j", type=int, default=8, help="processes")
    parser.add_argument("--capacity", type=int, default=8)
    parser.add_argument("--one-session", action="store_true")
    parser.add_argument("--housekeeping", action="store_true")
    parser.add_argument("--seconds", type=float, default=600, help="give up after that")
    parser.add_argument("--loop", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--report", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.loop:
        top, session, capacity, seconds = given.loop
        print(json.dumps(loop(Path(top), session, int(capacity), float(seconds))))
        return 0
    if given.report:
        top, assignment, session = given.report
        print(json.dumps(report(Path(top), assignment, session)))
        return 0
    sessions = ["s" if given.one_session else f"s{n}" for n in range(given.j)]
    with tempfile.TemporaryDirectory(prefix="baton-race-") as folder:
        os.environ.update(scene.sealed_environment(Path(folder)))
        top = Path(folder) / "repo"
        scene.make_repository(top, [given.tickets])
        begun = time.monotonic()
        handed = race(
            top,
            given.tickets,
            sessions,
            given.capacity,
            given.seconds,
            tidy=given.housekeeping,
        )
        took = time.monotonic() - begun
    print(f"{given.tickets} tickets, {len(handed)} attempts, {given.j} processes: {took:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
