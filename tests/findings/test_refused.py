"""Whatever is fed to an importer, it reads it or refuses it in one line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitbaton.errors import BatonError
from gitbaton.findings.importers import FORMATS, read
from tests.findings.reading import DATA, RECORDED, ROOT, scans


def refusal(data: object, name: str = "list.json", **how: str) -> BatonError:
    with pytest.raises(BatonError) as caught:
        scans(data, name, **how)
    assert "\n" not in caught.value.message
    return caught.value


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "list.json is empty, so nothing tells its format"),
        (b" \n\0"[:2], "list.json is empty, so nothing tells its format"),
        (b"[]", "list.json is an empty list, so nothing tells its format"),
        (b"{}", "list.json: the first entry has none of the keys id, title and message"),
        (b"[1]", "list.json: the first entry has none of the keys id, title and message"),
        (b"hello", "list.json is in no format that is known"),
        (b"<checkstyle/>", "list.json is in no format that is known"),
        (b"null", "list.json is in no format that is known"),
    ],
)
def test_unknown_format(data: bytes, message: str) -> None:
    error = refusal(data)
    assert (error.code, error.message) == ("unknown-format", message)
    assert "sarif, json, jsonl, ruff" in error.hint


def test_a_format_that_does_not_exist() -> None:
    assert refusal(b"[]", format="xml").message == "there is no format 'xml'"


def test_the_name_of_an_empty_file_tells_its_format() -> None:
    assert scans(b"[]", "out/ruff.json")[0].source == "ruff"
    assert scans(b"", "mypy.txt")[0].source == "mypy"
    assert scans(b"[]", format="eslint")[0].source == "eslint"
    error = refusal(b"[]", format="github")
    assert error.message == "list.json: it is empty, so nothing says whose it is: use --source"
    assert scans(b"[]", format="github", source="github.com/o/r")[0].reported == ()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'[{"title": "a"}, {"ti', "no JSON: unterminated string starting at (line 1, column 19)"),
        (b'[{"title": "a"},', "no JSON: ends too early (line 1, column 17)"),
        (b'[\n{"title": nul}]', "no JSON: expecting value (line 2, column 11)"),
        (b'{"title": "a"}\n{"title": ', "line 2: no JSON: ends too early (column 11)"),
        (b'[{"title": 3}]', "$[0].title: expected str | null, got int"),
        (b'{"title": "a"}\n{"title": []}', "line 2.title: expected str | null, got array"),
        (b'{"items": [{"id": "a"}, 7]}', "$.items[1]: expected object, got int"),
        (b'[{"title": "a", "severity": "bad"}]', "$[0]: severity 'bad' is none of critical, "),
        (b'[{"title": "a", "line": 1e400}]', "$[0].line: expected int | null, got float"),
        (b'[{"id": "a\\nb"}]', "$[0].id: one line of at most 150 characters"),
        (b'[{"title": "a", "\\udc00": 1}]', "$[0]: half of a surrogate pair"),
        (b'[{"title": "a", "line": "\\udc00"}]', "$[0]: half of a surrogate pair"),
        (b'[{"title": "\xff"}]', "byte 12 (line 1) is not UTF-8"),
        (b'[{"title": "a\0"}]', "no JSON: invalid control character at (line 1, column 14)"),
        (b"[" * 100_000, "JSON nested too deeply"),
        (b'[{"id": ' + b"9" * 6000 + b"}]", "JSON with a number that is too long"),
        (b'{"version": "2.1.0", "runs": [{}]}', "$.runs[0]: object missing required field tool"),
        (b'{"version": "2.1.0", "runs": []}', "it is empty, so nothing says whose it is"),
        (b'[{"filePath": "a", "messages": 3}]', "$[0].messages: expected array, got int"),
        (b"<testsuite><testcase>", "no XML: no element found (line 1, column 22)"),
        (b"<testsuite>\n<a b=1/>", "no XML: not well-formed (invalid token) (line 2, column 6)"),
        (b"<testsuite>\0</testsuite>", "no XML: not well-formed (invalid token)"),
        (b'<?xml version="1.0" encoding="x"?><testsuite/>', "no XML: unknown encoding"),
        (b"<junit><testsuite/></junit>", "XML with the root 'junit', not testsuites"),
    ],
)
def test_bad_findings(data: bytes, message: str) -> None:
    error = refusal(data)
    assert error.code == "bad-findings"
    assert error.message.startswith(f"list.json: {message}")


def test_entities_are_refused() -> None:
    bomb = (
        b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;">]>'
        b'<testsuite><testcase name="&y;"><failure/></testcase></testsuite>'
    )
    assert "document type" in refusal(bomb).message
    outside = b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><testsuite/>'
    assert "document type" in refusal(outside).message


def test_the_wrong_format_is_refused() -> None:
    ruff = (DATA / "ruff.json").read_bytes()
    error = refusal(ruff, format="eslint")
    assert error.message == "list.json: $[0]: object missing required field filePath"
    assert error.hint.startswith("read as eslint")
    for format in ("sarif", "junit", "github"):
        assert refusal(ruff, format=format).code == "bad-findings"


@pytest.mark.parametrize(
    "data",
    [
        b'[{"title": "' + b"a b\\n" * 500_000 + b'", "message": "' + b"line 3 " * 300_000 + b'"}]',
        b"- [ ] " + b"# " * 1_000_000 + b"x\n# " + b"# " * 1_000_000 + b"x",
        b"a.py:1: error: " + b"x  " * 500_000 + b"[",
        b"<testsuite><testcase><failure>"
        + b"a.py" * 500_000
        + b"</failure></testcase></testsuite>",
        b"<testsuite>" + b"<a>" * 300_000 + b"</a>" * 300_000 + b"</testsuite>",
    ],
    ids=["json", "checklist", "mypy", "junit", "deep-xml"],
)
@pytest.mark.timeout(60)
def test_long_lines(data: bytes) -> None:
    for scan in scans(data, "x"):
        for one in scan.reported:
            assert len(one.title) < 200
            assert len(one.body) <= 20_000


def _check(data: bytes, format: str | None) -> None:
    try:
        found = read(Path("x"), data, format=format, root=ROOT)
    except BatonError as error:
        assert error.code in ("unknown-format", "bad-findings")
        assert "\n" not in error.message
        return
    for scan in found:
        assert scan.source
        assert msgspec.json.decode(msgspec.json.encode(scan), type=type(scan)) == scan
        assert len({one.fingerprint for one in scan.reported}) == len(scan.reported)
        for one in scan.reported:
            assert one.title.strip() == one.title != ""
            assert one.title.splitlines() == [one.title]
            assert "\0" not in one.body + "".join(one.paths) + one.section + "".join(one.labels)


formats = st.none() | st.sampled_from(FORMATS)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["runs", "version", "items", "title", "id", "message", "line", "labels"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.binary(max_size=200), formats)
def test_any_bytes(data: bytes, format: str | None) -> None:
    _check(data, format)


@given(json_values, formats)
def test_any_json(value: object, format: str | None) -> None:
    _check(msgspec.json.encode(value), format)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(RECORDED), st.data(), formats)
def test_recorded_files_with_damage(path: Path, data: st.DataObject, format: str | None) -> None:
    """Cut off, or some bytes replaced: as disks, editors and pipes do."""
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    end = data.draw(st.integers(0, len(content)) | st.just(len(content)))
    _check(bytes(content[:end]), format)
