"""Lines for people: they fit, they line up, and nothing in them reaches the terminal raw."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitbaton.report import lines


@given(st.text())
def test_clean_leaves_one_line_without_control_characters(text: str) -> None:
    cleaned = lines.clean(text)
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in cleaned)


def test_clean_keeps_what_can_be_read() -> None:
    assert lines.clean("Größe 日本 ✓") == "Größe 日本 ✓"
    assert lines.clean("a\x1b[31mb\nc") == "a\N{REPLACEMENT CHARACTER}[31mb c"
    assert lines.clean("rm \u202ecod.tset") == "rm cod.tset"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (3900, "1h 05m"), (90000, "1d 1h")],
)
def test_duration(seconds: float, text: str) -> None:
    assert lines.duration(seconds) == text


@pytest.mark.parametrize(
    ("stamp", "text"),
    [
        ("2030-01-02T12:00:00Z", "just now"),
        ("2030-01-02T11:59:00Z", "1m ago"),
        ("2030-01-01T11:00:00Z", "1d 1h ago"),
        ("2029-06-15T12:00:00Z", "2029-06-15"),
        ("2030-01-02T12:00:30Z", "just now"),
        ("", ""),
    ],
)
def test_ago(stamp: str, text: str) -> None:
    assert lines.ago(stamp, datetime(2030, 1, 2, 12, tzinfo=UTC)) == text


def test_table_aligns_by_width_not_by_length() -> None:
    rows = [("日本", click.style("ok", fg="green"), "x"), ("a", "failed", "y"), ("b", "")]
    assert [click.unstyle(line) for line in lines.table(rows, indent=2)] == [
        "  日本  ok      x",
        "  a     failed  y",
        "  b",
    ]


def test_table_drops_empty_columns_and_cuts_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("a", "", "word " * 40)]
    assert lines.table(rows) == [f"a  {'word ' * 40}".rstrip()], "cut where there is no terminal"
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((80, 24)))
    (line,) = lines.table(rows)
    assert line.startswith("a  word word")
    assert len(line) <= 80
    assert line.endswith("…")


@given(st.text(), st.integers(1, 30))
def test_cut_fits(text: str, columns: int) -> None:
    assert lines.width_of(lines.cut(lines.clean(text), columns)) <= columns


def at(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of that width."""
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((columns, 24)))


def test_what_names_a_row_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    at(50, monkeypatch)
    (line,) = lines.table([("a-finding-with-a-long-id", "A title that is long " * 2, "low")])
    assert line == "a-finding-with-a-long-id  A title that is lo…  low"


def test_the_widest_column_gives_way_and_the_last_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [("1.1", "resolved", "A title that is " * 5, "after 1.0"), ("1.2", "x", "Short", "")]
    at(60, monkeypatch)
    first, second = lines.table(rows)
    assert first == "1.1  resolved  A title that is A title that is A…  after 1.0"
    assert second == "1.2  x         Short"
    at(40, monkeypatch)
    assert lines.table(rows)[0] == "1.1  resolved  A title that is A title…"


@given(
    rows=st.lists(st.lists(st.text("ab 日", max_size=60), min_size=2, max_size=6), min_size=1),
    columns=st.integers(50, 120),
)
def test_tables_fit_a_terminal(rows: list[list[str]], columns: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        at(columns, patch)
        assert all(lines.width_of(line) <= columns for line in lines.table(rows))


def test_cutting_keeps_the_style() -> None:
    styled = click.style("a long text", fg="red")
    assert lines.cut(styled, 6) == click.style("a lon…", fg="red")


def test_facts_go_on_below_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("open", "1.1, 1.2, 1.3, 1.4, 1.5"), ("failed", ""), ("branch", "x")]
    assert lines.facts(rows) == ["  open    1.1, 1.2, 1.3, 1.4, 1.5", "  branch  x"]
    at(30, monkeypatch)
    assert lines.facts(rows)[:2] == ["  open    1.1, 1.2, 1.3, 1.4,", "          1.5"]
