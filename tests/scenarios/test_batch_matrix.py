"""Every kind of batch x every way in which one of its items comes back.

Top-level or nested x snapshot or live x autopilot or one-item x no, one or three members x each
disposition: what the run, the queue and the closeout must say afterwards is a table. All cells work
on copies of a few prepared repositories.

The queue holds the members ``a b c`` (or ``a``, or none of them); ``x``, which no batch means, but
which may block; and ``y``, which waits for ``a``. It is ``a`` that comes back; everything else is
fixed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from gitbaton.rules.batch import request_run_id

from .batches import QUEUE, Root, add, items, open_root, states
from .conftest import FakeClock, Json, Project

LEVELS = ("top", "nested")
MEMBERSHIPS = ("snapshot", "live")
MODES = ("autopilot", "one-item")
SIZES = {"empty": (), "one": ("a",), "several": ("a", "b", "c")}
OTHERS = ("x", "y")

PARENT = "parent"
"""The request of the root below whose attempt the nested batches are opened."""


class Way(NamedTuple):
    """How ``a`` comes back, and what follows."""

    how: str
    """What is said of it: the arguments of `dispose`, or what somebody else does meanwhile."""
    then: str
    """The state of the item as soon as it is back."""
    pauses: tuple[str, str]
    """Why the root pauses, in autopilot and in one-item mode; "" if it goes on."""
    ends: str
    """The disposition that stands in the end: a root that paused is resumed."""
    outcome: str
    """How a one-item root ends; in autopilot it is done."""
    attempt: str = "a@1"
    cure: str = ""
    """The item that somebody fixes before a one-item root is resumed."""
    admits: tuple[str, ...] = ()
    """The required descendants, in autopilot."""


WAYS = {
    "fixed": Way("fixed", "fixed", ("", ""), "fixed", "done"),
    "obe": Way("--as obe --reason gone", "obe", ("", ""), "obe", "obe"),
    "blocked by one in the queue": Way(
        "--as blocked --by x --reason needs-x",
        "blocked",
        ("", "blocked"),
        "fixed",
        "done",
        attempt="a@2",
        cure="x",
        admits=("x",),
    ),
    "blocked by a member": Way(
        "--as blocked --by b --reason needs-b",
        "blocked",
        ("", "blocked"),
        "fixed",
        "done",
        attempt="a@2",
        cure="b",
    ),
    "blocked by none that exists": Way(
        "--as blocked --by ghost --reason needs-ghost",
        "claimed",
        ("blocker-missing", "blocker-missing"),
        "fixed",
        "done",
        attempt="a@2",
    ),
    "blocked by what waits for it": Way(
        "--as blocked --by y --reason needs-y",
        "claimed",
        ("blocker-cycle", "blocker-cycle"),
        "fixed",
        "done",
        attempt="a@2",
    ),
    "owned": Way("--as owned --by umbrella --reason theirs", "owned", ("", ""), "owned", "owned"),
    "local-gate": Way(
        "--as local-gate --reason no-compiler",
        "claimed",
        ("local-gate", "local-gate"),
        "fixed",
        "done",
        attempt="a@2",
    ),
    "unresolved": Way(
        "--as unresolved --reason no-idea",
        "claimed",
        ("unresolved", "unresolved"),
        "fixed",
        "done",
        attempt="a@2",
    ),
    "eligibility-lost": Way(
        "closed by others", "wontfix", ("", ""), "eligibility-lost", "eligibility-lost"
    ),
}


class Cell(NamedTuple):
    level: str
    membership: str
    mode: str
    size: str
    way: str

    def __str__(self) -> str:
        return "-".join(self)

    @property
    def all_of_it(self) -> bool:
        """Whether it works on more than its first item."""
        return self.mode == "autopilot"

    @property
    def pause(self) -> str:
        return WAYS[self.way].pauses[0 if self.all_of_it else 1]

    @property
    def admits(self) -> tuple[str, ...]:
        return WAYS[self.way].admits if self.all_of_it else ()

    @property
    def cure(self) -> str:
        return WAYS[self.way].cure if self.pause == "blocked" else ""

    @property
    def outcome(self) -> str:
        return "done" if self.all_of_it else WAYS[self.way].outcome

    @property
    def members(self) -> tuple[str, ...]:
        """The items that it takes at first."""
        return SIZES[self.size] if self.all_of_it else SIZES[self.size][:1]

    @property
    def state_then(self) -> str:
        """The state of the run as soon as ``a`` is back."""
        if self.pause:
            return "paused"
        if len(self.members) > 1:
            return "executing"
        return "waiting" if self.admits else "complete"

    @property
    def paused_result(self) -> str:
        """What a nested batch returns that has paused."""
        return "blocked" if self.pause == "blocked" else "paused"

    @property
    def result(self) -> str:
        """What a nested batch returns in the end."""
        return "accepted" if {"fixed", "obe"} & set(self.ended.values()) else "blocked"

    def attempt(self, item: str) -> str:
        """The attempt of a member that counts."""
        return WAYS[self.way].attempt if item == "a" else f"{item}@1"

    @property
    def ended(self) -> dict[str, str]:
        """The disposition of each member in the end, in the order of admission."""
        every = dict.fromkeys((*self.members, *self.admits), "fixed")
        return {**every, "a": WAYS[self.way].ends}

    @property
    def queue_after(self) -> dict[str, str]:
        """The state of each item in the end."""
        way = WAYS[self.way]
        untouched = dict.fromkeys((*SIZES[self.size], *OTHERS), "open")
        fixed = dict.fromkeys(self.ended, "fixed")
        cured = {self.cure: "fixed"} if self.cure else {}
        last = "fixed" if way.ends == "fixed" else way.then
        return {**untouched, **fixed, **cured, "a": last}


CELLS = [
    Cell(*cell)
    for cell in product(LEVELS, MEMBERSHIPS, MODES, ("one", "several"), WAYS)
    if cell[3:] != ("one", "blocked by a member")  # there is no other member
]
EMPTY = [Cell(*cell) for cell in product(LEVELS, MEMBERSHIPS, MODES, ("empty",), ("",))]


# --- prepared repositories -----------------------------------------------------------------------

Copy = Callable[[str, Sequence[str]], Project]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Path]]:
    """``prepared(level, members)``: a repository that is only to be copied."""
    made: dict[tuple[str, tuple[str, ...]], Path] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gitbaton.engine.context.SystemClock", FakeClock)

        def make(level: str, members: Sequence[str]) -> Path:
            key = level, tuple(members)
            if key not in made:
                top = tmp_path_factory.mktemp(level) / "repo"
                _prepare(Project.init(top, FakeClock(), patch.chdir), level, members)
                made[key] = top
            return made[key]

        yield make


def _prepare(project: Project, level: str, members: Sequence[str]) -> None:
    for name in members:
        add(project, name)
    add(project, "x", meant=False)
    depends = ("--depends-on", "a") if "a" in members else ()
    add(project, "y", *depends, meant=False)
    if level == "nested":
        add(project, "p", queue="outer")
        open_root(project, queue="outer", request=PARENT).actions()


@pytest.fixture
def copy(
    prepared: Callable[..., Path],
    tmp_path: Path,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Copy]:
    """A repository of one's own."""
    made: list[Project] = []

    def make(level: str, members: Sequence[str]) -> Project:
        top = tmp_path / "repo"
        shutil.copytree(prepared(level, members), top)
        monkeypatch.chdir(top)
        made.append(Project(top, clock, monkeypatch.chdir))
        return made[-1]

    yield make
    for project in made:
        project.assert_sound()


# --- the cells -----------------------------------------------------------------------------------


def opened(project: Project, cell: Cell) -> Root:
    """The batch of a cell, opened or found."""
    below = ("--parent", f"{request_run_id(PARENT)}/p@1") if cell.level == "nested" else ()
    return open_root(project, *below, membership=cell.membership, mode=cell.mode)


def parent_of(project: Project) -> str:
    """All that is recorded of the root above, which no nested batch may touch; "" if none is."""
    refs = (f"refs/baton/runs/{request_run_id(PARENT)}", "refs/baton/queues/outer")
    return project.git("for-each-ref", "--format=%(refname) %(objectname)", *refs)


def assert_found_again(project: Project, cell: Cell, root: Root, state: str, result: str) -> None:
    """Whoever asks once more gets the same batch: its state, or what it returns to the attempt
    that it was opened below."""
    again = opened(project, cell).opened
    assert (again["run"], again["created"]) == (root.run, False)
    assert again["state"] == (result if cell.level == "nested" else state)


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_an_item_comes_back(cell: Cell, copy: Copy) -> None:
    project = copy(cell.level, SIZES[cell.size])
    above = parent_of(project)
    root = opened(project, cell)
    given = root.actions()
    assert given.tickets() == list(cell.members)

    come_back(root, given.dispatch("a"), cell.way)
    assert_returned(cell, root)
    if cell.pause:
        assert_found_again(project, cell, root, "paused", cell.paused_result)
    others = [dispatch for dispatch in given.of("dispatch") if dispatch["ticket"] != "a"]
    batch = root.fix(others) if others else root.actions()  # what is in flight goes on
    if cell.pause:
        assert batch["state"] == "paused"
        if cell.cure:
            project.baton("queue", "set", cell.cure, "--state", "fixed", "--queue", QUEUE)
        root.resume()
        batch = root.actions()
    assert root.drive(batch)["state"] == "complete"

    assert_ended(cell, root)
    assert_found_again(project, cell, root, "complete", cell.result)
    assert parent_of(project) == above


def come_back(root: Root, dispatch: Json, way: str) -> None:
    """What happens to ``a``."""
    how = WAYS[way].how
    if how.startswith("--as"):
        root.dispose(dispatch, *how.split())
        return
    if how == "closed by others":
        root.project.baton("queue", "set", "a", "--state", "wontfix", "--queue", QUEUE)
    root.fix([dispatch])


def assert_returned(cell: Cell, root: Root) -> None:
    """The run, the queue and the attempt as soon as ``a`` is back."""
    way = WAYS[cell.way]
    status = root.status()
    assert status["state"] == cell.state_then
    assert ((status["batch"]["pause"] or {}).get("code") or "") == cell.pause
    if cell.state_then != "complete":
        root.assert_open()
    item = items(root.project)["a"]
    assert item["state"] == way.then
    assert (item["claimed_by"] is not None) is (way.then == "claimed")
    attempt = next(a for a in status["attempts"] if a["assignment"] == f"{root.run}/a@1")
    ended = ("succeeded", None) if cell.way == "fixed" else ("closed", cell.way.partition(" ")[0])
    assert (attempt["state"], (attempt["failure"] or {}).get("code")) == ended


def assert_ended(cell: Cell, root: Root) -> None:
    """The run, the queue and the closeout in the end."""
    fixed = {item for item, disposition in cell.ended.items() if disposition == "fixed"}
    status = root.status()
    assert (status["state"], status["missing"]) == ("complete", [])
    assert (status["tickets"]["total"], status["tickets"]["resolved"]) == (
        len(cell.ended),
        len(fixed),
    )
    queue = items(root.project)
    assert {name: item["state"] for name, item in queue.items()} == cell.queue_after
    assert not any(item["claimed_by"] for item in queue.values())
    assert root.closings() == 1

    closeout = root.closeout()
    assert {name: closeout[name] for name in ("outcome", "membership", "mode")} == {
        "outcome": cell.outcome,
        "membership": cell.membership,
        "mode": cell.mode,
    }
    told = [(m["item"], m["disposition"], m["attempt"], m["blocks"]) for m in closeout["members"]]
    assert told == [
        (item, disposition, cell.attempt(item), "a" if item in cell.admits else None)
        for item, disposition in cell.ended.items()
    ]
    accepted = {m["item"] for m in closeout["members"] if m["accepted"]}
    assert accepted == {i for i, kind in cell.ended.items() if kind in ("fixed", "obe")}
    assert closeout["admitted"] == list(cell.ended)
    assert closeout["work"] == sorted(f"file-{item}" for item in fixed)
    receipts = {m["receipt_sha256"] for m in closeout["members"]} - {None}
    assert len(receipts) == len(fixed)
    assert receipts <= set(closeout["evidence"])
    assert closeout["tip"] == root.tip()


@pytest.mark.parametrize("cell", EMPTY, ids=str)
def test_a_batch_of_nothing(cell: Cell, copy: Copy) -> None:
    project = copy(cell.level, ())
    above, before = parent_of(project), items(project)
    root = opened(project, cell)
    assert (root.opened["created"], root.opened["members"]) == (True, [])
    assert root.opened["state"] == ("empty" if cell.level == "nested" else "complete")
    assert_found_again(project, cell, root, "complete", "empty")
    assert root.actions(code=0).kinds() == ["complete"]
    status = root.status()
    assert (status["state"], status["tickets"]["total"]) == ("complete", 0)
    assert items(project) == before
    closeout = root.closeout()
    assert (closeout["outcome"], closeout["members"], closeout["work"]) == ("queue-empty", [], [])
    assert (closeout["membership"], closeout["mode"]) == (cell.membership, cell.mode)
    assert closeout["tip"] == closeout["base_commit"]
    assert root.closings() == 1
    assert parent_of(project) == above


# --- thirty --------------------------------------------------------------------------------------

THIRTY = tuple(f"m{number}" for number in range(1, 31))
TURNS = ("fixed", "obe", "owned")
"""What the thirty come to, in turn."""


@pytest.mark.parametrize(("membership", "mode"), list(product(MEMBERSHIPS, MODES)))
def test_thirty_members(membership: str, mode: str, copy: Copy) -> None:
    project = copy("top", THIRTY)
    root = open_root(project, membership=membership, mode=mode)
    taken = THIRTY if mode == "autopilot" else THIRTY[:1]
    ends = {item: TURNS[at % len(TURNS)] for at, item in enumerate(taken)}
    given = root.actions(capacity=40)
    assert given.tickets() == list(taken)
    for item, kind in ends.items():
        if kind != "fixed":
            by = ("--by", "umbrella") if kind == "owned" else ()
            root.dispose(given.dispatch(item), "--as", kind, *by, "--reason", "because")
    root.fix([given.dispatch(item) for item, kind in ends.items() if kind == "fixed"])

    assert root.status()["state"] == "complete"
    left = dict.fromkeys((*THIRTY, *OTHERS), "open")
    assert states(project) == {**left, **ends}
    closeout = root.closeout()
    assert closeout["outcome"] == "done"
    assert {m["item"]: m["disposition"] for m in closeout["members"]} == ends
    fixed = [item for item, kind in ends.items() if kind == "fixed"]
    assert closeout["work"] == sorted(f"file-{item}" for item in fixed)
    assert root.closings() == 1
