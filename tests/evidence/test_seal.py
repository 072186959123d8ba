"""A receipt says that checks were green on one commit, and is believed only as it was recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gitbaton.errors import Refused, RepositoryError
from gitbaton.evidence import seal, statement
from gitbaton.model import codec
from gitbaton.model.run import Failure

from .conftest import NOON, Work, git


def test_a_green_commit_gets_a_receipt(work: Work) -> None:
    commit = work.commit()
    receipt = work.seal()
    parsed = statement.parse(receipt)
    predicate = parsed.predicate
    assert parsed.commit == commit
    assert parsed.tree == work.git("rev-parse", "HEAD^{tree}")
    assert predicate.assignment == "add-login/1.1@1"
    assert predicate.changed_files == ("src/app.py",)
    assert [(c.command, c.exit_code) for c in predicate.checks] == [("sh check.sh", 0)]
    assert predicate.sealed_in == "verification-worktree"
    assert predicate.sealed_at == NOON.stamp
    assert judged(work, receipt) is None


def test_a_red_check_makes_no_receipt(work: Work) -> None:
    work.with_packet(checks=("true", "echo broken; exit 5"))
    work.commit()
    with pytest.raises(Refused) as refused:
        work.seal()
    assert refused.value.code == "checks-failed"
    assert "`echo broken; exit 5` ended with exit 5" in refused.value.message
    checks = refused.value.payload["checks"]
    assert isinstance(checks, list)
    assert [c.exit_code for c in checks] == [0, 5]
    assert checks[1].output_tail == "broken\n"


def test_no_checks_seal_nothing(work: Work) -> None:
    work.with_packet(checks=())
    work.commit()
    with pytest.raises(Refused) as refused:
        work.seal()
    assert refused.value.code == "no-checks"


def test_stray_files_of_the_worker_prove_nothing(work: Work) -> None:
    work.with_packet(checks=("test -e helper.tmp",))
    work.commit()
    work.write("helper.tmp", "ignored, so not in the commit\n")
    verified = seal.verify_in_place(work.attempt, work.packet, work.settings, logs=work.logs)
    assert verified.checks[0].green
    with pytest.raises(Refused) as refused:
        work.seal()
    assert refused.value.code == "checks-failed"


def test_checks_run_in_the_folder_of_the_project(work: Work) -> None:
    work.with_packet(project_dir="src", checks=("test -e app.py",))
    work.commit()
    work.seal()


def test_checks_see_what_setup_makes(work: Work, path: Path) -> None:
    (path / ".env").write_text("KEY=1\n")
    work.with_settings(copy=(".env",), setup=("mkdir -p deps; touch deps/tool",))
    work.with_packet(checks=("test -e deps/tool && grep -q KEY=1 .env",))
    work.commit()
    work.seal()


def test_verify_tells_what_its_checks_made(work: Work) -> None:
    work.with_packet(checks=("mkdir -p out && touch out/report seen", "exit 1"))
    work.commit()
    work.write("before", "x")
    verified = seal.verify_in_place(work.attempt, work.packet, work.settings, logs=work.logs)
    assert [c.exit_code for c in verified.checks] == [0, 1]
    assert "seen" in verified.made
    assert "before" not in verified.made
    (work.top / "before").unlink()
    work.examine(made_by_checks=verified.made)


def test_sealing_in_the_workers_worktree_is_marked(work: Work) -> None:
    work.with_settings(seal_in="worktree")
    work.with_packet(checks=("test -e helper.tmp; touch made",))
    work.commit()
    work.write("helper.tmp", "x")
    receipt = work.seal()
    assert statement.parse(receipt).predicate.sealed_in == "worktree"
    assert judged(work, receipt) is None


@pytest.mark.parametrize(
    "check", ["echo x >> src/app.py", "git commit -q --allow-empty -m sneaked"]
)
def test_sealing_in_place_needs_the_commit_to_stay(work: Work, check: str) -> None:
    work.with_settings(seal_in="worktree")
    work.with_packet(checks=(check,))
    work.commit()
    with pytest.raises(Refused) as refused:
        work.seal()
    assert refused.value.code == "changed-while-sealing"


def test_a_check_cannot_move_the_workers_branch(work: Work) -> None:
    work.with_packet(checks=("git commit -q --allow-empty -m sneaked; git rev-parse HEAD",))
    commit = work.commit()
    work.seal()
    assert work.git("rev-parse", "HEAD") == commit


def test_any_commit_can_be_tested(work: Work, path: Path) -> None:
    def results(commit: str) -> list[int]:
        found = seal.test_commit(
            work.repo, work.settings, commit, work.packet.checks, project_dir="", logs=work.logs
        )
        return [check.exit_code for check in found]

    assert results(work.base) == [1]
    assert results(work.commit()) == [0]
    assert git(path, "rev-parse", "HEAD") == work.base


# --- judging a stored receipt -------------------------------------------------------------------


def judged(work: Work, receipt: bytes | None, **how: Any) -> Failure | None:
    packet = codec.encode(work.packet)
    return seal.reverify(work.repo, "add-login", work.attempt, receipt, packet=packet, **how)


@pytest.fixture
def receipt(work: Work) -> bytes:
    work.commit()
    return work.seal()


def message(failure: Failure | None) -> str:
    assert failure is not None
    assert failure.code == "receipt-rejected"
    assert "\n" not in failure.message
    return failure.message


def test_altered_bytes_are_named_by_their_field(work: Work, receipt: bytes) -> None:
    altered = receipt.replace(b'"exit_code": 0', b'"exit_code": 1')
    assert "predicate.checks[0].exit_code" in message(judged(work, altered, reference=receipt))
    assert "not the ones recorded" in message(judged(work, altered))
    assert "not the ones recorded" in message(judged(work, receipt + b"\n", reference=altered))
    assert "missing" in message(judged(work, None))


def forge(work: Work, receipt: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    """A receipt altered together with the digest that the state records."""
    document = json.loads(receipt)
    change(document)
    forged = json.dumps(document, sort_keys=True).encode()
    assert work.attempt.sealed is not None
    sealed = msgspec.structs.replace(work.attempt.sealed, receipt_sha256=statement.digest(forged))
    work.with_attempt(sealed=sealed)
    return forged


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("run", "other"),
        ("ticket", "1.2"),
        ("attempt", 2),
        ("assignment", "add-login/1.1@2"),
        ("plan_revision", 2),
        ("packet_sha256", "0" * 64),
        ("token_sha256", "0" * 64),
        ("base_commit", "0" * 40),
        ("sealed_in", "worktree"),
        ("checks", []),
    ],
)
def test_each_field_must_be_the_recorded_one(
    work: Work, receipt: bytes, field: str, value: object
) -> None:
    forged = forge(work, receipt, lambda d: d["predicate"].update({field: value}))
    assert f"predicate.{field}" in message(judged(work, forged))


def test_red_or_missing_checks_are_rejected(work: Work, receipt: bytes) -> None:
    red = forge(work, receipt, lambda d: d["predicate"]["checks"][0].update(exit_code=1))
    assert "predicate.checks[0].exit_code" in message(judged(work, red))
    other = forge(work, receipt, lambda d: d["predicate"]["checks"][0].update(command="true"))
    assert "sh check.sh" in message(judged(work, other))


def test_an_unreadable_receipt_is_rejected(work: Work, receipt: bytes) -> None:
    forged = forge(work, receipt, lambda d: d.pop("_type") and d.pop("predicate"))
    assert "cannot be read" in message(judged(work, forged))


def rebind(work: Work, receipt: bytes, commit: str, tree: str) -> bytes:
    """A receipt bound to another commit, consistently with what the state records."""

    def change(document: dict[str, Any]) -> None:
        document["subject"][0]["digest"]["gitCommit"] = commit
        document["subject"][1]["digest"]["gitTree"] = tree

    forged = forge(work, receipt, change)
    assert work.attempt.sealed is not None
    work.with_attempt(sealed=msgspec.structs.replace(work.attempt.sealed, commit=commit, tree=tree))
    return forged


def test_the_subject_must_be_what_it_says(work: Work, receipt: bytes) -> None:
    tree = work.git("rev-parse", "HEAD^{tree}")
    commit = work.git("rev-parse", "HEAD")
    other = work.git("rev-parse", f"{work.base}:src")
    root = work.git("commit-tree", "-m", "no parent", tree)
    assert "does not exist" in message(judged(work, rebind(work, receipt, "1" * 40, tree)))
    assert "not the tree" in message(judged(work, rebind(work, receipt, commit, other)))
    assert "does not descend" in message(judged(work, rebind(work, receipt, root, tree)))
    base_tree = work.git("rev-parse", f"{work.base}^{{tree}}")
    assert "the base itself" in message(judged(work, rebind(work, receipt, work.base, base_tree)))


def test_the_packet_must_be_the_recorded_one(work: Work, receipt: bytes) -> None:
    work.packet = msgspec.structs.replace(work.packet, title="another")
    assert "packet_sha256" in message(judged(work, receipt))


@pytest.mark.parametrize(
    "trick",
    ["echo >> check.sh", "rm src/app.py", "git checkout -q HEAD~1", "git sparse-checkout set docs"],
)
def test_checks_that_change_the_commit_they_test_prove_nothing(work: Work, trick: str) -> None:
    work.with_packet(checks=(trick,))
    commit = work.commit()
    with pytest.raises(Refused) as refused:
        work.seal()
    assert refused.value.code == "changed-while-sealing"
    checks = seal.test_commit(
        work.repo, work.settings, commit, (trick,), project_dir="", logs=work.logs
    )
    assert [check.green for check in checks] == [True, False]
    assert "changed while its checks ran" in checks[-1].output_tail


def test_attributes_that_no_commit_holds_seal_nothing(work: Work) -> None:
    commit = work.commit()
    attributes = work.repo.common_dir / "info" / "attributes"
    attributes.write_text("*.py filter=better\n")
    with pytest.raises(RepositoryError) as refused:
        work.seal()
    assert refused.value.code == "untracked-attributes"
    with pytest.raises(RepositoryError):
        seal.test_commit(
            work.repo, work.settings, commit, ("true",), project_dir="", logs=work.logs
        )
