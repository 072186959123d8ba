"""The runs whose state is at hand where a push is judged, and what they cover.

A state counts if it is here, if it was fetched from a remote, or if it comes with the very push.
Each is read when it is first asked for: most pushes have nothing to do with any run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack

from gitbaton.config import Settings
from gitbaton.errors import BatonError
from gitbaton.evidence.covered import Coverage, Policy, policy_of
from gitbaton.evidence.recompute import Recomputer
from gitbaton.git import refs
from gitbaton.git.history import Listed
from gitbaton.git.repo import Repository
from gitbaton.model import layout
from gitbaton.model.ids import is_run_id
from gitbaton.store import runs

_CLAIM = re.compile(r"^Baton-Run: *(\S+)$", re.MULTILINE)
_NONCE = re.compile(r"^Baton-Nonce: ", re.MULTILINE)


class States:
    """States by run: ``arriving`` go before those that are here, and these before ``fetched``."""

    def __init__(
        self,
        repo: Repository,
        settings: Settings,
        arriving: Mapping[str, str],
        fetched: bool,
        stack: ExitStack,
    ) -> None:
        self.repo = repo
        self.settings = settings
        self._stack = stack
        self._recomputer: Recomputer | None = None
        self._policy: Policy | None = None
        self._covers: dict[str, Coverage | BatonError] = {}
        self._loaded: dict[str, runs.Loaded | BatonError] = {}
        self.tips: dict[str, str] = {}
        if fetched:
            for ref, oid in refs.list_refs(repo, layout.TRACKED).items():
                if found := layout.fetched(ref):
                    self.tips[found[1]] = oid
        self.tips.update(runs.list_runs(repo))
        self.tips.update(arriving)
        self.tips = {run: oid for run, oid in self.tips.items() if is_run_id(run)}

    def loaded(self, run: str) -> runs.Loaded | BatonError | None:
        """The state of a run; the error if it cannot be read, None if it is not at hand."""
        if run in self.tips and run not in self._loaded:
            self._loaded[run] = _load(self.repo, run, self.tips[run])
        return self._loaded.get(run)

    def coverage(self, run: str) -> Coverage | BatonError | None:
        """What a run covers; as `loaded` does."""
        state = self.loaded(run)
        if not isinstance(state, runs.Loaded):
            return state
        if run not in self._covers:
            try:
                self._covers[run] = self._cover(state)
            except BatonError as error:
                self._covers[run] = error
        return self._covers[run]

    def _cover(self, state: runs.Loaded) -> Coverage:
        if self._policy is None:
            self.repo.require_history()
            self._policy = policy_of(self.repo, self.settings)
        if self._recomputer is None:
            self._recomputer = self._stack.enter_context(Recomputer(self.repo))
        return Coverage(self.repo, state, self._policy, self._recomputer)

    @property
    def policy(self) -> Policy:
        if self._policy is None:
            self._policy = policy_of(self.repo, self.settings)
        return self._policy


def _load(repo: Repository, run: str, oid: str) -> runs.Loaded | BatonError:
    """The state of ``run`` at ``oid``, or why that is none."""
    try:
        loaded = runs.load(repo, run, at=oid)
    except BatonError as error:
        return error
    if loaded.state.run.id != run:
        return BatonError(
            "other-run", f"{layout.run_ref(run)} holds the state of {loaded.state.run.id}"
        )
    return loaded


def refs_of(run: str, queue: str | None = None) -> tuple[str, ...]:
    """The refs that go with a run's branch, for the evidence to arrive with the work; with a
    batch's its ``queue``."""
    own = layout.run_ref(run), layout.notes_ref(run)
    return own if queue is None else (*own, layout.QUEUES + queue)


def named_run(commit: Listed) -> str | None:
    """The run that a commit says it was made for by git-baton. State commits name one as well, but
    say nothing of any work."""
    if not commit.says(b"Baton-Run: "):
        return None
    trailers = commit.message.rstrip("\n").rpartition("\n\n")[2]
    found = _CLAIM.search(trailers)
    return found[1] if found and not _NONCE.search(trailers) else None
