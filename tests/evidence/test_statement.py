"""Receipts are exact bytes."""

from __future__ import annotations

import json

import msgspec
import pytest

from gitbaton.errors import BatonError
from gitbaton.evidence import statement
from gitbaton.model.receipt import CheckResult, Predicate

CHECK = CheckResult(
    command="true", exit_code=0, duration_ms=3, output_sha256="0" * 64, output_tail="\x00é\n"
)
COMMIT, TREE = "1" * 40, "2" * 40


def receipt(**fields: object) -> bytes:
    predicate = Predicate(
        assignment="r/1@1",
        run="r",
        mode=None,
        ticket="1",
        attempt=1,
        session="s",
        plan_revision=1,
        packet_sha256="0" * 64,
        token_sha256="0" * 64,
        base_commit="3" * 40,
        changed_files=("a",),
        checks=(CHECK,),
        sealed_in="verification-worktree",
        sealed_at="2030-01-02T12:00:00Z",
        environment=statement.environment(),
    )
    predicate = msgspec.structs.replace(predicate, **fields)
    return statement.build(commit=COMMIT, tree=TREE, predicate=predicate)


def test_it_is_an_in_toto_statement_with_sorted_keys() -> None:
    document = json.loads(receipt(), parse_float=lambda text: pytest.fail(f"float {text}"))
    assert document["_type"] == "https://in-toto.io/Statement/v1"
    assert document["predicateType"] == "urn:git-baton:receipt:v1"
    assert document["subject"] == [
        {"digest": {"gitCommit": COMMIT}, "name": "commit"},
        {"digest": {"gitTree": TREE}, "name": "tree"},
    ]
    assert document["predicate"]["result"] == "PASSED"
    assert list(document) == sorted(document)
    assert list(document["predicate"]) == sorted(document["predicate"])
    assert set(document["predicate"]["environment"]) == {"git", "git_baton", "python", "platform"}
    assert receipt() == receipt()


def test_what_was_built_can_be_parsed() -> None:
    parsed = statement.parse(receipt())
    assert (parsed.commit, parsed.tree) == (COMMIT, TREE)
    assert parsed.predicate.checks == (CHECK,)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"{", b""),
        (b"Statement/v1", b"Statement/v2"),
        (b"receipt:v1", b"receipt:v2"),
        (b"PASSED", b"FAILED"),
        (b"gitTree", b"gitTrie"),
        (COMMIT.encode(), b"HEAD"),
        (b'"tree"', b'"commit"'),
        (b'"attempt": 1', b'"attempt": "1"'),
        (b'"run": "r"', b'"run": "\xff"'),
    ],
)
def test_damage_is_one_clear_error(old: bytes, new: bytes) -> None:
    data = receipt().replace(old, new, 1)
    assert data != receipt()
    for damaged in (data, receipt()[:100], b"", b"[" * 100_000):
        with pytest.raises(BatonError) as error:
            statement.parse(damaged)
        assert error.value.code == "receipt-unreadable"
        assert "\n" not in error.value.message


def test_the_difference_is_named_by_its_path() -> None:
    red = msgspec.structs.replace(CHECK, exit_code=1)
    first = statement.first_difference
    assert first(receipt(), receipt()) is None
    assert first(receipt(), receipt(checks=(red,))) == "predicate.checks[0].exit_code"
    assert first(receipt(), receipt(checks=(CHECK, red))) == "predicate.checks[1]"
    assert first(receipt(), receipt(mode="pick")) == "predicate.mode"
    assert first(receipt(), receipt().replace(COMMIT.encode(), b"x")) == (
        "subject[0].digest.gitCommit"
    )
    assert first(receipt(), receipt().replace(b'"session"', b'"sessiom"')) == "predicate.sessiom"
    assert first(receipt(), receipt() + b" ") == "(formatting)"
    assert first(receipt(), receipt()[:-5]) == "(not JSON)"
    assert first(b"1", b"true") == "(whole)"
