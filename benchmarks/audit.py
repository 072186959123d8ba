"""Judging a run from its repository: every transition, receipt and merge once more.

The run is a real one: claimed, sealed and integrated ticket by ticket, in chains of twenty that are
tested together. `git fsck` reads all objects and asks no question about them; bare `ssh-keygen`
verifies each signature in a process of its own, as anybody would by hand.
"""

from __future__ import annotations

import multiprocessing
import subprocess
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from benchmarks import scene
from benchmarks.report import Bench, Line, Row, process, take_turns, timed
from gitbaton.engine import integrate
from gitbaton.engine.context import Context
from gitbaton.evidence import signature, statement
from gitbaton.git import objects
from gitbaton.model.ids import AttemptId
from gitbaton.model.layout import RECEIPT, RECEIPT_SIGNATURE, path_of
from gitbaton.model.run import Attempt, Event, RunState
from gitbaton.rules import settle
from gitbaton.store import runs

_CHAIN = 20  # tickets that are integrated together
_WHO = "bench@example.com"


def audit(bench: Bench) -> Iterator[Line]:
    """All evidence of a run, unsigned and signed, in a fresh process."""
    count = bench.pick(1_000, 40)
    top = bench.scratch / "audit" / "repo"
    _work_off(top, count, None)
    told = f"audit, {count:,} receipts"
    fsck, log = "git fsck", "git log --show-signature"
    found = take_turns(
        {
            told: partial(_audit, top),
            fsck: lambda: process(["git", "fsck", "--no-progress"], top),
            log: lambda: process(["git", "log", "--show-signature", f"baton/{scene.RUN}"], top),
        },
        bench.pick(5, 2),
        budget=60,
    )
    yield Row(found[told], found[fsck])
    yield Row(found[told], found[log])
    count = bench.pick(200, 20)
    top = bench.scratch / "signed" / "repo"
    key = bench.scratch / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    _work_off(top, count, key)
    signed = _signed(top, bench.scratch / "signatures")
    told, bare = f"audit, {count} signed receipts", f"ssh-keygen -Y verify, {len(signed)} times"
    found = take_turns(
        {told: partial(_audit, top), bare: partial(_verify, signed, bench.scratch / "allowed")},
        bench.pick(5, 2),
        budget=60,
    )
    yield Row(found[told], found[bare])


def _work_off(top: Path, count: int, key: Path | None) -> None:
    """A run of so many tickets, all integrated; with ``key``, signed and to be signed."""
    past = scene.History()
    files = {**scene.source_files(100), scene.TASKS: scene.tasks_text(count, 20)}
    root = past.commit(scene.BASE, files, text="first\n")
    base = past.write(top)[root]
    scene.git(top, "config", "baton.fsync", "false")
    if key is not None:
        allowed = top.parents[1] / "allowed"
        allowed.write_text(f"{_WHO} {Path(f'{key}.pub').read_text()}")
        scene.git(top, "config", "baton.signingKey", str(key))
        scene.git(top, "config", "baton.allowedSigners", str(allowed))
        scene.git(top, "config", "baton.requireSignature", "true")
    ctx = scene.opened(top)
    scene.start(ctx, count, base)
    for at in range(0, count, _CHAIN):
        claimed = [scene.claim_one(ctx, scene.RUN, f"s{at + n}") for n in range(_CHAIN)]
        for attempt in claimed:
            _seal(ctx, attempt)
        integrate.integrate(ctx, scene.RUN)
    left = runs.load(ctx.repo, scene.RUN).state.live.missing
    if left:
        raise RuntimeError(f"{len(left)} tickets were not integrated")
    scene.git(top, "repack", "-a", "-d", "-q")


def _seal(ctx: Context, attempt: Attempt) -> None:
    """One file of its own, committed on the base of the attempt and sealed."""
    now = ctx.clock.now()
    path = f"work/{attempt.ticket}.txt"
    before = objects.tree_of(ctx.repo, attempt.base_commit)
    tree = objects.edit_tree(ctx.repo, before, {path: b"done\n"})
    commit = objects.create_commit(
        ctx.repo, tree, [attempt.base_commit], "work\n", author=("Bench", _WHO), when=now.wall
    )
    sealed, data = scene.receipt_of(scene.RUN, attempt, commit, tree, path, now)
    signer = signature.signer_of(ctx.repo, ctx.settings)
    made = signature.sign(signer, data) if signer else None
    digest = statement.digest(made) if made else None
    sealed = replace(sealed, signature_sha256=digest)
    event = Event(
        event="seal",
        message=f"seal {attempt.id}",
        ticket=attempt.ticket,
        attempt=attempt.number,
        session=attempt.session,
    )

    def step(loaded: runs.Loaded) -> tuple[RunState, Event]:
        return settle.seal(loaded.state, attempt, sealed, data, made, (), now), event

    ctx.transact(scene.RUN, step)


def _audit(top: Path) -> float:
    """Milliseconds beyond the start of the process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_judge, top).result(timeout=300)


def _judge(top: Path) -> float:
    from gitbaton.engine import audit as engine

    ctx = scene.opened(top)
    reports = []
    took = timed(lambda: reports.append(engine.audit(ctx)))
    if not reports[0].ok:
        raise RuntimeError(f"the audit finds problems: {reports[0].runs[0].problems[:3]}")
    return took


def _signed(top: Path, folder: Path) -> list[tuple[bytes, Path]]:
    """What was signed, and the file of its signature, of every ticket's receipt."""
    folder.mkdir()
    loaded = runs.load(scene.opened(top).repo, scene.RUN)
    found = []
    for ticket in loaded.state.plan.tickets:
        attempt = AttemptId(ticket.key, 1)
        receipt = loaded.file(path_of(attempt, RECEIPT))
        made = loaded.file(path_of(attempt, RECEIPT_SIGNATURE))
        if receipt is None or made is None:
            raise RuntimeError(f"{attempt} is not signed")
        file = folder / f"{ticket.key}.sig"
        file.write_bytes(made)
        found.append((signature.pae(receipt), file))
    return found


def _verify(signed: list[tuple[bytes, Path]], allowed: Path) -> float:
    def run() -> None:
        for data, file in signed:
            words = ["-Y", "verify", "-n", signature.NAMESPACE, "-I", _WHO, "-f", str(allowed)]
            command = ["ssh-keygen", *words, "-s", str(file)]
            subprocess.run(command, input=data, check=True, capture_output=True)

    return timed(run)
