"""Texts for people hold what the documents hold."""

from __future__ import annotations

import click
from msgspec.structs import replace

from gitbaton.engine.planview import PlanView, TicketView
from gitbaton.model.action import ActionBatch, Recover
from gitbaton.model.plan import Boxes
from gitbaton.report import text


def test_a_plan_shows_the_markers_that_people_gave_a_meaning_of_their_own() -> None:
    shown = text.plan(_view({"1": " ", "2": "~", "3": "/", "4": "x"}))
    assert [line.split("  ")[-1] for line in click.unstyle(shown).splitlines()[3:7]] == [
        "T1",
        "[~] T2",
        "[/] T3",
        "T4",
    ]


def test_what_a_worker_said_keeps_its_lines() -> None:
    said = Recover(
        assignment="a/1@1", ticket="1", reason="red", next="decide", message="red:\n\n```\n  x\n```"
    )
    batch = ActionBatch(run="a", generation=1, revision=1, state="executing", actions=(said,))
    shown = click.unstyle(text.batch(batch)).splitlines()
    assert shown[-4:] == ["  | red:", "  | ```", "  |   x", "  | ```"]


def test_what_all_of_a_section_wait_for_is_said_once() -> None:
    view = _view(dict.fromkeys(("1.1", "1.2", "2.1", "2.2"), " "))
    needs = ((), (), ("1.1", "1.2"), ("1.1", "1.2", "2.1"))
    sections = ("S", "S", "T", "T")
    tickets = zip(view.tickets, sections, needs, strict=True)
    placed = tuple(replace(ticket, section=title, needs=n) for ticket, title, n in tickets)
    shown = click.unstyle(text.plan(replace(view, tickets=placed))).splitlines()
    assert shown[6:9] == [
        "T  after 1.1, 1.2",
        "  2.1  ready  T2.1",
        "  2.2  ready  T2.2  after 2.1",
    ]


def _view(markers: dict[str, str]) -> PlanView:
    return PlanView(
        run="a",
        order="sections",
        unit="task",
        tickets=tuple(
            TicketView(
                key=key,
                alias="",
                title=f"T{key}",
                section="S",
                state="ready",
                marker=marker,
                needs=(),
                checks=(),
                paths=(),
                criteria=(),
                line=1,
            )
            for key, marker in markers.items()
        ),
        frontier=(),
        warnings=(),
        errors=(),
        boxes=Boxes(),
        commands=("true",),
        source="tasks.md",
    )
