"""The states of an attempt and every move between them, as one table.

All verbs go through `check_move`; a move that the table does not hold is refused with both states
named.
"""

from __future__ import annotations

from typing import Literal

from gitbaton.errors import Refused

AttemptState = Literal[
    "leased",
    "spawned",
    "running",
    "sealed",
    "integrating",
    "succeeded",
    "unknown",
    "blocked-review",
    "abandoned",
    "superseded",
    "failed",
    "closed",
]

ACTIVE: frozenset[AttemptState] = frozenset(
    ("leased", "spawned", "running", "sealed", "integrating")
)
WORKING: frozenset[AttemptState] = frozenset(("leased", "spawned", "running"))
TERMINAL: frozenset[AttemptState] = frozenset(
    ("succeeded", "failed", "superseded", "abandoned", "closed")
)
_RETIRE: frozenset[AttemptState] = frozenset(("abandoned", "superseded", "failed", "closed"))
_ADOPT: frozenset[AttemptState] = frozenset(("sealed",))


def _moves(*states: AttemptState) -> frozenset[AttemptState]:
    return frozenset(states)


MOVES: dict[AttemptState, frozenset[AttemptState]] = {
    "leased": _moves("spawned", "running", "sealed", "unknown") | _RETIRE,
    "spawned": _moves("running", "sealed", "unknown") | _RETIRE,
    "running": _moves("sealed", "unknown") | _RETIRE,
    "sealed": _moves("integrating", "blocked-review") | _RETIRE,
    "integrating": _moves("succeeded", "blocked-review", "sealed") | _RETIRE,
    "unknown": _ADOPT | _RETIRE,
    "blocked-review": _ADOPT | _RETIRE,
    "abandoned": _ADOPT,
    "superseded": _ADOPT,
    "failed": _ADOPT,
    "succeeded": frozenset(),
    "closed": frozenset(),
}


def check_move(name: str, old: AttemptState, new: AttemptState) -> None:
    """Raise `Refused` unless the table holds the move ``old`` -> ``new``."""
    if new not in MOVES[old]:
        raise Refused(
            "illegal-transition",
            f"{name} is {old} and cannot become {new}",
            f"see `git baton show {name}`",
        )
