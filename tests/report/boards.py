"""Boards made by hand, of any size and with any text, for the tests of the page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from gitbaton.clock import stamp
from gitbaton.engine.board import Board, RunCard, SectionCard
from gitbaton.engine.boardparts import AttemptCard, Box, TicketCard
from gitbaton.engine.view import Counts
from gitbaton.model.receipt import CheckResult
from gitbaton.model.run import Failure
from gitbaton.model.usage import Usage

START = datetime(2031, 5, 4, 8, tzinfo=UTC)
RUN = "add-login"
HOSTILE = (
    "<script>window.owned = 1</script>",
    "</script><img src=x onerror='window.owned = 1'>",
    "<!--<script>",
    "\"quotes\" and 'quotes' and `quotes` & &amp;",
    "line\u2028separator\u2029paragraph",
    "\u202egnp.exe\u202c and \x1b[31mred\x07",
    "javascript:alert(1) $${title} ${title}",
)


def at(minutes: float) -> str:
    return stamp(START + timedelta(minutes=minutes))


def check(command: str = "pytest -q") -> CheckResult:
    return CheckResult(
        command=command,
        exit_code=0,
        duration_ms=1234,
        output_sha256="0" * 64,
        output_tail="12 passed\n",
    )


def ticket(key: str, state: str = "waiting", **fields: Any) -> TicketCard:
    values: dict[str, Any] = {
        "key": key,
        "alias": "",
        "title": f"Do {key}",
        "body": "",
        "section": 0,
        "level": 0,
        "state": state,
        "needs": (),
        "criteria": (),
        "checks": (),
        "paths": (),
        "dispositions": (),
        "commands": (),
    }
    return TicketCard(**{**values, **fields})


def attempt(
    key: str, number: int = 1, start: float = 0, minutes: float = 5, **fields: Any
) -> AttemptCard:
    name = f"{RUN}/{key}@{number}"
    values: dict[str, Any] = {
        "assignment": name,
        "ticket": key,
        "number": number,
        "state": "succeeded",
        "failure": None,
        "session": "anna",
        "agent_id": "claude-1",
        "advice": "",
        "resolves": None,
        "conflicts": (),
        "claimed_at": at(start),
        "sealed_at": at(start + minutes - 0.2),
        "ended_at": at(start + minutes),
        "base_commit": "b" * 40,
        "branch": f"baton-attempt/{RUN}/{key}-a{number}",
        "commit": "c" * 40,
        "merge_commit": "d" * 40,
        "receipt_sha256": "e" * 64,
        "signed": False,
        "damaged": None,
        "checks": (check(), check("ruff check .")),
        "changed": 2,
        "files": (f"src/{key}.py", "README.md"),
        "usage": Usage(input_tokens=1000, output_tokens=10, cost_usd="0.25"),
        "commands": (f"git baton show {name}", f"git baton receipt verify {name}"),
    }
    return AttemptCard(**{**values, **fields})


def over(key: str, number: int, start: float, state: str, code: str) -> AttemptCard:
    """An attempt that came to nothing."""
    nothing = dict.fromkeys(("sealed_at", "commit", "merge_commit", "receipt_sha256"))
    return attempt(
        key,
        number,
        start,
        state=state,
        failure=Failure(code=code, message="what a worker said"),
        checks=(),
        changed=0,
        files=(),
        **nothing,
    )


def run(
    tickets: list[TicketCard], attempts: list[AttemptCard], sections: int = 1, **fields: Any
) -> RunCard:
    states = [t.state for t in tickets]
    values: dict[str, Any] = {
        "run": RUN,
        "type": "change",
        "state": "executing",
        "base": "main",
        "branch": f"baton/{RUN}",
        "tip": "a" * 40,
        "commit": "f" * 40,
        "as_of": at(60),
        "created_at": at(0),
        "generation": 7,
        "revision": 1,
        "order": "sections",
        "checks": ("pytest -q",),
        "counts": Counts(
            total=len(tickets),
            resolved=states.count("resolved"),
            waiting=states.count("waiting"),
        ),
        "sections": tuple(SectionCard(title=f"{n}. Section {n}") for n in range(1, sections + 1)),
        "tickets": tuple(tickets),
        "attempts": tuple(attempts),
        "commands": (f"git baton status {RUN}",),
    }
    return RunCard(**{**values, **fields})


def board(*runs: RunCard, minutes: float = 120, commit: str | None = None) -> Board:
    return Board(repository="tea", made_at=at(minutes), at=commit, runs=runs, rests_on={})


def small() -> RunCard:
    """Six tickets in two sections: resolved, retried, in conflict, abandoned, active, waiting."""
    tickets = [
        ticket("1.1", "resolved", criteria=(Box(text="has a test", done=True),)),
        ticket("1.2", "resolved", needs=("1.1",)),
        ticket("1.3", "resolved"),
        ticket("1.4", "resolved"),
        ticket("2.1", "active", section=1, level=1, title="Brew a <b>green</b> tea"),
        ticket("2.2", "waiting", section=1, level=1, needs=("2.1",)),
    ]
    attempts = [
        attempt("1.1"),
        over("1.2", 1, 6, "superseded", "ended-without-receipt"),
        attempt("1.2", 2, 14),
        over("1.3", 1, 6, "superseded", "merge-conflict"),
        attempt("1.3", 2, 14, resolves=1, conflicts=("README.md",)),
        over("1.4", 1, 6, "abandoned", "abandoned"),
        attempt("1.4", 2, 14),
        attempt(
            "2.1",
            1,
            100,
            state="running",
            sealed_at=None,
            ended_at=None,
            commit=None,
            merge_commit=None,
            receipt_sha256=None,
            checks=(),
            changed=0,
            files=(),
        ),
    ]
    return run(tickets, attempts, sections=2)


def large(count: int = 1000, section: int = 50) -> RunCard:
    """So many resolved tickets in sections, each with a few edges and one or two attempts."""
    tickets, attempts = [], []
    for n in range(count):
        at_section, place = divmod(n, section)
        key = f"{at_section + 1}.{place + 1}"
        needs = (f"{at_section + 1}.{place - 2}",) if place > 4 and n % 3 == 0 else ()
        tickets.append(ticket(key, "resolved", section=at_section, level=at_section, needs=needs))
        first = n * 0.7
        if n % 7 == 0:
            attempts.append(over(key, 1, first, "superseded", "ended-failed"))
            attempts.append(attempt(key, 2, first + 6))
        else:
            attempts.append(attempt(key, 1, first))
    return run(tickets, attempts, sections=-(-count // section))
