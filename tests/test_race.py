"""Several processes on one repository: every ticket once, whoever else is at work there.

The issue's full figure of 200 tickets is run by `python tests/race.py`; here it is 40.
"""

from __future__ import annotations

from pathlib import Path

import race
import scene

from gitbaton.store import runs

SECONDS = 120.0


def test_eight_sessions_share_the_work(tmp_path: Path) -> None:
    top = tmp_path / "repo"
    scene.make_repository(top, [40])
    race.race(top, 40, [f"s{n}" for n in range(8)], 8, SECONDS)


def test_git_may_tidy_up_meanwhile(tmp_path: Path) -> None:
    top = tmp_path / "repo"
    scene.make_repository(top, [12])
    race.race(top, 12, ["a", "b", "c"], 4, SECONDS, tidy=True)


def test_one_session_in_four_processes_is_handed_nothing_twice(tmp_path: Path) -> None:
    top = tmp_path / "repo"
    scene.make_repository(top, [16])
    race.race(top, 16, ["s"] * 4, 8, SECONDS)


def test_concurrent_reports_of_one_assignment_agree(tmp_path: Path) -> None:
    top = tmp_path / "repo"
    assignment = race.prepare_reported(top)
    racers = [race.Racer("--report", str(top), assignment, "s") for _ in range(4)]
    states = race.finish(racers, SECONDS)
    assert set(map(str, states)) <= {"executing", "waiting"}
    ctx = scene.context(top)
    merged = scene.merges_by_ticket(top, f"baton/{scene.RUN}", "trunk")
    assert merged == {"1.1": 1}
    done = [a for a in runs.load(ctx.repo, scene.RUN).all_attempts() if a.state == "succeeded"]
    assert [f"{scene.RUN}/{a.id}" for a in done] == [assignment]
