"""What an attempt leaves behind for the next one: its last red check, and what it used."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from .batches import add, open_root
from .conftest import CHANGE, FakeClock, Json, NewProject, Project, Said

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
    text = '{"input_tokens": 1200, "output_tokens": 34, "cost_usd": 0.10, "seconds": 61.6}'
    told = {"input_tokens": 1200, "output_tokens": 34, "cost_usd": "0.1", "seconds": 62}
    assert usage(project, first, text) == told
    assert project.baton("status")["usage"] == told
    assert "1,200 tokens in, 34 tokens out, 0.1 USD, 1m" in project.type("status").stdout


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "null", '{"input_tokens": -1}', '{"cost_usd": 1e999999}']
)
def test_usage_that_makes_no_sense_is_left_out(project: Project, text: str) -> None:
    first = project.actions(CHANGE, "--capacity", "1").dispatch("1.1")
    assert usage(project, first, text) is None
    status = project.baton("status")
    assert status["usage"] is None
    assert "used" not in project.type("status").stdout


def test_usage_of_all_attempts_is_summed_exactly(project: Project) -> None:
    """Money is no binary fraction; what is told again for an attempt replaces what it told."""
    batch = project.actions(CHANGE, "--capacity", "2")
    for ticket, early, late in (("1.1", "0.1", "0.1"), ("1.2", "9", "0.2")):
        dispatch = batch.dispatch(ticket)
        file = Path(dispatch["packet"]).with_name("usage.json")
        file.write_text(f'{{"cost_usd": {early}, "output_tokens": 5}}')
        project.do(dispatch)
        file.write_text(f'{{"cost_usd": {late}, "output_tokens": 7}}')
        project.reconcile(dispatch)
    assert project.baton("status")["usage"] == {
        "input_tokens": None,
        "output_tokens": 14,
        "cost_usd": "0.3",
        "seconds": None,
    }
    assert project.baton("audit")["ok"]


@pytest.mark.parametrize("kind", ["fifo", "folder", "huge", "deep"])
def test_usage_is_data_whatever_the_worker_puts_there(project: Project, kind: str) -> None:
    first = project.actions(CHANGE, "--capacity", "1").dispatch("1.1")
    file = Path(first["packet"]).with_name("usage.json")
    match kind:
        case "fifo":
            os.mkfifo(file)
        case "folder":
            file.mkdir()
        case "huge":
            file.write_text('{"input_tokens": 1}' + " " * 100_000)
        case "deep":
            file.write_text("[" * 60_000)
    project.do(first)
    said = project.reconcile(first)
    assert "usage.json is left out" in said.stderr
    assert project.baton("status")["tickets"]["resolved"] == 1


def test_a_closed_batch_has_the_sum(new_project: NewProject) -> None:
    """It is part of the record, so what comes later is too late."""
    project = new_project(tasks=None)
    add(project, "A")
    root = open_root(project, membership="snapshot")
    given = root.actions(capacity=1).dispatch("A")
    file = Path(given["packet"]).with_name("usage.json")
    file.write_text('{"cost_usd": 1.10}')
    root.fix([given])
    assert project.baton("report", root.run)["usage"]["cost_usd"] == "1.1"
    assert "1.1 USD" in project.type("report", root.run).stdout
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text('{"cost_usd": 2}')
    project.reconcile(given)
    assert project.baton("audit", root.run)["ok"]
