"""Receipts as others see them: signed, required to be signed, verified and exported."""

from __future__ import annotations

import base64
import json
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from gitbaton.engine.context import open_context
from gitbaton.model.ids import AttemptId
from gitbaton.model.layout import path_of
from gitbaton.model.run import Event

from .conftest import CHANGE, TWO, Json, Project

STATE = f"refs/baton/runs/{CHANGE}"
ONE = "- [ ] 1.1 One\n"
OF_FIRST = path_of(AttemptId("1.1", 1))


class Keys:
    """Ann's key, which is an allowed signer's, and Mallory's, which is not."""

    def __init__(self, folder: Path) -> None:
        self.ann, self.mallory = folder / "ann", folder / "mallory"
        for key in (self.ann, self.mallory):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
            subprocess.run(words, check=True)
        self.allowed = folder / "allowed"
        self.allow("ann@example.com")

    def allow(self, words: str) -> None:
        self.allowed.write_text(f"{words} {Path(f'{self.ann}.pub').read_text()}")


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path)


@pytest.fixture
def signing(project: Project, keys: Keys) -> Project:
    """Ann signs, and everybody must."""
    project.set("signingKey", str(keys.ann))
    project.set("allowedSigners", str(keys.allowed))
    project.set("requireSignature", "true")
    return project


def stored(project: Project, path: str) -> bytes:
    words = ["git", "show", f"{STATE}:{path}"]
    return subprocess.run(words, cwd=project.top, capture_output=True, check=True).stdout


def exists(project: Project, path: str) -> bool:
    return bool(project.git("ls-tree", STATE, path))


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def plainly_verified(keys: Keys, receipt: bytes, signature: bytes, namespace: str) -> bool:
    """What ``ssh-keygen -Y verify`` says, without any of our code."""
    file = keys.allowed.with_name("plain.sig")
    file.write_bytes(signature)
    whom = ("-f", str(keys.allowed), "-I", "ann@example.com")
    done = subprocess.run(
        ["ssh-keygen", "-Y", "verify", *whom, "-n", namespace, "-s", str(file)],
        input=b"DSSEv1 28 application/vnd.in-toto+json %d %s" % (len(receipt), receipt),
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


# --- signing -----------------------------------------------------------------------------------


def test_a_seal_is_signed_and_anyone_verifies_it(signing: Project, keys: Keys) -> None:
    first = signing.actions(CHANGE).dispatch("1.1")
    sealed = signing.do(first)
    assert sealed["signed"] is True
    receipt, signature = (stored(signing, f"{OF_FIRST}/receipt.{s}") for s in ("json", "sig"))
    recorded = signing.state("live.json")["attempts"]["1.1@1"]["sealed"]
    assert recorded["receipt_sha256"] == digest(receipt) == sealed["receipt_sha256"]
    assert recorded["signature_sha256"] == digest(signature)
    assert plainly_verified(keys, receipt, signature, "git-baton")
    assert not plainly_verified(keys, receipt, signature, "git")
    flipped = receipt[:-9] + bytes([receipt[-9] ^ 1]) + receipt[-8:]
    assert not plainly_verified(keys, flipped, signature, "git-baton")
    signing.reconcile(first)
    assert signing.attempt("1.1@1")["state"] == "succeeded"
    assert "(signed)" in signing.type("seal", cwd=first["cwd"]).stdout


def test_what_was_checked_as_merged_is_signed_too(signing: Project, keys: Keys) -> None:
    signing.approve(TWO)
    signing.set("verifyMerged", "always")
    assert signing.finish(signing.actions(CHANGE))["state"] == "complete"
    signing.commit({"mine": "x"})
    update = signing.baton("update")["commit"]
    signing.commit({"yours": "x"})
    land = signing.baton("land")["commit"]
    recorded = {entry["commit"]: entry for entry in signing.state()["recorded"]}
    for commit in (update, land):
        receipt, signature = (stored(signing, f"commits/{commit}.{s}") for s in ("json", "sig"))
        assert plainly_verified(keys, receipt, signature, "git-baton")
        assert recorded[commit]["receipt_sha256"] == digest(receipt)
        assert recorded[commit]["signature_sha256"] == digest(signature)
    attempt = json.loads(stored(signing, f"{OF_FIRST}/attempt.json"))
    receipt, signature = (stored(signing, f"{OF_FIRST}/merged.{s}") for s in ("json", "sig"))
    assert attempt["merged_receipt_sha256"] == digest(receipt)
    assert attempt["merged_signature_sha256"] == digest(signature)
    assert plainly_verified(keys, receipt, signature, "git-baton")


def test_an_accepted_commit_is_signed_for(signing: Project, keys: Keys) -> None:
    signing.approve(TWO)
    signing.actions(CHANGE)
    there = signing.top.parent / "there"
    signing.git("worktree", "add", "-q", str(there), f"baton/{CHANGE}")
    commit = signing.commit({"mine": "x"}, there)
    signing.git("worktree", "remove", str(there))
    signing.baton("update", "--accept")
    assert signing.state()["recorded"][-1]["signature_sha256"]
    receipt, signature = (stored(signing, f"commits/{commit}.{s}") for s in ("json", "sig"))
    assert plainly_verified(keys, receipt, signature, "git-baton")


def test_a_new_receipt_replaces_the_signature(project: Project, keys: Keys) -> None:
    project.set("signingKey", str(keys.ann))
    first = project.actions(CHANGE).dispatch("1.1")
    assert project.do(first)["signed"] is True
    project.git("config", "--unset-all", "baton.signingKey")
    project.work(first, {"more": "x"})
    assert project.seal(first)["signed"] is False
    assert exists(project, f"{OF_FIRST}/receipt.json")
    assert not exists(project, f"{OF_FIRST}/receipt.sig")
    assert project.state("live.json")["attempts"]["1.1@1"]["sealed"]["signature_sha256"] is None
    project.reconcile(first)
    assert project.attempt("1.1@1")["state"] == "succeeded"


def test_a_late_receipt_keeps_its_signature(signing: Project, keys: Keys) -> None:
    first = signing.actions(CHANGE).dispatch("1.1")
    signing.work(first)
    signing.baton("abandon", "1.1@1", "--force")
    late = signing.seal(first, code=1)
    assert (late.code, late["signed"]) == ("attempt-retired", True)
    assert exists(signing, f"{OF_FIRST}/receipt.sig")
    assert signing.baton("adopt", "1.1@1")["state"] == "succeeded"


def test_a_key_of_gits_own_is_taken_over_where_it_works(project: Project, keys: Keys) -> None:
    project.git("config", "gpg.format", "ssh")
    project.git("config", "user.signingKey", str(keys.ann))
    batch = project.actions(CHANGE)
    assert project.do(batch.dispatch("1.1"))["signed"] is True
    keys.ann.unlink()  # nobody chose it for receipts, so they go on without it, and say so
    second = batch.dispatch("1.2")
    project.work(second)
    sealed = project.seal(second)
    assert sealed["signed"] is False
    assert "the receipt is not signed" in sealed.stderr and "ssh-add" in sealed.stderr


def test_a_key_that_was_chosen_must_work(project: Project, keys: Keys) -> None:
    project.set("signingKey", str(keys.ann))
    first = project.actions(CHANGE).dispatch("1.1")
    project.work(first)
    keys.ann.unlink()
    said = project.seal(first, code=1)
    assert said.code == "signing-failed" and "ssh-add" in said["error"]["hint"]
    assert project.attempt("1.1@1")["receipt_sha256"] is None


# --- required ----------------------------------------------------------------------------------


def test_no_run_starts_where_its_receipts_could_not_count(project: Project, keys: Keys) -> None:
    project.set("requireSignature", "true")

    def code() -> str:
        return project.refused("actions", CHANGE, "--session", "s").code

    assert code() == "no-signing-key"
    project.git("config", "baton.signingKey", str(keys.mallory))
    assert code() == "no-allowed-signers"
    project.git("config", "baton.allowedSigners", "/nowhere/allowed")
    assert code() == "no-allowed-signers"
    project.git("config", "baton.allowedSigners", str(keys.allowed))
    assert code() == "untrusted-key"
    keys.allow('ann@example.com valid-before="20300101"')
    project.git("config", "baton.signingKey", str(keys.ann))
    assert code() == "untrusted-key"
    keys.allow("ann@example.com")
    assert project.actions(CHANGE).tickets() == ["1.1", "1.2"]


def test_a_file_that_workers_could_change_is_not_trusted(signing: Project, keys: Keys) -> None:
    signing.write("allowed", keys.allowed.read_text())
    signing.git("config", "baton.allowedSigners", "allowed")
    assert signing.refused("actions", CHANGE, "--session", "s").code == "untrusted-signers"


def test_nothing_is_checked_in_vain(signing: Project, keys: Keys) -> None:
    """A seal that could not be signed is refused before its checks run."""
    ran = signing.top.parent / "ran"
    signing.git("config", "--unset-all", "baton.verify")
    signing.set("verify", f"touch '{ran}'")
    first = signing.actions(CHANGE).dispatch("1.1")
    signing.work(first)
    keys.ann.rename(keys.ann.with_name("away"))
    assert signing.seal(first, code=1).code == "signing-failed"
    assert not ran.exists()


def test_an_unsigned_receipt_is_rejected(project: Project, keys: Keys) -> None:
    batch = project.actions(CHANGE)
    first, second = batch.dispatch("1.1"), batch.dispatch("1.2")
    project.do(first)
    project.do(second)
    project.set("signingKey", str(keys.ann))
    project.set("allowedSigners", str(keys.allowed))
    project.set("requireSignature", "true")
    assert project.seal(second)["signed"] is True, "sealing once more signs it"
    project.reconcile(first, code=3)
    failure = project.attempt("1.1@1")["failure"]
    assert failure["code"] == "receipt-rejected" and "signature" in failure["message"]
    assert project.attempt("1.2@1")["state"] == "succeeded"
    late = project.seal(first, code=1)  # it waits for a decision: signed now, and adopted
    assert (late.code, late["signed"]) == ("attempt-retired", True)
    assert project.baton("adopt", "1.1@1")["state"] == "succeeded"


def test_who_integrates_must_sign_as_well(signing: Project, keys: Keys) -> None:
    """What was checked as merged has a receipt too: without a key the merge waits for one."""
    signing.set("verifyMerged", "always")
    first = signing.actions(CHANGE).dispatch("1.1")
    signing.do(first)
    signing.git("config", "--unset-all", "baton.signingKey")
    words = ("reconcile", first["assignment"], "--outcome", "completed", "--session", "s")
    assert signing.refused(*words).code == "no-signing-key"
    signing.set("signingKey", str(keys.ann))
    signing.baton(*words)
    assert signing.attempt("1.1@1")["state"] == "succeeded"


@pytest.mark.parametrize("required", [True, False])
def test_a_receipt_of_a_foreign_key(project: Project, keys: Keys, required: bool) -> None:
    project.set("signingKey", str(keys.mallory))
    first = project.actions(CHANGE).dispatch("1.1")
    project.do(first)
    project.set("allowedSigners", str(keys.allowed))
    project.set("requireSignature", str(required).lower())
    project.git("config", "baton.signingKey", str(keys.ann))
    project.reconcile(first)
    attempt = project.attempt("1.1@1")
    if required:
        assert attempt["failure"]["code"] == "receipt-rejected"
        assert "signature: the key is not among the allowed" in attempt["failure"]["message"]
        assert project.baton("adopt", "1.1@1", code=1).code == "receipt-rejected"
    else:
        assert attempt["state"] == "succeeded"


@pytest.mark.parametrize("forged", [b"junk", None])
def test_an_altered_signature_is_rejected_even_where_none_is_required(
    project: Project, keys: Keys, forged: bytes | None
) -> None:
    project.set("signingKey", str(keys.ann))
    first = project.actions(CHANGE).dispatch("1.1")
    project.do(first)
    tamper(project, f"{OF_FIRST}/receipt.sig", forged)
    project.reconcile(first)
    failure = project.attempt("1.1@1")["failure"]
    assert failure["code"] == "receipt-rejected" and "signature" in failure["message"]


def tamper(project: Project, path: str, data: bytes | None) -> None:
    """Change one file of the state, as somebody would who can write the repository."""
    ctx = open_context(project.top)
    event = Event(event="tamper", message="tamper")
    ctx.transact(CHANGE, lambda loaded: (replace(loaded.state, files={path: data}), event))


# --- commits -----------------------------------------------------------------------------------


def test_every_commit_is_signed_with_commit_gpgsign(project: Project, keys: Keys) -> None:
    for name, value in (
        ("commit.gpgSign", "true"),
        ("gpg.format", "ssh"),
        ("user.signingKey", str(keys.ann)),
        ("gpg.ssh.allowedSignersFile", str(keys.allowed)),
    ):
        project.git("config", name, value)
    project.approve(TWO)
    project.plan(TWO + "- [ ] 1.3 Three\n")  # for a plan commit
    assert project.finish(project.actions(CHANGE))["state"] == "complete"
    project.baton("reopen", "1.3", "--reason", "R")
    project.finish(project.actions(CHANGE))
    project.commit({"mine": "x"})
    project.baton("update")
    project.commit({"yours": "x"})
    project.baton("land")
    kinds = {entry["kind"] for entry in project.state()["recorded"]}
    assert kinds == {"plan", "update", "land"}
    for tip in ("trunk", STATE):
        signed = project.git("log", "--format=%G?%GS %h %s", f"{project.base}..{tip}").splitlines()
        assert len(signed) > 5
        assert {line.split()[0] for line in signed} == {"Gann@example.com"}, signed


def test_a_commit_that_cannot_be_signed_changes_nothing(project: Project, keys: Keys) -> None:
    project.git("config", "gpg.format", "ssh")
    project.git("config", "user.signingKey", str(keys.ann))
    project.git("config", "commit.gpgSign", "true")
    first = project.actions(CHANGE).dispatch("1.1")
    project.do(first)
    keys.ann.rename(keys.ann.with_name("away"))
    words = ("reconcile", first["assignment"], "--outcome", "completed", "--session", "s")
    assert project.refused(*words).code == "signing-failed"
    keys.ann.with_name("away").rename(keys.ann)
    project.baton(*words)
    assert project.attempt("1.1@1")["state"] == "succeeded"


# --- the verbs ---------------------------------------------------------------------------------


@pytest.fixture
def done(signing: Project) -> Project:
    """A run of one ticket, signed, checked as merged, and landed by a merge."""
    signing.approve(ONE)
    signing.set("verifyMerged", "always")
    signing.finish(signing.actions(CHANGE))
    signing.commit({"mine": "x"})
    signing.baton("land")
    return signing


def test_show_names_a_receipt_in_every_way(done: Project, keys: Keys) -> None:
    attempt = done.attempt("1.1@1")
    first = done.baton("receipt", "show", "1.1")
    assert first["receipt_sha256"] == attempt["receipt_sha256"]
    assert (first["assignment"], first["commit"]) == (f"{CHANGE}/1.1@1", attempt["commit"])
    assert (first["signed"], first["signer"]) == (True, "ann@example.com")
    assert first["receipt"]["predicate"]["ticket"] == "1.1"
    commits = (attempt["commit"], attempt["merge_commit"], f"baton/{CHANGE}")
    for name in (f"{CHANGE}/1.1@1", "1.1@1", *commits):
        assert done.baton("receipt", "show", name) == first, name
    merged = done.baton("receipt", "show", "1.1", "--merged")
    assert (merged["merged"], merged["commit"]) == (True, attempt["merge_commit"])
    assert merged["receipt"]["predicate"]["covers"] == [attempt["merge_commit"]]
    landed = done.baton("receipt", "show", "trunk")
    assert landed["commit"] == done.git("rev-parse", "trunk")
    assert landed["assignment"] == CHANGE
    assert "signed by ann@example.com" in done.type("receipt", "show", "1.1").stdout


def test_show_in_the_worktree_of_an_attempt(project: Project) -> None:
    first = project.actions(CHANGE).dispatch("1.1")
    assert project.refused("receipt", "show", cwd=first["cwd"]).code == "no-receipt"
    project.do(first)
    said = project.baton("receipt", "show", cwd=first["cwd"])
    assert (said["assignment"], said["signed"]) == (first["assignment"], False)
    text = project.type("receipt", "show", cwd=first["cwd"]).stdout
    assert "unsigned: integrity, not origin" in text


def test_show_says_what_the_checks_printed(project: Project) -> None:
    project.set("verify", "echo ran; echo 0 tests")
    first = project.actions(CHANGE).dispatch("1.1")
    project.do(first)
    text = project.type("receipt", "show", cwd=first["cwd"]).stdout
    assert "     | ran\n     | 0 tests\n" in text


def test_what_has_no_receipt(done: Project) -> None:
    def code(*words: str) -> str:
        return done.refused("receipt", "show", *words).code

    assert code("1.9") == "unknown-attempt"
    assert code("no-such-branch") == "unknown-attempt"
    assert code(done.base) == "no-receipt"
    done.set("verifyMerged", "never")
    done.plan("- [x] 1.1 One\n- [ ] 1.2 Two\n")
    done.finish(done.actions(CHANGE))
    assert code("1.2", "--merged") == "no-receipt"


def test_verify_says_ok_and_who(done: Project) -> None:
    for words in (("1.1",), ("1.1", "--merged"), ("trunk",)):
        said = done.baton("receipt", "verify", *words)
        assert (said["signed"], said["signer"], said["problems"]) == (True, "ann@example.com", [])
    assert done.type("receipt", "verify", "1.1").stdout.startswith("ok")


def test_verify_trusts_only_the_verifiers_signers(done: Project, keys: Keys) -> None:
    keys.allow('ann@example.com namespaces="git"')
    for words in (("1.1",), ("1.1", "--merged"), ("trunk",)):
        said = done.refused("receipt", "verify", *words)
        assert said.code == "receipt-invalid"
        assert (said["signed"], said["signer"]) == (True, None)
        assert "signature" in json.dumps(said["problems"])
    done.git("config", "baton.requireSignature", "false")
    done.git("config", "--unset-all", "baton.allowedSigners")
    said = done.baton("receipt", "verify", "1.1")
    assert (said["signed"], said["signer"]) == (True, None)
    assert "no allowed signer" in done.type("receipt", "verify", "1.1").stdout


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("receipt.json", b'"ticket": "1.1"', b'"ticket": "1.2"', "predicate.ticket was altered"),
        ("receipt.sig", b"U1N", b"V1N", "signature is not the one recorded"),
    ],
)
def test_verify_finds_what_was_altered(
    done: Project, name: str, old: bytes, new: bytes, said: str
) -> None:
    path = f"{OF_FIRST}/{name}"
    tamper(done, path, stored(done, path).replace(old, new, 1))
    found = done.refused("receipt", "verify", "1.1")
    assert found.code == "receipt-invalid"
    assert [said in problem["message"] for problem in found["problems"]] == [True]


def test_export_statement_is_the_exact_bytes(done: Project) -> None:
    printed = done.type("receipt", "export", "1.1").stdout_bytes
    assert printed == stored(done, f"{OF_FIRST}/receipt.json")
    said = done.baton("receipt", "export", "1.1", "--merged")
    assert said["content"].encode() == stored(done, f"{OF_FIRST}/merged.json")
    assert said["receipt_sha256"] == digest(said["content"].encode())


@pytest.mark.parametrize("form", ["dsse", "intoto-jsonl"])
def test_export_dsse(done: Project, keys: Keys, form: str) -> None:
    from google.protobuf import json_format
    from in_toto_attestation.v1.statement import Statement
    from in_toto_attestation.v1.statement_pb2 import Statement as Message
    from securesystemslib.dsse import Envelope

    printed = done.type("receipt", "export", "1.1", "--format", form).stdout
    assert (printed.count("\n") == 1) is (form == "intoto-jsonl")
    envelope = Envelope.from_dict(json.loads(printed))
    receipt = stored(done, f"{OF_FIRST}/receipt.json")
    assert envelope.payload == receipt
    assert envelope.payload_type == "application/vnd.in-toto+json"
    assert envelope.pae().endswith(receipt)
    [signature] = envelope.signatures.values()
    armored = bytes.fromhex(signature.signature)
    assert armored == stored(done, f"{OF_FIRST}/receipt.sig")
    assert plainly_verified(keys, envelope.payload, armored, "git-baton")
    Statement.copy_from_pb(json_format.Parse(receipt, Message())).validate()


def test_export_of_an_unsigned_receipt_has_no_signature(project: Project) -> None:
    first = project.actions(CHANGE).dispatch("1.1")
    project.do(first)
    printed = project.type("receipt", "export", "1.1", "--format", "dsse").stdout
    document: Json = json.loads(printed)
    assert document["signatures"] == []
    assert base64.b64decode(document["payload"]) == stored(project, f"{OF_FIRST}/receipt.json")


def test_export_test_result(done: Project) -> None:
    from google.protobuf import json_format
    from in_toto_attestation.predicates.test_result.v0.test_result_pb2 import TestResult
    from in_toto_attestation.v1.statement import Statement
    from in_toto_attestation.v1.statement_pb2 import Statement as Message

    printed = done.type("receipt", "export", "1.1", "--format", "test-result").stdout
    document = json.loads(printed)
    Statement.copy_from_pb(json_format.Parse(printed, Message())).validate()
    assert document["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    result = json_format.ParseDict(document["predicate"], TestResult())
    assert list(result.passed_tests) == ["test ! -e broken"]
    assert document["predicate"]["result"] == "PASSED"
    assert document["subject"][0]["digest"]["gitCommit"] == done.attempt("1.1@1")["commit"]
