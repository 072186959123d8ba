"""The one selector, case by case and against a slow one that is plainly right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatch
from functools import cmp_to_key
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitbaton.errors import UsageError
from gitbaton.model.queue import (
    CLOSED,
    SEVERITIES,
    Claim,
    Filters,
    Item,
    ItemState,
    OrderKey,
)
from gitbaton.rules.select import available, matches, ordered, select
from gitbaton.rules.selector import parse_filters, parse_order

HELD = Claim(run="r", attempt="x@1", capability="held")
LOST = Claim(run="r", attempt="x@1", capability="lost")


def holds(claim: Claim) -> bool:
    return claim.capability == "held"


def item(name: str = "a", **fields: Any) -> Item:
    return Item(id=name, **{"title": "t", **fields})


def why(one: Item, *others: Item) -> str | None:
    return available(one, {other.id: other for other in others}.get, holds)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, None),
        ({"state": "fixed"}, "is fixed"),
        ({"state": "obe"}, "is obe"),
        ({"state": "wontfix"}, "is wontfix"),
        ({"state": "deferred"}, "is deferred"),
        ({"state": "blocked"}, "is blocked"),
        ({"state": "owned", "owner": "big"}, "is left to big"),
        ({"owner": "big"}, "is left to big"),
        ({"state": "claimed", "claimed_by": HELD}, "is held by r/x@1"),
        ({"state": "claimed", "claimed_by": LOST}, None),
        ({"state": "claimed"}, None),
        ({"depends_on": ("done",)}, None),
        ({"depends_on": ("removed",)}, None),
        ({"depends_on": ("done", "open")}, "waits for open"),
        ({"depends_on": ("held",)}, "waits for held"),
        ({"state": "blocked", "depends_on": ("done",)}, None),
        ({"state": "blocked", "depends_on": ("open",)}, "waits for open"),
        ({"state": "claimed", "claimed_by": LOST, "depends_on": ("open",)}, "waits for open"),
    ],
)
def test_who_may_be_started(fields: Any, reason: str | None) -> None:
    others = (
        item("done", state="fixed"),
        item("open"),
        item("held", state="claimed", claimed_by=HELD),
    )
    assert why(item(**fields), *others) == reason


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ([], True),
        (["severity=high"], True),
        (["severity=medium"], True),
        (["severity=critical"], False),
        (["severity=critical", "severity=low"], True),
        (["section=core"], True),
        (["section=cor"], False),
        (["label=F401"], True),
        (["label=F4", "label=F401"], True),
        (["label=F4"], False),
        (["path=src/**"], True),
        (["path=*.py"], True),
        (["path=src"], True),
        (["path=docs/**"], False),
        (["id=BUG-7", "id=BUG-8"], True),
        (["id=bug-7"], False),
        (["text=STRASSE"], True),
        (["text=in the body"], True),
        (["text=nowhere"], False),
        (["severity=high", "label=F401", "text=body"], True),
        (["severity=high", "label=other"], False),
    ],
)
def test_filters(words: list[str], meant: bool) -> None:
    one = item(
        "BUG-7",
        title="Die Straße",
        body="in the Body",
        section="core",
        severity="high",
        labels=("F401", "ruff"),
        paths=("src/a/b.py", "tests/x"),
    )
    assert matches(one, parse_filters(words)) is meant


@pytest.mark.parametrize("word", ["colour=red", "severity", "severity=worst", "label=", "=x", ""])
def test_a_bad_filter_names_the_known_ones(word: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_filters([word])
    assert refusal.value.code == "bad-filter"
    assert "severity" in refusal.value.hint or "critical" in refusal.value.hint


@pytest.mark.parametrize("text", ["", "colour", "severity,,id", "--id"])
def test_a_bad_order_names_the_known_keys(text: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_order(text)
    assert refusal.value.code == "bad-order"
    assert "severity, section, created, id" in refusal.value.hint


def test_orders() -> None:
    items = {
        one.id: one
        for one in (
            item("b2", severity="low", section="y", created="2030"),
            item("b10", severity="low", section="x", created="2030"),
            item("a", severity="critical", section="y", created="2031"),
        )
    }

    def by(text: str) -> list[str]:
        return select(items, Filters(), parse_order(text))

    assert select(items, Filters()) == ["a", "b2", "b10"]
    assert by("id") == ["a", "b2", "b10"]
    assert by("-id") == ["b10", "b2", "a"]
    assert by("-severity") == ["b2", "b10", "a"]
    assert by("-severity,-id") == ["b10", "b2", "a"]
    assert by("section, severity") == ["b10", "a", "b2"]
    assert by("-created,section") == ["a", "b10", "b2"]


# --- against an oracle ---------------------------------------------------------------------------

_IDS = st.text("aB01-.9", min_size=1, max_size=4)
_STATES: tuple[ItemState, ...] = get_args(ItemState)


@st.composite
def queues(draw: st.DrawFn) -> dict[str, Item]:
    names = draw(st.lists(_IDS, unique=True, max_size=12))
    some = st.lists(st.sampled_from([*names, "gone"]), max_size=2).map(tuple)
    return {
        name: Item(
            id=name,
            title=draw(st.sampled_from(("Crash", "leak"))),
            body=draw(st.sampled_from(("", "a CRASH too"))),
            section=draw(st.sampled_from(("", "x", "y"))),
            severity=draw(st.sampled_from(SEVERITIES)),
            labels=tuple(draw(st.lists(st.sampled_from("pq"), max_size=2))),
            state=draw(st.sampled_from(("open", "open", "open", *_STATES))),
            paths=tuple(draw(st.lists(st.sampled_from(("s/a.py", "s/b.c", "t/a.py")), max_size=2))),
            depends_on=tuple(d for d in draw(some) if d != name),
            owner=draw(st.sampled_from((None, None, None, "big"))),
            claimed_by=draw(st.sampled_from((None, HELD, LOST))),
            created=draw(st.sampled_from(("2030", "2031"))),
        )
        for name in names
    }


_FILTERS = st.builds(
    Filters,
    severity=st.none() | st.sampled_from(SEVERITIES),
    sections=st.lists(st.sampled_from(("x", "y")), max_size=2).map(tuple),
    labels=st.lists(st.sampled_from("pq"), max_size=2).map(tuple),
    paths=st.lists(st.sampled_from(("*.py", "s/*")), max_size=2).map(tuple),
    ids=st.just(()) | st.lists(_IDS, max_size=3).map(tuple),
    text=st.lists(st.sampled_from(("crash", "LEAK")), max_size=2).map(tuple),
)
_ORDERS = st.lists(st.sampled_from(get_args(OrderKey)), max_size=4).map(tuple)


def _number_or_text(name: str) -> list[tuple[int, int, str]]:
    return [
        (0, int(part), "") if part.isdigit() else (1, 0, part)
        for part in re.findall(r"\d+|\D+", name)
    ]


def _compare(order: Sequence[str], a: Item, b: Item) -> int:
    for key in (*order, "id"):
        name = key.removeprefix("-")
        left, right = getattr(a, name), getattr(b, name)
        if name == "severity":
            left, right = SEVERITIES.index(left), SEVERITIES.index(right)
        if name == "id":
            left, right = (_number_or_text(left), left), (_number_or_text(right), right)
        if left != right:
            return (-1 if left < right else 1) * (-1 if key.startswith("-") else 1)
    return 0


def _naive(items: dict[str, Item], f: Filters, order: Sequence[OrderKey]) -> list[str]:
    found = []
    for one in items.values():
        worse = SEVERITIES.index(one.severity)
        told = (one.title + "\n" + one.body).lower()
        waits = any(d in items and items[d].state not in CLOSED for d in one.depends_on)
        free = (
            one.state == "open"
            or (one.state == "blocked" and one.depends_on)
            or (one.state == "claimed" and one.claimed_by != HELD)
        )
        if (
            free
            and not waits
            and one.owner is None
            and (f.severity is None or worse <= SEVERITIES.index(f.severity))
            and (not f.sections or one.section in f.sections)
            and (not f.labels or set(f.labels) & set(one.labels))
            and (not f.paths or any(fnmatch(p, g) for p in one.paths for g in f.paths))
            and (not f.ids or one.id in f.ids)
            and (not f.text or any(word.lower() in told for word in f.text))
        ):
            found.append(one)
    found.sort(key=cmp_to_key(lambda a, b: _compare(order, a, b)))
    return [one.id for one in found]


@given(queues(), _FILTERS, _ORDERS, st.none() | st.integers(0, 13), st.randoms())
def test_like_a_naive_selector(
    items: dict[str, Item],
    filters: Filters,
    order: tuple[OrderKey, ...],
    limit: int | None,
    random: Any,
) -> None:
    shuffled = list(items.items())
    random.shuffle(shuffled)  # what comes first in the mapping decides nothing
    chosen = select(dict(shuffled), filters, order, holds=holds, limit=limit)
    assert chosen == _naive(items, filters, order)[:limit]
    assert ordered([items[name] for name in chosen], order) == [items[name] for name in chosen]
