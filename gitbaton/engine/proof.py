"""Checks run on a commit that no worker sealed: a merged tree, an update, a landing, a foreign
commit that a person accepts. What they say becomes that commit's own receipt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gitbaton.engine.context import Context
from gitbaton.evidence import seal, statement
from gitbaton.evidence.examine import printable
from gitbaton.git import objects
from gitbaton.model.receipt import CheckResult, Predicate
from gitbaton.model.run import Attempt
from gitbaton.store import runs


class Proof(NamedTuple):
    """The results of checks on one commit, all run in a clean verification worktree."""

    commit: str
    checks: tuple[CheckResult, ...]

    @property
    def green(self) -> bool:
        return bool(self.checks) and all(check.green for check in self.checks)

    def failure_text(self) -> str:
        """The first red check with the end of its output, for people and for the next packet."""
        for check in self.checks:
            if not check.green:
                return (
                    f"`{check.command}` exits with {check.exit_code} on the merged tree\n"
                    f"{check.output_tail}"
                ).rstrip()
        return "no check ran"

    def receipt(
        self,
        ctx: Context,
        loaded: runs.Loaded,
        *,
        subject: tuple[str, str],
        attempt: Attempt | None = None,
        covers: tuple[str, ...] = (),
        recipe: Mapping[str, str] | None = None,
    ) -> bytes:
        """The exact bytes of the receipt of ``subject`` (commit and tree)."""
        run = loaded.state.run
        parent = objects.commit_info(ctx.repo, subject[0]).parents
        base = parent[0] if parent else subject[0]
        predicate = Predicate(
            assignment=f"{run.id}/{attempt.id}" if attempt else run.id,
            run=run.id,
            mode=run.target.mode,
            ticket=attempt.ticket if attempt else "",
            attempt=attempt.number if attempt else 0,
            session=attempt.session if attempt else "",
            plan_revision=loaded.state.plan.revision,
            packet_sha256=attempt.packet_sha256 if attempt else "",
            token_sha256=attempt.lease.token_sha256 if attempt else "",
            base_commit=base,
            changed_files=tuple(map(printable, objects.changed_paths(ctx.repo, base, subject[0]))),
            checks=self.checks,
            sealed_in="verification-worktree",
            covers=covers or (subject[0],),
            sealed_at=ctx.clock.now().stamp,
            environment=statement.environment(),
            merge=dict(recipe or {}),
        )
        return statement.build(commit=subject[0], tree=subject[1], predicate=predicate)


def prove(ctx: Context, loaded: runs.Loaded, commit: str, commands: Sequence[str]) -> Proof:
    """Run ``commands`` on exactly ``commit``."""
    logs = ctx.repo.baton_dir / "logs" / loaded.state.run.id
    checks = seal.test_commit(
        ctx.repo,
        ctx.settings,
        commit,
        commands,
        project_dir=loaded.state.run.target.project,
        logs=logs,
    )
    return Proof(commit, checks)
