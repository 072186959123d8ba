"""How a person (or the caller) steers a run: abandon, adopt, reopen, pause, redeliver, limits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import CHANGE, TWO, FakeClock, Json, Project

ONE = "- [ ] 1.1 One\n"
PACKET = {
    *("run", "ticket", "attempt", "assignment", "title", "body", "section", "section_text"),
    *("criteria", "dependencies", "plan_revision", "base_commit", "worktree", "branch", "checks"),
    *("allowed_paths", "protected_paths", "context_files", "previous_failure", "project_dir"),
}


@pytest.fixture
def first(project: Project) -> Json:
    return project.actions(CHANGE, "--capacity", "1").dispatch("1.1")


# --- claiming ----------------------------------------------------------------------------------


def test_nothing_is_handed_out_twice(project: Project, first: Json) -> None:
    again = project.actions("--capacity", "1")
    assert again["state"] == "waiting"
    (wait,) = again.of("wait")
    assert wait["active"] == wait["undelivered"] == [first["assignment"]]
    assert "--redeliver" in wait["hint"]


def test_capacity_is_the_sessions_own(project: Project) -> None:
    project.approve("".join(f"- [ ] 1.{n} T\n" for n in range(1, 9)))
    assert project.actions(CHANGE, "--capacity", "2", session="a").tickets() == ["1.1", "1.2"]
    assert project.actions("--capacity", "2", session="a").tickets() == []
    assert project.actions("--capacity", "3", session="b").tickets() == ["1.3", "1.4", "1.5"]
    assert project.actions("--capacity", "3", session="a").tickets() == ["1.6"]


def test_default_capacity_is_five(project: Project) -> None:
    project.approve("".join(f"- [ ] 1.{n} T\n" for n in range(1, 9)))
    assert len(project.actions(CHANGE).tickets()) == 5


def test_max_active_caps_the_run(project: Project) -> None:
    project.set("maxActive", "3")
    project.approve("".join(f"- [ ] 1.{n} T\n" for n in range(1, 9)))
    assert len(project.actions(CHANGE, "--capacity", "2", session="a").tickets()) == 2
    assert len(project.actions("--capacity", "8", session="b").tickets()) == 1
    assert project.actions("--capacity", "8", session="c").tickets() == []


def test_blocked_review_takes_no_capacity(project: Project) -> None:
    project.approve("- [ ] 1.1 One\n- [ ] 1.2 Two\n- [ ] 1.3 Three\n- [ ] 1.4 Four\n")
    check = "test ! -e a || test ! -e b"
    batch = project.actions(CHANGE, "--capacity", "2", "--verify", check)
    project.do(batch.dispatch("1.1"), {"a": "x"})
    project.do(batch.dispatch("1.2"), {"b": "x"})
    said = project.reconcile(batch.dispatch("1.1"), "completed", "--capacity", "2")
    assert said.tickets() == ["1.3", "1.4"]


# --- bind and redeliver ------------------------------------------------------------------------


def test_bind_is_idempotent_and_refuses_a_second_id(project: Project, first: Json) -> None:
    name = first["assignment"]
    held = project.baton("bind", name, "worker-7")
    assert (held["state"], held["yours"]) == ("spawned", True)
    project.baton("bind", name, "worker-7")
    said = project.baton("bind", name, "worker-8", code=1)
    assert said.code == "already-bound"
    assert "worker-7" in said.message
    assert project.attempt("1.1@1")["agent_id"] == "worker-7"


def test_redeliver_fences_the_old_token_and_repeats_the_same_bytes(
    project: Project, first: Json
) -> None:
    packet, prompt = Path(first["packet"]), Path(first["packet"]).with_name("prompt.md")
    before = packet.read_bytes(), prompt.read_bytes()
    again = project.actions("--redeliver", session="other").dispatch("1.1")
    assert again["redelivered"] is True
    assert again["token"] != first["token"]
    for key in ("assignment", "cwd", "branch", "prompt", "packet_sha256", "base_commit"):
        assert again[key] == first[key], key
    assert (packet.read_bytes(), prompt.read_bytes()) == before
    said = project.baton("bind", first["assignment"], "old", "--token", first["token"], code=1)
    assert said.code == "stale-token"
    project.baton("bind", again["assignment"], "new", "--token", again["token"])
    assert project.attempt("1.1@1")["session"] == "other"


def test_redeliver_leaves_started_workers_alone(project: Project) -> None:
    batch = project.actions(CHANGE)
    project.baton("bind", batch.dispatch("1.1")["assignment"], "worker")
    assert project.actions("--redeliver").tickets() == ["1.2"]


def test_redeliver_also_claims_what_is_free(project: Project, first: Json) -> None:
    said = project.actions("--redeliver", "--capacity", "2")
    assert said.tickets() == ["1.1", "1.2"]
    assert [d["redelivered"] for d in said.of("dispatch")] == [True, False]


def test_redeliver_restores_files_that_somebody_deleted(project: Project, first: Json) -> None:
    for name in ("packet.json", "prompt.md", "token"):
        Path(first["packet"]).with_name(name).unlink()
    project.git("worktree", "remove", "--force", first["cwd"])
    again = project.actions("--redeliver", "--capacity", "1").dispatch("1.1")
    assert Path(again["packet"]).is_file()
    project.do(again)
    assert project.reconcile(again)["ok"]


def test_redeliver_returns_a_merge_to_resolve(project: Project) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    project.do(batch.dispatch("1.1"), {"README": "one\n"})
    project.do(batch.dispatch("1.2"), {"README": "two\n"})
    (resolve,) = project.reconcile(batch.dispatch("1.1")).of("resolve_merge")
    (again,) = project.actions("--redeliver").of("resolve_merge")
    assert again["assignment"] == resolve["assignment"]
    assert (again["conflicts"], again["redelivered"]) == (["README"], True)
    assert again["prompt"] == resolve["prompt"]


# --- outcomes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "failure"),
    [
        ("completed", "ended-without-receipt"),
        ("failed", "ended-failed"),
        ("canceled", "ended-canceled"),
    ],
)
def test_end_without_receipt_is_unknown_and_retried(
    project: Project, first: Json, outcome: str, failure: str
) -> None:
    said = project.reconcile(first, outcome, "--capacity", "1")
    (recover,) = said.of("recover")
    assert (recover["assignment"], recover["reason"]) == (first["assignment"], failure)
    assert (recover["next"], recover["retried_as"]) == ("retry", f"{CHANGE}/1.1@2")
    again = said.dispatch("1.1")
    packet = json.loads(Path(again["packet"]).read_text())
    assert packet["previous_failure"]["code"] == failure
    assert project.files() == ["README"]


def test_receipt_counts_whatever_the_word(project: Project, first: Json) -> None:
    project.do(first)
    project.reconcile(first, "failed")
    assert project.files() == ["README", "file-1.1"]


def test_done_without_a_commit_is_not_done(project: Project, first: Json) -> None:
    said = project.reconcile(first, "completed", "--capacity", "1")
    assert said.dispatch("1.1")["attempt"] == 2
    assert "- [ ] 1.1" in project.tasks()


def test_repeated_reconcile_agrees(project: Project, first: Json) -> None:
    project.do(first)
    once = project.reconcile(first, "completed", "--capacity", "2")
    again = project.reconcile(first, "completed", "--capacity", "2")
    assert once.tickets() == ["1.2"]
    assert again["state"] == "waiting"
    assert project.subjects() == ["1.1 Write the first file"]


def test_reconcile_of_another_session_needs_the_token(project: Project, first: Json) -> None:
    said = project.baton(
        "reconcile", first["assignment"], "--outcome", "failed", "--session", "x", code=1
    )
    assert said.code == "foreign-session"
    project.reconcile(first, "failed", "--token", first["token"], session="x")
    assert project.attempt("1.1@1")["failure"]["code"] == "ended-failed"


def test_attempts_are_exhausted_while_independent_tickets_go_on(project: Project) -> None:
    project.approve("- [ ] 1.1 One\n- [ ] 1.2 Two\n- [ ] 1.3 Three\n")
    batch = project.actions(CHANGE, "--capacity", "1")
    dispatch = batch.dispatch("1.1")
    for attempt in (1, 2, 3):
        assert dispatch["attempt"] == attempt
        batch = project.reconcile(dispatch, "failed", "--capacity", "1")
        dispatch = batch["actions"][0]
    assert project.attempt("1.1@3")["state"] == "failed"
    assert batch.tickets() == ["1.2"]
    second = batch.dispatch("1.2")
    project.do(second)
    third = project.reconcile(second, "completed", "--capacity", "1").dispatch("1.3")
    project.do(third)
    last = project.reconcile(third, code=3)
    assert (last["state"], last.code) == ("blocked", "attempts-exhausted")
    assert project.files() == ["README", "file-1.2", "file-1.3"]
    assert project.baton("status")["tickets"]["failed"] == 1


def test_max_attempts_setting(project: Project) -> None:
    project.approve(ONE)
    project.set("maxAttempts", "1")
    dispatch = project.actions(CHANGE).dispatch("1.1")
    said = project.reconcile(dispatch, "failed", code=3)
    assert said.code == "attempts-exhausted"


# --- abandon and adopt -------------------------------------------------------------------------


def test_abandon_of_a_live_attempt_is_refused_with_the_facts(project: Project, first: Json) -> None:
    said = project.refused("abandon", "1.1@1")
    assert said.code == "abandon-refused"
    assert said["relay"]["lease_remaining_seconds"] == 7200
    assert said["relay"]["suggested_action"] == "wait"


def test_abandon_after_most_of_the_lease(project: Project, clock: FakeClock, first: Json) -> None:
    clock.advance(7200 * 0.79)
    project.refused("abandon", "1.1@1")
    clock.advance(7200 * 0.02)
    said = project.baton("abandon", "1.1@1", "--reason", "silent")
    assert said["state"] == "abandoned"
    assert any("lease" in text for text in said["destroys"])
    assert any(first["cwd"] in text for text in said["preserves"])
    assert project.actions("--capacity", "1").dispatch("1.1")["attempt"] == 2


def test_abandon_of_sealed_work_is_refused(project: Project, first: Json) -> None:
    project.do(first)
    assert project.refused("abandon", "1.1@1").code == "abandon-refused"


def test_forced_abandon_destroys_no_work(project: Project, first: Json) -> None:
    sealed = project.do(first)
    said = project.baton("abandon", "1.1@1", "--force", "--reason", "wrong way")
    assert said["state"] == "abandoned"
    assert Path(first["cwd"], "file-1.1").exists()
    assert project.git("rev-parse", first["branch"]) == sealed["commit"]
    assert project.files() == ["README"]
    project.baton("abandon", "1.1@1")  # again is fine
    adopted = project.baton("adopt", "1.1@1")
    assert (adopted["adopted_from"], adopted["state"]) == ("abandoned", "succeeded")
    assert adopted["merge_commit"] == project.tip()


def test_adopt_needs_a_receipt(project: Project, first: Json) -> None:
    project.reconcile(first, "failed", "--capacity", "1")
    assert project.refused("adopt", "1.1@1").code in ("no-receipt", "newer-attempt")


def test_adopt_of_integrated_work_is_refused(project: Project, first: Json) -> None:
    project.do(first)
    project.reconcile(first)
    project.refused("adopt", "1.1@1")


def test_adopt_is_refused_when_a_newer_attempt_has_a_receipt(
    project: Project, clock: FakeClock, first: Json
) -> None:
    project.do(first)
    project.baton("abandon", "1.1@1", "--force")
    second = project.actions("--capacity", "1").dispatch("1.1")
    project.do(second, {"second": "x"})
    said = project.refused("adopt", "1.1@1")
    assert said.code == "newer-attempt"
    assert "1.1@1" in said.message and "1.1@2" in said.message


# --- reopen, pause, resume ---------------------------------------------------------------------


def test_reopen_a_resolved_ticket(project: Project, first: Json) -> None:
    project.do(first)
    project.reconcile(first, "completed", "--capacity", "1")
    assert "- [x] 1.1" in project.tasks()
    said = project.baton("reopen", "1.1", "--reason", "it was not enough")
    assert (said["run"], said["ticket"]) == (CHANGE, "1.1")
    assert "- [ ] 1.1" in project.tasks()
    again = project.actions("--capacity", "2").dispatch("1.1")
    assert again["attempt"] == 2
    project.do(again, {"more": "x"})
    project.reconcile(again)
    assert project.files() == ["README", "file-1.1", "more"]
    assert "- [x] 1.1" in project.tasks()


def test_reopen_a_hand_resolved_ticket(project: Project) -> None:
    project.approve("- [x] 1.1 One\n- [ ] 1.2 Two\n")
    project.actions(CHANGE)
    project.baton("reopen", CHANGE, "1.1", "--reason", "it was not done at all")
    assert project.actions().tickets() == ["1.1"]
    assert project.tasks() == TWO


def test_reopen_a_failed_ticket_resets_its_count(project: Project) -> None:
    project.approve(ONE)
    project.set("maxAttempts", "2")
    dispatch = project.actions(CHANGE).dispatch("1.1")
    second = project.reconcile(dispatch, "failed").dispatch("1.1")
    project.reconcile(second, "failed", code=3)
    project.baton("reopen", "1.1", "--reason", "once more")
    third = project.actions().dispatch("1.1")
    fourth = project.reconcile(third, "failed").dispatch("1.1")
    assert fourth["attempt"] == 4


def test_reopen_of_an_open_ticket_is_refused(project: Project, first: Json) -> None:
    assert project.refused("reopen", "1.2", "--reason", "r").code == "ticket-open"
    said = project.refused("reopen", "1.3", "--reason", "r")
    assert said.code == "unknown-ticket"
    assert "1.1" in said["error"]["hint"]


def test_pause_claims_nothing_new_and_exits_3(project: Project, first: Json) -> None:
    project.baton("pause", "--reason", "the build machine is down")
    said = project.actions("--capacity", "5", code=3)
    assert said["state"] == "paused"
    assert said.code == "paused"
    assert "the build machine is down" in said.message
    status = project.baton("status")
    assert (status["state"], status["paused"]) == ("paused", "the build machine is down")

    project.do(first)
    project.reconcile(first, code=3)
    assert project.files() == ["README", "file-1.1"], "what is in flight goes on"

    assert project.baton("resume")["state"] != "paused"
    assert project.actions().tickets() == ["1.2"]


# --- looking -----------------------------------------------------------------------------------


def test_status_makes_nothing(project: Project) -> None:
    git_dir = project.top / ".git"
    before = sorted(str(p) for p in git_dir.rglob("*"))
    said = project.baton("status", CHANGE)
    assert (said["revision"], said["generation"], said["complete"]) == (0, 0, False)
    project.baton("list")
    project.baton("plan")
    project.refused("status", "add-logn")
    assert sorted(str(p) for p in git_dir.rglob("*")) == before
    assert not (project.top.parent / "repo.baton").exists()


def test_looking_at_a_run_makes_nothing(project: Project, first: Json) -> None:
    git_dir = project.top / ".git"
    before = {str(p): p.stat().st_mtime_ns for p in git_dir.rglob("*") if p.name != "index"}
    for verb in (("status", "--all"), ("list",), ("log",), ("show", "1.1"), ("plan",), ("config",)):
        project.baton(*verb)
    after = {str(p): p.stat().st_mtime_ns for p in git_dir.rglob("*") if p.name != "index"}
    assert after == before


def test_typing_errors_name_the_nearest(project: Project, first: Json) -> None:
    assert CHANGE in project.refused("status", "ad-login")["error"]["hint"]
    assert "1.1" in project.refused("show", "1.11")["error"]["hint"]
    said = project.refused("show", "1.1@7")
    assert "1.1@1" in said["error"]["hint"]


def test_log_is_the_commit_chain(project: Project, first: Json) -> None:
    project.do(first)
    project.reconcile(first)
    events = project.baton("log", "-n", "100")["events"]
    listed = "--format=%H %(trailers:key=Baton-Event,valueonly,separator=%x20)"
    chain = project.git("log", "--first-parent", listed, f"refs/baton/runs/{CHANGE}")
    done = [line.split()[0] for line in chain.splitlines() if not line.endswith("-intent")]
    assert [e["oid"] for e in events] == done
    kinds = [e["event"] for e in reversed(events)]
    assert kinds[0] == "start"
    assert [k for k in kinds if k in ("claim", "seal", "integrate")][:3] == [
        "claim",
        "seal",
        "integrate",
    ]
    assert len(project.baton("log", "-n", "2")["events"]) == 2


def test_show_has_packet_receipt_and_history(project: Project, first: Json) -> None:
    project.do(first)
    project.reconcile(first)
    shown = project.baton("show", "1.1")
    assert shown["assignment"] == first["assignment"]
    assert shown["attempt"]["state"] == "succeeded"
    assert shown["packet"]["title"] == first["title"]
    assert shown["receipt"]["predicate"]["result"] == "PASSED"
    assert {e["event"] for e in shown["history"]} >= {"seal", "integrate"}
    assert project.baton("show", "1.1@1") == shown
    assert project.baton("show", f"{CHANGE}/1.1@1") == shown


def test_finished_attempts_only_with_all(project: Project, first: Json) -> None:
    project.do(first)
    project.reconcile(first, "completed", "--capacity", "1")
    assert [a["ticket"] for a in project.baton("status")["attempts"]] == ["1.2"]
    assert [a["ticket"] for a in project.baton("status", "--all")["attempts"]] == ["1.1", "1.2"]


def test_packet_is_the_whole_contract(project: Project) -> None:
    project.approve(
        "## 1. Start\n\nMind the gap.\n\n"
        '- [ ] 1.1 One <!-- baton: verify="test -e a" paths="a b" -->\n'
        "  in two lines\n  - [ ] a criterion\n- [ ] 1.2 Two (depends on 1.1)\n"
    )
    project.set("protectPaths", "check/**")
    dispatch = project.actions(CHANGE).dispatch("1.1")
    packet = json.loads(Path(dispatch["packet"]).read_text())
    assert set(packet) >= PACKET
    assert packet["criteria"] == ["a criterion"]
    assert packet["section_text"] == "Mind the gap."
    assert packet["checks"] == ["test ! -e broken", "test -e a"]
    assert packet["allowed_paths"] == ["a", "b"]
    assert packet["protected_paths"] == ["check/**"]
    assert packet["worktree"] == dispatch["cwd"]
    assert packet["base_commit"] == dispatch["base_commit"]
    assert f"openspec/changes/{CHANGE}/proposal.md" in packet["context_files"]
    assert packet["previous_failure"] is None
    for path in packet["context_files"]:
        assert Path(dispatch["cwd"], path).is_file(), "a worker finds what it is told to read"
    for text in ("Mind the gap.", "a criterion", "in two lines", "test -e a"):
        assert text in dispatch["prompt"]


@pytest.mark.parametrize(
    "text", ["x\n\nBaton-Event: seal\nBaton-Ticket: 9.9", "\x1b[31mred", "a\tb", " "]
)
def test_free_text_is_never_taken_for_a_trailer(project: Project, text: str) -> None:
    project.actions(CHANGE, session=f"s{text}")
    project.baton("pause", "--reason", text)
    events = project.baton("log")["events"]
    assert events[0]["event"] == "pause"
    assert events[0]["ticket"] is None
    project.baton("resume")
    project.baton("abandon", "1.1", "--force", "--reason", text)
    assert project.baton("log")["events"][0]["event"] == "abandon"
    assert project.baton("log")["events"][0]["ticket"] == "1.1"
    project.type("log")
    project.type("status")


def test_short_assignment_is_refused_where_two_runs_could_be_meant(project: Project) -> None:
    project.plan(TWO, change="other")
    project.actions(CHANGE)
    project.actions("other")
    said = project.refused("show", "1.1", code=2)
    assert "other" in said["error"]["hint"]
    assert project.baton("show", "other/1.1")["assignment"] == "other/1.1@1"
    assert project.baton("show", "other/1.1@1")


def test_history_has_events_of_several_attempts(project: Project) -> None:
    project.approve(TWO)
    project.actions(CHANGE)
    events = [e["event"] for e in project.baton("show", "1.2@1")["history"]]
    assert {"claim", "prepare"} <= set(events)
