"""The grammar of a line: boxes, markers, keys."""

from __future__ import annotations

import pytest

from gitbaton.plan.boxes import box_in, indent_of, label, looks_like_box


@pytest.mark.parametrize(
    "line",
    [
        "- [ ] a",
        "* [ ] a",
        "+ [ ] a",
        "1. [ ] a",
        "12) [ ] a",
        "-[ ] a",
        "- []",
        "- [] a",
        "   - [ ] a",
        "\t- [ ] a",
        "- [x]a",
        "- [ x ] a",
        "- [  ] a",
        "- [✓] a",
        "- [~] a",
        "- [\u00a0] a",
        "- [x](depends on 1.1) a",
    ],
)
def test_is_box(line: str) -> None:
    assert box_in(line) is not None


@pytest.mark.parametrize(
    "line",
    [
        "- [text](url)",
        "- [~~T45~~] a",
        "- a [ ] b",
        "[ ] a",
        "- [x](https://example.org) a",
        "- [1](#one)",
        "- [s]ome word",
        "-- [ ] a",
        "1.1 [ ] a",
        "- [x",
        "",
    ],
)
def test_is_no_box(line: str) -> None:
    assert box_in(line) is None


@pytest.mark.parametrize(
    ("marker", "state"),
    [
        (" ", "open"),
        ("", "open"),
        ("x", "done"),
        ("X", "done"),
        (" x ", "done"),
        ("-", "canceled"),
        (">", "deferred"),
        ("~", "open"),
        ("/", "open"),
        ("✓", "open"),
    ],
)
def test_state(marker: str, state: str) -> None:
    box = box_in(f"- [{marker}] a")
    assert box is not None
    assert box.state == state


def test_raw_marker_and_columns_are_kept() -> None:
    box = box_in("\t* [ X ] a")
    assert box is not None
    assert (box.marker, box.indent, box.start, box.end) == ("X", 4, 4, 7)
    assert indent_of("  \tx") == 4


@pytest.mark.parametrize("line", ["[ ] a", "> - [ ] a", "### [x] a", "| [ ] | a", "• [ ] a"])
def test_looks_like_box(line: str) -> None:
    assert looks_like_box(line)


@pytest.mark.parametrize(
    ("text", "key", "title"),
    [
        ("1.2 Do it", "1.2", "Do it"),
        ("1.2. Do it", "1.2", "Do it"),
        ("1.2: Do it", "1.2", "Do it"),
        ("1.2) Do it", "1.2", "Do it"),
        ("1.2 - Do it", "1.2", "Do it"),
        ("1.2 — Do it", "1.2", "Do it"),
        ("1.2", "1.2", ""),
        ("2.1.1 Do it", "2.1.1", "Do it"),
        ("3.1a Do it", "3.1a", "Do it"),
        ("3b.1 Do it", "3b.1", "Do it"),
        ("7 Do it", "7", "Do it"),
        ("4.4（可选）smoke", "4.4", "（可选）smoke"),
        ("4.4：smoke", "4.4", "smoke"),
        ("4.4、smoke", "4.4", "smoke"),
        ("**1.2** Do it", "1.2", "Do it"),
        ("**1.2 Do it?** now", "1.2", "Do it? now"),
        ("**1.2:** `do` it", "1.2", "`do` it"),
        ("__1.2__ Do it", "1.2", "Do it"),
        ("_1.2_ Do it", "1.2", "Do it"),
        ("`1.2` Do **it**", "1.2", "Do **it**"),
        ("1.2 **Do** it", "1.2", "**Do** it"),
        ("1.2 `do` it", "1.2", "`do` it"),
        ("~~1.2 Do it~~ gone", "1.2", "Do it gone"),
        ("T004 Do it", "T004", "Do it"),
        ("T004 [P] Do it", "T004", "[P] Do it"),
        ("BUG-7: Do it", "BUG-7", "Do it"),
        ("US1.2 Do it", "US1.2", "Do it"),
        ("A.1.2 Do it", "A.1.2", "Do it"),
        ("T12a Do it", "T12a", "Do it"),
    ],
)
def test_key(text: str, key: str, title: str) -> None:
    found = label(text)
    assert (found.key, found.title) == (key, title)
    assert found.letter == key[0].isalpha()


@pytest.mark.parametrize(
    "text",
    [
        "Do it",
        "1.2foo",
        "3-way merge",
        "50% more",
        "10:30 meeting",
        "2nd try",
        "12.x later",
        "UPLAND-001 do",
        "E2E test",
        "t004 do",
        "`code` first",
        "v1.2 do",
        "",
    ],
)
def test_no_key(text: str) -> None:
    assert label(text).key == ""
    assert label(text).title == text


@pytest.mark.parametrize(
    ("text", "key", "members"),
    [
        ("4.1-4.3 a", "4.1-4.3", ("4.1", "4.2", "4.3")),
        ("4.1–4.3 a", "4.1-4.3", ("4.1", "4.2", "4.3")),
        ("4.1-3 a", "4.1-4.3", ("4.1", "4.2", "4.3")),
        ("4.5/4.6 a", "4.5-4.6", ("4.5", "4.6")),
        ("4.5/6 a", "4.5-4.6", ("4.5", "4.6")),
        ("T01..T03 a", "T01-T03", ("T01", "T02", "T03")),
        ("T09…T11: a", "T09-T11", ("T09", "T10", "T11")),
        ("1.6a-1.6c a", "1.6a-1.6c", ("1.6a", "1.6c")),
    ],
)
def test_range(text: str, key: str, members: tuple[str, ...]) -> None:
    found = label(text)
    assert (found.key, found.members) == (key, members)
    assert found.title == "a"


def test_backward_range_is_none() -> None:
    assert label("4.3-4.1 a").key == "4.3"
    assert label("2024-01-02 release").key == ""


@pytest.mark.parametrize(
    ("text", "struck"),
    [
        ("~~1.1 a~~", True),
        ("~~1.1 a~~ dropped", True),
        ("**~~1.1~~ a**", True),
        ("1.1 ~~a~~", True),
        ("1.1 ~~a~~ (see 2.1)", True),
        ("1.1 ~~a~~ — moved", True),
        ("1.1 ~~a~~ do b instead", False),
        ("1.1 keep ~~this~~", False),
        ("~~unclosed", False),
    ],
)
def test_struck(text: str, struck: bool) -> None:
    assert label(text).struck is struck
