"""A run with everything in it, in a copy that is to be tampered with."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import scene
from scene import git

from gitbaton.engine import land, reconcile, update, worker
from gitbaton.evidence import statement
from gitbaton.evidence.covered import Claim, Coverage, Policy
from gitbaton.evidence.recompute import Recomputer
from gitbaton.git import objects
from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository
from gitbaton.model import codec, layout
from gitbaton.model.ids import AttemptId
from gitbaton.model.run import Attempt
from gitbaton.store import runs

TASKS = scene.TASKS
_NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)


def make_run(top: Path) -> None:
    """A run with everything in it: a chain of three merges, an update, a changed plan, merges one
    by one, accepted commits, a landing merge."""
    scene.make_repository(top, [3, 2])
    ctx = scene.context(top)
    given = scene.dispatches(scene.act(ctx, capacity=3))
    for each in given:
        (Path(each.cwd) / "first-step").write_text("kept\n")
        git(Path(each.cwd), "add", ".")
        git(Path(each.cwd), "commit", "-q", "-m", f"begin {each.ticket}")
        git(Path(each.cwd), "rm", "-q", "first-step")
        scene.work(each)
        worker.seal(ctx, each.assignment, token=each.token)
    reconcile.reconcile(ctx, given[0].assignment, outcome="completed", session="s", capacity=1)
    commit(top, "base.txt", "the base moved")
    update.update(ctx, scene.RUN)
    tasks = top / TASKS
    tasks.write_text(tasks.read_text() + "- [ ] 2.3 One more\n- [x] 2.4 Done by hand\n")
    scene.act(ctx, capacity=1)
    scene.drive(top, "s")
    aside = top.parent / "aside"
    git(top, "worktree", "add", "-q", str(aside), f"baton/{scene.RUN}")
    commit(aside, "foreign.txt", "somebody's")
    commit(aside, "foreign.txt", "somebody's again")
    git(top, "worktree", "remove", "--force", str(aside))
    update.update(ctx, scene.RUN, accept=True)
    commit(top, "base.txt", "the base moved again")
    land.land(ctx, scene.RUN)


def commit(where: Path, name: str, text: str) -> str:
    (where / name).write_text(text + "\n")
    git(where, "add", name)
    git(where, "commit", "-q", "-m", text)
    return git(where, "rev-parse", "HEAD")


class Evidence:
    """A copy of that run, to be tampered with: every change is one more state on top."""

    def __init__(self, top: Path, stack: ExitStack) -> None:
        self.top = top
        self.repo: Repository = open_repository(top)
        self.loaded = runs.load(self.repo, scene.RUN)
        self._stack = stack

    def coverage(self, **policy: Any) -> Coverage:
        recomputer = self._stack.enter_context(Recomputer(self.repo))
        return Coverage(self.repo, self.loaded, Policy(**policy), recomputer)

    def claim(self, kind: str, ticket: str | None = None) -> Claim:
        """The last claim of a kind, or of a ticket's."""
        found = [
            claim
            for claim in self.coverage().claims.values()
            if claim.kind == kind
            and (ticket is None or (claim.attempt is not None and claim.attempt.ticket == ticket))
        ]
        return found[-1]

    def attempt(self, ticket: str) -> Attempt:
        found = self.loaded.attempt(AttemptId(ticket, 1))
        assert found is not None
        return found

    def codes(self, oid: str, tip: str | None = None, **policy: Any) -> set[str]:
        problems = self.coverage(**policy).judge(oid, tip)
        assert problems is not None
        return {problem.code for problem in problems}

    def said(self, oid: str) -> str:
        (problem,) = self.coverage().judge(oid) or []
        return f"{problem.code} {problem.where} {problem.message}"

    # --- tampering ---------------------------------------------------------------------------

    def write(self, files: Mapping[str, bytes | None]) -> None:
        tree = objects.edit_tree(self.repo, self.loaded.tree, files)
        oid = objects.create_commit(
            self.repo, tree, [self.loaded.oid], "x", author=("x", "x@y"), when=_NOON
        )
        self.loaded = runs.load(self.repo, scene.RUN, at=oid)

    def set_attempt(self, ticket: str, **fields: Any) -> None:
        changed = msgspec.structs.replace(self.attempt(ticket), **fields)
        self.write({layout.path_of(changed.id, layout.ATTEMPT): codec.encode(changed)})

    def set_run(self, **fields: Any) -> None:
        changed = msgspec.structs.replace(self.loaded.state.run, **fields)
        self.write({layout.RUN: codec.encode(changed)})

    def set_recorded(self, oid: str, **fields: Any) -> None:
        self.set_run(
            recorded=tuple(
                msgspec.structs.replace(each, **fields) if each.commit == oid else each
                for each in self.loaded.state.run.recorded
            )
        )

    def reseal(self, ticket: str, **fields: Any) -> None:
        """Another receipt for an attempt, recorded as the true one."""
        attempt = self.attempt(ticket)
        assert attempt.sealed is not None
        receipt = altered(self.loaded.receipt(attempt.id), **fields)
        self.write({layout.path_of(attempt.id, layout.RECEIPT): receipt})
        sealed = msgspec.structs.replace(attempt.sealed, receipt_sha256=statement.digest(receipt))
        self.set_attempt(ticket, sealed=sealed)

    def retest(self, key: str, **fields: Any) -> None:
        """Another receipt for a merge, recorded as the true one."""
        attempt = self.attempt(key)
        receipt = altered(self.loaded.merged_receipt(attempt.id), **fields)
        self.write({layout.path_of(attempt.id, layout.MERGED): receipt})
        self.set_attempt(key, merged_receipt_sha256=statement.digest(receipt))

    def again(
        self,
        oid: str,
        files: Mapping[str, bytes | None],
        parents: list[str] | None = None,
        **how: str,
    ) -> str:
        """The same commit with other files, parents or message."""
        info = objects.commit_info(self.repo, oid)
        return objects.create_commit(
            self.repo,
            objects.edit_tree(self.repo, info.tree, files),
            parents or info.parents,
            how.get("message", info.message),
            author=info.author,
            when=info.committer_time,
        )

    def swap_merge(self, ticket: str, oid: str) -> str:
        """Record ``oid`` as the merge of a ticket, with a receipt that fits."""
        attempt = self.attempt(ticket)
        info = objects.commit_info(self.repo, oid)
        data = self.loaded.merged_receipt(attempt.id)
        assert data is not None
        predicate = statement.parse(data).predicate
        predicate = msgspec.structs.replace(predicate, covers=(oid,), base_commit=info.parents[0])
        receipt = statement.build(commit=oid, tree=info.tree, predicate=predicate)
        self.write({layout.path_of(attempt.id, layout.MERGED): receipt})
        self.set_attempt(
            ticket,
            merge_commit=oid,
            tested_by=oid,
            merged_receipt_sha256=statement.digest(receipt),
        )
        return oid

    def swap_recorded(self, old: str, new: str, *, receipt: bool) -> str:
        """Record ``new`` in the place of ``old``, with a receipt of its own or none."""
        info = objects.commit_info(self.repo, new)
        path = layout.commit_path(old)
        data = self.loaded.file(path)
        digest = None
        if receipt:
            assert data is not None
            predicate = msgspec.structs.replace(
                statement.parse(data).predicate, covers=(new,), base_commit=info.parents[0]
            )
            data = statement.build(commit=new, tree=info.tree, predicate=predicate)
            digest = statement.digest(data)
            self.write({path: None, layout.commit_path(new): data})
        self.set_recorded(old, commit=new, receipt_sha256=digest)
        return new

    def text(self, oid: str) -> bytes:
        found = objects.blob_at(self.repo, oid, TASKS)
        assert found is not None
        return found

    def squash(self, onto: str, tip: str) -> str:
        """What a forge makes of a pull request."""
        tree = git(self.top, "merge-tree", "--write-tree", onto, tip)
        return self.commit_tree(tree, onto)

    def commit_tree(self, tree: str, *parents: str) -> str:
        words = [word for parent in parents for word in ("-p", parent)]
        return git(self.top, "commit-tree", *words, "-m", "squashed (#1)", tree)


def altered(data: bytes | None, **fields: Any) -> bytes:
    """A receipt that says something else."""
    assert data is not None
    parsed = statement.parse(data)
    predicate = msgspec.structs.replace(parsed.predicate, **fields)
    return statement.build(commit=parsed.commit, tree=parsed.tree, predicate=predicate)
