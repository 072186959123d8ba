"""The page as text: what it holds, and that nothing of what it shows is more than text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from gitbaton.report import board as report

from . import boards


class Page(HTMLParser):
    """The elements of a page as a browser finds them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = tag
        self.texts.setdefault(tag, []).append("")

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.texts["script"][0])
        return found


def hostile() -> str:
    tickets = [
        boards.ticket(f"{n}", title=text, body=text) for n, text in enumerate(boards.HOSTILE)
    ]
    return report.page(boards.board(boards.run(tickets, [], run="r", name=boards.HOSTILE[1])))


def test_texts_cannot_leave_the_document() -> None:
    plain, page = Page(report.page(boards.board(boards.small()))), Page(hostile())
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in plain.tags]
    assert len(page.document["runs"][0]["tickets"]) == len(boards.HOSTILE)
    data = page.texts["script"][0]
    assert not set("<>&\u2028\u2029\u202e\x1b") & set(data)


def test_texts_are_kept_but_for_what_cannot_be_seen() -> None:
    titles = [ticket["title"] for ticket in Page(hostile()).document["runs"][0]["tickets"]]
    assert titles[0] == boards.HOSTILE[0]
    assert titles[3] == boards.HOSTILE[3]
    assert titles[4] == "line\nseparator\nparagraph"
    assert titles[5] == "gnp.exe and \ufffd[31mred\ufffd"
    assert titles[6] == boards.HOSTILE[6]


def test_only_what_belongs_to_the_page_may_run() -> None:
    page = Page(hostile())
    policy = next(
        str(attrs["content"])
        for _, attrs in page.tags
        if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for name, text in (
        ("script-src", page.texts["script"][1]),
        ("style-src", page.texts["style"][0]),
    ):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"


def test_nothing_is_loaded() -> None:
    text = report.page(boards.board(boards.small()))
    for tag, attrs in Page(text).tags:
        assert not {"src", "srcset", "action"} & attrs.keys(), (tag, attrs)
        assert str(attrs.get("href", "#")).startswith(("#", "data:")), (tag, attrs)
    style = Page(text).texts["style"][0]
    assert "url(" not in style and "@import" not in style
    assert not re.search(
        r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|import)\b *\(", text
    )
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)


@pytest.mark.parametrize(("watched", "seconds"), [(False, 0), (True, 5)])
def test_a_watched_page_reads_itself_again(watched: bool, seconds: int) -> None:
    page = Page(report.page(boards.board(boards.small()), watched=watched))
    assert page.document["reload_seconds"] == seconds
    assert "rests_on" not in page.document


def test_title_says_what_it_is_about() -> None:
    one = Page(report.page(boards.board(boards.small())))
    assert one.texts["title"] == ["add-login · tea"]
    two = Page(report.page(boards.board(boards.small(), boards.large(2))))
    assert two.texts["title"] == ["2 runs · tea"]
