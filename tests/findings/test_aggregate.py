"""What fixers say is added up, and what they may not say does not count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitbaton.errors import BatonError
from gitbaton.findings import documents
from gitbaton.findings.aggregate import aggregate
from gitbaton.findings.outcome import Folder, Report
from gitbaton.findings.shards import shard
from gitbaton.model.findings import Failed, Finding, Index, Scope, Shard, Status


def finding(name: str, path: str | None, message: str = "") -> Finding:
    return Finding(id=name, path=path, line=1, rule="R1", message=message or f"about {name}")


A1, A2, B1, B2 = (finding(name, f"{name[0].lower()}.md") for name in ("A1", "A2", "B1", "B2"))
LOOSE = finding("L1", None)
EVERY = (A1, A2, B1, B2, LOOSE)


def status(
    number: int, *fixed: str, failed: Mapping[str, str] = {}, written: str = "2031-01-01T00:00:00Z"
) -> Status:
    return Status(
        schema_version=2,
        shard=number,
        fixed=fixed,
        failed=tuple(Failed(id=name, reason=why) for name, why in failed.items()),
        written=written,
    )


def folder(*statuses: Status, findings: Sequence[Finding] = EVERY, **more: object) -> Folder:
    """Shard 1 is a.md, shard 2 is b.md."""
    made = shard(findings, lambda _: False, source=["found.json"], count=2)
    return Folder(
        index=made.listed,
        shards=made.shards,
        statuses={each.shard: each for each in statuses},
        **more,  # type: ignore[arg-type]
    )


def numbers(report: Report) -> tuple[int, int, int]:
    return report.fixed, report.failed, report.remaining


def flags(report: Report) -> list[tuple[int, str, str]]:
    return [(flag.shard, flag.code, flag.finding) for flag in report.flagged]


# --- what is said ------------------------------------------------------------------------------


def test_statuses_are_added_up() -> None:
    report = aggregate(folder(status(1, "A1", "A2"), status(2, "B1", failed={"B2": "too hard"})))
    assert numbers(report) == (3, 1, 1)
    assert [(each.shard, each.fixed, each.failed) for each in report.shards] == [
        (1, 2, 0),
        (2, 1, 1),
    ]
    told = {one.finding.id: (one.verdict, one.shard, one.reason) for one in report.unfixed}
    assert told == {"B2": ("failed", 2, "too hard"), "L1": ("remaining", None, "")}
    assert report.residue() == [LOOSE, B2]
    assert not (report.missing or report.duplicates or report.flagged)


def test_findings_of_a_shard_without_a_status_remain() -> None:
    report = aggregate(folder(status(1, "A1", "A2")))
    assert numbers(report) == (2, 0, 3)
    assert report.missing == (2,)
    assert report.shards[1].agent_exit_reason == "missing"


def test_what_a_status_does_not_speak_of_remains() -> None:
    assert numbers(aggregate(folder(status(1, "A1"), status(2)))) == (1, 0, 4)


def test_a_status_for_foreign_findings_is_flagged() -> None:
    report = aggregate(folder(status(1, "A1", "B1", "X9")))
    assert numbers(report) == (1, 0, 4)
    assert flags(report) == [(1, "foreign-finding", "B1"), (1, "foreign-finding", "X9")]
    assert "B1 is shard 2's" in report.flagged[0].message


def test_fixed_and_failed_is_failed() -> None:
    report = aggregate(folder(status(1, "A1", "A2", failed={"A1": "broke a test"})))
    assert numbers(report) == (1, 1, 3)
    assert flags(report) == [(1, "contradiction", "A1")]


def test_a_status_of_no_shard_is_flagged() -> None:
    report = aggregate(folder(status(9, "A1")))
    assert numbers(report) == (0, 0, 5)
    assert flags(report) == [(9, "no-such-shard", "")]


def test_a_status_that_cannot_be_read_is_flagged_and_the_rest_counts() -> None:
    report = aggregate(folder(status(1, "A1"), unreadable={2: "it ends too early"}))
    assert numbers(report) == (1, 0, 4)
    assert flags(report) == [(2, "unreadable", "")]
    assert (report.shards[1].agent_exit_reason, report.missing) == ("unreadable", ())


# --- two shards on one scope -------------------------------------------------------------------


def twice(*statuses: Status, inner: str = "a.md") -> Folder:
    """Shards 1 and 2 both claim a.md (or ``inner`` lies in the scope of the first)."""

    def one(number: int, path: str) -> Shard:
        return Shard(
            schema_version=2, shard=number, scopes=(Scope(path, "file"),), findings=(A1, A2)
        )

    index = Index(schema_version=2, source=(), shard_size=2, shards=())
    by_number = {each.shard: each for each in statuses}
    return Folder(index=index, shards=(one(1, "a.md"), one(2, inner)), statuses=by_number)


def test_of_two_shards_on_one_scope_the_newer_counts() -> None:
    old = status(1, "A1", "A2", written="2031-01-01T00:00:00Z")
    new = status(2, "A1", written="2031-01-02T00:00:00Z")
    report = aggregate(twice(old, new))
    assert numbers(report) == (1, 0, 1)
    (double,) = report.duplicates
    assert (double.scope_path, double.shards, double.kept) == ("a.md", (1, 2), 2)
    older = status(2, "A1", written="2030-12-31T00:00:00Z")
    report = aggregate(twice(old, older))
    assert (numbers(report), report.duplicates[0].kept) == ((2, 0, 0), 1)


def test_of_two_shards_on_one_scope_that_with_a_status_counts() -> None:
    report = aggregate(twice(status(1, "A1", "A2")))
    assert (numbers(report), report.duplicates[0].kept) == ((2, 0, 0), 1)
    assert report.missing == (2,)


def test_a_scope_inside_another_is_claimed_by_both() -> None:
    report = aggregate(twice(status(1, "A1"), inner="a.md/sub"))
    (double,) = report.duplicates
    assert (double.scope_path, double.shards) == ("a.md/sub", (1, 2))


# --- a fresh scan ------------------------------------------------------------------------------


def test_what_is_still_found_was_not_fixed() -> None:
    lies = folder(status(1, "A1", "A2"), status(2, "B1", failed={"B2": "no"}))
    report = aggregate(lies, [A2, B2, LOOSE])
    assert numbers(report) == (2, 1, 2)
    assert flags(report) == [(1, "still-found", "A2")]
    assert report.rescan is not None
    assert (report.rescan.still, report.rescan.new) == (3, ())
    assert (report.shards[0].claimed, report.shards[0].fixed) == (2, 1)
    assert {one.id for one in report.residue()} == {"A2", "B2", "L1"}


def test_what_is_found_no_more_is_fixed_whoever_says_nothing() -> None:
    report = aggregate(folder(), [])
    assert (numbers(report), report.missing) == ((5, 0, 0), (1, 2))


def test_what_is_new_is_told_and_sharded_again() -> None:
    new = finding("N1", "a.md")
    report = aggregate(folder(), [B1, new])
    assert numbers(report) == (4, 0, 1)
    assert report.rescan is not None and report.rescan.new == (new,)
    assert report.residue() == [B1, new]


def test_a_finding_is_known_again_by_its_looks_or_its_id() -> None:
    moved = Finding(id="other", path="a.md", line=90, rule="R1", message="about A1")
    reworded = finding("B1", "b.md", "said otherwise")
    report = aggregate(folder(status(1, "A1"), status(2, "B1")), [moved, reworded])
    assert {flag.finding for flag in report.flagged} == {"A1", "B1"}
    assert numbers(report) == (3, 0, 2)


def test_of_several_that_look_alike_the_number_counts() -> None:
    three = [finding(f"A{n}", "a.md", "unused") for n in (1, 2, 3)]
    said = folder(status(1, "A1"), findings=three)
    report = aggregate(said, three[:2])  # a scan numbers them anew
    assert (numbers(report), report.flagged) == ((1, 0, 2), ())
    report = aggregate(said, three)
    assert (numbers(report), flags(report)) == ((0, 0, 3), [(1, "still-found", "A1")])


NAMES = st.sampled_from([one.id for one in EVERY] + ["X1"])
STATUSES = st.builds(
    lambda number, fixed, failed: status(number, *fixed, failed=dict.fromkeys(failed, "why")),
    st.integers(1, 3),
    st.lists(NAMES, max_size=4),
    st.lists(NAMES, max_size=3),
)


@given(st.lists(STATUSES, max_size=3), st.none() | st.lists(st.sampled_from(EVERY), unique=True))
def test_the_numbers_add_up(statuses: list[Status], rescan: list[Finding] | None) -> None:
    report = aggregate(folder(*statuses), rescan)
    assert sum(numbers(report)) == len(EVERY)
    assert len(report.unfixed) == report.failed + report.remaining
    inside = [one for one in report.unfixed if one.shard is not None]
    for kind in ("failed", "remaining"):
        shards = sum(getattr(each, kind) for each in report.shards)
        assert shards == sum(one.verdict == kind for one in inside)
    if rescan is not None:
        assert {one.finding.id for one in report.unfixed} == {one.id for one in rescan}


# --- files that are not what they should be ----------------------------------------------------

GOOD = documents.encode(status(1, "A1"))


@pytest.mark.parametrize(
    ("data", "code", "message"),
    [
        (GOOD[:40], "bad-shards", "shard-1.status.json: no JSON: "),
        (b"", "bad-shards", "shard-1.status.json: no JSON: ends too early"),
        (b"[]", "bad-shards", "it has no schema_version, so it is no file of shards"),
        (b'{"a": 1}', "bad-shards", "it has no schema_version, so it is no file of shards"),
        (GOOD.replace(b": 2", b": 1"), "other-schema", "has schema version 1, known is 2"),
        (GOOD.replace(b": 2", b": 3"), "other-schema", "has schema version 3, known is 2"),
        (GOOD.replace(b'"status"', b'"shard"'), "bad-shards", "invalid value 'shard'"),
        (GOOD.replace(b'"shard": 1', b'"shard": 4'), "bad-shards", "it is about shard 4"),
        (GOOD.replace(b'"shard": 1', b'"shard": "1"'), "bad-shards", "$.shard: expected int"),
    ],
)
def test_a_file_that_is_not_a_status(data: bytes, code: str, message: str) -> None:
    with pytest.raises(BatonError) as caught:
        documents.read_status(data, 1)
    assert caught.value.code == code
    assert message in caught.value.message and "\n" not in caught.value.message


@pytest.mark.parametrize("file", ["../shard-1.json", "/etc/passwd", "shard-2.json"])
def test_an_index_names_no_other_files(file: str) -> None:
    data = documents.encode(shard([A1], lambda _: False).listed)
    with pytest.raises(BatonError, match=r"not in shard-1\.json"):
        documents.read_index(data.replace(b"shard-1.json", file.encode()))


def test_a_status_by_hand_needs_little() -> None:
    data = b'{"schema_version": 2, "kind": "status", "shard": 1, "fixed": ["A1"], "mood": "fine"}'
    assert documents.read_status(data, 1).fixed == ("A1",)
