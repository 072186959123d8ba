"""What a SARIF log may say, and how differently tools say it."""

from __future__ import annotations

from typing import Any

import pytest

from gitbaton.errors import BatonError
from gitbaton.model.queue import Reported
from tests.findings.reading import reported, scans


def log(*results: dict[str, Any], driver: dict[str, Any] | None = None, **run: Any) -> Any:
    tool = {"driver": {"name": "Tool X", **(driver or {})}}
    return {"version": "2.1.0", "runs": [{"tool": tool, "results": list(results), **run}]}


def result(uri: str = "a.py", text: str = "bad", line: int = 3, **more: Any) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}
    return {
        "ruleId": "R1",
        "message": {"text": text},
        "locations": [{"physicalLocation": place}],
        **more,
    }


def one(*args: Any, **kwargs: Any) -> Reported:
    (found,) = reported(log(*args, **kwargs))
    return found


RULE = {"id": "R1", "defaultConfiguration": {"level": "note"}}


@pytest.mark.parametrize(
    ("said", "rule", "severity"),
    [
        ({}, {}, "medium"),
        ({"level": "error"}, {}, "high"),
        ({"level": "warning"}, {}, "medium"),
        ({"level": "none"}, {}, "info"),
        ({}, RULE, "low"),
        ({"level": "error"}, RULE, "high"),
        ({"level": "note"}, {"id": "R1", "properties": {"security-severity": "9.1"}}, "critical"),
        ({"properties": {"security-severity": 7}}, {}, "high"),
        ({"properties": {"security-severity": "nan"}}, {}, "medium"),
        ({"rank": 95}, {}, "critical"),
        ({"rank": 95, "level": "note"}, {}, "low"),
    ],
)
def test_severity(said: dict[str, Any], rule: dict[str, Any], severity: str) -> None:
    assert one(result(**said), driver={"rules": [rule] if rule else []}).severity == severity


@pytest.mark.parametrize(
    "said",
    [
        {"kind": "pass"},
        {"kind": "notApplicable"},
        {"baselineState": "absent"},
        {"suppressions": [{"kind": "inSource"}]},
        {"suppressions": [{"kind": "external", "status": "accepted"}]},
    ],
)
def test_not_reported(said: dict[str, Any]) -> None:
    assert reported(log(result(**said))) == ()


@pytest.mark.parametrize(
    "said",
    [
        {"kind": "review"},
        {"baselineState": "unchanged"},
        {"suppressions": []},
        {"suppressions": [{"kind": "external", "status": "rejected"}]},
    ],
)
def test_reported(said: dict[str, Any]) -> None:
    assert len(reported(log(result(**said)))) == 1


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("src/a.py", "src/a.py"),
        ("./src/../src/a.py", "src/a.py"),
        ("src/a%20b%25.py", "src/a b%.py"),
        ("file:///home/dev/project/src/a.py", "src/a.py"),
        ("file://localhost/home/dev/project/src/a.py", "src/a.py"),
        ("/home/dev/project/src/a.py", "src/a.py"),
        ("file:///elsewhere/a.py", "/elsewhere/a.py"),
        ("file:///C:/project/a.py", "C:/project/a.py"),
        ("src\\a.py", "src/a.py"),
        ("file:///home/dev/projector/a.py", "/home/dev/projector/a.py"),
    ],
)
def test_paths(uri: str, path: str) -> None:
    assert one(result(uri)).paths == (path,)


def test_an_address_of_the_web_is_no_path() -> None:
    assert one(result("https://example.org/a.py")).paths == ()


def based(uri: str, base: str, **bases: dict[str, str]) -> tuple[str, ...]:
    place = {"artifactLocation": {"uri": uri, "uriBaseId": base}}
    found = result() | {"locations": [{"physicalLocation": place}]}
    return one(found, originalUriBaseIds=bases).paths


def test_bases() -> None:
    assert based("a.py", "%SRCROOT%") == ("a.py",)
    assert based("a.py", "SRC", SRC={"uri": "file:///home/dev/project/src/"}) == ("src/a.py",)
    assert based("a.py", "SRC", SRC={"uri": "file:///ci/checkout/"}) == ("a.py",)
    nested = {"uri": "src/", "uriBaseId": "ROOT"}
    assert based("a.py", "SRC", SRC=nested, ROOT={"uri": "file:///ci/"}) == ("src/a.py",)
    around = {"uri": "x/", "uriBaseId": "SRC"}
    assert based("a.py", "SRC", SRC=around)[0].endswith("x/a.py")


def test_artifacts_by_index() -> None:
    place = {"artifactLocation": {"index": 1}}
    found = result() | {"locations": [{"physicalLocation": place}]}
    artifacts = [{"location": {"uri": "a.py"}}, {"location": {"uri": "b.py"}}]
    assert one(found, artifacts=artifacts).paths == ("b.py",)


def test_messages() -> None:
    rule = {"id": "R1", "messageStrings": {"m": {"text": "{0} beats {1}, {7}"}}}
    found = result() | {"message": {"id": "m", "arguments": ["a", "b"]}}
    assert one(found, driver={"rules": [rule]}).title == "R1: a beats b, {7} (a.py)"
    linked = one(result(text="from [input](1) to [sink](http://x/)"))
    assert linked.title == "R1: from input to sink (a.py)"


def test_rules_of_extensions_and_cases_of_a_rule() -> None:
    extension = {"name": "pack", "rules": [{"id": "R9", "helpUri": "https://x/r9"}]}
    run = log(result() | {"ruleId": "R9", "rule": {"index": 0, "toolComponent": {"index": 0}}})
    run["runs"][0]["tool"]["extensions"] = [extension]
    assert "https://x/r9" in reported(run)[0].body
    case = one(result(ruleId="R1/2"), driver={"rules": [{"id": "R1", "helpUri": "https://x/r1"}]})
    assert "https://x/r1" in case.body
    assert case.labels == ("R1/2",)


def test_fingerprints_of_the_tool() -> None:
    def fingerprint(**said: Any) -> str:
        return one(result(**said)).fingerprint

    hashed = {"partialFingerprints": {"primaryLocationLineHash": "ab:1"}}
    assert fingerprint(**hashed) == fingerprint(text="said otherwise", line=9, **hashed)
    assert fingerprint(**hashed) != fingerprint(uri="b.py", **hashed)
    whole = {"fingerprints": {"id/v1": "77"}}
    assert fingerprint(**whole) == fingerprint(uri="moved.py", text="other", **whole)
    newer = {"fingerprints": {"id/v1": "77", "id/v2": "99"}}
    assert fingerprint(**whole) == fingerprint(**newer)
    assert fingerprint(fingerprints={"id": "requires login"}) == fingerprint()


def test_several_tools_are_several_sources() -> None:
    both = log(result())
    both["runs"] += log(result(), driver={"name": "Other"})["runs"]
    both["runs"] += log(result(text="more"), driver={"name": "Other"})["runs"]
    assert [(s.source, len(s.reported)) for s in scans(both)] == [("tool-x", 1), ("other", 2)]
    (together,) = scans(both, source="all")
    assert (together.source, len(together.reported)) == ("all", 2)  # one they agree on


def test_a_category_is_a_source_of_its_own() -> None:
    def source(name: str) -> str:
        return scans(log(automationDetails={"id": name}))[0].source

    assert source("python/run-7") == "tool-x:python"
    assert source("run-8") == "tool-x"


def test_a_symbol_where_there_is_no_file() -> None:
    found = result() | {"locations": [{"logicalLocations": [{"fullyQualifiedName": "a.B.c"}]}]}
    assert one(found).title == "R1: bad (in a.B.c)"


def test_a_run_that_failed_is_refused() -> None:
    failed = {"invocations": [{"executionSuccessful": False}]}
    unfinished = log()
    del unfinished["runs"][0]["results"]
    for bad in (log(**failed), unfinished):
        with pytest.raises(BatonError) as caught:
            scans(bad)
        assert caught.value.message == ("list.json: Tool X did not finish: its run has no results")
    assert len(reported(log(result(), **failed))) == 1


@pytest.mark.parametrize("version", ["2.0.0", "1.0.0", "2.2", 3])
def test_another_version_is_named(version: object) -> None:
    with pytest.raises(BatonError) as caught:
        scans(log() | {"version": version})
    assert caught.value.code == "bad-findings"
    assert caught.value.message == f"list.json: SARIF {version}, but only 2.1.0 is read"
