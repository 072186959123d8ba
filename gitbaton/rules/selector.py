"""Filters and orders as people type them: ``severity=high``, ``label=F401``, ``-created,id``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast, get_args

from gitbaton.errors import UsageError
from gitbaton.model.queue import SEVERITIES, Filters, OrderKey, Severity

_FIELDS = {
    "severity": "severity",
    "section": "sections",
    "label": "labels",
    "path": "paths",
    "id": "ids",
    "text": "text",
}
KINDS = tuple(_FIELDS)
_ORDER_KEYS: tuple[OrderKey, ...] = get_args(OrderKey)


def parse_filters(words: Iterable[str]) -> Filters:
    """``KIND=VALUE`` each. Of one kind any may match, of different kinds all must.

    Raises `UsageError` ``bad-filter``.
    """
    found: dict[str, list[str]] = {}
    for word in words:
        kind, equals, value = word.partition("=")
        if not equals or kind not in _FIELDS:
            raise _bad("filter", word, "KIND=VALUE; kinds", KINDS)
        if not value:
            raise _bad("filter", word, f"a value after {kind}=; kinds", KINDS)
        found.setdefault(_FIELDS[kind], []).append(value)
    floors = found.pop("severity", [])
    lists = {field: tuple(dict.fromkeys(values)) for field, values in found.items()}
    return Filters(severity=_floor(floors), **lists)


def _floor(words: Sequence[str]) -> Severity | None:
    """Any of several floors may match, so the lowest decides."""
    for word in words:
        if word not in SEVERITIES:
            raise _bad("filter", f"severity={word}", "severities", SEVERITIES)
    return max((cast(Severity, word) for word in words), key=SEVERITIES.index, default=None)


def parse_order(text: str) -> tuple[OrderKey, ...]:
    """``KEY,...``, each reversed by a ``-`` before it; raises `UsageError` ``bad-order``."""
    keys: list[OrderKey] = []
    for word in text.split(","):
        key = cast(OrderKey, word.strip())
        if key not in _ORDER_KEYS:
            plain = [key for key in _ORDER_KEYS if not key.startswith("-")]
            raise _bad("order", word.strip(), "keys, each with - to reverse", plain)
        keys.append(key)
    return tuple(keys)


def _bad(what: str, word: str, known: str, names: Sequence[str]) -> UsageError:
    return UsageError(
        f"bad-{what}", f"{word!r} is no {what} of a queue", f"{known}: {', '.join(names)}"
    )
