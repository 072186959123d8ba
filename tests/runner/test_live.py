"""What people see, without a terminal and with one."""

from __future__ import annotations

import io
from pathlib import Path

import click
import pytest

from gitbaton.runner import live


def test_plain_lines(tmp_path: Path) -> None:
    out = io.StringIO()
    with live.View(out) as view:
        view.started("1.2@1", "say minutes", tmp_path / "log")
        view.phase("1.2@1", "checks")
        view.event("1.2@1", "checks failed, again (1/2)", bad=True)
        view.ended("1.2@1")
        view.say("that's all")
    assert out.getvalue().splitlines() == [
        "[1.2@1] started: say minutes",
        "[1.2@1] checks failed, again (1/2)",
        "that's all",
    ]


def test_nothing_steers_a_terminal_or_turns_the_text_round(tmp_path: Path) -> None:
    out = io.StringIO()
    with live.View(out) as view:
        view.started("1@1", "a\x1b[31mb\x1b]0;t\x07c \x9b2Jd \u202ee\u2028f\x85g", tmp_path / "log")
    assert out.getvalue() == "[1@1] started: abc  2Jd  e f g\n"


def test_a_closed_stream_does_not_stop_a_run() -> None:
    out = io.StringIO()
    view = live.View(out)
    out.close()
    view.say("nobody listens")


def test_a_terminal_gets_a_table_and_lines(tmp_path: Path) -> None:
    from rich.console import Console

    (tmp_path / "log").write_text("first\n\x1b[31mcompiling [bold]x\x1b[0m\r\n\n")
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, height=24)
    with live.LiveView(console) as view:
        view.started("1.2@1", "say minutes", tmp_path / "log")
        view.progress(1, 4)
        view.event("1.1@1", "integrated", good=True)
    shown = out.getvalue()
    assert "compiling [bold]x" in shown
    assert "1/4" in shown
    assert "[1.1@1] integrated" in shown


def test_a_long_line_of_output_leaves_room_for_whose_it_is(tmp_path: Path) -> None:
    from rich.console import Console

    (tmp_path / "log").write_text("compiling " * 40)
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, height=24)
    with live.LiveView(console) as view:
        view.started("1.2@1", "say minutes", tmp_path / "log")
    line = next(line for line in click.unstyle(out.getvalue()).splitlines() if "compiling" in line)
    assert line.split()[:4] == ["1.2@1", "at", "work", "0s"]
    assert line.rstrip().endswith("…")


def test_no_terminal_no_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert type(live.view()) is live.View


def test_last_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert live.last_line(log) == ""
    log.write_bytes(b"x" * 10_000 + b"\n10%\r20%\r\n\x1b]0;title\x07\xff tail \n\n")
    assert live.last_line(log) == "� tail"


@pytest.mark.parametrize(("seconds", "text"), [(4.9, "4s"), (187, "3:07"), (3723, "1:02:03")])
def test_elapsed(seconds: float, text: str) -> None:
    assert live.elapsed(seconds) == text
