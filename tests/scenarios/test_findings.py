"""Findings in shards, from a scan to the line that says DONE, as people and fixers type it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import _pytest
import pytest

from .batches import items, states
from .conftest import Json, NewProject, Project, Said

SELECT = "D213,PLR0913"
"""Where the text of a docstring begins, which ruff puts right, and functions with many
arguments, which it cannot."""
FIXER = """\
import json, os, subprocess, sys

shards, number = sys.argv[1], os.environ["BATON_TICKET"].removeprefix("shard-")
given = json.load(open(f"{shards}/shard-{number}.json"))
scopes = [scope["scope_path"] for scope in given["scopes"]]
ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select"]
subprocess.run([*ruff, "D213,PLR0913", "--fix", "--quiet", "--exit-zero", *scopes], check=True)
fixed = [f["id"] for f in given["findings"] if f["rule"] == "D213"]
failed = [f["id"] + "=needs thought" for f in given["findings"] if f["rule"] == "PLR0913"]
said = [*(["--fixed", *fixed] if fixed else []), *(["--failed", *failed] if failed else [])]
status = [sys.executable, "-m", "gitbaton", "findings", "status", shards, number]
subprocess.run([*status, *said], check=True)
"""


def ruff(project: Project) -> list[Json]:
    """What ruff finds in the working tree."""
    words = ("check", "--isolated", "--no-cache", "--exit-zero", "--output-format", "json")
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *words, "--select", SELECT, "src"],
        cwd=project.top,
        capture_output=True,
        check=True,
    )
    found: list[Json] = json.loads(done.stdout)
    return found


def write(path: Path, value: object) -> str:
    path.write_text(json.dumps(value))
    return str(path)


def rows(*paths: str | None) -> list[Json]:
    """A finding for each path."""
    return [
        {"id": f"F-{at}", "path": path, "line": 1, "rule": "R1", "message": f"number {at}"}
        for at, path in enumerate(paths, start=1)
    ]


def document(path: Path) -> Json:
    read: Json = json.loads(path.read_text())
    return read


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Where shards are put: beside every repository."""
    return tmp_path / "shards"


def deal(project: Project, found: Sequence[Json], out: Path, *words: str) -> Said:
    file = write(out.parent / "found.json", found)
    return project.baton("findings", "shard", file, "--out", str(out), *words)


def opened(project: Project, shards: Path, *words: str) -> Said:
    return project.baton("batch", "open", "--shards", str(shards), "--request-id", "r", *words)


# --- a real package ----------------------------------------------------------------------------


def test_a_real_package_from_scan_to_done(new_project: NewProject, shards: Path) -> None:
    project = new_project(tasks=None)
    source = Path(_pytest.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, project.top / "src/_pytest", ignore=ignored)
    project.git("add", "--all")
    project.git("commit", "-q", "-m", "a package")
    found = ruff(project)
    fixable = sum(one["code"] == "D213" for one in found)
    assert 0 < fixable < len(found)
    file = write(shards.parent / "ruff.json", found)
    words = ("--shards", "4", "--scope", "src/_pytest/*", "--out", str(shards))
    dealt = project.baton("findings", "shard", file, *words)
    assert (dealt["shards"], dealt["findings"], dealt["residue"]) == (4, len(found), 0)

    run = opened(project, shards, "--verify", f"{sys.executable} -m compileall -q src")["run"]
    fixer = shards.parent / "fixer.py"
    fixer.write_text(FIXER)
    command = f"'{sys.executable}' '{fixer}' '{shards}'"
    project.baton("run", run, "--command", command, "-j", "2")
    assert set(states(project, items_queue(shards)).values()) == {"fixed"}
    project.baton("land", run)

    again = write(shards.parent / "again.json", ruff(project))
    said = project.baton("findings", "aggregate", str(shards), "--rescan", again)
    left = len(found) - fixable
    assert len(ruff(project)) == left
    assert (said["fixed"], said["failed"], said["remaining"]) == (fixable, left, 0)
    assert not (said["missing"] or said["duplicates"] or said["flagged"] or said["new"])
    told = project.type("findings", "aggregate", str(shards), "--rescan", again).stdout
    counts = f"DONE: shards=4 fixed={fixable} failed={left} remaining=0."
    assert told.splitlines()[-1] == f"{counts} Report: {shards}/report.md"
    report = document(shards / "report.json")
    assert report["rescan"] == {"still": left, "new": []}
    assert sum(each["fixed"] for each in report["shards"]) == fixable
    assert f"# Findings: {fixable} of {len(found)} fixed" in (shards / "report.md").read_text()

    second = shards.parent / "second"
    more = project.baton("findings", "shard", said["residue"], "--out", str(second))
    assert more["findings"] == left
    ids = {one["finding"]["id"] for one in report["unfixed"]}
    assert ids == {
        f["id"] for file in second.glob("shard-*.json") for f in document(file)["findings"]
    }
    project.baton("audit", run)


def items_queue(shards: Path) -> str:
    digest = hashlib.sha256((shards / "index.json").read_bytes()).hexdigest()
    return f"shards-{digest[:8]}"


# --- a batch of shards -------------------------------------------------------------------------


def test_a_fixer_outside_of_its_scope_cannot_seal(project: Project, shards: Path) -> None:
    project.commit({"a.py": "1\n", "b.py": "1\n"})
    deal(project, rows("a.py", "b.py"), shards, "--shards", "2")
    run = opened(project, shards)["run"]
    first = project.actions(run, "--capacity", "2").dispatch("shard-1")
    project.work(first, {"a.py": "2\n", "b.py": "2\n"})
    refused = project.seal(first, code=1)
    assert refused.code == "outside-allowed-paths"
    assert refused.message == "b.py is outside of what this ticket may change: a.py"
    project.git("checkout", first["base_commit"], "--", "b.py", cwd=first["cwd"])
    project.git("commit", "-q", "-m", "undo", cwd=first["cwd"])
    project.seal(first)


def test_a_fixer_is_told_scope_findings_and_how_to_answer(project: Project, shards: Path) -> None:
    skill = project.write("skills/a/SKILL.md", "# A\n")
    deal(project, rows("skills/a/x.py", "b.py", None), shards, "--shards", "1")
    run = opened(project, shards)["run"]
    dispatch = project.actions(run).dispatch("shard-1")
    packet = document(Path(dispatch["packet"]))
    assert packet["allowed_paths"] == ["b.py", "skills/a"]
    prompt = dispatch["prompt"]
    assert "- `skills/a/` and all below it, which may be refactored freely" in prompt
    assert "- `F-2` b.py:1 R1 (medium) number 2" in prompt
    assert f"git baton findings status {shards.resolve()} 1 --fixed ID..." in prompt
    assert "F-3" not in prompt and "Read first" not in prompt
    assert skill.exists()


def test_names_that_look_like_patterns_mean_themselves(project: Project, shards: Path) -> None:
    project.commit({"app/[id]/page.tsx": "1\n", "app/i/page.tsx": "1\n"})
    deal(project, rows("app/[id]/page.tsx"), shards)
    run = opened(project, shards)["run"]
    dispatch = project.actions(run).dispatch("shard-1")
    project.work(dispatch, {"app/i/page.tsx": "2\n"})
    assert project.seal(dispatch, code=1).code == "outside-allowed-paths"
    project.work(dispatch, {"app/i/page.tsx": "1\n", "app/[id]/page.tsx": "2\n"})
    project.seal(dispatch)


def test_the_same_request_finds_the_same_batch(project: Project, shards: Path) -> None:
    deal(project, rows("a.py", "b.py"), shards, "--shards", "2")
    first = opened(project, shards)
    assert (first["created"], first["members"]) == (True, ["shard-1", "shard-2"])
    assert set(items(project, items_queue(shards))) == {"shard-1", "shard-2"}
    before = project.picture()
    again = opened(project, shards)
    assert (again["run"], again["created"]) == (first["run"], False)
    assert project.picture() == before
    batch = project.actions(first["run"], "--capacity", "2")
    for dispatch, name in zip(batch.of("dispatch"), ("a.py", "b.py"), strict=True):
        project.do(dispatch, {name: "fixed\n"})
        batch = project.reconcile(dispatch)
    assert batch["state"] == "complete"
    assert opened(project, shards)["state"] == "complete"
    assert set(states(project, items_queue(shards)).values()) == {"fixed"}
    conflict = project.refused(
        *("batch", "open", "--shards", str(shards), "--request-id", "r", "--mode", "one-item")
    )
    assert conflict.code == "request-id-conflict"


def test_nothing_to_fix_is_a_complete_batch(project: Project, shards: Path) -> None:
    deal(project, [], shards)
    assert opened(project, shards)["state"] == "complete"


def test_a_batch_is_of_a_queue_or_of_shards(project: Project, shards: Path) -> None:
    deal(project, rows("a.py"), shards)
    words = ("batch", "open", "--shards", str(shards), "--queue", "bugs")
    assert project.refused(*words, code=2).code == "usage"


def test_shards_that_overlap_or_lie_outside_are_not_run(project: Project, shards: Path) -> None:
    deal(project, rows("a.py", "b.py"), shards, "--shards", "2")
    second = shards / "shard-2.json"
    good = second.read_text()
    words = ("batch", "open", "--shards", str(shards))
    for path, code in (("a.py", "overlapping-scopes"), ("../b.py", "bad-scope")):
        second.write_text(good.replace('"scope_path": "b.py"', f'"scope_path": "{path}"'))
        assert project.refused(*words).code == code


# --- without a repository ----------------------------------------------------------------------


@pytest.fixture
def nowhere(project: Project, tmp_path: Path) -> Project:
    """The command line in a folder that is in no repository."""
    folder = tmp_path / "nowhere"
    folder.mkdir()
    project.cwd = folder
    return project


def test_fixers_outside_of_git_baton(nowhere: Project, shards: Path) -> None:
    done = deal(nowhere, rows("a.md", "a.md", "b.md", None), shards, "--shards", "2")
    assert done == {
        "ok": True,
        "out": str(shards),
        "schema_version": 2,
        "shards": 2,
        "findings": 4,
        "scopes": 2,
        "largest": 2,
        "smallest": 1,
        "residue": 1,
    }
    status = ("findings", "status", str(shards))
    told = nowhere.baton(*status, "1", "--fixed", "F-1", "F-2")
    assert (told["fixed"], told["failed"], told["remaining"]) == (2, 0, 0)
    nowhere.baton(*status, "2", "--fixed", "--failed", "F-3=a=b", "--notes", "hard")
    assert document(shards / "shard-2.status.json")["failed"] == [{"id": "F-3", "reason": "a=b"}]
    text = nowhere.type("findings", "aggregate", str(shards)).stdout
    counts = "DONE: shards=2 fixed=2 failed=1 remaining=1."
    assert text == f"{counts} Report: {shards}/report.md\n"
    assert [one["id"] for one in json.loads((shards / "residue.json").read_text())] == [
        "F-4",
        "F-3",
    ]


def test_absolute_paths_are_relative_to_where_we_are(nowhere: Project, shards: Path) -> None:
    deal(nowhere, rows(str(nowhere.cwd / "sub/a.md")), shards)
    assert document(shards / "shard-1.json")["findings"][0]["path"] == "sub/a.md"


def test_what_is_written_again_stays(nowhere: Project, shards: Path) -> None:
    def picture() -> dict[str, tuple[bytes, int]]:
        files = sorted(shards.iterdir())
        return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in files}

    def everything() -> None:
        deal(nowhere, rows("a.md", "b.md"), shards)
        nowhere.baton("findings", "status", str(shards), "1", "--fixed", "F-1")
        nowhere.baton("findings", "aggregate", str(shards))

    everything()
    before = picture()
    everything()
    assert picture() == before
    write(shards.parent / "found.json", rows("c.md"))
    words = ("findings", "shard", str(shards.parent / "found.json"), "--out", str(shards))
    assert nowhere.baton(*words, code=1).code == "shards-exist"
    assert picture() == before


def test_standard_input_and_an_empty_list(nowhere: Project, shards: Path) -> None:
    def typed(data: str, out: Path) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "gitbaton", "findings", "shard", "-", "--out", str(out)],
            input=data,
            cwd=nowhere.cwd,
            env={"PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    assert "1 shard" in typed(json.dumps(rows("a.md")), shards)
    assert "0 shards" in typed("[]", shards.parent / "none")
    clean = write(shards.parent / "rescan.json", [])
    said = nowhere.baton("findings", "aggregate", str(shards), "--rescan", clean)
    assert (said["fixed"], said["remaining"], said["missing"]) == (1, 0, [1])


def test_a_status_that_lies(nowhere: Project, shards: Path) -> None:
    found = rows("a.md", "b.md")
    deal(nowhere, found, shards)
    nowhere.baton("findings", "status", str(shards), "1", "--fixed", "F-1", "F-2")
    again = write(shards.parent / "again.json", found[1:])
    said = nowhere.baton("findings", "aggregate", str(shards), "--rescan", again)
    assert (said["fixed"], said["remaining"]) == (1, 1)
    (flag,) = said["flagged"]
    assert (flag["shard"], flag["code"], flag["finding"]) == (1, "still-found", "F-2")
    assert "F-2 is said to be fixed, and is still found" in (shards / "report.md").read_text()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("1", "--fixed", "F-2"), "foreign-finding"),
        (("1", "--fixed", "X"), "foreign-finding"),
        (("1", "--fixed", "F-1", "--failed", "F-1=why"), "fixed-and-failed"),
        (("0",), "usage"),
        (("7",), "no-such-shard"),
    ],
)
def test_a_status_that_cannot_be(
    nowhere: Project, shards: Path, words: tuple[str, ...], code: str
) -> None:
    deal(nowhere, rows("a.md", "b.md"), shards, "--shards", "2")
    said = nowhere.baton("findings", "status", str(shards), *words, code=None)
    assert said.code == code
    assert not list(shards.glob("*.status.json"))


# --- files that are not what they should be ----------------------------------------------------


def test_two_shards_on_one_scope(nowhere: Project, shards: Path) -> None:
    deal(nowhere, rows("a.md", "b.md"), shards, "--shards", "2")
    second = shards / "shard-2.json"
    second.write_text(second.read_text().replace('"b.md"', '"a.md"'))
    for number, finding in ((1, "F-1"), (2, "F-2")):
        nowhere.baton("findings", "status", str(shards), str(number), "--fixed", finding)
    stamp(shards / "shard-1.status.json", "2031-01-02T00:00:00Z")
    stamp(shards / "shard-2.status.json", "2031-01-01T00:00:00Z")
    said = nowhere.baton("findings", "aggregate", str(shards))
    assert said["duplicates"] == [{"scope_path": "a.md", "shards": [1, 2], "kept": 1}]
    assert (said["fixed"], said["remaining"]) == (1, 1)


def stamp(path: Path, written: str) -> None:
    write(path, {**document(path), "written": written})


def test_a_truncated_status_costs_its_own_shard_only(nowhere: Project, shards: Path) -> None:
    deal(nowhere, rows("a.md", "b.md"), shards, "--shards", "2")
    for number in (1, 2):
        words = ("findings", "status", str(shards), str(number), "--fixed", f"F-{number}")
        nowhere.baton(*words)
    path = shards / "shard-2.status.json"
    path.write_bytes(path.read_bytes()[:30])
    said = nowhere.baton("findings", "aggregate", str(shards))
    assert (said["fixed"], said["remaining"]) == (1, 1)
    assert [(flag["shard"], flag["code"]) for flag in said["flagged"]] == [(2, "unreadable")]
    nowhere.baton(*words)  # whoever says it again heals the file
    assert nowhere.baton("findings", "aggregate", str(shards))["fixed"] == 2


@pytest.mark.parametrize("name", ["index.json", "shard-1.json", "shard-1.status.json"])
def test_another_schema_version_is_refused(project: Project, shards: Path, name: str) -> None:
    deal(project, rows("a.md"), shards)
    project.baton("findings", "status", str(shards), "1", "--fixed", "F-1")
    path = shards / name
    path.write_text(path.read_text().replace('"schema_version": 2', '"schema_version": 1'))
    for words in (
        ("findings", "aggregate", str(shards)),
        ("batch", "open", "--shards", str(shards)),
    ):
        refused = project.refused(*words)
        assert refused.code == "other-schema"
        assert refused.message == f"{name} has schema version 1, known is 2"


@pytest.mark.parametrize("name", ["index.json", "shard-1.json"])
def test_a_truncated_file_is_one_clear_line(project: Project, shards: Path, name: str) -> None:
    deal(project, rows("a.md"), shards)
    path = shards / name
    path.write_bytes(path.read_bytes()[:-20])
    for words in (
        ("findings", "aggregate", str(shards)),
        ("batch", "open", "--shards", str(shards)),
    ):
        refused = project.refused(*words)
        assert refused.code == "bad-shards"
        assert re.fullmatch(rf"{name}: no JSON: [^\n]+", refused.message)


def test_files_that_are_missing(project: Project, shards: Path) -> None:
    loop = shards.with_name("loop")
    loop.symlink_to(loop)
    assert project.refused("batch", "open", "--shards", str(loop), code=2).code == "bad-path"
    aggregate = ("findings", "aggregate", str(shards))
    assert project.refused(*aggregate).code == "no-shards"
    deal(project, rows("a.md"), shards)
    (shards / "shard-1.json").unlink()
    assert project.refused(*aggregate).code == "no-such-shard"
    words = ("findings", "shard", str(shards / "none.json"), "--out", str(shards))
    assert project.refused(*words, code=2).code == "no-such-file"


def test_a_path_that_no_system_holds_is_a_scope_as_any(nowhere: Project, tmp_path: Path) -> None:
    file = write(tmp_path / "found.json", rows("a/" * 3000 + "b.py", "c.md"))
    done = nowhere.baton("findings", "shard", file, "--out", str(tmp_path / "out"))
    assert (done["scopes"], done["residue"]) == (2, 0)


def test_places_that_are_none(nowhere: Project, tmp_path: Path) -> None:
    file = write(tmp_path / "found.json", rows("a.md"))
    nowhere_at_all = tmp_path / "link"
    nowhere_at_all.symlink_to(tmp_path / "absent")
    for out in (file, str(nowhere_at_all), "/dev/null"):
        assert nowhere.baton("findings", "shard", file, "--out", out, code=2).code == "no-folder"
    assert nowhere.baton("findings", "shard", file, "--out", "", code=2).code == "usage"
    assert nowhere.baton("findings", "aggregate", file, code=2).code == "bad-path"
    words = ("findings", "shard", str(tmp_path), "--out", str(tmp_path / "out"))
    assert nowhere.baton(*words, code=2).code == "bad-path"
