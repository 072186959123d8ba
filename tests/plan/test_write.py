"""Ticks: markers change, nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitbaton.errors import PlanError
from gitbaton.plan.boxes import box_in
from gitbaton.plan.lines import cut
from gitbaton.plan.tasksmd import read
from gitbaton.plan.write import Ticker, carry_ticks, marks_only_difference, set_marks

from .ticks import round_trip

SHAPES = Path(__file__).parent / "shapes"


def ticked(text: str, *keys: str, done: bool = True) -> str:
    return set_marks(text.encode(), keys, done).decode()


def test_tick_and_untick() -> None:
    text = "- [ ] 1.1 a\n- [ ] 1.2 b\n"
    assert ticked(text, "1.2") == "- [ ] 1.1 a\n- [x] 1.2 b\n"
    assert ticked(ticked(text, "1.2"), "1.2", done=False) == text
    assert ticked(text, "1.2", done=False) == text
    assert ticked(text) == text


@pytest.mark.parametrize(
    ("open_", "done"),
    [
        ("- [ ] a", "- [x] a"),
        ("- [] a", "- [x] a"),
        ("- [  ] a", "- [x ] a"),
        ("-[ ] a", "-[x] a"),
        ("- [~] a", "- [x] a"),
        ("- [✓] a", "- [x] a"),
        ("\t2) [\t] a", "\t2) [x] a"),
    ],
)
def test_markers(open_: str, done: str) -> None:
    (key,) = (t.key for t in read(open_.encode()).tickets)
    assert ticked(open_, key) == done


@pytest.mark.parametrize(
    ("done", "open_"), [("[x]", "[ ]"), ("[X]", "[ ]"), ("[ x ]", "[   ]"), ("[x ]", "[  ]")]
)
def test_untick_markers(done: str, open_: str) -> None:
    assert ticked(f"- {done} 1.1 a", "1.1", done=False) == f"- {open_} 1.1 a"


def test_criteria_go_with_their_ticket_and_canceled_boxes_stay() -> None:
    text = "- [ ] 1.1 a\n  - [ ] b\n  - [-] c\n  - [x] ~~d~~\n  - [>] e\n- [-] 1.2 f\n"
    done = ticked(text, "1.1", "1.2")
    assert done == text.replace("[ ]", "[x]")
    assert ticked(done, "1.1", done=False) == text


def test_heading_ticket() -> None:
    text = "## A\n### 1.1 Do\n- [ ] a\n- [ ] b\n"
    assert ticked(text, "1.1") == text.replace("[ ]", "[x]")


def test_umbrella_is_ticked_when_complete_and_reopened() -> None:
    text = "- [ ] 1 A\n  - [ ] 1.1 B\n    - [ ] 1.1.1 a\n    - [-] 1.1.2 b\n  - [ ] 1.2 c\n"
    one = ticked(text, "1.1.1")
    assert one == text.replace("[ ] 1.1.1", "[x] 1.1.1").replace("[ ] 1.1 ", "[x] 1.1 ")
    both = ticked(one, "1.2")
    assert both == text.replace("[ ]", "[x]")
    assert ticked(both, "1.1.1", done=False) == (
        "- [ ] 1 A\n  - [ ] 1.1 B\n    - [ ] 1.1.1 a\n    - [-] 1.1.2 b\n  - [x] 1.2 c\n"
    )


def test_canceled_umbrella_stays() -> None:
    text = "- [x] ~~1.1 A~~\n  - [x] 1.2 a\n  - [ ] 1.3 b\n"
    assert ticked(text, "1.2", done=False) == text.replace("[x] 1.2", "[ ] 1.2")


def test_umbrellas_elsewhere_are_left_alone() -> None:
    text = "- [ ] 1 A\n  - [x] 1.1 a\n- [ ] 2.1 b\n"
    assert ticked(text, "2.1") == text.replace("[ ] 2.1", "[x] 2.1")


def test_key_of_an_umbrella_means_all_below() -> None:
    text = "- [ ] 1 A\n  - [ ] 1.1 a\n  - [ ] 1.2 b\n- [ ] 2 c\n"
    assert ticked(text, "1") == text.replace("[ ] 1", "[x] 1")


def test_alias() -> None:
    assert ticked("- [ ] a\n- [ ] b\n", "s1.2") == "- [ ] a\n- [x] b\n"


def test_a_box_that_became_a_criterion_by_its_tick_can_be_unticked() -> None:
    text = "- [x] 1.1 a\n  - [ ] b\n"
    key = read(text.encode()).tickets[1].key
    done = ticked(text, key)
    assert done == text.replace("[ ]", "[x]")
    assert ticked(done, key, done=False) == text


def test_unknown_key_names_the_nearest() -> None:
    with pytest.raises(PlanError) as caught:
        set_marks(b"- [ ] 1.1 a\n- [ ] 1.2 b\n", ["1.22"], True)
    assert caught.value.code == "unknown-ticket"
    assert "1.2" in caught.value.hint
    data = b"- [ ] 1.1 a\n"
    assert set_marks(data, ["9", "1.1"], True, ignore_missing=True) == b"- [x] 1.1 a\n"


def test_unit_section() -> None:
    data = b"## 1. A\n- [ ] 1.1 a\n- [-] 1.2 b\n## 2. B\n- [ ] 2.1 c\n"
    assert set_marks(data, ["1"], True, unit="section") == data.replace(b"[ ] 1", b"[x] 1")
    by_file = b"<!-- baton: unit=section -->\n" + data
    assert set_marks(by_file, ["2"], True) == by_file.replace(b"[ ] 2", b"[x] 2")


def test_same_key_twice() -> None:
    assert ticked("- [ ] 1 a\n- [ ] 1 b\n", "1~2") == "- [ ] 1 a\n- [x] 1 b\n"


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf- [ ] 1.1 a\r\n- [ ] 1.2 b\r- [ ] 1.3 c",
        b"- [ ] 1.1 caf\xe9 \xff\xfe\n- [\xff] 1.2 b\n\n\n- [ ] 1.3 \xed\xa0\x80\r\n",
        "- [ ] 1.1 a\u2028\n\x0c- [ ] x\n- [ ] 1.2 \x00\n- [ ] 1.3 c\n".encode(),
        b"---\na: 1\n---\n- [ ] 1.1 a\n- [ ] 1.2 b\n- [ ] 1.3 c\n",
    ],
)
def test_other_bytes_stay(data: bytes) -> None:
    assert cut(data).join() == data
    for key in ("1.1", "1.2", "1.3"):
        out = set_marks(data, [key], True)
        place = data.index(b"] " + key.encode()) - 1
        assert out == data[:place] + b"x" + data[place + 1 :]
        assert marks_only_difference(data, out)


def test_carry_ticks() -> None:
    person = b"- [x] 1.1 by hand\n- [ ] 1.2 new text\n- [ ] 1.4 new\n"
    assert carry_ticks(person, {"1.2", "1.3"}) == person.replace(b"[ ] 1.2", b"[x] 1.2")


def test_marks_only_difference() -> None:
    text = b"## A\n- [ ] 1.1 a [ ]\n- [] 1.2 b\n```\n- [ ] code\n```\n"
    assert marks_only_difference(text, text.replace(b"- [ ]", b"- [x]").replace(b"[]", b"[x]"))
    for old, new in ((b"a", b"b"), (b"\n", b"\r\n"), (b"a [ ]", b"a [x]"), (b"- [", b"* [")):
        assert not marks_only_difference(text, text.replace(old, new))
    assert not marks_only_difference(text, text + b"- [ ] 1.3 c\n")
    assert not marks_only_difference(text, b"\xef\xbb\xbf" + text)


# --- any text ----------------------------------------------------------------------------------

_PIECES = st.sampled_from(
    [
        *(
            "- [ ] ",
            "- [x] ",
            "-[ ] ",
            "* [] ",
            "1. [~] ",
            "+ [-] ",
            "- [>] ",
            "- [ x ] ",
            "- [\xff] ",
        ),
        *("- ", "  ", "\t", "# ", "## ", "### ", "> ", "```", "~~~", "<!-- ", " -->", "---", "***"),
        *("1.1 ", "1.2 ", "2.1.1 ", "T01 ", "T02..T04 ", "A.1 ", "3b. ", "1.1-1.3 ", "Task 1.2: "),
        *("~~", "**", "`", "(needs 1.1)", "(after T01, 1.2", ")", "（depends on 2）", "(see 1.1)"),
        *(
            "<!-- baton: verify=a after=1.2 -->",
            "<!-- baton: unit=section -->",
            "<!-- baton: x -->",
        ),
        *(
            "text",
            "文字",
            "\x00",
            "\u2028",
            "[link](a/b)",
            "Phase 2: ",
            "\n",
            "\n",
            "\n",
            "\r\n",
            "\r",
        ),
    ]
)
SOUP = st.lists(st.one_of(_PIECES, st.just("\n")), max_size=60).map("".join)


@settings(max_examples=400, deadline=None)
@given(SOUP)
def test_any_text_is_read_without_losing_a_box(text: str) -> None:
    data = text.encode("utf-8", "surrogateescape").replace("\xff".encode(), b"\xff")
    lines = cut(data).lines
    for unit in ("task", "section"):
        found = read(data, unit=unit)
        b = found.boxes
        assert b.total == b.tickets + b.criteria + b.umbrellas + b.reported
        assert b.total == sum(box_in(line) is not None for line in lines)
        reported = {r.line for r in found.warnings if box_in(lines[r.line - 1]) is not None}
        assert b.reported <= len(reported)
        known = [t.key for t in found.tickets] + [u.key for u in found.umbrellas]
        assert len(known) == len(set(known))
        every = [line for t in found.tickets for line in t.boxes]
        assert len(every) == len(set(every))
        assert all(set(t.needs) <= set(known) for t in found.tickets)


@settings(deadline=None)
@given(SOUP, st.integers(0, 1000))
def test_any_tick_changes_markers_only(text: str, pick: int) -> None:
    data = text.encode().replace("\xff".encode(), b"\xff")
    found = read(data)
    if not found.tickets:
        return
    ticket = found.tickets[pick % len(found.tickets)]
    out = set_marks(data, [ticket.key], True)
    assert marks_only_difference(data, out)
    before, after = cut(data).lines, cut(out).lines
    changed = {n for n, (a, b) in enumerate(zip(before, after, strict=True), 1) if a != b}
    umbrellas = {u.line for u in found.umbrellas if u.key in ticket.umbrellas}
    assert changed <= set(ticket.boxes) | umbrellas
    assert all((box_in(after[n - 1]) or pytest.fail("no box")).marker == "x" for n in changed)
    if ticket.mark == "open":
        assert all(
            (box_in(after[n - 1]) or pytest.fail("no box")).marker in "xX" for n in ticket.boxes
        )


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_survive(data: bytes) -> None:
    read(data)
    assert cut(data).join() == data
    assert set_marks(data, ["1.1"], True, ignore_missing=True).count(b"\n") == data.count(b"\n")


@pytest.mark.parametrize("path", sorted(SHAPES.glob("*.md")), ids=lambda p: p.stem)
def test_shapes_round_trip(path: Path) -> None:
    round_trip(path.read_bytes())


@settings(deadline=None)
@given(SOUP, st.lists(st.integers(0, 1000), max_size=6))
def test_ticking_one_after_the_other_is_as_if_each_text_were_read_anew(
    text: str, picks: list[int]
) -> None:
    data = text.encode("utf-8", "surrogateescape").replace("\xff".encode(), b"\xff")
    for unit in ("task", "section"):
        keys = [ticket.key for ticket in read(data, unit=unit).tickets]
        ticker, expected = Ticker(data, unit), data
        for pick in dict.fromkeys(pick % len(keys) for pick in picks if keys):
            assert ticker.tick(keys[pick])
            expected = carry_ticks(expected, [keys[pick]], unit=unit)
            assert ticker.data == expected


@pytest.mark.parametrize("path", sorted(SHAPES.glob("*.md")), ids=lambda p: p.stem)
def test_ticking_all_of_a_shape_one_after_the_other(path: Path) -> None:
    expected = path.read_bytes()
    ticker = Ticker(expected, None)
    for ticket in read(expected).tickets:
        assert ticker.tick(ticket.key)
        expected = carry_ticks(expected, [ticket.key])
        assert ticker.data == expected
    assert not ticker.tick("no such ticket")
