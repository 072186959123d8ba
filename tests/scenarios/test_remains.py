"""What an attempt leaves behind for the next one: its last red check, and what it used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import CHANGE, FakeClock, Json, Project, Said

CHECK = "echo wrong answer; test ! -e broken"
SAID = f"`{CHECK}` exits with 1\nwrong answer"


@pytest.fixture
def red(project: Project) -> Json:
    """An attempt whose worker has seen a red check."""
    first = project.actions(CHANGE, "--capacity", "1", "--verify", CHECK).dispatch("1.1")
    project.work(first, {"broken": "x"})
    assert project.seal(first, code=1).code == "checks-failed"
    return first


def failure_for_the_next(batch: Said) -> Json:
    dispatch = batch.dispatch("1.1")
    failure: Json = json.loads(Path(dispatch["packet"]).read_text())["previous_failure"]
    return failure


def test_red_seal_is_in_the_next_packet(project: Project, red: Json) -> None:
    failure = failure_for_the_next(project.reconcile(red, "failed"))
    assert failure == {"code": "ended-failed", "message": SAID}


def test_red_verify_is_in_the_next_packet(project: Project) -> None:
    first = project.actions(CHANGE, "--capacity", "1", "--verify", CHECK).dispatch("1.1")
    project.write("broken", "x", first["cwd"])
    project.baton("verify", cwd=first["cwd"], code=1)
    failure = failure_for_the_next(project.reconcile(first))
    assert failure == {"code": "ended-without-receipt", "message": SAID}


def test_red_check_of_a_worker_that_fell_silent(
    project: Project, clock: FakeClock, red: Json
) -> None:
    clock.advance(3 * 3600)
    failure = failure_for_the_next(project.actions("--capacity", "1"))
    assert failure["code"] == "lease-expired"
    assert failure["message"].endswith(SAID)


def test_red_check_of_an_abandoned_attempt(project: Project, red: Json) -> None:
    project.baton("abandon", "1.1@1", "--reason", "hangs", "--force")
    failure = failure_for_the_next(project.actions("--capacity", "1"))
    assert failure == {"code": "abandoned", "message": f"hangs\n{SAID}"}


def test_green_check_is_forgotten_with_the_red_one(project: Project, red: Json) -> None:
    Path(red["cwd"], "broken").unlink()
    project.baton("verify", cwd=red["cwd"])
    assert SAID not in failure_for_the_next(project.reconcile(red))["message"]


# --- what it used ------------------------------------------------------------------------------


def usage(project: Project, dispatch: Json, text: str) -> Json | None:
    Path(dispatch["packet"]).with_name("usage.json").write_text(text)
    project.reconcile(dispatch)
    shown: Json | None = project.baton("show", dispatch["assignment"])["attempt"]["usage"]
    return shown


@pytest.mark.parametrize("sealed", [True, False])
def test_usage_is_kept_with_the_attempt(project: Project, sealed: bool) -> None:
    first = project.actions(CHANGE, "--capacity", "1").dispatch("1.1")
    if sealed:
        project.do(first)
    text = '{"input_tokens": 1200, "output_tokens": 34, "cost_usd": 0.10, "model": "m"}'
    assert usage(project, first, text) == {
        "input_tokens": 1200,
        "output_tokens": 34,
        "cost_usd": "0.1",
    }


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "null", '{"input_tokens": -1}', '{"cost_usd": 1e999999}']
)
def test_usage_that_makes_no_sense_is_left_out(project: Project, text: str) -> None:
    first = project.actions(CHANGE, "--capacity", "1").dispatch("1.1")
    assert usage(project, first, text) is None
