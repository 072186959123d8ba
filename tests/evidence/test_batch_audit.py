"""The record of a batch cannot be changed without the audit saying where: members, returns, claims,
the end of it, and the queue that they were taken from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import scene

from gitbaton.engine import dispatch, dispose, opening, queue, steer
from gitbaton.engine.context import Context
from gitbaton.evidence import queued
from gitbaton.evidence.anchors import Witness
from gitbaton.evidence.audit import Place, audit_run
from gitbaton.evidence.covered import Policy
from gitbaton.evidence.queued import Line
from gitbaton.evidence.recompute import Recomputer
from gitbaton.git import objects, refs
from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository
from gitbaton.model import layout
from gitbaton.model.action import ActionBatch, Dispatch
from gitbaton.model.audit import RunAudit
from gitbaton.model.queue import Filters
from gitbaton.store import queues, runs

from .rewriting import ONE, History, fields, with_field

QUEUE = "bugs"


class Case:
    """A batch that has closed, and what an audit says with some state or queue in the place of its
    own."""

    def __init__(self, repo: Repository, run: str, recomputer: Recomputer) -> None:
        self.repo = repo
        self.run = run
        self.recomputer = recomputer
        self.tip = runs.tip(repo, run)
        self.history = History(repo, self.tip)
        self.queue = History(repo, queues.load(repo, QUEUE).oid)

    def audit(
        self, state: str | None = None, queue: str | None = None, *, seen: bool = False
    ) -> RunAudit:
        """``seen``: an earlier audit has seen the state as it is."""
        tip = queue or self.queue.oids[-1]
        place = Place(
            self.run,
            layout.run_ref(self.run),
            state or self.tip,
            refs.read(self.repo, layout.notes_ref(self.run)),
            {},
            {QUEUE: Line(self.repo, QUEUE, queues.queue_ref(QUEUE), tip)},
        )
        known = [Witness(self.tip, "an earlier audit saw", "ref")] if seen else []
        return audit_run(self.repo, place, Policy(), self.recomputer, known)

    def at(self, event: str) -> int:
        """The place of the last state that such an event made."""
        messages = [objects.commit_info(self.repo, oid).message for oid in self.history.oids]
        return max(n for n, text in enumerate(messages) if f"Baton-Event: {event}\n" in text)


def codes(verdict: RunAudit) -> set[str]:
    return {problem.code for problem in verdict.problems}


def said(verdict: RunAudit) -> str:
    return "\n".join(f"{p.code} {p.where} {p.message}" for p in verdict.problems)


def make_batch(top: Path) -> str:
    """A snapshot of three items: one is fixed; one is blocked by a fourth, tried in vain, and fixed
    after a pause; one is left to another run."""
    scene.make_repository(top, [1])
    for key, value in (("baton.fsync", "false"), ("baton.verifyMerged", "always")):
        scene.git(top, "config", key, value)
    ctx = scene.context(top)
    for item in ("1.1", "1.2", "1.3", "2.9"):
        texts = queue.Texts(title=f"Item {item}", labels=() if item == "2.9" else ("mine",))
        queue.add(ctx, QUEUE, texts, item)
    run = opening.open_batch(
        ctx,
        queue=QUEUE,
        membership="snapshot",
        mode="autopilot",
        request_id="r",
        filters=Filters(labels=("mine",)),
        gates=("test ! -e broken",),
    ).run
    given = handed_out(act(ctx, run, 3))
    finish(ctx, given["1.1"])
    give_back(ctx, given["1.2"], "blocked", by=("2.9",))
    give_back(ctx, given["1.3"], "owned", by=("another",))
    given = handed_out(finish(ctx, handed_out(act(ctx, run))["2.9"]))
    give_back(ctx, given["1.2"], "unresolved")
    steer.resume(ctx, run)
    assert finish(ctx, handed_out(act(ctx, run))["1.2"]).state == "complete"
    return run


def act(ctx: Context, run: str, capacity: int = 1) -> ActionBatch:
    return dispatch.actions(ctx, run, session="s", capacity=capacity)


def handed_out(batch: ActionBatch) -> dict[str, Dispatch]:
    return {a.ticket: a for a in batch.actions if isinstance(a, Dispatch)}


def finish(ctx: Context, given: Dispatch) -> ActionBatch:
    return scene.finish_one(ctx, given, capacity=1)


def give_back(ctx: Context, given: Dispatch, kind: Any, by: tuple[str, ...] = ()) -> None:
    dispose.dispose(ctx, given.assignment, kind, by=by, reason="so it is", token=given.token)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    top = tmp_path_factory.mktemp("batch") / "repo"
    run = make_batch(top)
    repo = open_repository(top)
    with Recomputer(repo) as recomputer:
        yield Case(repo, run, recomputer)


def test_the_batch_as_it_is_has_no_problem(case: Case) -> None:
    verdict = case.audit()
    assert verdict.problems == (), said(verdict)
    assert (verdict.transitions, verdict.merges) == (len(case.history.oids), 3)


def test_killed_after_any_transition(case: Case) -> None:
    """The queue may be ahead of the state, and the notes are."""
    line = Line(case.repo, QUEUE, queues.queue_ref(QUEUE), case.queue.oids[-1])
    for oid in case.history.oids:
        place = Place(case.run, layout.run_ref(case.run), oid, queues={QUEUE: line})
        verdict = audit_run(case.repo, place, Policy(), case.recomputer)
        assert verdict.problems == (), said(verdict)


def test_every_field_of_what_only_a_batch_has(case: Case) -> None:
    """Each value where it first stands: changing it later changes less."""
    tried: set[tuple[str, str, str]] = set()
    for at in range(len(case.history.oids)):
        for path, blob in case.history.files(at).items():
            if path not in (layout.BATCH, layout.CLOSEOUT) and not path.startswith("intents/"):
                continue
            for field in fields(json.loads(objects.read_blob(case.repo, blob))):
                known = path, field.name, str(field.value)
                if known in tried:
                    continue
                alter = partial(with_field, field=field)
                made = case.history.with_file(at, path, alter, keep_old=len(tried) % 2 == 0)
                verdict = case.audit(made[-1], seen=True)
                where = f"{made[at]}:{path}#{field.name}"
                assert any(p.where.startswith(where) for p in verdict.problems), (
                    where,
                    said(verdict),
                )
                tried.add(known)
    assert len(tried) > 150


# --- what nobody has seen before ---------------------------------------------------------------


def set_to(keys: tuple[str | int, ...], value: Any) -> Callable[[bytes], bytes]:
    """What sets a field of a document; ``value`` may make it of the old one."""

    def alter(data: bytes) -> bytes:
        document = json.loads(data)
        at = document
        for key in keys[:-1]:
            at = at[key]
        at[keys[-1]] = value(at.get(keys[-1])) if callable(value) else value
        return json.dumps(document).encode()

    return alter


def without_first(members: list[Any]) -> list[Any]:
    return members[1:]


def with_another(members: list[Any]) -> list[Any]:
    return [*members, {"id": "other"}]


@pytest.mark.parametrize(
    ("event", "keys", "value", "code"),
    [
        ("dispose", ("members",), without_first, "member-lost"),
        ("dispose", ("members",), with_another, "membership-widened"),
        ("freeze", ("members",), with_another, "membership-widened"),
        ("dispose", ("members", 0, "history"), [], None),
        ("dispose", ("members", 1, "history"), [], "illegal-change"),
        ("dispose", ("members", 1, "history", 1, "reason"), "another", "bad-disposition"),
        ("dispose", ("members", 1, "history", 1, "kind"), "obe", "bad-disposition"),
        ("dispose", ("members", 1, "blockers"), [], "illegal-change"),
        ("dispose", ("pause",), None, None),
        ("freeze", ("freeze", "count"), 7, "bad-freeze"),
        ("freeze", ("freeze", "tip"), ONE, "bad-freeze"),
        ("freeze", ("queue_revision",), ONE, "queue-rewritten"),
        ("gates", ("freeze", "gates"), [], "bad-close"),
        ("gates", ("freeze", "gates", 0, "command"), "true", "bad-close"),
        ("claim", ("pending",), ["x"], "illegal-change"),
        ("close", ("closed",), "queue-empty", "bad-close"),
        ("close", ("closed",), None, "bad-batch"),
    ],
)
def test_step_that_no_verb_makes(
    case: Case, event: str, keys: tuple[str | int, ...], value: object, code: str | None
) -> None:
    """History from there on is made to agree as far as it can."""
    made = case.history.with_file(case.at(event), layout.BATCH, set_to(keys, value))
    verdict = case.audit(made[-1])
    if code is not None:
        assert code in codes(verdict), said(verdict)
    assert not verdict.ok or value in (None, [])


@pytest.mark.parametrize(
    "field", ["outcome", "mode", "tip", "queue", "members", "work", "evidence", "admitted"]
)
def test_closeout_that_says_something_else(case: Case, field: str) -> None:
    def alter(data: bytes) -> bytes:
        document = json.loads(data)
        value = document[field]
        return json.dumps({**document, field: value[1:]}).encode()

    made = case.history.with_file(case.at("close"), layout.CLOSEOUT, alter)
    verdict = case.audit(made[-1])
    assert codes(verdict) & {"closeout-differs", "corrupt-state"}, said(verdict)
    assert f"{made[-1]}:{layout.CLOSEOUT}" in said(verdict)


def test_capability_that_the_queue_never_saw(case: Case) -> None:
    def alter(data: bytes) -> bytes:
        document = json.loads(data)
        return json.dumps({**document, "capability": "f" * 64}).encode()

    path = next(p for p in case.history.files(case.at("integrate")) if p.endswith("/attempt.json"))
    made = case.history.with_file(case.at("integrate"), path, alter)
    verdict = case.audit(made[-1])
    assert {"claim-without-item", "illegal-change"} <= codes(verdict), said(verdict)
    assert f"{path}#capability" in said(verdict)


def test_receipts_name_the_mode(case: Case) -> None:
    """A batch that is said to have been of one item: its receipts and its members know better."""
    alter = set_to(("target", "descriptor", "mode"), "one-item")
    verdict = case.audit(case.history.with_file(0, layout.RUN, alter)[-1])
    assert "membership-widened" in codes(verdict)
    assert "predicate.mode is 'autopilot', but must be 'one-item'" in said(verdict)


# --- the queue ---------------------------------------------------------------------------------


def test_queue_that_is_gone(case: Case) -> None:
    place = Place(case.run, layout.run_ref(case.run), case.tip)
    verdict = audit_run(case.repo, place, Policy(), case.recomputer)
    assert codes(verdict) == {"queue-missing"}


def test_queue_put_back(case: Case) -> None:
    verdict = case.audit(queue=case.queue.oids[-2])
    assert codes(verdict) == {"close-not-queued"}
    verdict = case.audit(queue=case.queue.oids[3])
    assert "queue-rewritten" in codes(verdict)


@pytest.mark.parametrize("keep_old", [False, True])
def test_queue_made_anew(case: Case, keep_old: bool) -> None:
    made = case.queue.with_commits(
        2, lambda _, raw: raw._replace(message=f"{raw.message}x"), keep_old=keep_old
    )
    assert "queue-rewritten" in codes(case.audit(queue=made[-1]))


def test_items_are_read_where_they_were_taken(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim counts only in the change that followed the revision it was made at."""
    monkeypatch.setattr(queued.Line, "holds", lambda *_: False)
    assert codes(case.audit()) == {"claim-without-item"}
