"""A push: the refs that it moves, and why one of them is refused."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class Update(NamedTuple):
    """One ref that is to be moved; None is absence."""

    ref: str
    old: str | None
    new: str | None


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why an update is refused: because of ``commit``, or as such (None); and what helps."""

    ref: str
    commit: str | None
    code: str
    reason: str
    hint: str = ""
