"""Who waits for whom: sections, phrases, directives, levels, and one ticket a section."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitbaton.model.plan import Order, Plan, Unit
from gitbaton.plan import levels
from gitbaton.plan.advice import overlap
from gitbaton.plan.directives import seconds
from gitbaton.plan.tasksmd import check_errors, read
from gitbaton.rules.frontier import all_predecessors


def plan(text: str, order: Order | None = None, unit: Unit | None = None) -> Plan:
    return read(text.encode(), order=order, unit=unit)


def needs(found: Plan) -> dict[str, tuple[str, ...]]:
    return {t.key: t.needs for t in found.tickets}


def codes(found: Plan) -> list[tuple[int, str]]:
    return [(r.line, r.code) for r in found.warnings]


def waits(found: Plan, key: str) -> set[str]:
    """Everything that the ticket waits for, directly."""
    ticket = found.ticket(key)
    assert ticket is not None
    return {t.key for t in found.tickets if t.level < ticket.level} | set(ticket.needs)


TWO = "## 1. A\n- [ ] 1.1 a\n- [ ] 1.2 b\n- [ ] 1.3 c\n## 2. B\n- [ ] 2.1 d\n"


def test_sections_in_order_tickets_in_parallel() -> None:
    found = plan(TWO)
    assert [t.level for t in found.tickets] == [0, 0, 0, 1]
    assert waits(found, "2.1") == {"1.1", "1.2", "1.3"}
    assert waits(found, "1.3") == set()


@pytest.mark.parametrize(
    "phrase",
    [
        "(depends on 1.1, 1.2)",
        "(depends: 1.1, 1.2)",
        "(needs 1.1 and 1.2)",
        "(requires 1.1; 1.2)",
        "(after 1.1/1.2)",
        "(blocked by 1.1 & 1.2)",
        "(Depends on: 1.1-1.2)",
        "（depends on 1.1、1.2）",
        "([P], needs 1.1, 1.2)",
        "(depends on `1.1`, **1.2**)",
        "(depends on the reader 1.1 (done soon) and 1.2.)",
        "a :( (needs 1.1, 1.2) b",
        "(depends on\n  1.1, 1.2)",
    ],
)
def test_phrases_that_make_edges(phrase: str) -> None:
    found = plan(TWO.replace("1.3 c", f"1.3 c {phrase}"))
    assert needs(found)["1.3"] == ("1.1", "1.2")
    assert found.warnings == ()


@pytest.mark.parametrize("phrase", ["(see 1.1)", "(like 1.1 and 1.2)", "(do not start before 1.1)"])
def test_other_phrases_with_a_key_are_pointed_out(phrase: str) -> None:
    found = plan(TWO.replace("1.3 c", f"1.3 c {phrase}"))
    assert needs(found)["1.3"] == ()
    assert codes(found) == [(4, "unread-edge")]


def test_single_numbers_in_parentheses() -> None:
    found = plan("- [ ] 3 a\n- [ ] 4 b (see 3)\n- [ ] 5 c (3 tries)\n")
    assert codes(found) == [(2, "unread-edge")]


def test_edge_in_the_heading_of_a_section_is_pointed_out() -> None:
    found = plan(TWO.replace("## 2. B", "## 2. B (after 1.1)"))
    assert codes(found) == [(5, "unread-edge")]


def test_phrase_without_parenthesis_is_pointed_out() -> None:
    found = plan(TWO.replace("1.3 c", "1.3 c\n  - **Depends**: 1.1"))
    assert needs(found)["1.3"] == ()
    assert codes(found) == [(5, "unread-edge")]


@pytest.mark.parametrize("text", ["(3 tries)", "(see 9.9)", "(see 1.3)", "`f(needs 1.1)`", "(a b)"])
def test_ordinary_parentheses_are_left_alone(text: str) -> None:
    found = plan(TWO.replace("1.3 c", f"1.3 c {text}"))
    assert needs(found)["1.3"] == ()
    assert found.warnings == ()


def test_unknown_target_is_a_warning() -> None:
    found = plan(TWO.replace("1.3 c", "1.3 c\n  (needs 1.1, 9.9)"))
    assert needs(found)["1.3"] == ("1.1",)
    assert codes(found) == [(5, "unknown-target")]
    assert found.errors == ()


def test_target_that_is_only_reported_is_unknown() -> None:
    found = plan("- [>] 1.1 a\n- [ ] 1.2 b (needs 1.1)\n")
    assert (2, "unknown-target") in codes(found)


def test_umbrella_and_heading_stand_for_the_tickets_below() -> None:
    found = plan("- [ ] 1 A\n  - [ ] 1.1 a\n  - [ ] 1.2 b\n- [ ] 2.1 c (needs 1)\n")
    assert needs(found)["2.1"] == ("1.1", "1.2")
    found = plan(
        "## S\n### 1.1 A\n- [ ] 1.1.1 a\n- [ ] 1.1.2 b\n### 1.2 B\n- [ ] 1.2.1 c (needs 1.1)\n"
    )
    assert needs(found)["1.2.1"] == ("1.1.1", "1.1.2")


def test_edges_and_directives_of_an_umbrella_apply_to_its_children() -> None:
    found = plan(
        "- [ ] 0.1 z\n"
        '- [ ] 1 A (needs 0.1) <!-- baton: verify="v" paths="src/**" agent=codex -->\n'
        '  - [ ] 1.1 a <!-- baton: verify="w" -->\n'
        '  - [ ] 1.2 b <!-- baton: paths="b/**" agent=claude -->\n'
    )
    assert needs(found) == {"0.1": (), "1.1": ("0.1",), "1.2": ("0.1",)}
    first, second = found.tickets[1:]
    assert (first.checks, first.paths, first.agent) == (("v", "w"), ("src/**",), "codex")
    assert (second.checks, second.paths, second.agent) == (("v",), ("b/**",), "claude")


def test_hash_and_alias_are_targets() -> None:
    first = plan("- [ ] alpha\n").tickets[0].key
    found = plan(f"- [ ] alpha\n- [ ] beta (needs {first})\n- [ ] gamma (after s1.2)\n")
    keys = [t.key for t in found.tickets]
    assert [t.needs for t in found.tickets] == [(), (keys[0],), (keys[1],)]


def test_edge_in_a_criterion_or_a_heading() -> None:
    found = plan("- [ ] 1.1 a\n- [ ] 1.2 b\n  - [ ] step (needs 1.1)\n")
    assert needs(found)["1.2"] == ("1.1",)
    found = plan("## A\n### 1.1 A\n- [ ] a\n### 1.2 B (needs 1.1)\n- [ ] b\n")
    assert needs(found)["1.2"] == ("1.1",)


# --- explicit edges against the sections -------------------------------------------------------


def test_forward_edge_pulls_its_target() -> None:
    found = plan(
        "## 1. A\n- [ ] 1.1 a (needs 3.1)\n- [ ] 1.2 b\n## 2. B\n- [ ] 2.1 c\n"
        "## 3. C\n- [ ] 3.1 d\n- [ ] 3.2 e\n"
    )
    assert waits(found, "1.1") == {"3.1"} | set()
    # 3.1 no longer waits for 1.1, nor for 2.1, which waits for 1.1; but still for 1.2
    assert waits(found, "3.1") == {"1.2"}
    assert waits(found, "2.1") == {"1.1", "1.2", "3.1"}
    assert waits(found, "3.2") == {"1.1", "1.2", "2.1", "3.1"}
    assert codes(found) == [(7, "section-order-yields")]


def test_cycle_of_explicit_edges_is_an_error_that_prints_it() -> None:
    found = plan("- [ ] 1.1 a (needs 1.3)\n- [ ] 1.2 b (needs 1.1)\n- [ ] 1.3 c (needs 1.2)\n")
    (error,) = found.errors
    assert (error.code, error.line) == ("dependency-cycle", 1)
    assert "1.1 -> 1.3 -> 1.2 -> 1.1" in error.message
    assert plan("- [ ] 1.1 a (needs 1.1)\n").errors[0].message.endswith("1.1 -> 1.1")


def test_orders() -> None:
    text = "## 1. A\n- [ ] 1.1 a\n- [ ] 1.2 b\n## 2. B\n- [ ] 2.1 c (needs 1.1)\n"
    assert [t.level for t in plan(text, "sequential").tickets] == [0, 1, 2]
    explicit = plan(text, "explicit")
    assert [t.level for t in explicit.tickets] == [0, 0, 0]
    assert needs(explicit)["2.1"] == ("1.1",)


def test_sequential_with_a_forward_edge() -> None:
    found = plan("- [ ] 1.1 a (needs 1.3)\n- [ ] 1.2 b\n- [ ] 1.3 c\n", "sequential")
    assert waits(found, "1.3") == set()
    assert waits(found, "1.1") == {"1.3"}
    assert waits(found, "1.2") == {"1.1", "1.3"}


def _waiting(settled: levels.Settled) -> list[set[int]]:
    """For each ticket all that it waits for, by levels or edges, however far."""
    count = len(settled.levels)
    direct = [
        {j for j in range(count) if settled.levels[j] < settled.levels[i]} | settled.needs[i]
        for i in range(count)
    ]
    for _ in range(count):
        for i in range(count):
            for j in list(direct[i]):
                direct[i] |= direct[j]
    return direct


@st.composite
def _graphs(draw: st.DrawFn) -> tuple[list[int], list[set[int]]]:
    ranks = sorted(draw(st.lists(st.integers(0, 4), min_size=1, max_size=9)))
    order = draw(st.permutations(range(len(ranks))))
    pairs = st.tuples(st.integers(0, len(ranks) - 1), st.integers(0, len(ranks) - 1))
    edges: list[set[int]] = [set() for _ in ranks]
    for a, b in draw(st.lists(pairs, max_size=10)):
        if order[a] > order[b]:
            edges[a].add(b)
    return ranks, edges


@settings(deadline=None)
@given(_graphs())
def test_settled_order(graph: tuple[list[int], list[set[int]]]) -> None:
    ranks, edges = graph
    settled = levels.settle(ranks, edges)
    waiting = _waiting(settled)
    everything = range(len(ranks))
    assert all(i not in waiting[i] for i in everything), "acyclic"
    assert all(edges[i] <= waiting[i] for i in everything), "explicit edges hold"
    for i, j in itertools.product(everything, everything):
        if ranks[j] < ranks[i]:
            assert j in waiting[i] or i in waiting[j], "a section edge yields only to a cycle"
    if all(ranks[j] <= ranks[i] for i in everything for j in edges[i]):
        assert settled.levels == ranks
        assert settled.needs == edges
        assert not settled.pulled


@settings(deadline=None)
@given(st.lists(st.sets(st.integers(0, 7), max_size=3), min_size=8, max_size=8))
def test_cycles_are_found_exactly_when_there_are_some(edges: list[set[int]]) -> None:
    found = levels.cycles(edges)
    reach = [set(targets) for targets in edges]
    for _ in edges:
        for i, targets in enumerate(reach):
            reach[i] = targets.union(*(reach[j] for j in targets))
    assert bool(found) == any(i in reach[i] for i in range(len(edges)))
    for cycle in found:
        assert all(b in edges[a] for a, b in itertools.pairwise([*cycle, cycle[0]]))


# --- directives --------------------------------------------------------------------------------


def test_directive_words() -> None:
    found = plan(
        "- [ ] 1.1 a\n"
        '- [ ] 1.2 session <!-- baton: verify="pytest tests/session -q" paths="src/s/** tests/**"'
        " lease=4h agent=codex after=1.1 -->\n"
    )
    ticket = found.tickets[1]
    assert ticket.title == "session"
    assert ticket.checks == ("pytest tests/session -q",)
    assert ticket.paths == ("src/s/**", "tests/**")
    assert (ticket.lease_seconds, ticket.agent, ticket.needs) == (14400, "codex", ("1.1",))
    assert found.errors == ()


def test_directive_on_the_lines_below() -> None:
    found = plan(
        "- [ ] 1.1 a\n"
        "  more\n"
        '  <!-- baton: verify="say \\"hi\\""\n'
        "       verify='b' -->\n"
        '  - [ ] step <!-- baton: verify="c" -->\n'
        "- [ ] 1.2 b\n"
        '<!-- baton: paths="x" -->\n'
        "## A\n### 1.3 C\n"
        "<!-- baton: agent=aider -->\n"
        "- [ ] step\n"
    )
    first, second, third = found.tickets
    assert first.checks == ('say "hi"', "b", "c")
    assert first.body == "more"
    assert second.paths == ("x",)
    assert third.agent == "aider"
    assert found.errors == ()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (": verfiy=x", "unknown-directive"),
        (': verify="a" oops', "unknown-directive"),
        (": verify=", "unknown-directive"),
        (': verify=""', "bad-directive"),
        (": lease=soon", "bad-directive"),
        (": order=random", "bad-directive"),
        (" verify=x", "bad-directive"),
    ],
)
def test_what_is_not_understood_is_an_error_with_its_line(words: str, code: str) -> None:
    found = plan(f"- [ ] 1.1 a\n- [ ] 1.2 b <!-- baton{words} -->\n")
    assert {(r.line, r.code) for r in found.errors} == {(2, code)}
    assert check_errors(found) == found.errors


def test_directive_of_no_ticket_is_an_error() -> None:
    found = plan('<!-- baton: verify="x" -->\n\n- [ ] 1.1 a\n\n<!-- baton: agent=x -->\n')
    assert [(r.line, r.code) for r in found.errors] == [
        (1, "stray-directive"),
        (5, "stray-directive"),
    ]


def test_directives_in_code_are_text() -> None:
    found = plan("- [ ] 1.1 a `<!-- baton: x -->`\n\n```\n<!-- baton: y -->\n```\n")
    assert found.errors == ()


def test_order_and_unit_in_the_file_and_by_flag() -> None:
    text = "<!-- baton: order=explicit unit=section -->\n" + TWO
    found = plan(text)
    assert (found.order, found.unit) == ("explicit", "section")
    found = plan(text, "sequential", "task")
    assert (found.order, found.unit) == ("sequential", "task")
    assert (plan(TWO).order, plan(TWO).unit) == ("sections", "task")
    twice = plan("<!-- baton: order=explicit -->\n<!-- baton: order=sections -->\n" + TWO)
    assert [(r.line, r.code) for r in twice.errors] == [(2, "bad-directive")]


@pytest.mark.parametrize(
    ("text", "length"),
    [("4h", 14400), ("90m", 5400), ("1h30m", 5400), ("7200", 7200), ("45s", 45), ("2d", 172800)],
)
def test_lease(text: str, length: int) -> None:
    assert seconds(text) == length


@pytest.mark.parametrize("text", ["", "0", "h", "4 hours", "-4h", "9999999999", "900d"])
def test_no_lease(text: str) -> None:
    assert seconds(text) is None


# --- one ticket a section ----------------------------------------------------------------------

SECTIONS = """\
## 1. Base
Intro.
- [x] 1.1 a
- [ ] 1.2 b
  - [ ] 1.2.1 c <!-- baton: verify="v" -->
- [>] 1.3 later
## Acceptance
- [x] Suite is green
- [-] Docs
## 3. Rest
- [ ] 3.1 d (needs 1.2)
"""


def test_unit_section() -> None:
    found = plan(SECTIONS, unit="section")
    assert [(t.key, t.alias, t.title, t.mark) for t in found.tickets] == [
        ("1", "", "1. Base", "open"),
        ("acceptance", "s2", "Acceptance", "done"),
        ("3", "", "3. Rest", "open"),
    ]
    first = found.tickets[0]
    assert [c.text for c in first.criteria] == ["1.1 a", "1.2 b", "1.2.1 c"]
    assert (first.boxes, first.checks, first.body) == ((3, 4, 5), ("v",), "Intro.")
    assert found.tickets[2].needs == ("1",)
    b = found.boxes
    assert (b.total, b.tickets, b.criteria, b.umbrellas, b.reported) == (7, 0, 6, 0, 1)
    assert found.errors == ()


def test_unit_section_edges_inside_a_section_are_none() -> None:
    text = "## 1. A\n- [ ] 1.1 a\n- [ ] 1.2 b (needs 1.1)\n## 2. B\n- [ ] 2.1 c (needs 1.1, 1.2)\n"
    assert needs(plan(text, "explicit", "section")) == {"1": (), "2": ("1",)}
    text = text.replace("1.1 a", "1.1 a (needs 2.1)")
    assert plan(text, "explicit", "section").errors[0].code == "dependency-cycle"


def test_unit_section_without_a_usable_name() -> None:
    found = plan("- [ ] a\n## 验收\n- [ ] b\n## 2. C\n- [ ] c\n## 2. D\n- [ ] d\n", unit="section")
    keys = [t.key for t in found.tickets]
    assert keys[2:] == ["2", "2~2"]
    assert len(set(keys)) == 4


# --- advice ------------------------------------------------------------------------------------


def test_red_green_pairs_suggest_sequential() -> None:
    pairs = "".join(
        f"- [ ] 1.{2 * n} Write failing test for {n}\n- [ ] 1.{2 * n + 1} Implement {n}\n"
        for n in range(3)
    )
    assert codes(plan(f"## 1. A\n{pairs}")) == [(0, "suggest-order")]
    assert plan(f"## 1. A\n{pairs}", "sequential").warnings == ()


def test_tiny_steps_suggest_sections() -> None:
    text = "".join(
        f"## {s}. A\n" + "".join(f"- [ ] {s}.{n} do\n" for n in range(8)) for s in (1, 2)
    )
    assert codes(plan(text)) == [(0, "suggest-unit")]
    assert plan(text, unit="section").warnings == ()


def test_parallel_tickets_with_overlapping_paths() -> None:
    text = (
        '- [ ] 1.1 a <!-- baton: paths="src/** docs/x.md" -->\n'
        '- [ ] 1.2 b <!-- baton: paths="src/app/*.py" -->\n'
        '- [ ] 1.3 c <!-- baton: paths="tests/**" -->\n'
    )
    assert codes(plan(text)) == [(2, "paths-overlap")]
    assert plan(text.replace("1.2 b", "1.2 b (needs 1.1)")).warnings == ()
    assert plan(text, "sequential").warnings == ()
    assert plan(text.replace("- [ ] 1.1", "- [x] 1.1")).warnings == ()


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("src/**", "src/a.py", True),
        ("src/a", "src/a/b.py", True),
        ("src/", "src/b", True),
        ("src/a*.py", "src/*b.py", True),
        ("src/a*.py", "src/b*.py", False),
        ("src/*.py", "src/x/y.py", False),
        ("src/**/x.py", "src/a/b/x.py", True),
        ("**/x.py", "lib/x.py", True),
        ("*.py", "lib/x.py", True),
        ("*.py", "lib/x.md", False),
        ("*.py", "lib/", True),
        ("a/**", "b/**", False),
        ("ab/**", "a/**", False),
        ("./a", "a", True),
    ],
)
def test_overlap(one: str, other: str, meet: bool) -> None:
    assert overlap(one, other) is meet
    assert overlap(other, one) is meet


def test_predecessors_are_what_is_needed_and_the_nearest_lower_level() -> None:
    found = plan(
        "## A\n\n- [ ] 1.1 a\n- [ ] 1.2 b\n\n## B\n\n- [ ] 2.1 c\n- [ ] 2.2 d (needs 2.1)\n"
    )
    assert {t.key: waited for t, waited in all_predecessors(found)} == {
        "1.1": (),
        "1.2": (),
        "2.1": ("1.1", "1.2"),
        "2.2": ("1.1", "1.2", "2.1"),
    }
