"""Each safeguard taken out, one at a time: some test body must notice, or it guards nothing.

Every body below is a test of its own; the last test runs each of them again without its safeguard
and wants it to fail.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import scene
from msgspec.structs import replace

from gitbaton.engine import integrate, worker
from gitbaton.engine import lease as held
from gitbaton.engine.context import Context
from gitbaton.errors import BatonError, Refused
from gitbaton.evidence import seal
from gitbaton.git import refs
from gitbaton.model.action import Blocked
from gitbaton.model.ids import AttemptId
from gitbaton.model.layout import RECEIPT, path_of
from gitbaton.model.run import Event, RunState
from gitbaton.rules import lease
from gitbaton.store import runs

Body = Callable[[Path, str], None]


def _begun(top: Path, tickets: int) -> Context:
    scene.make_repository(top, [tickets])
    return scene.context(top)


def foreign_transition_survives(top: Path, _mutation: str) -> None:
    """Somebody without our lock adds a state while we are about to: both are kept."""
    ctx = _begun(top, 1)
    scene.act(ctx)
    foreign: list[str] = []

    def step(loaded: runs.Loaded) -> tuple[RunState, Event]:
        if not foreign:
            ref = runs.run_ref(scene.RUN)
            made = scene.git(
                top, "commit-tree", f"{loaded.oid}^{{tree}}", "-p", loaded.oid, "-m", "foreign"
            )
            scene.git(top, "update-ref", ref, made, loaded.oid)
            foreign.append(made)
        return loaded.state, Event(event="nothing", message="nothing")

    ctx.transact(scene.RUN, step)
    chain = scene.git(top, "rev-list", "--first-parent", runs.run_ref(scene.RUN)).splitlines()
    assert foreign[0] in chain, "an update was lost"


def old_token_is_fenced(top: Path, _mutation: str) -> None:
    """An attempt that was handed out again is no longer its first holder's."""
    ctx = _begun(top, 1)
    first = scene.dispatches(scene.act(ctx))[0]
    second = scene.dispatches(scene.act(ctx, redeliver=True))[0]
    assert second.assignment == first.assignment and second.token != first.token
    with pytest.raises(Refused):
        held.heartbeat(ctx, first.assignment, first.token)
    assert held.heartbeat(ctx, second.assignment, second.token).yours


def success_is_on_disk(top: Path, mutation: str) -> None:
    """Before a claim is printed, everything it rests on was synced, then given its name."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    scene.make_repository(top, [1])
    log = top.parent / "trace"
    subprocess.run(
        [
            *("strace", "-f", "-y", "-qq", "-o", str(log)),
            *("-e", "trace=fsync,fdatasync,rename,renameat,renameat2,link,linkat"),
            *(sys.executable, "-c", f"{mutation}\nfrom gitbaton.__main__ import main\nmain()"),
            *("actions", scene.RUN, "--session", "s"),
        ],
        check=True,
        cwd=top,
        env=scene.with_package(),
        stdout=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    synced: set[str] = set()
    named: list[str] = []
    for line in log.read_text().splitlines():
        call = line.split(maxsplit=1)[1]
        paths = [str(top / path) for path in re.findall(r'"([^"]*)"', call)]
        if call.startswith(("fsync(", "fdatasync(")):
            synced |= set(re.findall(r"<(/[^>]*)>", call))
        elif len(paths) == 2:
            old, new = paths
            if any(part in new for part in ("/objects/", "/refs/", "/baton/attempts/")):
                named.append(new)
                assert old in synced, f"{old} became {new} without a sync"
    for expected in ("objects/", f"refs/baton/runs/{scene.RUN}", "1.1-a1/token"):
        assert any(expected in name for name in named), (expected, named)


def forged_receipt_is_rejected(top: Path, _mutation: str) -> None:
    """A receipt that is not the one recorded integrates nothing."""
    ctx = _begun(top, 1)
    given = scene.dispatches(scene.act(ctx))[0]
    scene.work(given)
    worker.seal(ctx, given.assignment, token=given.token)
    path = path_of(AttemptId("1.1", 1), RECEIPT)

    def forge(loaded: runs.Loaded) -> tuple[RunState, Event]:
        data = loaded.file(path)
        assert data is not None
        forged = data.replace(b'"exit_code": 0', b'"exit_code": 1')
        assert forged != data
        state = replace(loaded.state, files={path: forged})
        return state, Event(event="forge", message="forge")

    ctx.transact(scene.RUN, forge)
    batch = scene.act(ctx)
    assert [a.code for a in batch.actions if isinstance(a, Blocked)] == ["receipt-rejected"]
    assert not scene.merges_by_ticket(top, f"baton/{scene.RUN}", "trunk")


def green_alone_red_together_does_not_land(top: Path, _mutation: str) -> None:
    """Two tickets that break each other never land both."""
    ctx = _begun(top, 2)
    scene.git(top, "config", "baton.verify", "! { test -e half-1 && test -e half-2; }")
    ctx = scene.context(top)
    for number, given in enumerate(scene.dispatches(scene.act(ctx)), 1):
        (Path(given.cwd) / f"half-{number}").write_text("")
        scene.work(given)
        worker.seal(ctx, given.assignment, token=given.token)
    scene.act(ctx)
    names = scene.git(top, "ls-tree", "--name-only", f"baton/{scene.RUN}").split()
    assert {"half-1", "half-2"} & set(names)
    assert not {"half-1", "half-2"} <= set(names), "both landed"


# --- the safeguards ----------------------------------------------------------------------------


class Mutant(NamedTuple):
    """A body, and how its safeguard is taken out: patched here, or by ``code`` in a process."""

    body: Body
    patch: Callable[[pytest.MonkeyPatch], None] = lambda _: None
    code: str = ""


def _without_compare(patch: pytest.MonkeyPatch) -> None:
    compared = refs.cas

    def blind(repo: Any, ref: str, old: Any, new: Any, *rest: Any, **how: Any) -> None:
        compared(repo, ref, refs.read(repo, ref), new, *rest, **how)

    patch.setattr(refs, "cas", blind)


def _without_fence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lease, "holds", lambda attempt, token: True)


def _without_reverification(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(seal, "reverify", lambda *args, **how: None)


def _without_merged_checks(patch: pytest.MonkeyPatch) -> None:
    def trusting(ctx: Context, loaded: runs.Loaded, chain: Any) -> Any:
        return integrate._Verdict(chain, None)

    patch.setattr(integrate, "_judge", trusting)


MUTANTS = {
    "compare-and-swap": Mutant(foreign_transition_survives, _without_compare),
    "fence": Mutant(old_token_is_fenced, _without_fence),
    "sync of objects": Mutant(
        success_is_on_disk,
        code="from gitbaton.git import odb\nodb.sync_files = lambda paths: []",
    ),
    "sync of refs": Mutant(
        success_is_on_disk,
        code="import pygit2\nonce = pygit2.settings.enable_fsync_gitdir\n"
        "type(pygit2.settings).enable_fsync_gitdir = lambda self, on: once(False)",
    ),
    "sync of tokens": Mutant(
        success_is_on_disk,
        code="from types import SimpleNamespace\nfrom gitbaton.engine import disk\n"
        "disk.process = SimpleNamespace(fsync_enabled=lambda: False)",
    ),
    "receipt": Mutant(forged_receipt_is_rejected, _without_reverification),
    "merged tree": Mutant(green_alone_red_together_does_not_land, _without_merged_checks),
}
BODIES = list(dict.fromkeys(mutant.body for mutant in MUTANTS.values()))


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_with_every_safeguard(body: Body, tmp_path: Path) -> None:
    body(tmp_path / "repo", "")


@pytest.mark.parametrize("name", MUTANTS)
def test_a_missing_safeguard_is_noticed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant = MUTANTS[name]
    mutant.patch(monkeypatch)
    with pytest.raises((AssertionError, BatonError, pytest.fail.Exception)):
        mutant.body(tmp_path / "repo", mutant.code)
