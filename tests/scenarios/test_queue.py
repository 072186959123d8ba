"""Queues as a user types them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from gitbaton.cli import queue as verbs
from gitbaton.engine import queue as engine
from gitbaton.engine.context import open_context
from gitbaton.findings import importers
from gitbaton.model.queue import SEVERITIES, Claim
from gitbaton.store import queues

from .conftest import Project, Said

SOURCE = """\
import os


def f():
    x = 1
    return undefined
"""


def ids(said: Said) -> list[str]:
    return [item["id"] for item in said["items"]]


def counts(said: Said) -> dict[str, int]:
    kinds = ("added", "updated", "reopened", "obe", "unchanged")
    return {kind: said[kind] for kind in kinds if said[kind]}


def findings(project: Project, *found: dict[str, object], name: str = "found.json") -> str:
    project.write(name, json.dumps(list(found)))
    return name


def claim(project: Project, item: str, run: str = "gone") -> None:
    """What a batch does when it takes an item."""
    ctx = open_context(project.top)

    def step(queue: queues.Queue) -> tuple[queues.Changes, queues.QueueEvent]:
        import msgspec

        held = Claim(run=run, attempt=f"{item}@1", capability="c" * 64)
        found = msgspec.structs.replace(queue.items[item], state="claimed", claimed_by=held)
        return {item: found}, queues.QueueEvent("claim", f"claim {item}", run)

    queues.transact(ctx.repo, engine.resolve_queue(ctx, None), step, ctx.clock)


def test_by_hand(project: Project) -> None:
    queue = "--queue", "bugs"
    made = project.baton("queue", "add", "--title", "Crash on empty input", *queue)
    assert made["item"]["id"] == "crash-on-empty-input" and made["queue"] == "bugs"
    words = ("--severity", "high", "--section", "io", "--label", "p", "--label", "q")
    project.baton(
        "queue", "add", "--id", "BUG-7", "--title", "Leak", "--body", "long\ntext", *words
    )
    # The only queue need not be named.
    listed = project.baton("queue", "list")
    assert ids(listed) == ["BUG-7", "crash-on-empty-input"]
    assert listed["revision"] == project.git("rev-parse", "refs/baton/queues/bugs")
    assert listed["total"] == 2
    assert project.baton("queue", "next")["item"]["id"] == "BUG-7"

    set_ = project.baton("queue", "set", "BUG-7", "--depends-on", "crash-on-empty-input")
    assert set_["changed"] is True and set_["item"]["labels"] == ["p", "q"]
    assert ids(project.baton("queue", "list")) == ["crash-on-empty-input"]
    shown = project.baton("queue", "show", "BUG-7")
    assert shown["unavailable"] == "waits for crash-on-empty-input"

    project.baton("queue", "set", "crash-on-empty-input", "--state", "fixed", "--reason", "done")
    assert ids(project.baton("queue", "list")) == ["BUG-7"]
    assert ids(project.baton("queue", "list", "--all", "--order", "id")) == [
        "BUG-7",
        "crash-on-empty-input",
    ]
    project.baton("queue", "set", "BUG-7", "--depends-on", "", "--label", "")
    assert project.baton("queue", "show", "BUG-7")["item"]["labels"] == []

    assert project.baton("queue", "own", "BUG-7", "--by", "big-cure")["item"]["owner"] == "big-cure"
    again = project.baton("queue", "own", "BUG-7", "--by", "big-cure")
    assert again["changed"] is False
    assert ids(project.baton("queue", "list")) == []
    assert project.baton("queue", "next")["item"] is None
    opened = project.baton("queue", "set", "BUG-7", "--state", "open")["item"]
    assert (opened["owner"], opened["state"]) == (None, "open")

    assert project.baton("queue", "rm", "BUG-7")["removed"] == "BUG-7"
    events = project.baton("queue", "log", "-n", "3")["events"]
    assert [event["message"] for event in events] == [
        "rm BUG-7: Leak",
        "set BUG-7: owned -> open",
        "own BUG-7 by big-cure",
    ]
    assert project.git("status", "--porcelain") == ""


def test_a_rescan_by_ruff(project: Project) -> None:
    """A moved line keeps its item, a vanished finding becomes obe, a returned one reopens."""
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--output-format"]
    if subprocess.run([*ruff[:3], "--version"], capture_output=True, check=False).returncode:
        pytest.skip("ruff is not installed")

    def scan(form: str = "json") -> str:
        words = [*ruff, form, "--exit-zero", "--no-cache", "src"]
        done = subprocess.run(words, cwd=project.top, capture_output=True, text=True, check=True)
        project.write(f"found.{form}", done.stdout)
        return f"found.{form}"

    project.write("src/a.py", SOURCE)
    assert counts(project.baton("queue", "import", scan())) == {"added": 3}
    before = project.git("rev-parse", "refs/baton/queues/default")
    same = project.baton("queue", "import", scan())
    assert counts(same) == {"unchanged": 3} and same["revision"] == before
    first = project.baton("queue", "list")["items"]
    assert [re.sub("-[a-z]+$", "", item["id"]) for item in first] == ["F401", "F821", "F841"]
    assert {tuple(item["paths"]) for item in first} == {("src/a.py",)}
    # Another format of the same tool is the same scan.
    assert counts(project.baton("queue", "import", scan("sarif"), "--queue", "other")) == {
        "added": 3
    }

    project.write("src/a.py", "\n\n# moved\n" + SOURCE.replace("import os\n", ""))
    moved = project.baton("queue", "import", scan(), "--queue", "default")
    assert moved["obe"] == 1 and moved["added"] == 0
    kept = project.baton("queue", "list", "--queue", "default")
    assert ids(kept) == [item["id"] for item in first[1:]]
    project.write("src/a.py", SOURCE)
    back = project.baton("queue", "import", scan(), "--queue", "default")
    assert back["reopened"] == 1
    assert ids(project.baton("queue", "list", "--queue", "default")) == [i["id"] for i in first]


def test_several_files_of_one_source_are_one_scan(project: Project) -> None:
    one = findings(project, {"title": "a", "fingerprint": "a"}, name="1.json")
    two = findings(project, {"title": "b", "fingerprint": "b"}, name="2.json")
    both = ("queue", "import", one, two, "--source", "lint")
    assert counts(project.baton(*both)) == {"added": 2}
    assert counts(project.baton(*both, one)) == {"unchanged": 2}
    assert counts(project.baton("queue", "import", one, "--source", "lint")) == {
        "obe": 1,
        "unchanged": 1,
    }
    assert counts(project.baton("queue", "import", two, "--source", "other")) == {"added": 1}


def test_an_empty_scan_makes_an_empty_queue(project: Project) -> None:
    said = project.baton("queue", "import", findings(project), "--format", "ruff")
    assert counts(said) == {} and said["revision"] and said["sources"] == ["ruff"]
    assert project.baton("queue", "list")["items"] == []


def test_filters_and_orders(project: Project) -> None:
    made = [
        {"id": f"B{n}", "title": f"bug {n}", "severity": severity, "section": section, "path": path}
        for n, severity, section, path in (
            (10, "high", "io", "src/a.py"),
            (9, "high", "net", "docs/a.md"),
            (1, "low", "io", "src/b.py"),
        )
    ]
    project.baton("queue", "import", findings(project, *made), "--source", "s")

    def by(*words: str) -> list[str]:
        return ids(project.baton("queue", "list", *words))

    assert by() == ["B9", "B10", "B1"]
    assert by("--order", "-id") == ["B10", "B9", "B1"]
    assert by("--order", "section,-severity") == ["B1", "B10", "B9"]
    assert by("--filter", "severity=high") == ["B9", "B10"]
    assert by("--filter", "severity=high", "--filter", "section=io") == ["B10"]
    assert by("--filter", "path=src/**") == ["B10", "B1"]
    assert by("--filter", "id=B1", "--filter", "id=B9") == ["B9", "B1"]
    assert by("--filter", "text=BUG 10") == ["B10"]
    assert by("-n", "1") == ["B9"]
    assert project.baton("queue", "next", "--filter", "section=io")["item"]["id"] == "B10"

    nothing = project.baton("queue", "list", "--filter", "label=none")
    assert nothing["items"] == [] and nothing["total"] == 0
    text = project.type("queue", "list", "--filter", "label=none")
    assert text.exit_code == 0 and "label=none" in text.stdout
    assert "and 2 more: -n 3 shows all" in project.type("queue", "list", "-n", "1").stdout
    for words, code in (
        (("--filter", "colour=red"), "bad-filter"),
        (("--filter", "severity=awful"), "bad-filter"),
        (("--order", "colour"), "bad-order"),
        (("-n", "0"), "usage"),
    ):
        assert project.refused("queue", "list", *words, code=2).code == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('[{"title": "a"', "bad-findings"),
        ("hello, world", "unknown-format"),
        ("", "unknown-format"),
        ('[{"id": "X", "title": "a"}, {"id": "X", "title": "b"}]', "duplicate-item"),
        ('[{"id": "BUG-1", "title": "of another source"}]', "duplicate-item"),
        ('[{"id": "A", "title": "a", "depends_on": ["nobody"]}]', "unknown-dependency"),
        (
            '[{"id": "A", "title": "a", "depends_on": ["B"]},'
            ' {"id": "B", "title": "b", "depends_on": ["A"]}]',
            "dependency-cycle",
        ),
    ],
)
def test_a_bad_import_leaves_the_queue_as_it_is(project: Project, text: str, code: str) -> None:
    project.baton("queue", "add", "--id", "BUG-1", "--title", "t")
    project.write("found.json", text)
    refused = project.refused("queue", "import", "found.json", "--source", "s")
    assert refused.code == code
    assert "\n" not in refused.message


def test_what_is_refused(project: Project) -> None:
    refused = project.refused("queue", "list")
    assert refused.code == "unknown-queue" and "queue import" in refused["error"]["hint"]
    project.baton("queue", "add", "--id", "A", "--title", "t")
    for words, code, status in (
        (("show", "B"), "unknown-item", 1),
        (("list", "--queue", "defualt"), "unknown-queue", 1),
        (("list", "--queue", "a/b"), "bad-queue-name", 2),
        (("add", "--title", " "), "no-title", 2),
        (("add", "--title", "t", "--id", "A"), "duplicate-item", 1),
        (("add", "--title", "t", "--id", "a b"), "bad-item-id", 2),
        (("add", "--title", "t", "--depends-on", "B"), "unknown-dependency", 1),
        (("set", "A"), "nothing-to-set", 2),
        (("set", "A", "--title", " "), "no-title", 2),
        (("set", "A", "--depends-on", "A"), "dependency-cycle", 1),
        (("set", "A", "--state", "claimed"), "usage", 2),
        (("own", "A", "--by", "../x"), "bad-run-id", 2),
        (("rm", "B"), "unknown-item", 1),
        (("import", "nowhere.json"), "no-such-file", 2),
        (("import", "openspec"), "bad-path", 2),
        (("import", "README", "--source", ""), "bad-source", 2),
    ):
        assert project.refused("queue", *words, code=status).code == code, words
    project.baton("queue", "set", "A", "--state", "obe")
    assert project.refused("queue", "own", "A", "--by", "r").code == "item-closed"


def test_who_holds_an_item(project: Project) -> None:
    project.baton("queue", "add", "--id", "A", "--title", "t")
    claim(project, "A")
    # Its run does not exist, so nobody holds it.
    assert ids(project.baton("queue", "list")) == ["A"]
    # Nor does a run that neither records nor intends to hold it.
    project.actions()
    claim(project, "A", run="add-login")
    assert ids(project.baton("queue", "list")) == ["A"]
    # One that cannot be read may: nobody can tell.
    project.git("update-ref", "refs/baton/runs/broken", project.git("rev-parse", "HEAD"))
    claim(project, "A", run="broken")
    assert ids(project.baton("queue", "list")) == []
    assert project.baton("queue", "show", "A")["unavailable"] == "is held by broken/A@1"
    assert project.refused("queue", "rm", "A").code == "item-claimed"
    opened = project.baton("queue", "set", "A", "--state", "open")["item"]
    assert opened["claimed_by"] is None
    project.baton("queue", "rm", "A")
    project.git("update-ref", "-d", "refs/baton/runs/broken")


def test_a_worker_does_not_judge_the_queue(project: Project) -> None:
    project.baton("queue", "add", "--id", "A", "--title", "t")
    cwd = project.actions().dispatch("1.1")["cwd"]
    for words in (("set", "A", "--state", "fixed"), ("rm", "A"), ("own", "A", "--by", "r")):
        assert project.refused("queue", *words, cwd=cwd).code == "inside-attempt"
    # What it noticed it may tell, and it may look.
    project.baton("queue", "add", "--id", "B", "--title", "also broken", cwd=cwd)
    assert ids(project.baton("queue", "list", cwd=cwd)) == ["A", "B"]


def test_related_is_advice(project: Project) -> None:
    found = findings(
        project,
        {"id": "A", "title": "unused import", "labels": ["F401"], "path": "a.py"},
        {"id": "B", "title": "unused import", "labels": ["F401"], "path": "a.py"},
        {"id": "C", "title": "unused import of json", "labels": ["F401"], "path": "b.py"},
        {"id": "D", "title": "line too long", "labels": ["E501"], "path": "a.py"},
        {"id": "E", "title": "else", "labels": ["X"], "path": "c.py"},
    )
    project.baton("queue", "import", found, "--source", "s")
    before = project.git("rev-parse", "refs/baton/queues/default")
    said = project.baton("queue", "related", "A")["related"]
    assert [each["item"]["id"] for each in said] == ["B", "C", "D"]
    assert said[0]["because"] == ["F401", "a.py", "import", "unused"]
    assert project.baton("queue", "related", "E")["related"] == []
    assert project.git("rev-parse", "refs/baton/queues/default") == before


def test_text_for_people(project: Project) -> None:
    title = "\x1b[31mred\x1b[0m"
    project.baton("queue", "add", "--id", "A", "--title", title, "--body", "one\n\x1b[2Jtwo")
    for words in (("list",), ("list", "--all"), ("show", "A"), ("next",), ("log",)):
        said = project.type("queue", *words)
        assert said.exit_code == 0
        assert "\x1b" not in said.stdout and "red" in said.stdout, words


def test_a_clone_looks_without_leaving_anything(project: Project, tmp_path: Path) -> None:
    project.baton("queue", "add", "--id", "A", "--title", "t")
    clone = tmp_path / "clone"
    project.git("clone", "-q", str(project.top), str(clone))
    project.git("fetch", "-q", "origin", "refs/baton/*:refs/baton/*", cwd=clone)
    assert ids(project.baton("queue", "list", cwd=clone)) == ["A"]
    assert not (clone / ".git" / "baton").exists()
    shutil.rmtree(clone)


def test_what_help_lists_is_what_there_is() -> None:
    assert verbs.FORMATS == importers.FORMATS
    assert verbs.SEVERITIES == SEVERITIES
    assert verbs.STATES == engine.BY_HAND
    assert set(engine.BY_HAND) < set(get_args(engine.ItemState))
