"""Nothing before an anchor can be changed without the audit saying where: every field of every
object of a small run is changed, one at a time, with the history after it made to agree."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import scene

from gitbaton.evidence import anchors, beside, trees
from gitbaton.evidence.anchors import Witness
from gitbaton.evidence.audit import Place, audit_run
from gitbaton.evidence.covered import Policy
from gitbaton.evidence.recompute import Recomputer
from gitbaton.git import objects, refs
from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository
from gitbaton.model import layout
from gitbaton.model.audit import RunAudit
from gitbaton.store import runs

from .rewriting import ONE, Field, History, Raw, fields, with_field

BRANCH = f"refs/heads/baton/{scene.RUN}"


class Case:
    """A complete run, and what an audit says of it with some state in the place of its own."""

    def __init__(self, top: Path, repo: Repository, recomputer: Recomputer) -> None:
        self.top = top
        self.repo = repo
        self.recomputer = recomputer
        self.tip = runs.tip(repo, scene.RUN)
        self.history = History(repo, self.tip)
        self.named = [m.witness for m in anchors.mentioned(repo)[scene.RUN]]
        self.anchored = max(self.history.oids.index(w.state) for w in self.named)

    @property
    def notes(self) -> str:
        found = refs.read(self.repo, layout.notes_ref(scene.RUN))
        assert found is not None
        return found

    @property
    def branch(self) -> str:
        found = refs.read(self.repo, BRANCH)
        assert found is not None
        return found

    def audit(
        self,
        state: str | None = None,
        notes: str | None = None,
        *,
        branch: str | None = None,
        witnesses: tuple[Witness, ...] | None = None,
    ) -> RunAudit:
        place = Place(
            scene.RUN,
            layout.run_ref(scene.RUN),
            state or self.tip,
            notes or self.notes,
            {BRANCH: branch or self.branch},
        )
        known = self.named if witnesses is None else list(witnesses)
        return audit_run(self.repo, place, Policy(), self.recomputer, known)


def places(verdict: RunAudit) -> set[str]:
    return {problem.where for problem in verdict.problems}


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    top = tmp_path_factory.mktemp("audit") / "repo"
    scene.make_repository(top, [1, 1])
    scene.git(top, "config", "baton.fsync", "false")
    scene.git(top, "config", "baton.verifyMerged", "always")
    scene.drive(top)
    repo = open_repository(top)
    with Recomputer(repo) as recomputer:
        yield Case(top, repo, recomputer)


def test_the_run_as_it_is_has_no_problem(case: Case) -> None:
    verdict = case.audit()
    assert verdict.problems == ()
    assert verdict.ok
    assert (verdict.transitions, verdict.merges) == (len(case.history.oids), 2)
    assert verdict.unanchored == len(case.history.oids) - 1 - case.anchored == 2


def codes(verdict: RunAudit) -> set[str]:
    return {problem.code for problem in verdict.problems}


def said(verdict: RunAudit) -> str:
    return "\n".join(f"{p.code} {p.where} {p.message}" for p in verdict.problems)


# --- before an anchor --------------------------------------------------------------------------


def test_long_history_is_read_by_another_process(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = case.audit()
    early = case.history.oids[case.anchored]
    with_problems = case.audit(early)
    monkeypatch.setattr(beside, "LONG", 1)
    assert case.audit() == here
    assert case.audit(early) == with_problems


def test_the_other_process_runs_nothing_of_where_it_is_started(
    case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("gitbaton", "msgspec", "multiprocessing", "pickle"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(beside, "LONG", 1)
    assert case.audit().ok
    assert not (tmp_path / "ran").exists()


def test_merges_of_different_files_are_not_made_again(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = case.audit()
    monkeypatch.setattr(trees, "_MANY", 1)
    monkeypatch.setattr(case.recomputer, "merged", None)
    assert case.audit() == here


def test_every_field_of_every_file_before_the_last_anchor(case: Case) -> None:
    tried = 0
    for at in range(case.anchored + 1):
        for path, blob in case.history.files(at).items():
            data = objects.read_blob(case.repo, blob)
            for field in fields(json.loads(data)):
                alter = partial(with_field, field=field)
                made = case.history.with_file(at, path, alter, keep_old=tried % 2 == 0)
                verdict = case.audit(made[-1])
                assert not verdict.ok
                where = f"{made[at]}:{path}#{field.name}"
                assert any(p.startswith(where) for p in places(verdict)), (where, said(verdict))
                tried += 1
    assert tried > 500


def test_every_line_of_every_message_before_the_last_anchor(case: Case) -> None:
    for at in range(case.anchored + 1):
        raw = Raw.read(case.repo, case.history.oids[at])
        lines = raw.message.splitlines()
        for number, line in enumerate(lines):
            changed = "\n".join([*lines[:number], f"{line}x", *lines[number + 1 :]]) + "\n"

            def edit(place: int, raw: Raw, at: int = at, changed: str = changed) -> Raw:
                return raw._replace(message=changed) if place == at else raw

            made = case.history.with_commits(at, edit, keep_old=True)
            verdict = case.audit(made[-1])
            name = line.partition(": ")[0] if number > 1 else ("subject", "message")[number]
            assert f"{made[at]}#{name}" in places(verdict), said(verdict)


@pytest.mark.parametrize("header", ["author", "committer", "parent"])
def test_every_header_before_the_last_anchor(case: Case, header: str) -> None:
    for at in range(1, case.anchored + 1):

        def edit(place: int, raw: Raw, at: int = at) -> Raw:
            if place != at:
                return raw
            if header == "parent":
                return raw.with_header("parent", [*raw.parents, case.branch])
            return raw.with_header(header, ["Else <else@example.com> 1000000000 +0000"])

        made = case.history.with_commits(at, edit, keep_old=True)
        assert f"{made[at]}#{header}" in places(case.audit(made[-1]))


def test_bytes_that_are_no_field(case: Case) -> None:
    seal = case.history.oids.index(case.named[0].state)
    path = next(p for p in case.history.files(seal) if p.endswith("/receipt.json"))
    made = case.history.with_file(seal, path, lambda data: data + b" ")
    assert f"{made[seal]}:{path}#(formatting)" in places(case.audit(made[-1]))
    made = case.history.with_file(seal, path, lambda _: b"\0")
    assert f"{made[seal]}:{path}" in places(case.audit(made[-1]))


def test_old_objects_are_gone(case: Case) -> None:
    """A fresh clone does not get the old chain: what is lost is told by the merge that names it."""
    lost = Witness(ONE, "the merge X names", "X#Baton-State")
    verdict = case.audit(witnesses=(lost,))
    assert codes(verdict) == {"anchor-lost"}
    assert places(verdict) == {"X#Baton-State"}


def test_state_put_back(case: Case) -> None:
    early = case.history.oids[case.anchored - 1]
    verdict = case.audit(early)
    assert "state-rewound" in codes(verdict)
    assert early in places(verdict)


def test_state_seen_by_an_earlier_audit(case: Case) -> None:
    seen = Witness(case.tip, "an earlier audit saw", "ref")
    assert case.audit(witnesses=(seen,)).unanchored == 0
    before = case.history.oids[-2]
    assert "state-rewound" in codes(case.audit(before, witnesses=(seen,)))


def test_state_swapped_for_that_of_another_run(case: Case) -> None:
    def rename(data: bytes) -> bytes:
        return data.replace(b"add-login", b"add-logout")

    made = case.history.with_file(0, "run.json", rename)
    verdict = case.audit(made[-1])
    assert "swapped-state" in codes(verdict)
    assert f"{made[0]}:run.json#id" in places(verdict)


def test_state_that_is_gone(case: Case) -> None:
    place = Place(scene.RUN, layout.run_ref(scene.RUN), None, None, {BRANCH: case.branch})
    verdict = audit_run(case.repo, place, Policy(), case.recomputer, case.named)
    assert codes(verdict) == {"state-missing"}
    assert case.named[0].state in said(verdict)


# --- beyond the last anchor --------------------------------------------------------------------


def test_old_tip_as_a_further_parent(case: Case) -> None:
    last = len(case.history.oids) - 1
    made = case.history.with_commits(last, lambda _, raw: raw, keep_old=True)
    verdict = case.audit(made[-1])
    assert codes(verdict) == {"foreign-parent"}
    assert f"{made[last]}#parent" in places(verdict)


def step(field: tuple[str | int, ...], value: object) -> Callable[[bytes], bytes]:
    def alter(data: bytes) -> bytes:
        document = json.loads(data)
        at = document
        for key in field[:-1]:
            at = at[key]
        at[field[-1]] = value
        return json.dumps(document).encode()

    return alter


@pytest.mark.parametrize(
    ("path", "field", "value", "code"),
    [
        ("run.json", ("generation",), 3, "bad-generation"),
        ("run.json", ("created_at",), "2020-01-01T00:00:00Z", "illegal-change"),
        ("run.json", ("updated_at",), "2020-01-01T00:00:00Z", "bad-time"),
        ("run.json", ("checks",), ["true"], "illegal-change"),
        ("run.json", ("recorded",), [], "illegal-change"),
        ("run.json", ("base", "commit"), ONE, "illegal-change"),
        ("run.json", ("tip",), ONE, "missing-parent"),
        ("run.json", ("tip",), "nothing", "corrupt-state"),
        ("run.json", ("tip",), 7, "corrupt-state"),
        ("live.json", ("missing",), [], None),
        ("plan.json", ("revision",), 7, None),
    ],
)
def test_step_that_no_verb_makes(
    case: Case, path: str, field: tuple[str], value: object, code: str | None
) -> None:
    """The last transition, which no anchor holds: only what contradicts itself can be told."""
    last = len(case.history.oids) - 1
    verdict = case.audit(case.history.with_file(last, path, step(field, value))[-1])
    if code is not None:
        assert code in codes(verdict)
        assert f"{path}#{field[0]}" in said(verdict)


def test_attempt_that_goes_back(case: Case) -> None:
    last = len(case.history.oids) - 1
    path = next(p for p in case.history.files(last) if p.endswith("/attempt.json"))
    made = case.history.with_file(last, path, step(("state",), "superseded"))
    verdict = case.audit(made[-1])
    assert "illegal-transition" in codes(verdict)
    assert f"{made[last]}:{path}#state" in places(verdict)


@pytest.mark.parametrize("time", ["99999999999999", "-99999999999999", "9" * 30, "soon"])
def test_time_that_no_clock_tells(case: Case, time: str) -> None:
    last = len(case.history.oids) - 1

    def edit(_: int, raw: Raw) -> Raw:
        return raw.with_header("committer", [f"Else <else@example.com> {time} +0000"])

    verdict = case.audit(case.history.with_commits(last, edit)[-1])
    assert not verdict.ok
    assert case.history.oids[0] != verdict.problems[0].where


def test_event_that_no_verb_writes(case: Case) -> None:
    last = len(case.history.oids) - 1

    def edit(_: int, raw: Raw) -> Raw:
        return raw._replace(message=raw.message.replace("Baton-Event: integrate", "Baton-Event: x"))

    made = case.history.with_commits(last, edit)
    assert codes(case.audit(made[-1])) == {"unknown-event"}


# --- receipts, notes, the branch ---------------------------------------------------------------


def test_receipt_of_another_attempt(case: Case) -> None:
    last = len(case.history.oids) - 1
    tree = objects.tree_of(case.repo, case.tip)
    paths = [p for p, _ in objects.walk_blobs(case.repo, tree, "") if p.endswith("/receipt.json")]
    other = objects.blob_at(case.repo, tree, paths[1])
    assert other is not None
    verdict = case.audit(case.history.with_file(last, paths[0], lambda _: other)[-1])
    assert "receipt-rejected" in codes(verdict)
    assert paths[0] in said(verdict)


def noted(case: Case, edits: dict[str, bytes | None]) -> str:
    """The notes with some of them changed."""
    tree = objects.edit_tree(case.repo, objects.tree_of(case.repo, case.notes), dict(edits))
    raw = Raw.read(case.repo, case.notes)
    return raw.with_header("tree", [tree]).write(case.repo)


def test_every_field_of_every_note(case: Case) -> None:
    for path, blob in list(objects.walk_blobs(case.repo, case.notes, "")):
        data = objects.read_blob(case.repo, blob)
        first, gap, rest = data.partition(b"\n\n")
        for field in fields(json.loads(first)):
            changed = with_field(first, field) + (gap[1:] + rest if gap else b"")
            made = noted(case, {path: changed})
            found = [p for p in case.audit(notes=made).problems if p.code == "note-differs"]
            assert [p.where.partition("#")[0] for p in found] == [f"{made}:{path}"]
            assert found[0].where.startswith(f"{made}:{path}#{field.name}")


@pytest.mark.parametrize("then", ["99999999999999 +0000", "nobody"])
def test_state_whose_header_says_nonsense(case: Case, then: str) -> None:
    raw = Raw.read(case.repo, case.tip)
    who = "nobody" if then == "nobody" else f"A <a@b> {then}"
    raw = raw.with_header("author", [who]).with_header("committer", [who])
    verdict = case.audit(raw.write(case.repo))
    assert codes(verdict) & {"bad-time", "corrupt-repository"}, said(verdict)


def test_note_that_is_gone_or_nobodys(case: Case) -> None:
    path = next(p for p, _ in objects.walk_blobs(case.repo, case.notes, ""))
    assert codes(case.audit(notes=noted(case, {path: None}))) == {"note-missing"}
    made = noted(case, {f"11/11/{ONE[4:]}": b"{}\n"})
    assert codes(case.audit(notes=made)) == {"note-unknown"}


def test_commit_that_the_state_does_not_know(case: Case) -> None:
    raw = Raw.read(case.repo, case.branch)
    added = raw.with_header("parent", [case.branch]).write(case.repo)
    verdict = case.audit(branch=added)
    assert codes(verdict) == {"unrecorded-commit"}
    assert added in places(verdict)


@pytest.mark.parametrize("name", ["Run", "Ticket", "Attempt", "Receipt", "State"])
def test_trailer_of_a_merge(case: Case, name: str) -> None:
    raw = Raw.read(case.repo, case.branch)
    lines = [
        f"{line}0" if line.startswith(f"Baton-{name}: ") else line
        for line in raw.message.splitlines()
    ]
    made = raw._replace(message="\n".join(lines) + "\n").write(case.repo)
    verdict = case.audit(branch=made)
    assert f"{made}#Baton-{name}" in places(verdict)


def test_only_a_merge_names_a_state(case: Case) -> None:
    """A commit that no push guard looks at must not make an audit fail."""
    message = f"x\n\nBaton-Run: {scene.RUN}\nBaton-State: {ONE}\n"
    raw = Raw.read(case.repo, case.branch)
    said, passed = (
        raw._replace(message=message + more).write(case.repo) for more in ("", "Baton-Nonce: x\n")
    )
    assert anchors.mention_in(case.repo, said) == anchors.Mention(said, scene.RUN, ONE)
    assert anchors.mention_in(case.repo, passed) is None


def test_state_of_an_integration_under_way(case: Case) -> None:
    """The branch has moved, the state does not say so yet: nothing is wrong with that."""
    between = case.history.oids[-2]
    tree = objects.tree_of(case.repo, case.notes)
    before = objects.commit_info(case.repo, case.notes).parents[0]
    assert objects.tree_of(case.repo, before) != tree
    assert case.audit(between, before).problems == ()


def test_branch_that_is_behind_is_no_problem(case: Case) -> None:
    behind = objects.commit_info(case.repo, case.branch).parents[0]
    assert case.audit(branch=behind).ok


def test_tips_are_kept_and_a_damaged_file_is_said_to_be(case: Case) -> None:
    anchors.remember(case.repo, {"refs/a": ONE})
    anchors.remember(case.repo, {"refs/b": ONE})
    assert anchors.seen_tips(case.repo) == {"refs/a": ONE, "refs/b": ONE}
    (case.repo.baton_dir / anchors.SEEN).write_text("{")
    with pytest.raises(Exception, match="damaged"):
        anchors.seen_tips(case.repo)


def test_fields_and_how_they_are_changed() -> None:
    document = {"a": [1, {"b": None}], "c": {}}
    assert [f.name for f in fields(document)] == ["a[0]", "a[1].b", "c"]
    data = json.dumps(document).encode()
    assert json.loads(with_field(data, Field(("a", 1, "b"), None)))["a"][1]["b"] == "x"
    assert with_field(data, Field(("d",), 1)) == data
