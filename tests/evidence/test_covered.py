"""The rule for what is covered: a real run is, and with one thing wrong it is not."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import scene

from gitbaton.engine import reconcile, worker
from gitbaton.evidence import signature, statement
from gitbaton.evidence.covered import Coverage, Policy
from gitbaton.evidence.recompute import Recomputer
from gitbaton.git import objects
from gitbaton.model import layout
from gitbaton.model.ids import AttemptId
from gitbaton.model.run import Recorded
from gitbaton.store import runs

from .conftest import git
from .tampering import TASKS, Evidence, commit

# --- what is covered ---------------------------------------------------------------------------


def test_everything_that_a_run_made_is_covered(evidence: Evidence) -> None:
    coverage = evidence.coverage(require=("test ! -e broken",), protect_paths=("setup.cfg",))
    kinds = {claim.kind for claim in coverage.claims.values()}
    assert kinds == {"merge", "sealed", "plan", "update", "accept", "land"}
    assert not any(coverage.judge(oid) for oid in coverage.claims)
    assert all(coverage.receipt_problems(a) == [] for a in coverage.attempts.values())


def test_the_branch_is_covered_with_what_the_workers_committed_on_the_way(
    evidence: Evidence,
) -> None:
    coverage, run = evidence.coverage(), evidence.loaded.state.run
    listed = git(evidence.top, "rev-list", run.tip, f"^{run.base.commit}").split()
    begun = git(evidence.top, "rev-list", "--grep=^begin", run.tip).split()
    assert len(begun) == 3
    assert set(begun) <= set(listed)
    wrong = coverage.uncovered(listed, run.tip)
    assert {problem.code for problems in wrong.values() for problem in problems} == {"uncovered"}
    # Only what the update took in is not the run's, and that is not judged on its branch.
    outside = git(evidence.top, "rev-list", *coverage.outside()).split()
    assert set(wrong) <= set(outside)
    assert len(wrong) == 1


def test_on_the_target_only_what_people_put_there_themselves_is_uncovered(
    evidence: Evidence,
) -> None:
    base = evidence.loaded.state.run.base.commit
    listed = git(evidence.top, "rev-list", "trunk", f"^{base}").split()
    wrong = evidence.coverage().uncovered(listed, listed[0])
    subjects = {git(evidence.top, "log", "-1", "--format=%s", oid) for oid in wrong}
    assert subjects == {"the base moved", "the base moved again"}


def test_of_other_commits_a_run_says_nothing(evidence: Evidence) -> None:
    coverage = evidence.coverage()
    assert coverage.judge(git(evidence.top, "rev-parse", "trunk~1")) is None
    assert coverage.judge("1" * 40) is None


def test_a_chain_counts_as_far_as_its_end_is_there(evidence: Evidence) -> None:
    first, last = evidence.claim("merge", "1.1"), evidence.claim("merge", "1.3")
    assert first.tested_by == last.commit != first.commit
    assert evidence.codes(first.commit, last.commit) == set()
    assert evidence.codes(first.commit, first.commit) == {"untested"}


def test_a_resolution_is_covered_with_what_it_resolves(tmp_path: Path) -> None:
    top = tmp_path / "repo"
    scene.make_repository(top, [2])
    ctx = scene.context(top)
    given = scene.dispatches(scene.act(ctx, capacity=2))
    for each in given:
        commit(Path(each.cwd), "shared.txt", each.ticket)
        worker.seal(ctx, each.assignment, token=each.token)
    (again,) = scene.dispatches(
        reconcile.reconcile(ctx, given[0].assignment, outcome="completed", session="s", capacity=2)
    )
    commit(Path(again.cwd), "shared.txt", "1.1 and 1.2")
    worker.seal(ctx, again.assignment, token=again.token)
    reconcile.reconcile(ctx, again.assignment, outcome="completed", session="s", capacity=2)
    loaded = runs.load(ctx.repo, scene.RUN)
    assert loaded.state.live.complete
    with Recomputer(ctx.repo) as recomputer:
        coverage = Coverage(ctx.repo, loaded, Policy(), recomputer)
        kinds = sorted(claim.kind for claim in coverage.claims.values())
        assert kinds == ["merge", "merge", "plan", "resolution", "sealed"]
        run = loaded.state.run
        listed = git(top, "rev-list", run.tip, f"^{run.base.commit}").split()
        assert len(listed) == 6
        assert coverage.uncovered(listed, run.tip) == {}


def test_an_intent_under_way_counts(evidence: Evidence) -> None:
    tip = evidence.loaded.oid
    during = [
        entry.oid
        for entry in runs.log(evidence.repo, scene.RUN)
        if entry.event.event.endswith("-intent")
    ]
    kinds = set()
    for oid in during:
        evidence.loaded = runs.load(evidence.repo, scene.RUN, at=oid)
        coverage = evidence.coverage()
        (intent,) = evidence.loaded.state.intents.values()
        claim = coverage.claims.get(intent.new)  # type: ignore[union-attr]
        if claim is not None:
            kinds.add(claim.kind)
            assert coverage.judge(claim.commit) == []
    assert kinds == {"merge", "plan", "update", "accept", "land"}
    assert tip not in during


def test_a_unit_that_changed_since_does_not_matter(evidence: Evidence) -> None:
    evidence.set_run(unit="section")
    merges = [c for c in evidence.coverage().claims.values() if c.kind == "merge"]
    coverage = evidence.coverage()
    assert all(coverage.judge(claim.commit) == [] for claim in merges)


# --- what is not -------------------------------------------------------------------------------

Tamper = Callable[[Evidence], str]
"""Does one thing wrong; returns the commit that must not be covered then."""


def _merge(change: Callable[[Evidence], None], ticket: str = "2.1") -> Tamper:
    def tamper(evidence: Evidence) -> str:
        change(evidence)
        return evidence.claim("merge", ticket).commit

    return tamper


def _file(name: str, change: Callable[[bytes], bytes | None]) -> Tamper:
    def tamper(evidence: Evidence) -> str:
        path = layout.path_of(AttemptId("2.1", 1), name)
        evidence.write({path: change(evidence.loaded.file(path) or b"")})
        return evidence.claim("merge", "2.1").commit

    return tamper


def _green_made_red(data: bytes) -> bytes:
    return data.replace(b'"exit_code": 0', b'"exit_code": 1')


def _copied_receipt(evidence: Evidence) -> None:
    other = evidence.attempt("2.2")
    receipt = evidence.loaded.receipt(other.id)
    assert receipt is not None
    mine = evidence.attempt("2.1")
    assert mine.sealed is not None
    evidence.write({layout.path_of(mine.id, layout.RECEIPT): receipt})
    sealed = msgspec.structs.replace(mine.sealed, receipt_sha256=statement.digest(receipt))
    evidence.set_attempt("2.1", sealed=sealed)


def _red(evidence: Evidence) -> tuple[Any, ...]:
    data = evidence.loaded.receipt(AttemptId("2.1", 1))
    assert data is not None
    checks = statement.parse(data).predicate.checks
    return tuple(msgspec.structs.replace(check, exit_code=1) for check in checks)


def _other_merge(
    files: Mapping[str, bytes | None] | None = None,
    *,
    parents: Callable[[Evidence, tuple[str, ...]], list[str]] | None = None,
    message: Callable[[str], str] = lambda text: text,
) -> Tamper:
    def tamper(evidence: Evidence) -> str:
        old = evidence.claim("merge", "2.1").commit
        info = objects.commit_info(evidence.repo, old)
        others = parents(evidence, info.parents) if parents else None
        new = evidence.again(old, files or {}, others, message=message(info.message))
        return evidence.swap_merge("2.1", new)

    return tamper


def _ticks_more(evidence: Evidence) -> str:
    old = evidence.claim("merge", "2.2").commit  # the first of the section
    text = evidence.text(old).replace(b"- [ ] 2.1", b"- [x] 2.1")
    assert text != evidence.text(old)
    return evidence.swap_merge("2.2", evidence.again(old, {TASKS: text}))


def _ticks_nothing(evidence: Evidence) -> str:
    old = evidence.claim("merge", "2.1").commit
    text = evidence.text(old).replace(b"- [x] 2.1", b"- [ ] 2.1")
    return evidence.swap_merge("2.1", evidence.again(old, {TASKS: text}))


def _reworded(evidence: Evidence) -> str:
    old = evidence.claim("merge", "2.1").commit
    text = evidence.text(old).replace(b"Ticket 1", b"Ticket one")
    return evidence.swap_merge("2.1", evidence.again(old, {TASKS: text}))


def _on_stranger(evidence: Evidence) -> str:
    """A merge of a sealed commit onto an integration commit that the state does not know."""
    old = evidence.claim("merge", "2.1").commit
    parents = objects.commit_info(evidence.repo, old).parents
    onto = evidence.again(parents[0], {"sneaked": b"in\n"})
    new = evidence.again(old, {"sneaked": b"in\n"}, [onto, *parents[1:]])
    return evidence.swap_merge("2.1", new)


def _merges_another(evidence: Evidence) -> str:
    old = evidence.claim("merge", "2.1").commit
    parents = objects.commit_info(evidence.repo, old).parents
    sealed = evidence.again(parents[1], {}, message="not the one that was sealed")
    return evidence.swap_merge("2.1", evidence.again(old, {}, [parents[0], sealed]))


def _tested_elsewhere(evidence: Evidence) -> None:
    evidence.set_attempt("2.1", tested_by=evidence.attempt("1.1").sealed.commit)  # type: ignore[union-attr]


def _in_place(evidence: Evidence) -> str:
    """2.3 is covered by its worker's commit; that was sealed where the worker had worked."""
    attempt = evidence.attempt("2.3")
    assert attempt.sealed is not None
    assert attempt.tested_by == attempt.sealed.commit
    evidence.reseal("2.3", sealed_in="worktree")
    sealed = evidence.attempt("2.3").sealed
    assert sealed is not None
    evidence.set_attempt("2.3", sealed=msgspec.structs.replace(sealed, sealed_in="worktree"))
    assert evidence.coverage().receipt_problems(evidence.attempt("2.3")) == []
    return evidence.claim("merge", "2.3").commit


def _plan_with_code(evidence: Evidence) -> str:
    old = evidence.claim("plan").commit
    return evidence.swap_recorded(old, evidence.again(old, {"code.py": b"x\n"}), receipt=False)


def _recorded_file(kind: str) -> Tamper:
    def tamper(evidence: Evidence) -> str:
        oid = evidence.claim(kind).commit
        path = layout.commit_path(oid)
        evidence.write({path: _green_made_red(evidence.loaded.file(path) or b"")})
        return oid

    return tamper


def _without_receipt(kind: str) -> Tamper:
    def tamper(evidence: Evidence) -> str:
        oid = evidence.claim(kind).commit
        evidence.write({layout.commit_path(oid): None})
        evidence.set_recorded(oid, receipt_sha256=None)
        return oid

    return tamper


def _unrecorded_receipt(evidence: Evidence) -> str:
    oid = evidence.claim("update").commit
    evidence.set_recorded(oid, receipt_sha256=None)
    return oid


def _other_tree(kind: str) -> Tamper:
    def tamper(evidence: Evidence) -> str:
        old = evidence.claim(kind).commit
        return evidence.swap_recorded(old, evidence.again(old, {"more": b"x\n"}), receipt=False)

    return tamper


def _update_that_ticks(receipt: bool) -> Tamper:
    def tamper(evidence: Evidence) -> str:
        old = evidence.claim("update").commit
        text = evidence.text(old).replace(b"- [ ] 2.1", b"- [x] 2.1")
        return evidence.swap_recorded(old, evidence.again(old, {TASKS: text}), receipt=receipt)

    return tamper


def _update_on_stranger(evidence: Evidence) -> str:
    old = evidence.claim("update").commit
    parents = objects.commit_info(evidence.repo, old).parents
    onto = evidence.again(parents[0], {}, message="another")
    return evidence.swap_recorded(old, evidence.again(old, {}, [onto, *parents[1:]]), receipt=True)


def _landing_of_a_stranger(evidence: Evidence) -> str:
    old = evidence.claim("land").commit
    parents = objects.commit_info(evidence.repo, old).parents
    tip = evidence.again(parents[1], {}, message="another")
    return evidence.swap_recorded(old, evidence.again(old, {}, [parents[0], tip]), receipt=True)


WRONG: dict[str, tuple[Tamper, str]] = {
    "a byte of the receipt": (_file(layout.RECEIPT, _green_made_red), "receipt-rejected"),
    "no receipt": (_file(layout.RECEIPT, lambda _: None), "receipt-rejected"),
    "a byte of the packet": (
        _file(layout.PACKET, lambda data: data.replace(b"Ticket", b"ticket")),
        "receipt-rejected",
    ),
    "no packet": (_file(layout.PACKET, lambda _: None), "packet-missing"),
    "a byte of the merged receipt": (_file(layout.MERGED, _green_made_red), "receipt-rejected"),
    "no merged receipt": (_file(layout.MERGED, lambda _: None), "receipt-missing"),
    "another attempt's receipt": (_merge(_copied_receipt), "receipt-rejected"),
    "a red check": (_merge(lambda e: e.reseal("2.1", checks=_red(e))), "receipt-rejected"),
    "no check": (_merge(lambda e: e.reseal("2.1", checks=())), "receipt-rejected"),
    "a red check of the merge": (
        _merge(lambda e: e.retest("2.1", checks=_red(e))),
        "receipt-rejected",
    ),
    "no check of the merge": (_merge(lambda e: e.retest("2.1", checks=())), "receipt-rejected"),
    "a merged receipt of another ticket": (
        _merge(lambda e: e.retest("2.1", ticket="2.2")),
        "receipt-rejected",
    ),
    "a merged receipt that does not cover it": (
        _merge(lambda e: e.retest("2.1", covers=())),
        "receipt-rejected",
    ),
    "a chain whose receipt does not cover it": (
        _merge(lambda e: e.retest("1.3", covers=(e.attempt("1.3").merge_commit,)), "1.1"),
        "untested",
    ),
    "never tested": (_merge(lambda e: e.set_attempt("2.1", tested_by=None)), "untested"),
    "tested on a commit that is not recorded": (
        _merge(lambda e: e.set_attempt("2.1", tested_by="1" * 40)),
        "untested",
    ),
    "tested on another tree": (_merge(_tested_elsewhere), "untested"),
    "tested where the worker had worked": (_in_place, "untested"),
    "another tree": (_other_merge({"more.txt": b"x\n"}), "not-reproducible"),
    "a file less": (_other_merge({"shared.txt": None}), "not-reproducible"),
    "another box ticked": (_ticks_more, "box-without-receipt"),
    "its box not ticked": (_ticks_nothing, "not-reproducible"),
    "the plan reworded by a merge": (_reworded, "not-reproducible"),
    "no tasks file": (_other_merge({TASKS: None}), "not-reproducible"),
    "onto a commit that is not recorded": (_on_stranger, "unrecorded-parent"),
    "of a commit that was not sealed": (_merges_another, "wrong-parents"),
    "of one parent": (
        _other_merge(parents=lambda _, parents: [parents[0]]),
        "wrong-parents",
    ),
    "a trailer that names another receipt": (
        _other_merge(message=lambda text: text.replace("Baton-Receipt: ", "Baton-Receipt: 0")),
        "wrong-trailer",
    ),
    "a plan commit with code": (_plan_with_code, "plan-touches-code"),
    "a byte of an update's receipt": (_recorded_file("update"), "receipt-rejected"),
    "a byte of a landing's receipt": (_recorded_file("land"), "receipt-rejected"),
    "a byte of an acceptance's receipt": (_recorded_file("accept"), "receipt-rejected"),
    "a receipt without a recorded digest": (_unrecorded_receipt, "receipt-unrecorded"),
    "an acceptance without a receipt": (_without_receipt("accept"), "untested"),
    "an update with another tree": (_other_tree("update"), "not-reproducible"),
    "a landing with another tree": (_other_tree("land"), "not-reproducible"),
    "an update that ticks": (_update_that_ticks(False), "box-without-receipt"),
    "a tested update that ticks": (_update_that_ticks(True), "box-without-receipt"),
    "an update of a commit that is not recorded": (_update_on_stranger, "unrecorded-parent"),
    "a landing of a commit that is not recorded": (_landing_of_a_stranger, "unrecorded-parent"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_one_thing_wrong(evidence: Evidence, wrong: str) -> None:
    tamper, code = WRONG[wrong]
    oid = tamper(evidence)
    assert code in evidence.codes(oid), evidence.coverage().judge(oid)
    assert oid in evidence.coverage().uncovered([oid])


def test_what_was_altered_is_named(evidence: Evidence) -> None:
    oid = _file(layout.RECEIPT, _green_made_red)(evidence)
    path = layout.path_of(AttemptId("2.1", 1), layout.RECEIPT)
    said = evidence.said(oid)
    assert f"{evidence.loaded.oid}:{path}" in said
    assert "predicate.checks[0].exit_code" in said
    assert "predicate.checks[0].exit_code" in evidence.said(_recorded_file("update")(evidence))


def test_what_differs_from_the_recomputed_merge_is_named(evidence: Evidence) -> None:
    oid = _other_merge({"more.txt": b"x\n"})(evidence)
    assert evidence.said(oid).startswith(f"not-reproducible {oid}:more.txt ")
    data = evidence.loaded.merged_receipt(AttemptId("2.1", 1))
    assert data is not None
    made = {**statement.parse(data).predicate.merge, "git": "2.99.0"}
    evidence.retest("2.1", merge=made)
    assert "made with git 2.99.0" in evidence.said(oid)
    oid = _ticks_more(evidence)
    assert evidence.said(oid).startswith(f"box-without-receipt {oid}:{TASKS} ")


def test_an_attempt_that_cannot_be_read_has_no_say(evidence: Evidence) -> None:
    oid = evidence.claim("merge", "2.1").commit
    evidence.write({layout.path_of(AttemptId("2.1", 1), layout.ATTEMPT): b"{"})
    assert evidence.coverage().judge(oid) is None
    assert oid in evidence.coverage().uncovered([oid])


def test_a_commit_that_is_missing_is_a_problem(evidence: Evidence) -> None:
    evidence.set_attempt("2.1", merge_commit="1" * 40)
    assert evidence.codes("1" * 40) == {"missing-object"}


# --- the verifier's policy ---------------------------------------------------------------------


def test_required_checks_must_have_run_wherever_something_landed(evidence: Evidence) -> None:
    lacking = evidence.coverage(require=("make test",))
    for claim in lacking.claims.values():
        found = {problem.code for problem in lacking.judge(claim.commit) or []}
        assert found == (set() if claim.kind == "plan" else {"required-check-missing"})


def test_where_checks_are_required_a_recomputed_update_needs_them_too(evidence: Evidence) -> None:
    for kind in ("update", "land"):
        oid = _without_receipt(kind)(evidence)
        assert evidence.codes(oid) == set()
        assert evidence.codes(oid, require=("test ! -e broken",)) == {"required-check-missing"}


def test_protected_paths_must_not_have_been_changed_by_workers(evidence: Evidence) -> None:
    oid = evidence.claim("merge", "2.1").commit
    assert evidence.codes(oid, protect_paths=("*.txt",)) == {"protected-path"}
    assert evidence.codes(oid, protect_paths=("1.1.txt", TASKS)) == set()


def test_a_required_signature_must_be_there(evidence: Evidence) -> None:
    coverage = evidence.coverage(require_signature=True)
    coverage.verify_signatures()
    for claim in coverage.claims.values():
        found = [problem.code for problem in coverage.judge(claim.commit) or []]
        assert ("receipt-rejected" in found) == (claim.kind != "plan")


def test_signed_receipts_are_judged_several_at_once(evidence: Evidence, tmp_path: Path) -> None:
    key, foreign = (ssh_key(tmp_path / name) for name in ("key", "foreign"))
    for ticket, by in {"2.1": key, "2.2": key, "2.3": foreign}.items():
        attempt = evidence.attempt(ticket)
        receipt = evidence.loaded.receipt(attempt.id)
        assert receipt is not None
        assert attempt.sealed is not None
        signed = signature.sign(signature.Signer(str(by)), receipt)
        evidence.write({layout.path_of(attempt.id, layout.RECEIPT_SIGNATURE): signed})
        digest = signature.digest(signed)
        sealed = msgspec.structs.replace(attempt.sealed, signature_sha256=digest)
        evidence.set_attempt(ticket, sealed=sealed)
    allowed = tmp_path / "allowed"
    allowed.write_text(f"ann@example.com {key.with_suffix('.pub').read_text()}")
    policy = {"signers": signature.Signers(allowed), "require_signature": True}
    coverage = evidence.coverage(**policy)
    coverage.verify_signatures()
    wrong = {a.ticket: coverage.receipt_problems(a) for a in coverage.attempts.values()}
    assert wrong["2.1"] == wrong["2.2"] == []
    assert ["key" in problem.message for problem in wrong["2.3"]] == [True]
    assert all(wrong[ticket] for ticket in ("1.1", "1.2", "1.3"))
    lenient = evidence.coverage(signers=policy["signers"])
    wrong = {a.ticket: lenient.receipt_problems(a) for a in lenient.attempts.values()}
    assert [ticket for ticket, problems in wrong.items() if problems] == ["2.3"]
    path = layout.path_of(AttemptId("2.1", 1), layout.RECEIPT_SIGNATURE)
    evidence.write({path: None})
    assert "receipt-rejected" in evidence.codes(evidence.claim("sealed", "2.1").commit)


def ssh_key(path: Path) -> Path:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(words, check=True)
    return path


# --- ticked by hand ----------------------------------------------------------------------------


def test_boxes_that_no_receipt_ticked(evidence: Evidence) -> None:
    coverage, tip = evidence.coverage(), evidence.loaded.state.run.tip
    assert coverage.ticked_by_hand(tip) == ("2.4",)
    assert coverage.ticked_by_hand(git(evidence.top, "rev-parse", "trunk"), tip) == ()


def test_a_merge_that_is_not_covered_resolves_nothing(evidence: Evidence) -> None:
    tip, base = evidence.loaded.state.run.tip, evidence.loaded.state.run.base.commit
    evidence.set_attempt("2.1", sealed=None)
    assert set(evidence.coverage().ticked_by_hand(tip, base)) == {"2.1", "2.4"}


def test_only_what_the_branch_holds_takes_anything_in(evidence: Evidence) -> None:
    """An update that is recorded and lies elsewhere must not hide a commit from being judged."""
    run = evidence.loaded.state.run
    git(evidence.top, "checkout", "-q", "-f", "--detach", run.tip)
    stray = commit(evidence.top, "stray.txt", "stray")
    tree = git(evidence.top, "rev-parse", f"{stray}^{{tree}}")
    aside = evidence.commit_tree(tree, run.tip, stray)
    recorded = Recorded(commit=aside, kind="update")
    evidence.set_run(recorded=(*run.recorded, recorded))
    coverage = evidence.coverage()
    assert stray not in coverage.outside(stray)
    assert stray in coverage.outside(aside)


def test_a_state_that_goes_on_from_no_state(evidence: Evidence) -> None:
    update, run = evidence.claim("update").commit, evidence.loaded.state.run
    state = evidence.commit_tree(evidence.loaded.tree, run.tip)
    evidence.loaded = runs.load(evidence.repo, scene.RUN, at=state)
    other = evidence.swap_recorded(
        update,
        evidence.again(update, {TASKS: evidence.text(update) + b"- [ ] 9.9 More\n"}),
        receipt=False,
    )
    assert "not-reproducible" in evidence.codes(other)
