"""Leases: who still holds an attempt, judged without trusting wall clocks."""

from __future__ import annotations

import pytest

from .conftest import CHANGE, FakeClock, Json, Project


@pytest.fixture
def first(project: Project) -> Json:
    return project.actions(CHANGE, "--capacity", "1").dispatch("1.1")


def test_expired_lease_is_retried_by_itself(
    project: Project, clock: FakeClock, first: Json
) -> None:
    clock.advance(7199)
    assert project.actions("--capacity", "1")["state"] == "waiting"
    clock.advance(2)
    said = project.actions("--capacity", "1")
    (recover,) = said.of("recover")
    assert recover["assignment"] == first["assignment"]
    assert (recover["reason"], recover["next"]) == ("lease-expired", "retry")
    assert recover["retried_as"] == f"{CHANGE}/1.1@2"
    assert said.dispatch("1.1")["attempt"] == 2
    assert project.attempt("1.1@1")["state"] == "superseded"


def test_heartbeat_keeps_the_lease(project: Project, clock: FakeClock, first: Json) -> None:
    for beat in (1, 2, 3):
        clock.advance(7000)
        held = project.baton("heartbeat", cwd=first["cwd"])
        assert held["yours"] is True
        assert (held["state"], held["lease"]["beat"]) == ("running", beat)
    assert project.actions("--capacity", "1")["state"] == "waiting"


def test_wall_clock_forward_harms_nobody(project: Project, clock: FakeClock, first: Json) -> None:
    clock.set_wall(10 * 24 * 3600)
    said = project.actions("--capacity", "1")
    assert said["state"] == "waiting"
    assert project.baton("heartbeat", "1.1")["yours"] is True


def test_wall_clock_back_makes_no_26_hour_lease(
    project: Project, clock: FakeClock, first: Json
) -> None:
    clock.set_wall(-24 * 3600)
    assert project.attempt("1.1@1")["relay"]["lease_remaining_seconds"] == 7200
    clock.advance(7201)
    assert project.actions("--capacity", "1").dispatch("1.1")["attempt"] == 2


def test_earlier_boot_of_this_machine_has_expired(
    project: Project, clock: FakeClock, first: Json
) -> None:
    clock.boot, clock.monotonic = "boot-2", 5.0
    assert project.actions("--capacity", "1").dispatch("1.1")["attempt"] == 2


def test_other_machines_lease_expires_when_its_beat_stands_still(
    project: Project, clock: FakeClock, first: Json
) -> None:
    """Another machine judges by its own clock alone, from when it first saw the beat."""
    clock.machine, clock.boot, clock.monotonic = "machine-b", "boot-b", 10.0
    project.actions("--capacity", "1", session="b")
    clock.advance(7200 * 1.25 - 1)
    assert "1.1" not in project.actions("--capacity", "1", session="b").tickets()
    clock.advance(2)
    said = project.actions("--capacity", "2", session="b")
    assert said.dispatch("1.1")["attempt"] == 2


def test_beat_of_another_machine_starts_its_time_anew(
    project: Project, clock: FakeClock, first: Json
) -> None:
    clock.machine, clock.monotonic = "machine-b", 10.0
    project.actions("--capacity", "1", session="b")
    clock.advance(7200 * 1.25 - 1)
    clock.machine = "machine-a"
    project.baton("heartbeat", "1.1")
    clock.machine = "machine-b"
    project.actions("--capacity", "1", session="b")
    clock.advance(100)
    assert "1.1" not in project.actions("--capacity", "2", session="b").tickets()


def test_lost_lease_is_told_to_its_worker(project: Project, clock: FakeClock, first: Json) -> None:
    clock.advance(7201)
    project.actions("--capacity", "1")
    said = project.baton("heartbeat", cwd=first["cwd"], code=1)
    assert said.code == "lease-lost"
    assert said["yours"] is False
    assert said["state"] == "superseded"


def test_late_seal_keeps_the_receipt_and_says_adopt(
    project: Project, clock: FakeClock, first: Json
) -> None:
    clock.advance(7201)
    second = project.actions("--capacity", "1").dispatch("1.1")
    project.work(first, {"late": "x"})
    said = project.seal(first, code=1)
    assert said.code == "attempt-retired"
    assert "adopt" in said["error"]["hint"]
    late = project.attempt("1.1@1")
    assert late["state"] == "superseded"
    assert late["receipt_sha256"]
    assert late["relay"]["suggested_action"] == "adopt"

    # The newer attempt is in flight: it goes first, until somebody gives it up.
    assert project.refused("adopt", "1.1@1").code == "newer-attempt"
    project.baton("abandon", second["assignment"], "--force")
    adopted = project.baton("adopt", "1.1@1")
    assert (adopted["adopted_from"], adopted["state"]) == ("superseded", "succeeded")
    assert project.files() == ["README", "late"]


def test_seal_before_anybody_noticed_the_expiry_counts(
    project: Project, clock: FakeClock, first: Json
) -> None:
    project.work(first)
    clock.advance(9000)
    project.seal(first)
    assert project.reconcile(first).tickets() == ["1.2"]


def test_sealed_work_does_not_expire(project: Project, clock: FakeClock, first: Json) -> None:
    project.do(first)
    clock.advance(100 * 3600)
    project.actions("--capacity", "1")
    assert project.files() == ["README", "file-1.1"]


def test_late_event_for_a_retired_attempt_changes_nothing(
    project: Project, clock: FakeClock, first: Json
) -> None:
    clock.advance(7201)
    second = project.actions("--capacity", "1").dispatch("1.1")
    said = project.reconcile(first, "failed")
    assert said["state"] in ("executing", "waiting")
    assert project.attempt("1.1@1")["state"] == "superseded"
    assert project.attempt("1.1@2")["state"] == "leased"
    project.do(second)
    project.reconcile(second)
    assert project.files() == ["README", "file-1.1"]


def test_lease_option_and_directive_set_its_length(project: Project) -> None:
    project.approve("- [ ] 1.1 One <!-- baton: lease=4h -->\n- [ ] 1.2 Two\n")
    batch = project.actions(CHANGE)
    assert batch.dispatch("1.1")["lease"]["ttl_seconds"] == 4 * 3600
    assert batch.dispatch("1.2")["lease"]["ttl_seconds"] == 7200


def test_lease_setting(project: Project) -> None:
    project.set("leaseSeconds", "600")
    assert project.actions(CHANGE).dispatch("1.1")["lease"]["ttl_seconds"] == 600


def test_lease_option(project: Project) -> None:
    batch = project.actions(CHANGE, "--lease", "15m")
    assert batch.dispatch("1.1")["lease"]["ttl_seconds"] == 900


def test_status_tells_how_much_is_left(project: Project, clock: FakeClock, first: Json) -> None:
    clock.advance(1800)
    relay = project.attempt("1.1@1")["relay"]
    assert relay["elapsed_seconds"] == 1800
    assert relay["lease_remaining_seconds"] == 5400
    assert relay["lease_fraction"] == 0.25
    assert relay["suggested_action"] == "wait"
    assert relay["worktree"]["exists"] is True
    assert relay["worktree"]["dirty"] is False
    clock.advance(4500)
    assert project.attempt("1.1@1")["relay"]["suggested_action"] == "wait-lease-nearly-spent"


def test_late_seal_of_an_unknown_attempt_waits_for_adopt(
    project: Project, clock: FakeClock
) -> None:
    first = project.actions(CHANGE, "--capacity", "1").dispatch("1.1")
    project.baton("pause", "--reason", "r")
    clock.advance(8000)
    project.actions(code=3)
    assert project.attempt("1.1@1")["state"] == "unknown"
    project.work(first)
    assert project.seal(first, code=1).code == "attempt-retired"
    assert project.attempt("1.1@1")["state"] == "unknown"
    said = project.baton("adopt", "1.1@1")
    assert (said["adopted_from"], said["state"]) == ("unknown", "succeeded")


def test_lease_of_no_time_and_session_without_a_name_are_refused(project: Project) -> None:
    assert project.refused("actions", CHANGE, "--session", "", code=2).code == "empty-session"
    words = ("actions", CHANGE, "--session", "s", "--lease", "0")
    assert project.refused(*words, code=2).code == "bad-lease"


def test_heartbeat_tells_when_the_lease_expires(
    project: Project, clock: FakeClock, first: Json
) -> None:
    clock.advance(60)
    held = project.baton("heartbeat", cwd=first["cwd"])
    assert held["lease"]["expires_at"] > first["lease"]["expires_at"]


def test_late_seal_tells_what_was_kept(project: Project, first: Json) -> None:
    project.work(first)
    project.reconcile(first, "failed")
    said = project.seal(first, code=1)
    assert said.code == "attempt-retired"
    assert said["assignment"] == first["assignment"]
    assert said["changed_files"] == ["file-1.1"]
    assert said["checks"][0]["exit_code"] == 0
    assert len(said["receipt_sha256"]) == 64 and said["commit"]
