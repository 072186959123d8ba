"""What a scan makes of a queue: table by table, and that a second look changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gitbaton.errors import BatonError, UsageError
from gitbaton.model.queue import CLOSED, Claim, Item, Reported, Scan
from gitbaton.rules.items import id_of_title, item_id, require_dependencies
from gitbaton.rules.rescan import Rescan, made_id, rescan

NOW, LATER = "2030-01-02T12:00:00Z", "2030-01-03T12:00:00Z"
CLAIM = Claim(run="r", attempt="a@1", capability="c")


def reported(fingerprint: str = "f", **fields: Any) -> Reported:
    return Reported(fingerprint=fingerprint, **{"title": "t", **fields})


def scan(*found: Reported, source: str = "ruff") -> Scan:
    return Scan(source=source, reported=found)


def after(items: dict[str, Item], found: Rescan) -> dict[str, Item]:
    return {**items, **found.changed}


def known(**fields: Any) -> dict[str, Item]:
    base = {"title": "t", "source": "ruff", "fingerprint": "f", "created": NOW, "updated": NOW}
    return {"a": Item(id="a", **{**base, **fields})}


def test_new_findings_become_items() -> None:
    one = reported(
        labels=("F401", "lint"), severity="high", paths=("a.py",), body="b", section="pyflakes"
    )
    found = rescan({}, [scan(one, reported("g", id="BUG-7"))], NOW)
    assert found[1:] == (2, 0, 0, 0, 0)
    made, bug = found.changed.values()
    assert made.id.startswith("F401-") and len(made.id) == 12 and made.id[5:].isalpha()
    assert bug.id == "BUG-7"
    assert made == Item(
        id=made.id,
        title="t",
        body="b",
        section="pyflakes",
        severity="high",
        labels=("F401", "lint"),
        paths=("a.py",),
        source="ruff",
        fingerprint="f",
        created=NOW,
        updated=NOW,
    )


def test_the_second_time_nothing_changes() -> None:
    scans = [scan(reported(), reported("g", closed=True)), scan(reported(), source="mypy")]
    items = after({}, rescan({}, scans, NOW))
    assert rescan(items, scans, LATER) == Rescan({}, unchanged=3)


def test_texts_are_the_sources_states_are_ours() -> None:
    for state in ("open", "claimed", "blocked", "deferred", "owned", "wontfix"):
        items = known(state=state, owner="big", claimed_by=CLAIM, reason="why", depends_on=("a0",))
        told = reported(title="new", body="b", severity="low", labels=("x",), paths=("p",))
        found = rescan({**items, "a0": Item(id="a0", title="")}, [scan(told)], LATER)
        assert found[1:] == (0, 1, 0, 0, 0)
        assert found.changed["a"] == replace(
            items["a"],
            title="new",
            body="b",
            severity="low",
            labels=("x",),
            paths=("p",),
            updated=LATER,
        )


@pytest.mark.parametrize(
    ("state", "told", "becomes", "kind"),
    [
        ("open", None, "obe", "obe"),
        ("claimed", None, "obe", "obe"),
        ("blocked", None, "obe", "obe"),
        ("deferred", None, "obe", "obe"),
        ("owned", None, "obe", "obe"),
        ("fixed", None, "fixed", None),
        ("wontfix", None, "wontfix", None),
        ("obe", None, "obe", None),
        ("fixed", False, "open", "reopened"),
        ("obe", False, "open", "reopened"),
        ("wontfix", False, "wontfix", "unchanged"),
        ("open", True, "fixed", "updated"),
        ("claimed", True, "fixed", "updated"),
        ("fixed", True, "fixed", "unchanged"),
        ("obe", True, "obe", "unchanged"),
        ("wontfix", True, "wontfix", "unchanged"),
    ],
)
def test_states(state: Any, told: bool | None, becomes: str, kind: str | None) -> None:
    items = known(state=state, claimed_by=CLAIM)
    found = rescan(items, [scan(*([] if told is None else [reported(closed=told)]))], LATER)
    assert after(items, found)["a"].state == becomes
    counts = found._asdict()
    assert {name for name, count in counts.items() if name != "changed" and count} == (
        {kind} if kind else set()
    )
    if becomes != state:
        changed = found.changed["a"]
        assert changed.claimed_by is None and "ruff" in changed.reason and changed.updated == LATER


def test_only_the_same_source_makes_obe() -> None:
    items = known(source="mypy")
    assert rescan(items, [scan()], NOW) == Rescan({})
    by_hand = known(source="", fingerprint="")
    assert rescan(by_hand, [scan()], NOW) == Rescan({})


def test_an_id_does_not_depend_on_other_findings() -> None:
    alone = set(rescan({}, [scan(reported("x", labels=("R",)))], NOW).changed)
    many = [reported(str(n), labels=("R",)) for n in range(50)]
    among = set(rescan({}, [scan(*many, reported("x", labels=("R",)))], NOW).changed)
    assert alone < among


def test_an_id_that_is_taken_gets_longer() -> None:
    short = made_id(reported(), "ruff", lambda _: False)
    longer = made_id(reported(), "ruff", {short}.__contains__)
    assert longer.startswith(short) and len(longer) == len(short) + 1
    odd = made_id(reported(labels=("../x y/é",)), "ruff", lambda _: False)
    assert odd.startswith("x-y-") and item_id(odd) == odd


def test_the_sources_own_name_counts_more_than_a_fingerprint() -> None:
    items = after({}, rescan({}, [scan(reported("old", id="BUG-7"))], NOW))
    found = rescan(items, [scan(reported("new", id="BUG-7", title="else"))], LATER)
    assert found[1:] == (0, 1, 0, 0, 0)
    assert found.changed["BUG-7"].fingerprint == "new"


@pytest.mark.parametrize(
    "scans",
    [
        [scan(reported("f", id="X"), reported("g", id="X"))],
        [scan(reported("f"), reported("f", title="else"))],
        [scan(reported("f", id="taken"))],
        [scan(reported("f", id="X")), scan(reported("f", id="X"), source="mypy")],
        [scan(reported("f1", id="X"), reported("f2"))],
    ],
)
def test_two_items_of_one_id_are_refused(scans: list[Scan]) -> None:
    items = {
        "taken": Item(id="taken", title="by hand"),
        "X1": Item(id="X1", title="", source="ruff", fingerprint="f1"),
        "X2": Item(id="X2", title="", source="ruff", fingerprint="f2"),
    }
    if scans[0].reported[0].fingerprint == "f1":
        items["X"] = Item(id="X", title="", source="ruff", fingerprint="f3")
    with pytest.raises(BatonError) as refusal:
        rescan(items, scans, NOW)
    assert refusal.value.code == "duplicate-item"


def test_dependencies_exist_in_the_queue_or_in_the_scan() -> None:
    a, b = reported("a", id="A", depends_on=("B",)), reported("b", id="B")
    items = after({}, rescan({}, [scan(a), scan(b, source="mypy")], NOW))
    assert items["A"].depends_on == ("B",)
    with pytest.raises(BatonError) as refusal:
        rescan({}, [scan(a)], NOW)
    assert refusal.value.code == "unknown-dependency"
    # What was removed from the queue later is not asked for again.
    assert rescan({"A": items["A"]}, [scan(a)], NOW) == Rescan({}, unchanged=1)


def test_a_cycle_is_named() -> None:
    ring = [reported(c, id=c, depends_on=(d,)) for c, d in ("AB", "BC", "CA")]
    with pytest.raises(BatonError) as refusal:
        rescan({}, [scan(*ring)], NOW)
    assert refusal.value.code == "dependency-cycle"
    assert "A -> B -> C -> A" in refusal.value.message
    with pytest.raises(BatonError, match="X -> X"):
        require_dependencies({"X": Item(id="X", title="", depends_on=("X",))}, {}.get)


def test_a_long_chain_is_no_cycle() -> None:
    chain = {str(n): Item(id=str(n), title="", depends_on=(str(n + 1),)) for n in range(20_000)}
    chain["20000"] = Item(id="20000", title="")
    require_dependencies(chain, {}.get)


@pytest.mark.parametrize("name", ["", "a b", "-x", "a\nb", "é" * 100, "\u202ex", "x" * 201])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(UsageError):
        item_id(name)


def test_ids_of_titles() -> None:
    taken = {"crash", "crash-2"}
    assert id_of_title("Crash!", taken.__contains__) == "crash-3"
    assert id_of_title("Öl läuft aus", taken.__contains__) == "ol-lauft-aus"
    assert id_of_title("漏れ", taken.__contains__) == "item"
    long = id_of_title("when the reader closes its end of the pipe early", taken.__contains__)
    assert long == "when-the-reader-closes-its-end"


_FINDINGS = st.lists(
    st.builds(
        reported,
        st.sampled_from("abcdef"),
        title=st.sampled_from("xy"),
        labels=st.sampled_from(((), ("L",))),
        closed=st.booleans(),
    ),
    unique_by=lambda found: found.fingerprint,
)


@given(st.lists(_FINDINGS, max_size=5))
def test_whatever_comes_and_goes(history: list[list[Reported]]) -> None:
    items: dict[str, Item] = {}
    ids: dict[str, str] = {}
    for found in history:
        done = rescan(items, [scan(*found)], NOW)
        assert done.added + done.updated + done.reopened + done.unchanged == len(found)
        items = after(items, done)
        assert rescan(items, [scan(*found)], LATER) == Rescan({}, unchanged=len(found))
        for name, one in items.items():
            assert ids.setdefault(one.fingerprint, name) == name == one.id
            told = [f for f in found if f.fingerprint == one.fingerprint]
            assert one.state in CLOSED if not told or told[0].closed else one.state == "open"
