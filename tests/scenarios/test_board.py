"""`git baton board`: a page of a run as a user asks for it, and what it must leave alone."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import webbrowser
from collections.abc import Callable
from pathlib import Path

import pytest

from .batches import add, open_root
from .conftest import CHANGE, Json, NewProject, Project

_DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def read(path: str | Path) -> Json:
    """The document in a page."""
    found = _DATA.search(Path(path).read_text(encoding="utf-8"))
    assert found
    return dict(json.loads(found[1]))


def only_run(path: str | Path) -> Json:
    (run,) = read(path)["runs"]
    return dict(run)


def ticket(run: Json, key: str) -> Json:
    return next(t for t in run["tickets"] if t["key"] == key)


def attempts(run: Json) -> dict[str, Json]:
    return {a["assignment"].partition("/")[2]: a for a in run["attempts"]}


@pytest.fixture
def begun(project: Project) -> Project:
    """1.1 is integrated, 1.2 under way, 2.1 waits."""
    batch = project.actions(CHANGE, "--capacity", "2")
    project.clock.advance(60)
    project.do(batch.dispatch("1.1"))
    project.reconcile(batch.dispatch("1.1"), "completed", "--capacity", "2")
    return project


def test_a_page_beside_the_repository(begun: Project) -> None:
    before = begun.picture()
    said = begun.baton("board")
    assert begun.picture() == before
    assert said["path"] == str(begun.top / ".git" / "baton" / "board.html")
    (told,) = said["runs"]
    assert told == {
        "run": CHANGE,
        "state": "executing",
        "tickets": 3,
        "attempts": 2,
        "error": None,
    }
    run = only_run(said["path"])
    assert {t["key"]: t["state"] for t in run["tickets"]} == {
        "1.1": "resolved",
        "1.2": "active",
        "2.1": "waiting",
    }
    done = attempts(run)["1.1@1"]
    assert done["files"] == ["file-1.1"]
    assert [check["exit_code"] for check in done["checks"]] == [0]
    assert done["claimed_at"] < done["sealed_at"]
    assert done["receipt_sha256"] and done["merge_commit"] == begun.tip()
    assert done["commands"] == [
        "git baton show add-login/1.1@1",
        "git baton receipt verify add-login/1.1@1",
    ]
    under_way = attempts(run)["1.2@1"]
    assert (under_way["ended_at"], under_way["advice"]) == (None, "wait")
    assert under_way["commands"][-1] == "git baton abandon add-login/1.2@1 --reason REASON"


def test_text_is_the_path_alone(begun: Project) -> None:
    told = begun.type("board")
    assert told.exit_code == 0
    assert Path(told.stdout.strip()).is_file()
    page = begun.type("board", "-o", "-").stdout
    assert page.startswith("<!doctype html>")
    assert begun.git("status", "--porcelain") == ""


def test_every_command_on_the_page_is_one(begun: Project) -> None:
    run = only_run(begun.baton("board")["path"])
    cards = [run, *run["tickets"], *run["attempts"]]
    for line in {line for card in cards for line in card["commands"]}:
        told = subprocess.run(
            ["sh", "-c", f"git() {{ printf '%s\\n' \"$@\"; }}; {line}"],
            capture_output=True,
            text=True,
            check=True,
        )
        baton, *words = told.stdout.splitlines()
        assert baton == "baton"
        assert begun.type(*words).exit_code != 2, line


def test_a_file_of_ones_own(begun: Project, tmp_path: Path) -> None:
    said = begun.baton("board", CHANGE, "-o", "../mine.html")
    assert said["path"] == str(tmp_path / "mine.html")
    assert only_run(said["path"])["run"] == CHANGE
    assert [path.name for path in tmp_path.glob("*mine*")] == ["mine.html"]


@pytest.mark.parametrize(
    ("words", "code", "status"),
    [
        (("nonsense",), "unknown-run", 1),
        (("--at", "HEAD"), "not-a-state", 1),
        (("--at", "nonsense"), "not-a-state", 1),
        (("--all", CHANGE), "usage", 2),
        (("--all", "--at", "HEAD"), "usage", 2),
        (("--watch", "--at", "HEAD"), "usage", 2),
        (("-o", "-", "--watch"), "usage", 2),
        (("-o", "-"), "usage", 2),  # --json has stdout
        (("-o", "nowhere/board.html"), "no-such-folder", 2),
        (("-o", "."), "bad-path", 2),
        (("-o", "loop"), "bad-path", 2),
        pytest.param(
            ("-o", "/proc/board.html"),
            "bad-path",
            2,
            marks=pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc"),
        ),
    ],
)
def test_refused(begun: Project, words: tuple[str, ...], code: str, status: int) -> None:
    (begun.top / "loop").symlink_to("loop")
    assert begun.refused("board", *words, code=status).code == code


def test_as_of_an_earlier_state(begun: Project) -> None:
    events = begun.baton("log", "-n", "50")["events"]
    claimed = next(e for e in reversed(events) if e["event"] == "claim")
    for words in ((), (CHANGE,)):
        said = begun.baton("board", *words, "--at", claimed["oid"])
        page = read(said["path"])
        assert (page["at"], page["made_at"]) == (claimed["oid"], claimed["at"])
        (run,) = page["runs"]
        assert ticket(run, "1.1")["state"] == "active"
        assert attempts(run)["1.1@1"]["receipt_sha256"] is None
    newest = begun.baton("board", "--at", f"refs/baton/runs/{CHANGE}")
    assert ticket(only_run(newest["path"]), "1.1")["state"] == "resolved"


def test_retries_conflicts_and_what_was_abandoned(new_project: NewProject) -> None:
    project = new_project(tasks="- [ ] 1.1 One\n- [ ] 1.2 Two\n- [ ] 1.3 Three\n")
    batch = project.actions(CHANGE, "--capacity", "3")
    for key in ("1.1", "1.2"):
        project.do(batch.dispatch(key), {"same": f"{key}\n"})
    project.baton("abandon", "1.3@1", "--reason", "it went round in circles", "--force")
    project.reconcile(batch.dispatch("1.1"), "completed", "--capacity", "3")
    project.actions("--capacity", "3")
    run = only_run(project.baton("board")["path"])
    found = attempts(run)
    assert found["1.3@1"]["state"] == "abandoned"
    assert "circles" in found["1.3@1"]["failure"]["message"]
    assert found["1.2@1"]["failure"]["code"] == "merge-conflict"
    assert found["1.2@1"]["conflicts"] == ["same"]
    assert found["1.2@2"]["resolves"] == 1
    assert all(a["ended_at"] for a in found.values() if a["state"] in ("superseded", "abandoned"))


def test_what_workers_used(project: Project) -> None:
    batch = project.actions(CHANGE, "--capacity", "2")
    for key in ("1.1", "1.2"):
        given = batch.dispatch(key)
        used = {"input_tokens": 1000, "output_tokens": 20, "cost_usd": "0.1"}
        Path(given["packet"]).with_name("usage.json").write_text(json.dumps(used))
        project.do(given)
    project.reconcile(batch.dispatch("1.1"))
    run = only_run(project.baton("board")["path"])
    assert attempts(run)["1.2@1"]["usage"]["input_tokens"] == 1000
    assert (run["usage"]["output_tokens"], run["usage"]["cost_usd"]) == (40, "0.2")


def test_a_damaged_receipt_spoils_only_itself(begun: Project) -> None:
    ref = f"refs/baton/runs/{CHANGE}"
    path = next(
        line
        for line in begun.git("ls-tree", "-r", "--name-only", ref).splitlines()
        if line.endswith("receipt.json")
    )
    kept = begun.git("rev-parse", ref)
    begun.git("update-ref", ref, damaged(begun, ref, path))
    run = only_run(begun.baton("board")["path"])
    assert attempts(run)["1.1@1"]["damaged"]
    assert attempts(run)["1.1@1"]["checks"] == []
    assert attempts(run)["1.2@1"]["damaged"] is None
    begun.git("update-ref", ref, kept)


def damaged(project: Project, ref: str, path: str) -> str:
    """A commit on top of ``ref`` in whose tree the file at ``path`` is nonsense."""
    index = {"GIT_INDEX_FILE": str(project.top.parent / "index")}

    def git(*words: str, stdin: str = "") -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=project.top,
            env={**os.environ, **index},
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    git("read-tree", ref)
    blob = git("hash-object", "-w", "--stdin", stdin="{nonsense")
    git("update-index", "--cacheinfo", f"100644,{blob},{path}")
    return git("commit-tree", git("write-tree"), "-p", ref, "-m", "damage")


def test_all_runs_with_a_broken_one(begun: Project) -> None:
    ref = f"refs/baton/runs/{CHANGE}"
    begun.git("update-ref", "refs/baton/runs/broken", damaged(begun, ref, "live.json"))
    said = begun.baton("board", "--all")
    runs = {run["run"]: run for run in read(said["path"])["runs"]}
    assert set(runs) == {CHANGE, "broken"}
    assert "live.json" in runs["broken"]["error"]
    assert len(runs[CHANGE]["tickets"]) == 3
    assert begun.refused("board", "broken").code == "corrupt-state"
    begun.git("update-ref", "-d", "refs/baton/runs/broken")


def test_all_runs_where_there_is_none(project: Project) -> None:
    assert project.refused("board").code == "no-run"
    assert read(project.baton("board", "--all")["path"])["runs"] == []


def test_a_batch(new_project: NewProject) -> None:
    project = new_project(tasks=None)
    for item in ("BUG-1", "BUG-2"):
        add(project, item)
    root = open_root(project, "--gate", "true")
    batch = root.actions()
    root.dispose(batch.dispatch("BUG-1"), "--as", "obe", "--reason", "the file is gone")
    root.fix([batch.dispatch("BUG-2")])
    run = only_run(project.baton("board", root.run)["path"])
    shown = run["batch"]
    assert shown["descriptor"]["queue"] == root.state("run.json")["target"]["descriptor"]["queue"]
    assert shown["view"]["closed"] == "done"
    assert [gate["exit_code"] for gate in shown["gates"]] == [0]
    (returned,) = ticket(run, "BUG-1")["dispositions"]
    assert (returned["kind"], returned["reason"]) == ("obe", "the file is gone")


def test_in_a_bare_clone(begun: Project, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    begun.git("clone", "-q", "--mirror", str(begun.top), str(bare))
    said = begun.baton("board", cwd=bare)
    assert said["path"] == str(bare / "baton" / "board.html")
    assert read(said["path"])["repository"] == "bare.git"


def test_open_shows_it_in_the_browser(begun: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    said = begun.baton("board", "--open")
    assert opened == [Path(said["path"]).as_uri()]


def test_watch_makes_it_again_until_interrupted(begun: Project, tmp_path: Path) -> None:
    page = tmp_path / "watched.html"
    words = [sys.executable, "-m", "gitbaton", "board", "--watch", "--json", "-o", str(page)]
    top = Path(__file__).parents[2]
    watching = subprocess.Popen(
        words,
        cwd=begun.top,
        env={**os.environ, "PYTHONPATH": str(top)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: page.exists() and read(page)["reload_seconds"] > 0)
        assert only_run(page)["paused"] is None
        begun.baton("pause", "--reason", "lunch")
        wait_for(lambda: only_run(page)["paused"] == "lunch")
        watching.send_signal(signal.SIGINT)
        said = json.loads(watching.communicate(timeout=30)[0])
    finally:
        watching.kill()
    assert watching.returncode == 130
    assert (said["ok"], said["error"]["code"], said["path"]) == (False, "interrupted", str(page))
    assert read(page)["reload_seconds"] == 0, "what is left does not wait for more"
    assert not list(tmp_path.glob(".watched*"))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
