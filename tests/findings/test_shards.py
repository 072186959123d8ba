"""Findings are dealt out so that everything is somewhere, once, and nobody meets anybody."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitbaton.errors import BatonError
from gitbaton.findings import documents, importers
from gitbaton.findings.shards import Dealt, above, named, require_separate, shard
from gitbaton.model.findings import Finding, Scope
from gitbaton.rules.globs import glob_match, literal
from tests.findings.reading import DATA, ROOT

NAMES = st.sampled_from(["a", "b", "c", "x.md", "[id]", "a*"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
FINDINGS = st.lists(st.one_of(st.none(), PATHS), max_size=60).map(
    lambda paths: [Finding(id=f"F-{at}", path=path, line=at) for at, path in enumerate(paths)]
)
FOLDERS = st.frozensets(PATHS, max_size=5)
SIZES = st.integers(1, 12)


def dealt(
    findings: Sequence[Finding],
    folders: frozenset[str] = frozenset(),
    size: int = 30,
    count: int | None = None,
) -> Dealt:
    return shard(findings, folders.__contains__, source=["found.json"], size=size, count=count)


def at(*paths: str | None) -> list[Finding]:
    return [Finding(id=f"F-{number}", path=path) for number, path in enumerate(paths, start=1)]


def scopes(made: Dealt) -> dict[str, str]:
    every = (scope for each in made.shards for scope in each.scopes)
    return {scope.scope_path: scope.scope_kind for scope in every}


def sizes(made: Dealt) -> list[int]:
    return [len(each.findings) for each in made.shards]


# --- whatever is found -------------------------------------------------------------------------


@given(FINDINGS, FOLDERS, SIZES, st.one_of(st.none(), SIZES))
def test_every_finding_is_in_one_place(
    findings: list[Finding], folders: frozenset[str], size: int, count: int | None
) -> None:
    made = dealt(findings, folders, size, count)
    there = [finding for each in made.shards for finding in each.findings]
    assert Counter(f.id for f in (*there, *made.listed.residue)) == Counter(f.id for f in findings)
    assert all(finding.path for finding in there)
    assert not any(finding.path for finding in made.listed.residue)
    for each in made.shards:
        own = [scope.scope_path for scope in each.scopes]
        for finding in each.findings:
            assert {*above(finding.path or ""), finding.path} & {*own}


@given(FINDINGS, FOLDERS, SIZES, st.one_of(st.none(), SIZES))
def test_no_scope_is_in_another(
    findings: list[Finding], folders: frozenset[str], size: int, count: int | None
) -> None:
    made = dealt(findings, folders, size, count)
    every = [scope.scope_path for each in made.shards for scope in each.scopes]
    assert len(every) == len(set(every))
    for path in every:
        assert not {*above(path)} & {*every}
    require_separate(made.shards)


@given(FINDINGS, FOLDERS, SIZES, st.one_of(st.none(), SIZES))
def test_shards_are_balanced(
    findings: list[Finding], folders: frozenset[str], size: int, count: int | None
) -> None:
    made = dealt(findings, folders, size, count)
    inside = Counter(
        next(place for place in (*above(f.path or ""), f.path) if place in scopes(made))
        for each in made.shards
        for f in each.findings
    )
    largest = max(inside.values(), default=0)
    assert max(sizes(made), default=0) - min(sizes(made), default=0) <= largest
    assert all(sizes(made))
    if count is None:
        assert all(len(s.findings) <= size or len(s.scopes) == 1 for s in made.shards)
    else:
        assert len(made.shards) == min(count, len(inside))


@given(FINDINGS, FOLDERS, SIZES)
def test_same_input_same_bytes(findings: list[Finding], folders: frozenset[str], size: int) -> None:
    once, again = dealt(findings, folders, size), dealt(list(findings), frozenset(folders), size)
    assert documents.encode(once.listed) == documents.encode(again.listed)
    for a, b in zip(once.shards, again.shards, strict=True):
        data = documents.encode(a)
        assert data == documents.encode(b)
        assert documents.read_shard(data, a.shard) == a
    assert documents.read_index(documents.encode(once.listed)) == once.listed


# --- scopes ------------------------------------------------------------------------------------


def test_the_outermost_folder_is_the_scope() -> None:
    found = at("skills/a/SKILL.md", "skills/a/sub/x.py", "skills/b.md", "src/x.py")
    made = dealt(found, frozenset({"skills/a", "skills/a/sub"}))
    assert scopes(made) == {"skills/a": "skill_dir", "skills/b.md": "file", "src/x.py": "file"}


def test_a_folder_that_is_itself_reported_is_a_scope() -> None:
    assert scopes(dealt(at("src", "src/a.py", "lib"))) == {"src": "skill_dir", "lib": "file"}


def test_the_largest_is_dealt_first_to_who_has_least() -> None:
    made = dealt(at(*["a"] * 5, *["b"] * 4, *["c"] * 3, *["d"] * 3, "e"), count=2)
    assert [[scope.scope_path for scope in each.scopes] for each in made.shards] == [
        ["a", "d"],
        ["b", "c", "e"],
    ]
    assert sizes(made) == [8, 8]
    assert made.listed.shard_size == 8


def test_a_shard_grows_beyond_its_size_for_one_scope_only() -> None:
    made = dealt(at(*["big"] * 100, *["a"] * 20, *["b"] * 20, *["c"] * 10), size=30)
    assert sorted(sizes(made)) == [20, 30, 100]


def test_nothing_found() -> None:
    made = dealt([])
    assert made.shards == () and made.listed.shards == () and made.listed.residue == ()


# --- ids ---------------------------------------------------------------------------------------


def ruff(*places: tuple[str, int], rule: str = "F401") -> list[Finding]:
    text = "`os` imported but unused"
    return read([{"path": p, "line": n, "rule": rule, "message": text} for p, n in places])


def read(rows: object) -> list[Finding]:
    found = importers.findings([(Path("found.json"), json.dumps(rows).encode())], root=ROOT)
    return named([finding for part in found.values() for finding in part])


def test_ids_outlive_a_move_and_another_order() -> None:
    before = ruff(("b.py", 3), ("a.py", 1))
    after = ruff(("a.py", 7), ("b.py", 2))
    assert [f.id for f in before] == [f.id for f in after]
    assert [f.path for f in before] == ["a.py", "b.py"]
    assert before[0].id.startswith("F401-")


def test_two_that_look_alike_are_two() -> None:
    assert len({f.id for f in ruff(("a.py", 1), ("a.py", 2))}) == 2
    assert len(ruff(("a.py", 1), ("a.py", 1))) == 1


def test_ids_of_the_source_are_kept() -> None:
    (found,) = read([{"id": "F-7", "path": "a.md", "line": 3, "rule": "R1", "severity": "high"}])
    assert found == Finding(
        id="F-7", path="a.md", line=3, rule="R1", severity="high", message="F-7"
    )


def test_one_name_for_two_findings_is_refused() -> None:
    with pytest.raises(BatonError, match="F-7 is the name of two findings") as caught:
        read([{"id": "F-7", "message": "one"}, {"id": "F-7", "message": "two"}])
    assert caught.value.code == "duplicate-finding"


def test_what_is_done_is_no_finding() -> None:
    data = b"- [x] done\n- [ ] BUG-1: open\n"
    (part,) = importers.findings([(Path("todo.md"), data)]).values()
    assert [f.id for f in named(part)] == ["BUG-1"]


@pytest.mark.parametrize(
    ("name", "rules"),
    [("ruff.json", {"F401", "S602"}), ("bandit.sarif", {"B301", "B602"})],
)
def test_recorded_findings_keep_rule_place_and_message(name: str, rules: set[str]) -> None:
    found = importers.findings([(Path(name), (DATA / name).read_bytes())], root=ROOT)
    findings = named([finding for part in found.values() for finding in part])
    assert rules <= {finding.rule for finding in findings}
    assert all(f.path and f.line and f.message and not f.path.startswith("/") for f in findings)


# --- what came from elsewhere ------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", ".", "../x", "a/../b", "/etc/passwd", "a//b", "a/"])
def test_a_scope_must_be_inside_the_project(path: str) -> None:
    made = dealt(at("a"))
    (foreign,) = made.shards
    bent = type(foreign)(
        schema_version=2, shard=1, scopes=(Scope(path, "file"),), findings=foreign.findings
    )
    with pytest.raises(BatonError) as caught:
        require_separate([bent])
    assert caught.value.code == "bad-scope"


def test_paths_mean_themselves_as_patterns() -> None:
    for path in ("app/[id]/page.tsx", "[id].md", "a*", "what?.py", " a ", "a b", "skills/a", "x"):
        assert glob_match(path, [literal(path)]), path
        assert glob_match(f"{path}/below", [literal(path)]), path
    assert not glob_match("app/i/page.tsx", [literal("app/[id]/page.tsx")])
    assert not glob_match("sub/[id].md", [literal("[id].md")])
    assert not glob_match("ab", [literal("a*")])
