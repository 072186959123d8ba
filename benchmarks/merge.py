"""Integrating one sealed attempt in repositories of growing size.

git-baton merges in memory, so the size of a checkout should not matter; `git merge-tree` alone is
the merge without a record, `git worktree add` and `git merge` is how it is done by hand. Each
integration runs in a fresh process, since a real one starts with nothing in memory either.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from benchmarks import scene
from benchmarks.report import Bench, Line, Row, process, take_turns, timed
from gitbaton.store import runs

_MERGE_TREE = "git merge-tree"
_BY_HAND = "git worktree add + git merge"


def integrate(bench: Bench) -> Iterator[Line]:
    """One receipt, diverged from the tip: the merge only, and with the merged tree checked."""
    for files in (100, bench.pick(5_000, 500), bench.pick(50_000, 2_000)):
        rounds = bench.pick(8, 2)
        top = bench.scratch / f"merge-{files}" / "repo"
        repository = _Repository(top, files, tickets=2 * (rounds + 1) + 2)
        plain = f"integrate one receipt, {files:,} files"
        checked = f"{plain}, merged tree checked"
        found = take_turns(
            {
                plain: partial(repository.integrate, check=False),
                checked: partial(repository.integrate, check=True),
                _MERGE_TREE: repository.merge_tree,
                _BY_HAND: repository.by_hand,
            },
            rounds,
            warm_up=bench.pick(1, 0),
            budget=bench.pick(40, 5),
        )
        yield Row(found[plain], found[_MERGE_TREE])
        yield Row(found[plain], found[_BY_HAND])
        yield Row(found[checked], found[_BY_HAND])


class _Repository:
    """A run whose tickets all began at the same commit, to be sealed and integrated one by one."""

    def __init__(self, top: Path, files: int, tickets: int) -> None:
        self.top = top
        past = scene.History()
        root = past.commit(scene.BASE, scene.source_files(files), text="first\n")
        self._work: list[tuple[int, str]] = []
        for at in range(tickets):
            path = f"src/000/file{at:05d}.txt"
            change = {path: f"{at} changed\n", f"src/000/new{at}.txt": "new\n"}
            self._work.append((past.commit(f"refs/heads/work/{at}", change, [root]), path))
        self._oids = past.write(top)
        self._next = 0
        self.ctx = scene.opened(top)
        scene.start(self.ctx, len(self._work), self._oids[root])
        # All are claimed before the first is integrated: from then on each has diverged.
        self._attempts = [
            scene.claim_one(self.ctx, scene.RUN, f"session-{at}") for at in range(len(self._work))
        ]
        self.integrate(check=False)

    def merge_tree(self) -> float:
        return process(
            ["git", "merge-tree", "--write-tree", self._tip(), self._upcoming()], self.top
        )

    def by_hand(self) -> float:
        tree = self.top.parent / "by-hand"

        def work() -> None:
            scene.git(self.top, "worktree", "add", "-q", "--detach", str(tree), self._tip())
            scene.git(tree, "merge", "-q", "--no-edit", self._upcoming())

        took = timed(work)
        scene.git(self.top, "worktree", "remove", "--force", str(tree))
        return took

    def integrate(self, *, check: bool) -> float:
        """Milliseconds to integrate the next ticket; sealing it does not count."""
        commit, (_, changed) = self._upcoming(), self._work[self._next]
        attempt = self._attempts[self._next]
        self._next += 1
        scene.seal_one(self.ctx, scene.RUN, attempt, commit, changed)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            took = pool.submit(_integrate, self.top, check).result(timeout=300)
        done = runs.load(self.ctx.repo, scene.RUN).attempt(attempt.id)
        if done is None or done.state != "succeeded":
            raise RuntimeError(f"{attempt.id} was not integrated: {done}")
        return took

    def _tip(self) -> str:
        return runs.load_live(self.ctx.repo, scene.RUN)[1].tip

    def _upcoming(self) -> str:
        return self._oids[self._work[self._next][0]]


def _integrate(top: Path, check: bool) -> float:
    from gitbaton.engine import integrate as engine

    scene.git(top, "config", "baton.verifyMerged", "diverged" if check else "never")
    ctx = scene.opened(top)
    return timed(lambda: engine.integrate(ctx, scene.RUN))
