"""Several real processes at once on batches over one queue.

    python tests/batch_race.py                     16 processes, two roots, 64 items
    python tests/batch_race.py --roots 1 -j 8 --items 24 --housekeeping

All open their root by its request id, and work on it until it is complete, while items go on
coming. Afterwards every item is fixed once, and each root has closed once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import batch_scene
import race
import scene


def loop(top: Path, request: str, session: str, capacity: int, seconds: float) -> list[str]:
    """One caller: the root is opened, or found, and worked on."""
    run = batch_scene.open_root(top, request)
    return batch_scene.drive(top, run, session, capacity, seconds)


def go(
    top: Path, roots: int, processes: int, items: int, seconds: float, *, tidy: bool = False
) -> Counter[str]:
    """How often each assignment was handed out, after all was checked."""
    first = batch_scene.ids_of(items // 2)
    later = batch_scene.ids_of(items - len(first), len(first) + 1)
    batch_scene.add(top, first)
    requests = [f"r{n}" for n in range(roots)]
    for request in requests:  # so that none finds the queue empty: it would close at once
        batch_scene.open_root(top, request)
    with race.housekeeping(top) if tidy else nullcontext():
        racers = [
            race.Racer(
                "--loop", str(top), requests[n % roots], f"s{n}", "3", str(seconds), file=__file__
            )
            for n in range(processes)
        ]
        for item in later:
            batch_scene.add(top, [item])
        answers = race.finish(racers, seconds + 60)
    left = batch_scene.left(top)
    if left:  # what came after the last root had closed is the next batch's
        requests.append("rest")
        batch_scene.drive(top, batch_scene.open_root(top, "rest"))
    batch_scene.check(top, requests, [*first, *later])
    handed = Counter(a for answer in answers if isinstance(answer, list) for a in answer)
    twice = {name: n for name, n in handed.items() if n > 1}
    assert not twice, twice
    assert len(handed) == items - len(left), handed
    return handed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--items", type=int, default=64)
    parser.add_argument("--roots", type=int, default=2)
    parser.add_argument("-j", type=int, default=16, help="processes")
    parser.add_argument("--housekeeping", action="store_true")
    parser.add_argument("--seconds", type=float, default=600, help="give up after that")
    parser.add_argument("--loop", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.loop:
        top, request, session, capacity, seconds = given.loop
        handed = loop(Path(top), request, session, int(capacity), float(seconds))
        print(json.dumps(handed))
        return 0
    with tempfile.TemporaryDirectory(prefix="baton-race-") as folder:
        os.environ.update(scene.sealed_environment(Path(folder)))
        top = Path(folder) / "repo"
        scene.make_repository(top, [1])
        begun = time.monotonic()
        handed = go(top, given.roots, given.j, given.items, given.seconds, tidy=given.housekeeping)
        took = time.monotonic() - begun
    print(f"{given.items} items, {len(handed)} attempts, {given.j} processes: {took:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
