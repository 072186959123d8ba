"""What every other verb knows of a batch: it is looked at, steered, pushed, judged and removed like
any run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gitbaton.engine import returning
from gitbaton.git import objects
from gitbaton.store import queues

from .batches import QUEUE, Root, add, items, open_root, states
from .conftest import Json, NewProject, Project, Said

QUEUE_REF = f"refs/baton/queues/{QUEUE}"


@pytest.fixture
def project(new_project: NewProject) -> Project:
    """A repository without a change, and three items in a queue."""
    made = new_project(tasks=None)
    for item in ("A", "B", "C"):
        add(made, item)
    return made


def half_done(project: Project) -> tuple[Root, Said]:
    """A is fixed, B is left to another run, C is at work."""
    root = open_root(project, "--name", "Fix them", membership="snapshot")
    given = root.actions(capacity=3)
    root.fix([given.dispatch("A")], capacity=1)
    root.dispose(
        given.dispatch("B"), "--as", "owned", "--by", "big", "--reason", "part of the big one"
    )
    return root, given


def shown(project: Project, *words: str) -> str:
    """What a person sees; it fits their terminal."""
    result = project.type(*words)
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80, result.stdout
    return result.stdout


# --- looking -----------------------------------------------------------------------------------


def test_status(project: Project) -> None:
    root, _ = half_done(project)
    said = project.baton("status")
    assert (said["state"], said["mode"], said["tickets"]["resolved"]) == (
        "executing",
        "autopilot",
        1,
    )
    batch = said["batch"]
    assert (batch["command"], batch["queue"], batch["membership"]) == (
        "Fix them",
        QUEUE,
        "snapshot",
    )
    assert (batch["members"], batch["pending"], batch["closed"]) == (3, 0, None)
    assert batch["left"] == [
        {
            "item": "B",
            "disposition": "owned",
            "reason": "part of the big one",
            "by": ["big"],
            "attempt": "B@1",
        }
    ]
    text = shown(project, "status")
    assert "executing  1 of 3 fixed  Fix them" in text
    assert "B  owned by big  part of the big one" in text
    assert root.run in text


def test_status_of_a_change_reads_nothing_of_batches(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = new_project()
    project.actions("add-login")
    read: list[str] = []
    real = objects.read_blob
    monkeypatch.setattr(objects, "read_blob", lambda r, oid: read.append(oid) or real(r, oid))
    said = project.baton("status")
    assert (said["mode"], said["batch"]) == (None, None)
    assert len(read) <= 2


def test_status_of_one_that_waits(project: Project) -> None:
    root = open_root(project, mode="one-item")
    given = root.actions().dispatch("A")
    root.dispose(given, "--as", "blocked", "--by", "C", "--reason", "needs C")
    said = project.baton("status")
    assert said["batch"]["waiting"] == [{"item": "A", "by": ["C"]}]
    assert said["batch"]["pause"]["code"] == "blocked"
    text = shown(project, "status")
    assert "paused: blocked (A): needs C" in text
    assert f"git baton resume {root.run} goes on once C is closed" in text
    assert "A for C" in text


@pytest.mark.parametrize(
    ("kind", "then"), [("local-gate", "tries A again"), ("unresolved", "tries A again")]
)
def test_status_of_one_that_a_worker_stopped(project: Project, kind: str, then: str) -> None:
    root = open_root(project)
    root.dispose(root.actions().dispatch("A"), "--as", kind, "--reason", "no licence here")
    text = shown(project, "status")
    assert f"paused: {kind} (A): no licence here" in text
    assert then in text


def test_status_of_one_whose_gate_is_red(project: Project) -> None:
    root = open_root(project, "--gate", "echo one; echo two; test -e never", mode="one-item")
    root.drive()
    text = shown(project, "status")
    assert "paused: gate-failed" in text
    assert "| two" in text
    assert "runs the gates again" in text


def test_status_beyond_the_window(new_project: NewProject, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("batch", "members"):
        monkeypatch.setattr(f"gitbaton.rules.{module}.WINDOW", 2)
    project = new_project(tasks=None)
    for number in range(5):
        add(project, f"I-{number}")
    open_root(project, membership="snapshot")
    assert project.baton("status")["batch"]["pending"] == 3
    text = shown(project, "status")
    assert "0 of 5 fixed" in text
    assert "2 ready, 3 to come" in text


def test_status_of_one_that_has_closed(project: Project) -> None:
    root = open_root(project, mode="one-item")
    root.drive()
    text = shown(project, "status")
    assert f"git baton report {root.run}" in text
    assert f"git baton land {root.run}" in text
    assert project.baton("status")["batch"]["closed"] == "done"
    project.baton("land", root.run)
    assert "git baton land" not in shown(project, "status")


def test_empty_one_has_nothing_to_land(new_project: NewProject) -> None:
    project = new_project(tasks=None)
    add(project, "X", meant=False)
    root = open_root(project)
    text = shown(project, "status", root.run)
    assert "complete  nothing to do" in text
    assert "land" not in text


def test_list_and_log_and_plan_and_show(project: Project) -> None:
    root, given = half_done(project)
    (line,) = project.baton("list")["runs"]
    assert (line["type"], line["name"], line["state"]) == ("batch", "Fix them", "executing")
    assert "batch: Fix them" in shown(project, "list")
    log = shown(project, "log", root.run)
    assert "about to" not in log
    assert "return B@1 as owned: part of the big one" in log
    plan = shown(project, "plan", root.run)
    assert "A  resolved" in plan
    assert "box" not in plan
    said = project.baton("show", "B")
    assert (said["attempt"]["state"], said["disposition"]["kind"]) == ("closed", "owned")
    text = project.type("show", "B").stdout
    assert "returned as owned by big: part of the big one" in text
    assert given.dispatch("B")["branch"] in text


# --- doctor ------------------------------------------------------------------------------------


def checks(project: Project, code: int = 0) -> dict[str, Json]:
    return {check["name"]: check for check in project.baton("doctor", code=code)["checks"]}


def test_doctor_of_a_batch_at_work_and_closed(project: Project) -> None:
    root, given = half_done(project)
    found = checks(project)
    assert found[f"queue {QUEUE}"]["message"] == "3 items, 1 held"
    assert found[f"batch {root.run}"]["ok"]
    root.fix([given.dispatch("C")])
    found = checks(project)
    assert f"batch {root.run}" not in found
    assert found[f"notes {root.run}"]["ok"]


def test_doctor_tells_what_nobody_knows_of_holding(project: Project) -> None:
    root = open_root(project)
    root.actions(capacity=1)
    project.git("update-ref", "-d", root.ref)
    message = checks(project, code=1)[f"queue {QUEUE}"]["message"]  # its worktree is left, too
    assert message == "3 items, 0 held; nobody knows of holding A: free again"
    project.git("update-ref", "-d", f"refs/heads/baton/{root.run}")


def test_doctor_finds_a_queue_that_is_gone_or_rewritten(project: Project) -> None:
    root, _ = half_done(project)
    tip = project.git("rev-parse", QUEUE_REF)
    project.git("update-ref", QUEUE_REF, f"{tip}~1")
    found = checks(project, code=1)[f"batch {root.run}"]
    assert "does not follow" in found["message"]
    project.git("update-ref", "-d", QUEUE_REF)
    found = checks(project, code=1)[f"batch {root.run}"]
    assert "is gone" in found["message"]
    assert tip in found["fix"]
    project.git(*found["fix"].split()[1:])
    assert checks(project)[f"batch {root.run}"]["ok"]


def test_doctor_tells_what_was_cut_off(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    root = open_root(project)
    given = root.actions(capacity=1).dispatch("A")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(returning, "_carry_out", killed)
        words = ("dispose", "--as", "obe", "--reason", "gone")
        project.type(*words, cwd=given["cwd"])
    found = checks(project, code=1)[f"batch {root.run}"]
    assert found["message"] == "cut off: returning A as obe"
    assert root.actions(capacity=1).tickets() == ["B"]  # as doctor said
    assert states(project)["A"] == "obe"
    assert checks(project)[f"batch {root.run}"]["ok"]


# --- cleaning up -------------------------------------------------------------------------------


def test_returned_work_stays_on_its_branch(project: Project) -> None:
    root = open_root(project, membership="snapshot")
    given = root.actions(capacity=3)
    lost = given.dispatch("A")
    root.do([lost])
    project.baton("queue", "set", "A", "--state", "wontfix", "--reason", "no", "--queue", QUEUE)
    sealed = project.git("rev-parse", lost["branch"])
    root.fix([given.dispatch("B"), given.dispatch("C")])
    assert root.attempt("A@1")["state"] == "closed"
    assert not Path(lost["cwd"]).exists()
    assert project.git("rev-parse", lost["branch"]) == sealed
    project.baton("cleanup", root.run, "--include-integration")
    assert project.git("rev-parse", lost["branch"]) == sealed
    project.baton("land", root.run)
    said = project.refused("delete", root.run)
    assert said.code == "work-left"
    assert lost["branch"] in said.message
    project.baton("delete", root.run, "--force")
    assert project.git("for-each-ref", "refs/heads/baton-attempt") == ""


def test_delete_gives_back_what_it_holds(project: Project) -> None:
    root = open_root(project)
    root.actions(capacity=2)
    assert states(project)["A"] == "claimed"
    project.baton("delete", root.run, "--force")
    assert states(project) == dict.fromkeys("ABC", "open")
    assert items(project)["A"]["claimed_by"] is None
    again = open_root(project)
    assert again.opened["created"]


# --- other repositories ------------------------------------------------------------------------


class Server:
    """A bare repository that the project pushes to."""

    def __init__(self, project: Project, path: Path) -> None:
        self.project = project
        self.path = path
        subprocess.run(["git", "init", "-q", "--bare", "-b", "trunk", str(path)], check=True)
        project.git("remote", "add", "origin", str(path))
        project.git("push", "-q", "origin", "trunk")

    def push(self) -> None:
        everything = ("trunk", "refs/heads/baton/*", "refs/baton/*", "refs/notes/baton/*")
        self.project.git("push", "-q", "--force", "origin", *everything)

    def refs(self) -> set[str]:
        listed = self.project.git("for-each-ref", "--format=%(refname)", cwd=self.path)
        return set(listed.split())

    def audit(self, code: int = 0) -> Said:
        """What a fresh clone says."""
        path = self.path.parent / f"clone-{len(list(self.path.parent.glob('clone-*')))}"
        self.project.git("clone", "-q", f"file://{self.path}", str(path))
        return self.project.baton("audit", cwd=path, code=code)


@pytest.fixture
def server(project: Project, tmp_path: Path) -> Server:
    return Server(project, tmp_path / "server")


def codes(said: Said) -> set[str]:
    return {p["code"] for run in said["runs"] for p in run["problems"]}


def test_audit_of_a_clone_at_each_stage(project: Project, server: Server) -> None:
    root, given = half_done(project)
    server.push()
    assert server.audit()["runs"][0]["ok"]
    root.dispose(given.dispatch("C"), "--as", "unresolved", "--reason", "no idea")
    server.push()
    assert server.audit()["runs"][0]["ok"]
    root.resume()
    root.drive()
    project.commit({"mine": "x"})
    project.baton("update", root.run)
    project.baton("land", root.run)
    server.push()
    (run,) = server.audit()["runs"]
    assert (run["ok"], run["merges"], run["problems"]) == (True, 2, [])


def test_audit_of_one_item_of_a_nested_one_and_of_an_empty_one(
    project: Project, server: Server
) -> None:
    root = open_root(project, mode="one-item")
    given = root.actions().dispatch("A")
    add(project, "N", queue="below")
    below = open_root(project, "--parent", given["assignment"], request="n", queue="below")
    below.drive()
    open_root(project, "--parent", given["assignment"], request="e", queue="below")
    root.drive(Said({"actions": [given]}))
    open_root(project, request="empty", queue="below")
    server.push()
    runs = server.audit()["runs"]
    assert len(runs) == 4
    assert all(run["ok"] for run in runs), runs


def test_audit_without_the_queue(project: Project, server: Server) -> None:
    half_done(project)
    server.push()
    project.git("update-ref", "-d", QUEUE_REF, cwd=server.path)
    assert codes(server.audit(code=1)) == {"queue-missing"}


def test_audit_of_a_rewritten_queue(project: Project, server: Server) -> None:
    half_done(project)
    server.push()
    message = project.git("log", "-1", "--format=%B", QUEUE_REF)
    anew = project.git("commit-tree", f"{QUEUE_REF}^{{tree}}", "-m", message)
    project.git("push", "-q", "--force", "origin", f"{anew}:{QUEUE_REF}")
    assert "queue-rewritten" in codes(server.audit(code=1))


def test_audit_of_an_item_that_was_never_taken(project: Project, server: Server) -> None:
    """The queue made anew up to the last claim, which takes another item."""
    root = open_root(project)
    root.actions(capacity=1)
    queue = queues.load(_repository(project), QUEUE)
    tree = objects.edit_tree(queue.repo, queue.tree, {queues.item_path("A"): _free(project)})
    parent = project.git("rev-parse", f"{QUEUE_REF}~1")
    message = project.git("log", "-1", "--format=%B", QUEUE_REF)
    anew = project.git("commit-tree", tree, "-p", parent, "-m", message)
    server.push()
    project.git("push", "-q", "--force", "origin", f"{anew}:{QUEUE_REF}")
    assert codes(server.audit(code=1)) == {"claim-without-item"}


def _repository(project: Project):  # type: ignore[no-untyped-def]
    from gitbaton.git.opening import open_repository

    return open_repository(project.top)


def _free(project: Project) -> bytes:
    return project.git("show", f"{QUEUE_REF}~1:{queues.item_path('A')}").encode()


def test_the_queue_goes_with_the_work(project: Project, server: Server) -> None:
    root = open_root(project, mode="one-item")
    root.drive()
    project.baton("land", root.run, "--push-branch")
    assert {QUEUE_REF, root.ref, f"refs/heads/baton/{root.run}"} <= server.refs()


def test_what_is_pushed_goes_all_or_not_at_all(project: Project, server: Server) -> None:
    """Somebody else has moved the queue there: the state that rests on it stays here."""
    project.git("push", "-q", "origin", QUEUE_REF)
    tip = project.git("rev-parse", QUEUE_REF)
    other = project.git("commit-tree", f"{tip}^{{tree}}", "-p", tip, "-m", "theirs")
    project.git("push", "-q", "origin", f"{other}:{QUEUE_REF}")
    root = open_root(project, mode="one-item")
    root.drive()
    project.baton("land", root.run, "--push-branch", code=1)
    assert root.ref not in server.refs()


def test_doctor_tells_of_a_push_without_the_queue(project: Project, server: Server) -> None:
    root = open_root(project, mode="one-item")
    root.drive()
    project.baton("init")
    project.git("push", "-q", "origin", root.ref, f"refs/heads/baton/{root.run}")
    project.git("fetch", "-q", "origin")
    found = checks(project, code=1)["remote origin"]
    assert f"not its queue {QUEUE}" in found["message"]
    project.git(*found["fix"].split()[1:])
    project.git("fetch", "-q", "origin")
    assert checks(project)["remote origin"]["ok"]


def test_server_keeps_queues(project: Project, server: Server, on_path: Path) -> None:
    root = open_root(project, mode="one-item")
    root.drive()
    project.baton("hook", "install", cwd=server.path)
    server.push()
    for words in (
        (f":{QUEUE_REF}",),
        ("--force", f"{QUEUE_REF}~1:{QUEUE_REF}"),
        ("trunk:refs/baton/queues/another",),
        (f"{QUEUE_REF}:refs/baton/queues/a/b",),
    ):
        before = server.refs()
        project.git("push", "-q", "origin", *words, code=1)
        assert server.refs() == before
    add(project, "D")
    project.git("push", "-q", "origin", QUEUE_REF)
    assert QUEUE_REF in server.refs()


def test_server_judges_the_branch_of_a_batch(
    project: Project, server: Server, on_path: Path
) -> None:
    root = open_root(project, mode="one-item")
    root.drive()
    project.git("config", "--add", "baton.protect", "refs/heads/trunk", cwd=server.path)
    project.baton("hook", "install", cwd=server.path)
    branch = f"refs/heads/baton/{root.run}"
    project.git("push", "-q", "origin", branch, code=1)
    project.git("push", "-q", "origin", branch, root.ref, QUEUE_REF)
    project.commit({"mine": "x"})
    project.git("push", "-q", "origin", "trunk", code=1)
    project.git("reset", "-q", "--hard", "HEAD~1")
    project.baton("land", root.run)
    project.git("push", "-q", "origin", "trunk")
