"""What a batch says when tickets come, go and are done again."""

from __future__ import annotations

from pathlib import Path

import pytest
import scene

from gitbaton.engine import steer
from gitbaton.engine.reconcile import reconcile
from gitbaton.store import runs


@pytest.fixture
def top(tmp_path: Path) -> Path:
    where = tmp_path / "repo"
    scene.make_repository(where, [2])
    scene.git(where, "config", "baton.maxAttempts", "1")
    return where


def test_a_failed_ticket_that_is_no_longer_wanted_blocks_nothing(top: Path) -> None:
    ctx = scene.context(top)
    first, second = scene.dispatches(scene.act(ctx))
    reconcile(ctx, first.assignment, outcome="failed", session="s")
    batch = scene.finish_one(ctx, second)
    assert batch.state == "blocked"
    (top / scene.TASKS).write_text("## 1. Section 1\n\n- [ ] 1.2 Ticket 2\n")
    assert scene.act(ctx).state == "complete"


def test_a_reopened_ticket_gets_a_number_of_its_own(top: Path) -> None:
    scene.drive(top)
    ctx = scene.context(top)
    steer.reopen(ctx, scene.RUN, "1.1", "once more")
    again = scene.dispatches(scene.act(ctx))[0]
    assert again.assignment == f"{scene.RUN}/1.1@2"
    assert scene.finish_one(ctx, again).state == "complete"
    states = [a.state for a in runs.load(ctx.repo, scene.RUN).attempts_of("1.1")]
    assert states == ["succeeded", "succeeded"]
    scene.check_run(top, ["1.1", "1.2"], reopened=["1.1"])
