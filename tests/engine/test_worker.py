"""Two processes that seal one attempt, one of which was slower than the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import scene

from gitbaton.engine import worker
from gitbaton.engine.reconcile import reconcile
from gitbaton.evidence import seal as sealing
from gitbaton.model.ids import AttemptId
from gitbaton.store import runs


def test_a_slow_seal_replaces_no_receipt_that_was_integrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = tmp_path / "repo"
    scene.make_repository(top, [1])
    ctx = scene.context(top)
    given = scene.dispatches(scene.act(ctx))[0]
    scene.work(given)
    check = sealing.seal_checks

    def slow(*args: Any, **how: Any) -> Any:
        """While the checks run, another process is done with all of it."""
        results = check(*args, **how)
        monkeypatch.setattr(sealing, "seal_checks", check)
        worker.seal(ctx, given.assignment, token=given.token)
        done = reconcile(ctx, given.assignment, outcome="completed", session="s")
        assert done.state == "complete"
        return results

    monkeypatch.setattr(sealing, "seal_checks", slow)
    agreed = worker.seal(ctx, given.assignment, token=given.token)
    attempt = runs.load(ctx.repo, scene.RUN).attempt(AttemptId("1.1", 1))
    assert attempt is not None and attempt.sealed is not None
    assert attempt.sealed.receipt_sha256 == agreed.receipt_sha256
    scene.check_run(top, ["1.1"])
