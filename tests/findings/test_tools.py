"""Reports that tools really wrote, recorded in ``data``, and ruff itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gitbaton.findings.importers import read
from gitbaton.model.queue import Scan
from tests.findings.reading import RECORDED, ROOT, prints, recorded, reported, scans


def test_ruff() -> None:
    scan = recorded("ruff.json")
    assert scan.source == "ruff"
    first = scan.reported[0]
    assert first.title == "F401: `os` imported but unused (src/app.py)"
    assert first.labels == ("F401", "unused-import")
    assert (first.severity, first.paths, first.section) == ("high", ("src/app.py",), "")
    assert first.body == (
        "`os` imported but unused\n\nsrc/app.py:1:8\n\nSuggested: Remove unused import: `os`\n\n"
        "https://docs.astral.sh/ruff/rules/unused-import"
    )


def test_one_tool_gives_the_same_findings_in_each_of_its_formats() -> None:
    as_json, as_sarif = recorded("ruff.json"), recorded("ruff.sarif")
    assert as_json.source == as_sarif.source
    assert set(prints(as_sarif)) < set(prints(as_json))  # recorded with fewer rules
    assert {one.severity for one in as_sarif.reported} == {"high"}
    text, pretty, lines = map(recorded, ("mypy.txt", "mypy-pretty.txt", "mypy.jsonl"))
    assert [(r.fingerprint, r.title) for r in text.reported] == [
        (r.fingerprint, r.title) for r in pretty.reported
    ]
    assert prints(text) == prints(lines)


def test_mypy() -> None:
    scan = recorded("mypy.txt")
    assert (scan.source, len(scan.reported)) == ("mypy", 6)
    override = scan.reported[3]
    assert override.title == (
        'override: Signature of "name" incompatible with supertype "Base" (src/typed.py)'
    )
    assert "src/typed.py:16" in override.body
    assert "Subclass:\n         def name(self, x: int) -> str" in override.body


def test_mypy_that_found_nothing_and_mypy_that_stopped() -> None:
    assert scans("Success: no issues found in 3 source files\n") == [
        Scan(source="mypy", reported=())
    ]
    text = "a.py:1: error: invalid syntax  [syntax]\nFound 1 error in 1 file ({})\n"
    with pytest.raises(Exception, match=r"list\.json: mypy stopped before"):
        scans(text.format("errors prevented further checking"))
    assert len(reported(text.format("checked 1 source file"))) == 1


def test_eslint() -> None:
    scan = recorded("eslint.json")
    assert (scan.source, len(scan.reported)) == ("eslint", 6)
    assert [one.severity for one in scan.reported] == ["high", "medium", "medium"] + ["high"] * 3
    unused, var, another, *_, broken = scan.reported
    assert unused.title == (
        "no-unused-vars: 'unused' is assigned a value but never used. (web/app.js)"
    )
    assert "    var x = 2;" in var.body
    assert var.fingerprint != another.fingerprint  # one message, two lines of source
    assert broken.title == "Parsing error: Unexpected token ( (web/broken.js)"


def test_bandit_and_semgrep() -> None:
    bandit = recorded("bandit.sarif")
    assert bandit.source == "bandit"
    assert [one.severity for one in bandit.reported] == ["low", "low", "medium", "high", "high"]
    assert "    subprocess.call(cmd, shell=True)" in bandit.reported[3].body.replace("\n\n", "\n")
    semgrep = recorded("semgrep.sarif")
    assert semgrep.source == "semgrep-oss"
    assert [one.severity for one in semgrep.reported] == ["medium", "high", "high"]
    assert "security" in semgrep.reported[1].labels
    # its fingerprints all say "requires login"
    assert len(set(prints(semgrep))) == 3


def test_junit() -> None:
    scan = recorded("junit.xml")
    assert scan.source == "pytest"
    half, raises, setup = scan.reported
    assert half.title == "tests.test_app::test_half[1]: AssertionError: halves differ"
    assert half.labels == ("failure",)
    assert half.paths == ("tests/test_app.py",)
    assert "tests/test_app.py:10" in half.body
    assert "    >       assert n / 2 == n // 2" in half.body
    assert raises.title.endswith("ValueError: boom <&> #x00 #x1B[31m")
    assert setup.labels == ("error",)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_twice_is_the_same_and_no_two_are_one(path: Path) -> None:
    once, again = recorded(path.name), recorded(path.name)
    assert once == again
    assert len(set(prints(once))) == len(once.reported) > 0
    for one in once.reported:
        assert all(not path.startswith(("/", "file:")) for path in one.paths)


def test_moved_lines_keep_their_findings_in_sarif() -> None:
    for name in ("bandit.sarif", "ruff.sarif", "semgrep.sarif"):
        log = json.loads((RECORDED[0].parent / name).read_bytes())
        for result in log["runs"][0]["results"]:
            result["locations"][0]["physicalLocation"]["region"]["startLine"] += 7
        (moved,) = scans(log)
        assert prints(moved) == prints(recorded(name))


def test_ruff_as_installed(tmp_path: Path) -> None:
    def check(text: str, kind: str) -> Scan:
        (tmp_path / "a b.py").write_text(text)
        command = (sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", ".")
        done = subprocess.run(
            [*command, "--select", "F,E501", "--output-format", kind],
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        (scan,) = read(Path(f"ruff.{kind}"), done.stdout, root=tmp_path)
        return scan

    text = "import os\nimport sys\nx = 1\n\n\ndef f():\n    y = 1\n    return undefined\n"
    before = check(text, "json")
    assert [one.labels[0] for one in before.reported] == ["F401", "F401", "F841", "F821"]
    assert {one.paths for one in before.reported} == {("a b.py",)}
    for kind in ("sarif", "json-lines"):
        assert prints(check(text, kind)) == prints(before)
    assert prints(check('"""Moved."""\n\n' + text, "json")) == prints(before)
    fixed = check(text.replace("import sys\n", ""), "json")
    assert set(prints(before)) - set(prints(fixed)) == {before.reported[1].fingerprint}
    assert check("x = 1\n", "json") == Scan(source="ruff", reported=())
    assert check("x = 1\n", "sarif") == Scan(source="ruff", reported=())


def test_paths_of_another_machine_stay() -> None:
    entry = {"code": "X1", "message": "m", "filename": "/ci/src/a.py", "location": {}}
    entry["location"] = {"row": 1, "column": 1}
    assert reported([entry])[0].paths == ("/ci/src/a.py",)
    assert str(ROOT) not in reported([entry])[0].body
