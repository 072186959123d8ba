"""``--json``: one document on stdout for every verb, with the keys that callers rely on."""

from __future__ import annotations

import json

from .conftest import CHANGE, Json, Project

RELAY = {
    "elapsed_seconds",
    "lease_remaining_seconds",
    "lease_fraction",
    "receipt_exists",
    "beat_age_seconds",
    "heartbeat_file_age_seconds",
    "worktree",
    "suggested_action",
}
ATTEMPT = {
    "assignment",
    "ticket",
    "attempt",
    "state",
    "failure",
    "session",
    "agent_id",
    "commit",
    "merge_commit",
    "receipt_sha256",
    "relay",
}
DISPATCH = {
    "kind",
    "assignment",
    "ticket",
    "attempt",
    "title",
    "cwd",
    "branch",
    "base_commit",
    "prompt",
    "token",
    "packet",
    "packet_sha256",
    "redelivered",
    "lease",
}


def _keys(document: Json, *wanted: str) -> None:
    assert set(" ".join(wanted).split()) <= set(document), document


def test_shapes_of_every_verb(project: Project) -> None:
    _keys(project.baton("init"), "ok changes")
    _keys(project.baton("config"), "ok settings")
    _keys(project.baton("config")["settings"][0], "key value origin meaning")
    plan = project.baton("plan")
    _keys(plan, "ok run order unit tickets frontier warnings errors boxes")
    _keys(plan["tickets"][0], "key alias title section state needs checks paths criteria line")
    boxes = plan["boxes"]
    parts = ("tickets", "criteria", "umbrellas", "reported")
    assert boxes["total"] == sum(boxes[part] for part in parts) == 3

    batch = project.actions(CHANGE)
    _keys(batch, "ok run generation revision state mode actions")
    first = batch.dispatch("1.1")
    assert set(first) >= DISPATCH
    _keys(first["lease"], "ttl_seconds expires_at")
    wait = project.actions().of("wait")[0]
    _keys(wait, "kind reason active poll_after_seconds")
    _keys(project.baton("bind", "1.1", "me"), "ok assignment state lease yours")
    _keys(project.baton("heartbeat", "1.1"), "ok assignment state lease yours")

    project.work(first)
    verified = project.baton("verify", "1.1")
    _keys(verified, "ok assignment checks")
    _keys(verified["checks"][0], "command exit_code duration_ms output_tail")
    sealed = project.seal(first)
    _keys(sealed, "ok assignment commit receipt_sha256 changed_files checks signed sealed_in")

    status = project.baton("status")
    _keys(
        status,
        "ok run revision generation state complete target branch commit tickets missing attempts",
        "followups warnings",
    )
    assert status["target"]["type"] == "change"
    _keys(
        status["tickets"],
        "total resolved resolved_by_hand active ready waiting failed canceled dropped",
    )
    attempt = status["attempts"][0]
    assert set(attempt) >= ATTEMPT
    assert set(attempt["relay"]) >= RELAY
    _keys(attempt["relay"]["worktree"], "exists dirty last_activity_seconds")
    run = project.baton("list")["runs"][0]
    _keys(run, "run type state complete tickets updated_at")
    event = project.baton("log")["events"][0]
    _keys(event, "oid at event ticket attempt session message")
    shown = project.baton("show", "1.1")
    _keys(shown, "ok assignment attempt packet receipt merged log_path history")

    paused = project.baton("pause", "--reason", "r")
    _keys(paused, "ok run state mode")
    _keys(project.baton("resume"), "ok run state mode")
    refused = project.baton("abandon", "1.1@1", code=1)
    _keys(refused["error"], "code message hint")
    _keys(project.baton("abandon", "1.1", "--force"), "ok assignment state destroys preserves next")
    adopted = project.baton("adopt", "1.1")
    _keys(adopted, "ok assignment state adopted_from commit merge_commit follow_up")
    _keys(project.baton("reopen", "1.1", "--reason", "r"), "ok run state mode ticket")
    _keys(project.baton("update"), "ok run onto commit checked fast_forward")
    _keys(project.baton("land", "--partial"), "ok run onto commit checked fast_forward")
    _keys(project.baton("cleanup", "--dry-run"), "ok dry_run would_remove")
    _keys(project.baton("cleanup"), "ok removed skipped")
    _keys(project.baton("tasks", "check", "1.1", "--dry-run"), "ok key action dry_run reverse")
    _keys(project.baton("notes", "rebuild"), "ok")
    _keys(project.baton("doctor", code=None), "ok checks")
    _keys(project.baton("delete", CHANGE, "--force", "--dry-run"), "ok")
    project.baton("delete", CHANGE, "--force")


def test_complete_action(project: Project) -> None:
    (complete,) = project.finish(project.actions(CHANGE)).of("complete")
    _keys(
        complete,
        "kind revision resolved resolved_by_hand branch commit worktrees_removed",
        "worktrees_skipped",
    )


def test_times_are_rfc_3339_in_utc(project: Project) -> None:
    batch = project.actions(CHANGE)
    assert batch.dispatch("1.1")["lease"]["expires_at"] == "2031-05-04T14:00:00Z"
    assert project.baton("log")["events"][-1]["at"] == "2031-05-04T12:00:00Z"


def test_output_of_checks_stays_out_of_the_document(project: Project) -> None:
    check = "echo to stdout; echo to stderr >&2"
    first = project.actions(CHANGE, "--verify", check).dispatch("1.1")
    project.work(first)
    said = project.baton("verify", "1.1")
    assert "to stdout" in said["checks"][0]["output_tail"]
    assert "to stderr" in said["checks"][0]["output_tail"]
    project.seal(first)


def test_output_that_is_not_text_does_not_break_the_document(project: Project) -> None:
    first = project.actions(CHANGE, "--verify", r"printf '\377\000\033[31m\n'").dispatch("1.1")
    project.work(first)
    assert project.seal(first)["checks"][0]["exit_code"] == 0


def test_text_is_for_people(project: Project) -> None:
    batch = project.actions(CHANGE)
    for args in (
        ("plan",),
        ("status",),
        ("list",),
        ("log",),
        ("show", "1.1"),
        ("config",),
        ("actions", "--session", "s"),
        ("update",),
        ("cleanup",),
    ):
        result = project.type(*args)
        assert result.exit_code == 0, (args, result.stdout, result.stderr)
        assert result.stdout.strip(), args
        assert "\x1b[" not in result.stdout, "plain where it is no terminal"
        assert not result.stdout.startswith("{")
    assert batch.dispatch("1.1")["token"] not in project.type("status").stdout


def test_environment_variable_asks_for_json(project: Project) -> None:
    result = project.type("status", CHANGE, env={"BATON_JSON": "1"})
    assert json.loads(result.stdout)["ok"] is True
