"""A plan as data: sections, tickets, edges, and what the reader could not make into either.

The reader of tasks.md makes a `Plan`; queues and findings will make the same struct. Rules only
ever see this form.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

Order = Literal["sections", "sequential", "explicit"]
Unit = Literal["task", "section"]
Mark = Literal["open", "done", "canceled"]


class Criterion(msgspec.Struct, frozen=True, kw_only=True):
    """A box that is ticked together with its ticket. ``key`` is the one it has as a ticket: should
    its ticket be done before it."""

    text: str
    key: str = ""
    done: bool
    line: int


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A phase of the plan. ``text`` is its prose; ``line`` the 1-based line of its heading (0: the
    boxes above the first heading)."""

    title: str
    number: str = ""
    line: int
    text: str = ""


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """One unit of work.

    A ticket waits for every key in ``needs`` and for every ticket of a lower ``level``. ``mark``
    is the state of its box in the file as read, ``marker`` the raw character. ``boxes`` are the
    1-based lines whose markers a tick sets (its own and its criteria's); a heading has none of
    its own. ``umbrellas`` are the keys of its ancestors. ``paths`` are what a worker may change,
    ``context`` what it should read.
    """

    key: str
    alias: str = ""
    title: str
    body: str = ""
    section: int
    line: int
    mark: Mark = "open"
    marker: str = " "
    criteria: tuple[Criterion, ...] = ()
    boxes: tuple[int, ...] = ()
    umbrellas: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    level: int = 0
    checks: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    agent: str | None = None
    lease_seconds: int | None = None

    @property
    def digest(self) -> str:
        """SHA-256 over what a worker is asked to do: an attempt is bound to it.

        Ticks do not count, nor do ``agent`` and ``lease``.
        """
        parts = (
            self.key,
            self.title,
            self.body,
            [c.text for c in self.criteria],
            self.checks,
            self.paths,
        )
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


class Umbrella(msgspec.Struct, frozen=True, kw_only=True):
    """A box whose children are tickets; resolved when they are."""

    key: str
    title: str
    body: str = ""
    line: int
    children: tuple[str, ...]
    mark: Mark = "open"


class Remark(msgspec.Struct, frozen=True, kw_only=True):
    """Something the reader has to say about a line (1-based; 0: the file)."""

    line: int
    code: str
    message: str


class Boxes(msgspec.Struct, frozen=True, kw_only=True):
    """Where every checkbox line went; ``total`` is the sum of the other four."""

    total: int = 0
    tickets: int = 0
    criteria: int = 0
    umbrellas: int = 0
    reported: int = 0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done, in plan order. ``revision`` counts from 1 within a run."""

    revision: int = 1
    order: Order = "sections"
    unit: Unit = "task"
    sections: tuple[Section, ...] = ()
    tickets: tuple[Ticket, ...] = ()
    umbrellas: tuple[Umbrella, ...] = ()
    warnings: tuple[Remark, ...] = ()
    errors: tuple[Remark, ...] = ()
    boxes: Boxes = Boxes()

    def ticket(self, key: str) -> Ticket | None:
        """The ticket of that key or alias."""
        return next((t for t in self.tickets if key and key in (t.key, t.alias)), None)
