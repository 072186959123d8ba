"""Checks of receipts run once more, by who audits: the only proof that needs no trust at all.

The commands come from the repository that is being judged, so they are shown first and run only
with permission, each on its commit in a worktree that is made for it and thrown away.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gitbaton.engine.context import Context
from gitbaton.errors import BatonError, Refused
from gitbaton.evidence import checks, statement
from gitbaton.evidence.audit import Place
from gitbaton.evidence.chain import spot
from gitbaton.evidence.prepare import prepare_worktree
from gitbaton.git import checkout, objects, worktree
from gitbaton.lock import Lock
from gitbaton.model import layout
from gitbaton.model.audit import Problem
from gitbaton.model.receipt import CheckResult, Statement
from gitbaton.store import runs

FOLDER, TREE, IN_USE = "baton-audit-", "tree", "in-use"
"""How a temporary folder begins, the worktree in it, and the lock of whoever uses it."""


class Repeated(NamedTuple):
    """How many receipts were put to the test again, and what is wrong with them."""

    receipts: int
    problems: list[Problem]


class _Receipt(NamedTuple):
    """A receipt of something integrated, and where it lies in the state."""

    path: str
    statement: Statement

    @property
    def commands(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c.command for c in self.statement.predicate.checks))


def require_allowed(ctx: Context, places: Sequence[Place], count: int, allowed: bool) -> None:
    """Raise `Refused` ``commands-not-allowed``, naming all commands, unless they may be run."""
    if allowed:
        return
    commands: dict[str, None] = {}
    for place in places:
        for receipt in _chosen(ctx, place, count):
            commands.update(dict.fromkeys(receipt.commands))
    named = "; ".join(f"`{command}`" for command in commands)
    raise Refused(
        "commands-not-allowed",
        f"these commands of the repository being judged would be run here: {named or 'none'}",
        "if you trust them: --allow-commands",
        {"commands": list(commands)},
    )


def repeat(ctx: Context, place: Place, count: int, say: Callable[[str], None]) -> Repeated:
    """Run the checks of the newest ``count`` receipts (0: of all) of a run again."""
    assert place.state is not None
    chosen = _chosen(ctx, place, count)
    problems: list[Problem] = []
    for receipt in chosen:
        problems += _repeat(ctx, place, receipt, say)
    return Repeated(len(chosen), problems)


def _chosen(ctx: Context, place: Place, count: int) -> list[_Receipt]:
    """Receipts of what was integrated or recorded, newest first; those that cannot be read are a
    problem of the audit itself."""
    if place.state is None:
        return []
    found = list(_receipts(ctx, place.run, place.state))
    found.sort(key=lambda receipt: receipt.statement.predicate.sealed_at, reverse=True)
    return found[:count] if count else found


def _receipts(ctx: Context, run: str, state: str) -> Iterator[_Receipt]:
    try:
        loaded = runs.load(ctx.repo, run, at=state)
        paths = list(_paths(ctx, loaded))
    except BatonError:
        return
    for path in paths:
        try:
            data = loaded.file(path)
            if data is not None:
                yield _Receipt(path, statement.parse(data))
        except BatonError:
            continue


def _paths(ctx: Context, loaded: runs.Loaded) -> Iterator[str]:
    for attempt in loaded.all_attempts():
        if attempt.state == "succeeded":
            yield layout.path_of(attempt.id, layout.RECEIPT)
            yield layout.path_of(attempt.id, layout.MERGED)
    for name, _, _ in objects.list_tree(ctx.repo, loaded.tree, layout.COMMITS):
        if layout.commit_of(f"{layout.COMMITS}/{name}"):
            yield f"{layout.COMMITS}/{name}"


def _repeat(
    ctx: Context, place: Place, receipt: _Receipt, say: Callable[[str], None]
) -> list[Problem]:
    commit = receipt.statement.commit
    where = f"{place.state}:{receipt.path}"
    try:
        project = runs.load(ctx.repo, place.run, at=place.state).state.run.target.project
        results = _run(ctx, commit, project, receipt.commands, say)
    except BatonError as error:
        return [Problem(code=error.code, where=where, message=f"on {commit}: {error.message}")]
    said = {check.command: check.exit_code for check in receipt.statement.predicate.checks}
    order = [check.command for check in receipt.statement.predicate.checks]
    return [
        Problem(
            code="rerun-failed",
            where=spot(
                place.state or "",
                receipt.path,
                f"predicate.checks[{order.index(result.command)}].exit_code",
            ),
            message=f"on {commit}, `{result.command}` {checks.describe(result.exit_code)}; "
            f"the receipt says exit {said[result.command]}",
        )
        for result in results
        if result.exit_code != said[result.command]
    ]


def _run(
    ctx: Context, commit: str, project: str, commands: Sequence[str], say: Callable[[str], None]
) -> Sequence[CheckResult]:
    """The checks on exactly ``commit``; files of it that they alter are an error."""
    with (
        tempfile.TemporaryDirectory(prefix=FOLDER, ignore_cleanup_errors=True) as folder,
        Lock(Path(folder) / IN_USE),
    ):
        top = Path(folder) / TREE
        worktree.add_detached(ctx.repo, top, commit)
        try:
            logs = Path(folder) / "logs"
            prepare_worktree(
                ctx.repo,
                top,
                ctx.settings,
                project_dir=project,
                log=logs / "setup.log",
                verified_at=commit,
            )
            for command in commands:
                say(f"{commit[:12]}: {command}")
            results = checks.run_checks(
                commands, top / project, timeout=ctx.settings.check_timeout, logs=logs
            )
            altered = checkout.altered(top, commit)
        finally:
            worktree.remove(ctx.repo, top, force=True)
    if altered:
        raise Refused("rerun-altered-files", f"the checks changed {altered[0]}, a file of {commit}")
    return results
