"""Files with the structure of real ones: none loses a box, each can be ticked byte for byte.

They lie beside the repository, where they are at all.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gitbaton.plan.boxes import box_in
from gitbaton.plan.lines import cut
from gitbaton.plan.tasksmd import read

from .ticks import round_trip

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
EXPECTED = {
    name: (int(boxes), int(done), eol)
    for name, boxes, done, eol in (
        line.split("\t")
        for line in (
            (CORPUS / "expected.tsv").read_text().splitlines()[1:]
            if (CORPUS / "expected.tsv").is_file()
            else ()
        )
    )
}
pytestmark = pytest.mark.skipif(not EXPECTED, reason="the corpus is not here")


@pytest.mark.parametrize("name", EXPECTED)
def test_no_box_is_lost(name: str) -> None:
    data = (CORPUS / "tasks" / name).read_bytes()
    boxes, done, eol = EXPECTED[name]
    found = read(data)
    b = found.boxes
    assert b.total == b.tickets + b.criteria + b.umbrellas + b.reported == boxes
    states = [box.state for line in cut(data).lines if (box := box_in(line))]
    assert states.count("done") == done
    assert ("\r\n" in cut(data).ends) == (eol == "crlf")


@pytest.mark.parametrize("name", EXPECTED)
def test_loads(name: str) -> None:
    found = read((CORPUS / "tasks" / name).read_bytes())
    assert [e.code for e in found.errors] == (["plan-empty"] if name == "real-21.md" else [])


@pytest.mark.parametrize("name", EXPECTED)
def test_ticks_and_back(name: str) -> None:
    round_trip((CORPUS / "tasks" / name).read_bytes())
