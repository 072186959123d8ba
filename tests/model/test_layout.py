from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitbaton.model import layout
from gitbaton.model.ids import AttemptId

ODD = ["1.2", "a/b", "..", ".", "../../etc", "größe", "two words", "x.lock", "100%", "a\nb", "-"]


@pytest.mark.parametrize("key", ODD)
def test_an_odd_key_is_one_segment_and_comes_back(key: str) -> None:
    path = layout.path_of(AttemptId(key, 7), layout.RECEIPT)
    parts = path.split("/")
    assert len(parts) == 5
    assert not {"", ".", ".."} & set(parts)
    assert layout.attempt_of(path) == (AttemptId(key, 7), layout.RECEIPT)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.integers(1, 10**6))
def test_any_key_comes_back(key: str, number: int) -> None:
    attempt = AttemptId(key, number)
    assert layout.attempt_of(layout.path_of(attempt)) == (attempt, "")


def test_numbers_have_two_digits_or_more() -> None:
    assert layout.path_of(AttemptId("1.2", 3)).endswith("/1.2/03")
    assert layout.path_of(AttemptId("1.2", 123)).endswith("/1.2/123")


@pytest.mark.parametrize(
    "path",
    [
        "run.json",
        "tickets/00/1.2",
        "tickets/zz/1.2/01",
        "tickets/00/1.2/x",
        "commits/a/b/c",
        pytest.param(f"tickets/00/1.2/{'9' * 5000}", id="endless"),
        pytest.param("tickets/00/\udcff/01", id="no-text"),
    ],
)
def test_other_paths_belong_to_no_attempt(path: str) -> None:
    assert layout.attempt_of(path) is None


def test_commit_receipts() -> None:
    oid = "ab" * 20
    assert layout.commit_of(layout.commit_path(oid)) == oid
    assert layout.commit_of(layout.commit_path(oid, "sig")) is None
    assert layout.commit_of("closeout.json") is None
