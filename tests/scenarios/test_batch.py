"""Batches beyond their matrix: requests, freezing and gates, items that got lost, nesting, reports,
foreign hands."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from .batches import QUEUE, add, documents, items, open_root, states
from .conftest import Json, NewProject, Project


@pytest.fixture
def project(new_project: NewProject) -> Project:
    """A repository whose queue holds ``a b c``, and ``x``, which no batch means."""
    project = new_project(tasks=None)
    for name in ("a", "b", "c"):
        add(project, name)
    add(project, "x", meant=False)
    return project


def refs_of(project: Project, *names: str) -> str:
    return project.git("for-each-ref", "--format=%(refname) %(objectname)", *names)


# --- requests ------------------------------------------------------------------------------------


def test_one_request_finds_one_root(project: Project) -> None:
    root = open_root(project, membership="snapshot", request="nightly")
    assert root.opened["created"] is True
    assert root.opened["members"] == ["a", "b", "c"]
    again = open_root(project, membership="snapshot", request="nightly")
    assert (again.run, again.opened["created"]) == (root.run, False)
    assert root.drive()["state"] == "complete"
    before = refs_of(project)
    closed = open_root(project, membership="snapshot", request="nightly")
    assert (closed.run, closed.opened["state"]) == (root.run, "complete")
    assert refs_of(project) == before


OTHER_WORDS = {
    "membership": ("--membership", "live"),
    "mode": ("--mode", "one-item"),
    "filters": ("--filter", "severity=high"),
    "order": ("--order", "-id"),
    "gates": ("--gate", "true"),
    "command": ("--name", "another"),
    "queue": ("--queue", "other"),
}


@pytest.mark.parametrize("field", OTHER_WORDS)
def test_another_request_of_the_same_id_is_refused(project: Project, field: str) -> None:
    add(project, "z", queue="other")
    words = ("batch", "open", "--queue", QUEUE, "--membership", "snapshot", "--request-id", "r")
    project.baton(*words)
    said = project.refused(*words, *OTHER_WORDS[field])
    assert said.code == "request-id-conflict"
    assert field in said.message


def test_without_a_request_id_one_is_made(project: Project) -> None:
    first, second = (project.baton("batch", "open", "--queue", QUEUE) for _ in range(2))
    assert first["request_id"] != second["request_id"]
    assert first["run"] != second["run"]
    found = project.baton("batch", "open", "--queue", QUEUE, "--request-id", first["request_id"])
    assert (found["run"], found["created"]) == (first["run"], False)


BAD = {
    "bad-filter": ("--filter", "colour=red"),
    "bad-order": ("--order", "beauty"),
    "unknown-queue": ("--queue", "none"),
    "bad-request-id": ("--request-id", " "),
    "unknown-attempt": ("--parent", "a@1"),
}


@pytest.mark.parametrize("code", BAD)
def test_bad_words_open_nothing(project: Project, code: str) -> None:
    said = project.refused("batch", "open", *BAD[code], code=None)
    assert said.code == code


def test_a_batch_without_checks_is_refused(project: Project) -> None:
    project.git("config", "--unset-all", "baton.verify")
    assert project.refused("batch", "open", code=None).code == "no-checks"


ABOUT_A_TASKS_FILE = (
    ("--order", "explicit"),
    ("--unit", "task"),
    ("--plan-from", "HEAD"),
    ("--project", "."),
)


def test_what_is_about_a_tasks_file_is_refused(project: Project) -> None:
    root = open_root(project)
    said = project.refused("tasks", "check", root.run, "a")
    assert said.code == "plan-write-refused"
    for words in ABOUT_A_TASKS_FILE:
        said = project.refused("actions", root.run, "--session", "s", *words, code=2)
        assert said.code == "no-tasks-file"
        assert words[0] in said.message


def test_a_newer_descriptor_is_refused(project: Project) -> None:
    root = open_root(project)
    rewrite(project, root.ref, "run.json", newer_descriptor)
    for words in (("batch", "open", "--request-id", "r"), ("actions", root.run, "--session", "s")):
        said = project.refused(*words)
        assert said.code == "newer-schema"
    rewrite(project, root.ref, "run.json", known_descriptor)


def newer_descriptor(record: Json) -> None:
    record["target"]["descriptor"]["schema"] = 99


def known_descriptor(record: Json) -> None:
    record["target"]["descriptor"]["schema"] = 1


def rewrite(project: Project, ref: str, path: str, change: Callable[[Json], None]) -> str:
    """Somebody writes another ``path`` (at the top of the tree) into the history behind ``ref``."""
    document = json.loads(project.git("show", f"{ref}:{path}"))
    change(document)
    blob = fed(project, json.dumps(document), "hash-object", "-w", "--stdin")
    tree = "".join(
        f"{line.replace(line.split()[2], blob) if line.endswith(chr(9) + path) else line}\n"
        for line in project.git("ls-tree", ref).splitlines()
    )
    made = fed(project, tree, "mktree")
    commit = project.git("commit-tree", made, "-p", ref, "-m", "by hand")
    project.git("update-ref", ref, commit)
    return commit


def fed(project: Project, text: str, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=project.top, input=text, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


# --- members -------------------------------------------------------------------------------------


def test_batches_skip_what_is_owned(project: Project) -> None:
    project.baton("queue", "own", "a", "--by", "umbrella")
    root = open_root(project, membership="snapshot")
    assert root.opened["members"] == ["b", "c"]
    root.drive()
    assert states(project) == {"a": "owned", "b": "fixed", "c": "fixed", "x": "open"}


def test_a_snapshot_stays_as_it_is_and_a_live_batch_goes_on(project: Project) -> None:
    snapshot = open_root(project, membership="snapshot", request="s")
    live = open_root(project, membership="live", request="l")
    add(project, "d", "--severity", "critical")
    assert live.actions(capacity=1).tickets() == ["d"]
    assert snapshot.actions().tickets() == ["a", "b", "c"]
    snapshot.drive(snapshot.actions("--redeliver"))
    assert [m["item"] for m in snapshot.closeout()["members"]] == ["a", "b", "c"]
    assert live.drive(live.actions("--redeliver"))["state"] == "complete"
    assert [m["item"] for m in live.closeout()["members"]] == ["d"]


def test_what_another_root_holds_is_waited_for(project: Project) -> None:
    first = open_root(project, membership="snapshot", request="1")
    second = open_root(project, membership="snapshot", request="2")
    given = first.actions()
    batch = second.actions(code=0)
    assert batch["state"] == "waiting"
    (wait,) = batch.of("wait")
    assert f"a is held by {first.run}/a@1" in wait["reason"]
    assert wait["poll_after_seconds"]
    first.fix(given.of("dispatch"))
    assert second.actions(code=0)["state"] == "complete"
    closeout = second.closeout()
    assert {m["disposition"] for m in closeout["members"]} == {"eligibility-lost"}
    assert closeout["outcome"] == "done"


def test_blockers_do_not_widen_a_snapshot(project: Project) -> None:
    root = open_root(project, membership="snapshot")
    given = root.actions()
    root.dispose(given.dispatch("a"), "--as", "blocked", "--by", "x", "--reason", "needs x")
    add(project, "d")
    root.fix([given.dispatch("b"), given.dispatch("c")])
    batch = root.actions("--redeliver")
    assert batch.tickets() == ["x"]
    batch = root.fix(batch.of("dispatch"))
    assert [d["assignment"] for d in batch.of("dispatch")] == [f"{root.run}/a@2"]
    assert "needs x" in batch.dispatch("a")["prompt"]
    root.drive(batch)
    assert {m["item"]: m["blocks"] for m in root.closeout()["members"]} == {
        "a": None,
        "b": None,
        "c": None,
        "x": "a",
    }
    assert states(project)["d"] == "open"


def test_a_worker_is_told_how_to_return_an_item(project: Project) -> None:
    given = open_root(project).actions().dispatch("a")
    assert "git baton dispose --as obe --reason" in given["prompt"]
    said = project.seal(given, code=1)
    assert said.code == "nothing-committed"
    assert "git baton dispose --as obe --reason" in said["error"]["hint"]


LOSSES = {
    "is fixed": ("set", "a", "--state", "fixed"),
    "is left to umbrella": ("own", "a", "--by", "umbrella"),
    "filters": ("set", "a", "--label", "other"),
    "given to others": ("set", "a", "--state", "open"),
}
AFTER = {"is fixed": "fixed", "is left to umbrella": "owned"}


@pytest.mark.parametrize("why", LOSSES)
@pytest.mark.parametrize("mode", ["autopilot", "one-item"])
def test_work_on_what_is_not_ours_any_more_is_kept_on_its_branch(
    project: Project, why: str, mode: str
) -> None:
    root = open_root(project, membership="snapshot", mode=mode)
    given = root.actions(capacity=1).dispatch("a")
    commit = project.work(given)
    project.baton("queue", *LOSSES[why])
    project.seal(given)
    root.drive(root.reconcile(given, capacity=1))
    lost = root.attempt("a@1")
    assert (lost["state"], lost["failure"]["code"]) == ("closed", "eligibility-lost")
    assert why in lost["failure"]["message"]
    assert project.git("rev-parse", given["branch"]) == commit
    assert "file-a" not in project.files(root.tip())
    closeout = root.closeout()
    assert closeout["outcome"] == ("done" if mode == "autopilot" else "eligibility-lost")
    assert closeout["members"][0]["disposition"] == "eligibility-lost"
    item = items(project)["a"]
    assert (item["state"], item["claimed_by"]) == (AFTER.get(why, "open"), None)


# --- returns -------------------------------------------------------------------------------------


def test_a_return_stands(project: Project) -> None:
    root = open_root(project)
    given = root.actions(capacity=1).dispatch("a")
    first = root.dispose(given, "--as", "obe", "--reason", "gone")
    assert (first["disposition"], first["accepted"]) == ("obe", True)
    assert first["assignment"] == f"{root.run}/a@1"
    before = refs_of(project)
    words = ("dispose", given["assignment"], "--token", given["token"])
    again = project.baton(*words, "--as", "obe", "--reason", "put otherwise")
    assert {**again} == {**first}
    assert refs_of(project) == before
    said = project.refused(*words, "--as", "unresolved", "--reason", "no idea")
    assert said.code == "already-returned"


INCOMPLETE = {
    "reason-missing": ("--as", "obe"),
    "wrong-by": ("--as", "blocked", "--reason", "why"),
    "no-receipt": ("--as", "fixed"),
}


@pytest.mark.parametrize("code", INCOMPLETE)
def test_half_a_return_is_none(project: Project, code: str) -> None:
    root = open_root(project)
    given = root.actions(capacity=1).dispatch("a")
    said = project.refused("dispose", given["assignment"], *INCOMPLETE[code], code=None)
    assert said.code == code
    assert states(project)["a"] == "claimed"


def test_what_is_sealed_can_be_returned_as_fixed(project: Project) -> None:
    root = open_root(project, mode="one-item")
    given = root.actions().dispatch("a")
    project.do(given)
    done = root.dispose(given, "--as", "fixed")
    assert (done["accepted"], done["state"]) == (True, "complete")
    assert root.closeout()["outcome"] == "done"


def test_only_who_holds_an_item_returns_it(project: Project) -> None:
    root = open_root(project)
    given = root.actions(capacity=1).dispatch("a")
    words = ("dispose", given["assignment"], "--as", "obe", "--reason", "gone")
    assert project.refused(*words, "--token", "wrong").code == "stale-token"
    project.baton("queue", "set", "a", "--state", "open")
    other = open_root(project, request="other")
    other.actions(capacity=1).dispatch("a")
    assert project.refused(*words).code == "stale-capability"
    assert items(project)["a"]["claimed_by"]["run"] == other.run


def test_what_has_used_up_its_attempts_wants_a_person(project: Project) -> None:
    project.set("maxAttempts", "1")
    root = open_root(project, membership="snapshot")
    given = root.actions()
    project.reconcile(given.dispatch("a"), "failed")
    batch = root.fix([given.dispatch("b"), given.dispatch("c")])
    assert (batch["state"], batch.code) == ("blocked", "attempts-exhausted")
    root.assert_open()
    project.baton("queue", "set", "a", "--state", "deferred", "--reason", "too hard")
    assert root.actions(code=0)["state"] == "complete"
    (told,) = (m for m in root.closeout()["members"] if m["item"] == "a")
    assert (told["disposition"], told["reason"]) == ("eligibility-lost", "is deferred: too hard")


def test_a_change_disposes_of_nothing(new_project: NewProject) -> None:
    project = new_project()
    given = project.actions().dispatch("1.1")
    said = project.refused("dispose", given["assignment"], "--as", "obe", "--reason", "gone")
    assert said.code == "not-a-batch"


# --- one item ------------------------------------------------------------------------------------


def test_one_item_stays_one_item(project: Project) -> None:
    root = open_root(project, mode="one-item")
    given = root.actions()
    assert given.tickets() == ["a"]
    again = root.actions("--redeliver", capacity=5)  # whoever takes over after a crash
    assert again.tickets() == ["a"]
    root.dispose(again.dispatch("a"), "--as", "local-gate", "--reason", "no compiler")
    paused = root.actions()
    assert (paused["state"], paused.code) == ("paused", "paused")
    assert "no compiler" in paused.message
    assert root.resume()["state"] == "waiting"
    retried = root.actions(capacity=5)
    assert [d["assignment"] for d in retried.of("dispatch")] == [f"{root.run}/a@2"]
    project.baton("pause", root.run, "--reason", "lunch")
    assert root.fix(retried.of("dispatch"))["state"] == "paused"
    root.assert_open()
    root.resume()
    assert root.actions(code=0)["state"] == "complete"
    assert root.actions(capacity=5, code=0).tickets() == []
    receipt = project.baton("show", f"{root.run}/a@2")["receipt"]
    assert receipt["predicate"]["mode"] == "one-item"
    assert project.baton("status", root.run)["mode"] == "one-item"
    assert states(project) == {"a": "fixed", "b": "open", "c": "open", "x": "open"}


def test_a_blocked_one_item_root_pauses_until_its_item_is_free(project: Project) -> None:
    root = open_root(project, mode="one-item")
    given = root.actions().dispatch("a")
    done = root.dispose(given, "--as", "blocked", "--by", "x", "--reason", "needs x")
    assert (done["accepted"], done["state"]) == (False, "paused")
    assert root.resume()["state"] == "paused"  # x is open still
    assert states(project)["x"] == "open"
    project.baton("queue", "set", "x", "--state", "fixed")
    assert root.resume()["state"] == "waiting"
    batch = root.actions()
    assert "needs x" in batch.dispatch("a")["prompt"]
    root.drive(batch)
    assert [m["item"] for m in root.closeout()["members"]] == ["a"]


# --- freezing, gates, closing --------------------------------------------------------------------


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that gates can write to."""
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


def once(outside: Path, command: str) -> str:
    """A gate that is counted in ``runs`` and does ``command`` when it runs first."""
    (outside / "gate").write_text(
        f"echo >> '{outside}/runs'\n"
        f"test -e '{outside}/done' || {{ touch '{outside}/done'; {command}; }}\n"
    )
    return f"sh '{outside}/gate'"


def runs_of(outside: Path) -> int:
    return len((outside / "runs").read_text().splitlines())


def late_item(*words: str) -> str:
    said = " ".join(("--id late --title late --queue", QUEUE, *words))
    return f"git baton queue add {said} >/dev/null"


@pytest.mark.parametrize("membership", ["live", "snapshot"])
def test_an_item_that_comes_while_a_root_freezes(
    project: Project, outside: Path, on_path: Path, membership: str
) -> None:
    gate = once(outside, late_item("--label", "bug"))
    root = open_root(project, "--gate", gate, membership=membership)
    root.drive()
    closeout = root.closeout()
    taken = {m["item"] for m in closeout["members"]}
    if membership == "live":
        assert taken == {"a", "b", "c", "late"}
        assert (closeout["freezes"], runs_of(outside)) == (2, 2)  # the tip has moved
        assert states(project)["late"] == "fixed"
    else:
        assert taken == {"a", "b", "c"}
        assert (closeout["freezes"], runs_of(outside)) == (1, 1)
        assert states(project)["late"] == "open"
    assert root.closings() == 1


def test_green_gates_of_the_same_tip_are_kept(
    project: Project, outside: Path, on_path: Path
) -> None:
    root = open_root(project, "--gate", once(outside, late_item()))  # one that is not meant
    root.drive()
    assert root.closeout()["freezes"] == 2
    assert runs_of(outside) == 1
    assert [gate["exit_code"] for gate in root.closeout()["gates"]] == [0]


def test_a_red_gate_pauses_and_runs_again(project: Project, outside: Path) -> None:
    gate = once(outside, "echo the sky is red; exit 7")
    root = open_root(project, "--gate", gate)
    batch = root.drive()
    assert (batch["state"], batch.code) == ("paused", "paused")
    assert "gate-failed" in batch.message
    pause = root.status()["batch"]["pause"]
    assert pause["code"] == "gate-failed"
    assert "the sky is red" in pause["reason"]
    root.assert_open()
    assert root.actions()["state"] == "paused"
    assert runs_of(outside) == 1
    root.resume()
    assert root.actions(code=0)["state"] == "complete"
    assert runs_of(outside) == 2
    assert [gate["exit_code"] for gate in root.closeout()["gates"]] == [0]


def test_closing_again_changes_nothing(project: Project) -> None:
    root = open_root(project)
    given = root.actions()
    root.fix(given.of("dispatch"))
    before = refs_of(project)
    assert root.actions(code=0)["state"] == "complete"
    assert root.reconcile(given.dispatch("a"), code=0)["state"] == "complete"
    assert refs_of(project) == before
    add(project, "d")
    assert root.actions(code=0)["state"] == "complete"
    assert states(project)["d"] == "open"


def test_the_closeout_is_one_note_that_can_be_made_anew(project: Project) -> None:
    root = open_root(project)
    root.drive()
    closeout = root.closeout()
    notes = ("notes", "--ref", f"baton/{root.run}")
    shown = project.git(*notes, "show", root.tip())
    assert [*documents(shown)][-1] == closeout
    listed = project.git(*notes, "list")
    project.git("update-ref", "-d", f"refs/notes/baton/{root.run}")
    project.baton("notes", "rebuild", root.run)
    assert project.git(*notes, "list") == listed
    assert project.baton("doctor")["ok"]
    assert project.baton("audit", root.run)["ok"]


# --- nesting -------------------------------------------------------------------------------------


def test_a_batch_below_an_attempt_is_folded_into_its_root(project: Project) -> None:
    add(project, "p", queue="outer")
    outer = open_root(project, queue="outer", request="outer")
    above = outer.actions().dispatch("p")
    inner = open_root(project, "--parent", above["assignment"])
    assert project.git("rev-parse", above["branch"]) == inner.state("run.json")["base"]["commit"]
    assert inner.drive()["state"] == "complete"
    assert outer.status()["state"] == "executing"
    assert project.tip(inner.run) != project.git("rev-parse", above["branch"])

    landed = project.baton("land", inner.run, cwd=above["cwd"])
    assert landed["onto"] == above["branch"]
    assert "file-a" in project.git("ls-files", cwd=above["cwd"]).split()
    outer.fix([above])
    assert outer.status()["state"] == "complete"
    closeout, below = outer.closeout(), inner.closeout()
    assert [(c["run"], c["parent"], c["result"]) for c in closeout["children"]] == [
        (inner.run, above["assignment"], "accepted")
    ]
    assert closeout["admitted"] == ["p", *(f"{inner.run}/{i}" for i in ("a", "b", "c"))]
    assert closeout["work"] == ["file-a", "file-b", "file-c", "file-p"]
    assert set(below["evidence"]) < set(closeout["evidence"])
    assert outer.closings() == 1
    assert project.baton("audit", outer.run)["ok"]


def test_a_batch_below_a_ticket_of_a_change(new_project: NewProject) -> None:
    project = new_project()
    add(project, "a")
    above = project.actions().dispatch("1.1")
    inner = open_root(project, "--parent", above["assignment"])
    inner.drive()
    project.baton("land", inner.run, cwd=above["cwd"])
    project.do(above)
    project.reconcile(above)
    assert project.files() == ["README", "file-1.1", "file-a"]
    assert project.attempt("1.1@1")["state"] == "succeeded"


def test_a_worker_lands_nothing_but_what_it_opened(project: Project) -> None:
    add(project, "p", queue="outer")
    outer = open_root(project, queue="outer", request="outer")
    above = outer.actions().dispatch("p")
    inner = open_root(project, "--parent", above["assignment"])
    stranger = open_root(project, request="stranger")
    inner.drive()
    for words in ((stranger.run, "--partial"), (inner.run, "--onto", "trunk")):
        assert project.refused("land", *words, cwd=above["cwd"]).code == "inside-attempt"


def test_nothing_is_opened_below_what_is_over(project: Project) -> None:
    root = open_root(project, mode="one-item")
    given = root.actions().dispatch("a")
    root.fix([given])
    said = project.refused("batch", "open", "--queue", QUEUE, "--parent", given["assignment"])
    assert said.code == "attempt-retired"


def test_deleting_what_has_not_landed_tells_what_stays_fixed(project: Project) -> None:
    root = open_root(project)
    root.drive()
    said = project.baton("delete", root.run, "--force")
    assert f"a, b, c stay fixed in queue {QUEUE}, and had not landed" in said.stderr
    add(project, "d")
    landed = open_root(project, request="another")
    landed.drive()
    project.baton("land", landed.run)
    assert "stay fixed" not in project.baton("delete", landed.run).stderr


def test_a_root_is_not_deleted_from_under_an_open_batch(project: Project) -> None:
    add(project, "p", queue="outer")
    outer = open_root(project, queue="outer", request="outer")
    above = outer.actions().dispatch("p")
    inner = open_root(project, "--parent", above["assignment"])
    outer.fix([above])
    project.baton("land", outer.run)
    before = refs_of(project)
    said = project.refused("delete", outer.run)
    assert (said.code, inner.run in said.message) == ("batches-below", True)
    assert refs_of(project) == before
    inner.drive()
    project.baton("delete", outer.run)
    again = open_root(project, "--parent", above["assignment"])
    assert (again.run, again.opened["created"]) == (inner.run, False)
    assert [r["run"] for r in project.baton("list")["runs"]] == [inner.run]


# --- foreign hands -------------------------------------------------------------------------------


def test_a_queue_that_was_rewritten_stops_everything(project: Project) -> None:
    root = open_root(project)
    root.actions(capacity=1)
    ref = f"refs/baton/queues/{QUEUE}"
    seen = project.git("rev-parse", ref)
    project.git("update-ref", ref, f"{ref}~2")
    for words in (
        ("actions", root.run, "--session", "s"),
        ("dispose", f"{root.run}/a@1", "--as", "obe", "--reason", "gone"),
        ("resume", root.run),
    ):
        said = project.refused(*words)
        assert said.code == "foreign-mutation"
        for oid in (root.state("batch.json")["queue_revision"], project.git("rev-parse", ref)):
            assert oid in said.message
    project.git("update-ref", ref, seen)
    assert root.drive(root.actions("--redeliver"))["state"] == "complete"


def test_a_queue_that_was_deleted_is_put_back_not_made_anew(project: Project) -> None:
    root = open_root(project)
    root.actions(capacity=1)
    ref = f"refs/baton/queues/{QUEUE}"
    project.git("update-ref", "-d", ref)
    said = project.refused("actions", root.run, "--session", "s")
    assert said.code == "foreign-mutation"
    project.git(*said["error"]["hint"].split()[1:])
    assert root.drive(root.actions("--redeliver"))["state"] == "complete"


def test_a_run_that_cannot_be_read_holds_up_no_other(project: Project) -> None:
    project.git("update-ref", "refs/baton/runs/damaged", "HEAD")
    root = open_root(project)
    assert root.drive()["state"] == "complete"
    assert root.closings() == 1
    assert project.baton("report")["run"] == root.run  # the only one that can be meant
    merged = root.attempt("a@1")["merge_commit"]
    assert project.baton("receipt", "verify", merged)["ok"]
    project.git("update-ref", "-d", "refs/baton/runs/damaged")


def test_a_run_that_is_rewritten_while_it_works_stops(project: Project, outside: Path) -> None:
    ref_of = "refs/baton/runs/"
    rewind = f'r=$(git for-each-ref --format="%(refname)" {ref_of}); git update-ref "$r" "$r~1"'
    root = open_root(project, "--gate", once(outside, rewind))
    given = root.actions()
    root.do(given.of("dispatch"))
    words = ("reconcile", given.dispatch("c")["assignment"], "--outcome", "completed")
    said = project.baton(*words, "--session", "s", code=1)
    assert said.code == "foreign-mutation"
    now = project.git("rev-parse", root.ref)
    log = project.git("for-each-ref", "--format=%(objectname)", root.ref)
    assert now == log and now in said.message
    assert said["before"] != now and said["before"] in said.message
    root.assert_open()
    assert root.actions(code=0)["state"] == "complete"  # what is there now is gone on from
    assert root.closings() == 1


# --- run and report ------------------------------------------------------------------------------

WORKER = """
case "$BATON_TICKET" in
a) git baton dispose --as obe --reason "gone already" ;;
b) test -e file-x || exec git baton dispose --as blocked --by x --reason "needs x" ;;
esac
echo done > "file-$BATON_TICKET"
"""


def test_run_drives_a_batch_to_its_end(project: Project, outside: Path, on_path: Path) -> None:
    (outside / "worker.sh").write_text(WORKER)
    root = open_root(project, membership="snapshot")
    done = project.baton("run", root.run, "--command", f"sh '{outside}/worker.sh'", "-j", "3")
    assert (done["state"], done["mode"]) == ("complete", "autopilot")
    assert states(project) == {"a": "obe", "b": "fixed", "c": "fixed", "x": "fixed"}
    closeout = root.closeout()
    told = {m["item"]: (m["disposition"], m["attempt"]) for m in closeout["members"]}
    assert told == {
        "a": ("obe", "a@1"),
        "b": ("fixed", "b@2"),
        "c": ("fixed", "c@1"),
        "x": ("fixed", "x@1"),
    }
    assert closeout["work"] == ["file-b", "file-c", "file-x"]


HOSTILE = "<script>alert(1)</script> | **b** \x1b[31m `x` [l](javascript:1)"


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, list[tuple[str, str | None]]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attrs))


def test_reports_show_hostile_titles_as_text(project: Project) -> None:
    project.baton("queue", "set", "a", "--title", HOSTILE)
    root = open_root(project, "--name", HOSTILE, "--gate", "echo '<b>'")
    given = root.actions()
    root.dispose(given.dispatch("b"), "--as", "obe", "--reason", HOSTILE)
    root.fix([given.dispatch("a"), given.dispatch("c")])
    closeout = root.closeout()
    texts = {
        form: project.type("report", root.run, "--format", form).stdout
        for form in ("text", "md", "html", "json")
    }
    assert json.loads(texts["json"])["outcome"] == closeout["outcome"]
    assert not any("\x1b[31m" in text for text in texts.values())
    assert not re.search(r"(?<!\\)(<script|\*\*b|`x`|\]\(java)", texts["md"])
    page = _Tags()
    page.feed(texts["html"])
    tags = {tag for tag, _ in page.found}
    assert not tags & {"script", "b", "a", "img", "link", "iframe"}
    assert not [attrs for _, attrs in page.found if any("alert" in str(value) for value in attrs)]
    for text in texts.values():
        assert "alert(1)" in text  # told all the same


def test_a_change_has_no_report(new_project: NewProject) -> None:
    project = new_project()
    project.actions()
    assert project.refused("report", "add-login").code == "not-a-batch"
