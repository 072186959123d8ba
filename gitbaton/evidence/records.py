"""States and notes that arrive at a server: they may only grow, and must be readable.

A server protects no refs outside ``refs/heads`` by itself.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gitbaton.errors import BatonError
from gitbaton.evidence.at_hand import States
from gitbaton.git import ancestry
from gitbaton.git.repo import Repository
from gitbaton.model.ids import is_run_id
from gitbaton.model.push import Refusal, Update
from gitbaton.store import queues

OWN = ("refs/baton/", "refs/notes/baton/")
"""What only git-baton writes, and what a server keeps from being rewritten."""


def judge(repo: Repository, states: States, update: Update) -> Iterator[Refusal]:
    """On a server: they are not deleted and not rewritten, and states can be read."""
    if update.new is None:
        yield Refusal(
            ref=update.ref,
            commit=None,
            code="evidence-deleted",
            reason="it holds evidence, and is not deleted by a push",
            hint="who runs the server can: git update-ref -d " + shlex.quote(update.ref),
        )
        return
    if update.old is not None and not _descends(repo, update.new, update.old):
        yield Refusal(
            ref=update.ref,
            commit=update.new,
            code="evidence-rewritten",
            reason=f"it does not go on from {update.old[:12]} by first parents",
            hint="fetch what is there, and go on from that",
        )
        return
    state = _unreadable(repo, states, update)
    if state is not None and state.code != "newer-schema":
        yield Refusal(
            ref=update.ref,
            commit=update.new,
            code=state.code,
            reason=state.message,
            hint="see `git baton doctor` where it comes from",
        )


def _unreadable(repo: Repository, states: States, update: Update) -> BatonError | None:
    """Why what arrives is no state of that run, or no queue; None for anything else."""
    kind, between, name = update.ref.removeprefix("refs/baton/").partition("/")
    if not between or kind not in ("runs", "queues") or update.new is None:
        return None
    if not is_run_id(name):
        code = "bad-run-id" if kind == "runs" else "bad-queue-name"
        return BatonError(code, f"that can be the name of no {kind[:-1]}")
    try:
        if kind == "queues":
            queues.load(repo, name, update.new)
    except BatonError as error:
        return error
    state = states.loaded(name) if kind == "runs" else None
    return state if isinstance(state, BatonError) else None


def _descends(repo: Repository, new: str, old: str) -> bool:
    """By first parents only: a rewritten chain may name the old tip as a further parent."""
    try:
        chain = ancestry.first_parent_chain(repo, new, None)
        return any(commit.oid == old for commit in chain)
    except BatonError:
        return False
