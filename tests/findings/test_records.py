"""Plain lists, issues of GitHub and checklists."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gitbaton.errors import BatonError
from gitbaton.findings.importers import read, read_all
from tests.findings.reading import ROOT, reported, scans


def test_generic_all_keys() -> None:
    (one,) = reported(
        [
            {
                "id": "F-7",
                "title": "It leaks",
                "body": "Every time.",
                "section": "Parser",
                "severity": "HIGH",
                "labels": ["leak", "old"],
                "path": "src/a.c",
                "paths": ["src/a.h", "src/a.c"],
                "rule": "R1",
                "message": "free() is missing",
                "line": 12,
                "depends_on": ["F-6"],
                "extra": {"ignored": True},
            }
        ]
    )
    assert (one.id, one.title, one.section, one.severity) == ("F-7", "It leaks", "Parser", "high")
    assert one.labels == ("R1", "leak", "old")
    assert one.paths == ("src/a.c", "src/a.h")
    assert one.depends_on == ("F-6",)
    assert one.body == "free() is missing\n\nsrc/a.c:12\nsrc/a.h\n\nEvery time."


@pytest.mark.parametrize("key", ["id", "title", "message"])
def test_generic_one_key_is_enough(key: str) -> None:
    (one,) = reported([{key: "X-1"}])
    assert one.title == "X-1"
    assert one.severity == "medium"


@pytest.mark.parametrize("wrapper", ["items", "findings", "issues"])
def test_wrappers_and_lines(wrapper: str) -> None:
    entries = [{"title": "a"}, {"title": "b", "id": 7}]
    as_list = reported(entries)
    assert [one.id for one in as_list] == ["", "7"]
    assert reported({wrapper: entries, "total": 2}) == as_list
    lines = "\n\n".join(json.dumps(entry) for entry in entries) + "\n"
    assert reported(lines) == as_list
    assert reported("\ufeff" + lines.replace("\n", "\r\n")) == as_list
    assert reported(lines.encode("utf-16")) == as_list
    assert reported(json.dumps(entries, indent=4), format="jsonl") == as_list


def test_what_tells_generic_findings_apart() -> None:
    def prints(*entries: dict[str, object]) -> list[str]:
        return [one.fingerprint for one in reported(list(entries))]

    base: dict[str, object] = {"rule": "R", "path": "a.py", "message": "unused, see line 3"}
    moved = base | {"line": 9, "message": "unused,  see line 12"}
    assert prints(base) == prints(moved)
    assert prints(base) != prints(base | {"path": "b.py"})
    assert prints(base) != prints(base | {"rule": "S"})
    assert prints(base) != prints(base | {"message": "too long (99 > 80)"})
    assert prints(base | {"fingerprint": "k"}) == prints({"title": "new", "fingerprint": "k"})
    assert prints({"id": "A", "title": "old"}) == prints({"id": "A", "title": "new"})


def test_two_that_look_alike_stay_two_in_the_order_of_their_lines() -> None:
    one, two = {"message": "m", "path": "a", "line": 3}, {"message": "m", "path": "a", "line": 8}
    by_line = {r.body: r.fingerprint for r in reported([one, two])}
    assert len(set(by_line.values())) == 2
    assert {r.body: r.fingerprint for r in reported([two, one])} == by_line
    assert len(reported([one, two, one])) == 2  # listed twice
    assert len({r.fingerprint for r in reported([{"title": "x"}] * 3)}) == 3


def test_a_path_that_is_given_without_a_root() -> None:
    (scan,) = read(None, b'[{"title": "t", "path": "/a/b.py"}]')
    assert scan.source == "json"
    assert scan.reported[0].paths == ("/a/b.py",)


def test_a_file_is_its_own_source() -> None:
    data = b'[{"title": "t"}]'
    assert read(ROOT / "qa" / "bugs.json", data, root=ROOT)[0].source == "qa/bugs.json"
    assert read(Path("/elsewhere/x1/bugs.json"), data, root=ROOT)[0].source == "bugs.json"
    assert read(ROOT / "bugs.json", data, root=ROOT, source="qa")[0].source == "qa"


def test_several_files_of_one_source_are_one_scan() -> None:
    files = [(Path(name), b'[{"title": "t"}]') for name in ("a.json", "b.json")]
    assert [scan.source for scan in read_all(files)] == ["a.json", "b.json"]
    (scan,) = read_all(files, source="qa")
    assert len({one.fingerprint for one in scan.reported}) == 2


def test_titles_are_one_clean_line() -> None:
    title, message = reported(
        [{"title": "a\n b\t\x1b[31mred\x1b[0m\x00"}, {"message": "x" * 500, "path": "p/q.py"}]
    )
    assert title.title == "a b red\ufffd"
    assert len(message.title) < 140
    assert message.title.endswith("x… (p/q.py)")
    assert "x" * 500 in message.body
    (half,) = reported(b'[{"title": "cut off \\ud83d"}]')
    assert half.title == "cut off \ufffd"


# --- GitHub ------------------------------------------------------------------------------------


def issue(number: int, *labels: str, **more: object) -> dict[str, object]:
    named = [{"id": "L", "name": name, "color": "d73a4a"} for name in labels]
    return {"number": number, "title": f"t{number}", "body": "b", "labels": named} | more


def test_github() -> None:
    url = "https://github.com/o/r/issues/12"
    (scan,) = scans([issue(12, "bug", "severity: high", state="OPEN", url=url)])
    assert scan.source == "github.com/o/r"
    (one,) = scan.reported
    assert (one.id, one.title, one.severity, one.closed) == ("GH-12", "t12", "high", False)
    assert one.labels == ("bug", "severity: high")
    assert one.body == f"b\n\n{url}"
    assert reported([issue(1, state="CLOSED")])[0].closed
    assert reported([issue(1, milestone={"title": "v2"})])[0].section == "v2"


@pytest.mark.parametrize(
    ("labels", "severity"),
    [
        (("P0",), "critical"),
        (("p3", "P1"), "high"),
        (("priority/low",), "low"),
        (("Severity: Critical",), "critical"),
        (("sev-high",), "high"),
        (("priority: soon", "high-level", "info"), "medium"),
        (("blocker",), "critical"),
    ],
)
def test_severity_of_labels(labels: tuple[str, ...], severity: str) -> None:
    assert reported([issue(1, *labels)])[0].severity == severity


# --- checklists --------------------------------------------------------------------------------

CHECKLIST = """\
# Bugs

Some words, - [ ] no box.

- [ ] BUG-7: the parser loops
  on empty input

  - [ ] a test
  - [x] a cause
- [x] **BUG-8** done already
- [-] dropped
- [>] later
* [ ] plain

## Web ##
1. [ ] plain
```
- [ ] an example
```
- [ ]
- [ ] UTF-8 is not an id
"""


def test_checklist() -> None:
    (scan,) = scans(CHECKLIST, "docs/bugs.md")
    loops, done, plain, web, utf8 = scan.reported
    assert (loops.id, loops.title, loops.section) == ("BUG-7", "the parser loops", "Bugs")
    assert loops.body == "on empty input\n\n- [ ] a test\n- [x] a cause"
    assert (done.id, done.title, done.closed) == ("BUG-8", "done already", True)
    assert (plain.id, plain.title, plain.closed) == ("", "plain", False)
    assert (web.title, web.section) == ("plain", "Web")
    assert plain.fingerprint != web.fingerprint
    assert (utf8.id, utf8.title) == ("", "UTF-8 is not an id")


def test_ticking_a_box_keeps_it() -> None:
    ticked = reported(CHECKLIST.replace("* [ ] plain", "- [X] plain"), "bugs.md")
    before = reported(CHECKLIST, "bugs.md")
    assert [one.fingerprint for one in ticked] == [one.fingerprint for one in before]
    assert ticked[2].closed


def test_a_checklist_that_begins_like_json() -> None:
    (one,) = reported("[home](index.md)\n\n- [ ] a box\n", "x.md")
    assert one.title == "a box"


def test_an_entry_without_a_name_is_refused() -> None:
    with pytest.raises(BatonError, match=r"\$\[1\] has none of id, title and message"):
        scans([{"title": "t"}, {"path": "a"}])
