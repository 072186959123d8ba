"""Whether a push may go through: each ref update is judged by the evidence that is at hand.

Ordinary commits on ordinary branches cost one look at their messages. What is on the branch of a
run, what is new on a protected branch, and whatever says that git-baton made it, must be covered by
the state of a run that is here or comes with the same push.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack

from gitbaton.config import Settings
from gitbaton.errors import BatonError
from gitbaton.evidence import records
from gitbaton.evidence.anchors import mention_of
from gitbaton.evidence.at_hand import States, named_run, refs_of
from gitbaton.evidence.covered import Coverage
from gitbaton.git import ancestry, history, objects, refs
from gitbaton.git.history import Listed
from gitbaton.git.repo import Repository
from gitbaton.model import layout
from gitbaton.model.audit import Problem
from gitbaton.model.ids import is_run_id
from gitbaton.model.push import Refusal, Update
from gitbaton.rules.globs import glob_match
from gitbaton.store import runs

_BRANCHES = "refs/heads/"
_HELP = (
    "land it from a run, or have an allowed signer sign it by ssh (gpg.format ssh): "
    "git commit --amend -S"
)
_FIRST = "what was there before any run is pushed before baton.protect is set, or with --no-verify"


def judge(
    repo: Repository,
    settings: Settings,
    updates: Sequence[Update],
    *,
    quarantined: bool,
    remote: str = "",
) -> list[Refusal]:
    """What is wrong with ``updates``; [] lets them pass.

    ``quarantined`` on the server that receives them, otherwise where they are pushed from, to
    ``remote`` (a name, if it has one). Nothing is written. Raises `BatonError` when it cannot be
    decided.
    """
    with ExitStack() as stack:
        arriving = {
            update.ref.removeprefix(layout.RUNS): update.new
            for update in updates
            if update.ref.startswith(layout.RUNS) and update.new is not None
        }
        states = States(repo, settings, arriving, not quarantined, stack)
        if quarantined:  # what is pushed to `master` may move `main`
            updates = [u._replace(ref=refs.moved_by(repo, u.ref)) for u in updates]
        guard = _Guard(repo, settings, states, quarantined, remote)
        found: dict[tuple[str, str | None, str], Refusal] = {}
        for refusal in guard.refusals(updates):
            found.setdefault((refusal.ref, refusal.commit, refusal.code), refusal)
        return list(found.values())


class _Guard:
    def __init__(
        self,
        repo: Repository,
        settings: Settings,
        states: States,
        quarantined: bool,
        remote: str,
    ) -> None:
        self.repo = repo
        self.settings = settings
        self.states = states
        self.quarantined = quarantined
        self.remote = remote

    def refusals(self, updates: Sequence[Update]) -> Iterator[Refusal]:
        ordinary: list[Update] = []
        for update in updates:
            run = self._run_of(update.ref)
            protected = matches(update.ref, self.settings.protect)
            if update.ref.startswith(records.OWN):
                if self.quarantined:
                    yield from records.judge(self.repo, self.states, update)
            elif update.new is None:
                continue
            elif run is not None or protected:
                yield from self._judged(update, run, protected)
            elif not update.ref.startswith(layout.TRACKED) and objects.resolve(
                self.repo, update.new
            ):
                ordinary.append(update)
        if ordinary:
            yield from self._ordinary(ordinary)

    def _judged(self, update: Update, run: str | None, protected: bool) -> Iterator[Refusal]:
        tip = objects.resolve(self.repo, update.new or "")
        if tip is None:
            yield Refusal(
                ref=update.ref,
                commit=update.new,
                code="no-commit",
                reason="it is no commit that is at hand, so nothing can cover it",
            )
            return
        if run is not None:
            yield from self._integration(update, tip, run)
        if protected:
            yield from self._protected(update, tip)

    # --- the branch of a run -------------------------------------------------------------------

    def _run_of(self, ref: str) -> str | None:
        """The run whose integration branch this is, or must be taken for."""
        below = f"{_BRANCHES}{self.settings.branch_prefix}/"
        run = ref.rpartition("/")[2]
        if ref.startswith(below):
            return ref.removeprefix(below)
        state = self.states.loaded(run) if ref.startswith(_BRANCHES) else None
        return run if isinstance(state, runs.Loaded) and state.state.run.branch == ref else None

    def _integration(self, update: Update, new: str, run: str) -> Iterator[Refusal]:
        coverage = self.states.coverage(run)
        if not isinstance(coverage, Coverage):
            yield self._no_state(update.ref, new, run, coverage)
            return
        listed = history.commits(self.repo, [new], self._here(coverage.outside(new)))
        wrong = coverage.uncovered([commit.oid for commit in listed], new)
        for oid, problems in wrong.items():
            accept = f"git baton update {run} --accept checks and records it"
            yield from self._refused(update.ref, oid, problems, run, accept)

    def _no_state(self, ref: str, commit: str, run: str, state: object) -> Refusal:
        if isinstance(state, BatonError):
            return Refusal(
                ref=ref, commit=commit, code=state.code, reason=state.message, hint=state.hint
            )
        return Refusal(
            ref=ref,
            commit=commit,
            code="no-state",
            reason=f"it is said to be of run {run}, but no state of that run is here",
            hint=self._bring(run),
        )

    def _bring(self, *names: str) -> str:
        """How the states of runs get to where the push is judged."""
        if not names or not all(map(is_run_id, names)):
            return ""
        name = self.remote or "REMOTE"
        if self.quarantined:
            along = " ".join(ref for run in names for ref in refs_of(run))
            return f"push it along: git push REMOTE ... {along}"
        return f"fetch it: git fetch {name} '+refs/baton/*:{layout.TRACKED}{name}/*'"

    # --- protected branches --------------------------------------------------------------------

    def _protected(self, update: Update, new: str) -> Iterator[Refusal]:
        known = self._here((update.old, *self._protected_here()))
        listed = {commit.oid: commit for commit in history.commits(self.repo, [new], known)}
        left: dict[str, list[Problem]] = {oid: [] for oid in listed}
        for run in self._likely_first(listed.values()):
            if not left:
                break
            coverage = self.states.coverage(run)
            if isinstance(coverage, Coverage):
                wrong = coverage.uncovered(list(left), new)
                claims = coverage.claims
                left = {
                    oid: wrong[oid] if oid in claims or not problems else problems
                    for oid, problems in left.items()
                    if oid in wrong
                }
        behind = self._behind(listed.values())
        for oid, problems in left.items():
            if not self._signed(listed[oid]):
                run_named = named_run(listed[oid])
                hint = self._bring(*behind) or (_HELP if update.old else _FIRST)
                yield from self._refused(update.ref, oid, problems, run_named, hint)
        if listed:
            yield from self._by_hand(update, new, behind)

    def _behind(self, listed: Iterable[Listed]) -> list[str]:
        """The runs whose state, as a merge names it, is not here yet: an older one may be."""
        states = (c for c in listed if c.says(b"Baton-State: "))
        found = (mention_of(c.oid, c.message) for c in states)
        named = {m.run for m in found if m and not objects.exists(self.repo, m.state)}
        return sorted(named)

    def _protected_here(self) -> Iterator[str]:
        """Where protected branches are by now at the place that is pushed to, as far as known."""
        if self.quarantined:
            prefix = ""
        elif self.remote:
            prefix = f"refs/remotes/{self.remote}/"
        else:
            return
        for ref, oid in refs.list_refs(self.repo, prefix or "refs/").items():
            name = f"{_BRANCHES}{ref.removeprefix(prefix)}" if prefix else ref
            if matches(name, self.settings.protect):
                yield oid

    def _here(self, oids: Iterable[str | None]) -> list[str]:
        """Those that exist here: what a remote has may never have been fetched."""
        return [oid for oid in oids if oid is not None and objects.exists(self.repo, oid)]

    def _likely_first(self, listed: Collection[Listed]) -> list[str]:
        """Every run at hand, those first that the commits name."""
        named = dict.fromkeys(run for c in listed if (run := named_run(c)) is not None)
        tips = self.states.tips
        return [*(run for run in named if run in tips), *(run for run in tips if run not in named)]

    def _signed(self, commit: Listed) -> bool:
        signers = self.states.policy.signers
        if signers is None or not commit.by_ssh:
            return False
        from gitbaton.evidence import signature

        return signature.verify_commit(self.repo, commit.oid, signers).trusted

    def _by_hand(self, update: Update, new: str, behind: Collection[str]) -> Iterator[Refusal]:
        """Tickets that a person ticked: nothing shows that they are done. Of several runs of one
        change, any may show it."""
        old = next(iter(self._here([update.old])), None)
        changed = objects.changed_paths(self.repo, old, new) if old else None
        found: dict[str, tuple[str, list[str]]] = {}
        for run in self.states.tips:
            state = self.states.loaded(run)
            if not isinstance(state, runs.Loaded):
                continue
            folder = f"{state.state.run.target.folder}/"
            if changed is not None and not any(path.startswith(folder) for path in changed):
                continue
            coverage = self.states.coverage(run)
            if isinstance(coverage, Coverage):
                hand = coverage.ticked_by_hand(new, old)
                first, left = found.get(folder, (run, hand))
                found[folder] = first, [key for key in left if key in hand]
        for run, keys in found.values():
            if keys:
                uncheck = f"git baton tasks uncheck {run} {shlex.quote(keys[0])}, and have it done"
                yield Refusal(
                    ref=update.ref,
                    commit=new,
                    code="ticked-by-hand",
                    reason=f"no receipt of {run} resolved what is ticked: {', '.join(keys)}",
                    hint=self._bring(*behind) if run in behind else uncheck,
                )

    # --- everything else -----------------------------------------------------------------------

    def _ordinary(self, updates: Sequence[Update]) -> Iterator[Refusal]:
        """Only commits that say that git-baton made them are looked at."""
        known_refs: list[str] = []
        if self.quarantined:
            others = [f"--exclude={prefix}*" for prefix in (*records.OWN, layout.TRACKED)]
            known_refs = [*others, "--all"]
        elif self.remote:
            known_refs = [f"--remotes={self.remote}"]
        tips = [update.new for update in updates if update.new is not None]
        known = self._here(update.old for update in updates)
        listed = history.commits(
            self.repo, tips, known, known_refs=known_refs, saying="^Baton-Run: "
        )
        claimed: dict[str, list[str]] = {}
        for commit in listed:
            run = named_run(commit)
            if run is not None:
                claimed.setdefault(run, []).append(commit.oid)
        for run, oids in claimed.items():
            coverage = self.states.coverage(run)
            if not isinstance(coverage, Coverage):
                yield self._no_state(self._ref_with(updates, oids[0]), oids[0], run, coverage)
                continue
            for oid, problems in coverage.uncovered(oids).items():
                ref = self._ref_with(updates, oid)
                yield from self._refused(ref, oid, problems, run, _HELP)

    def _ref_with(self, updates: Sequence[Update], commit: str) -> str:
        """The first of the refs that would have ``commit``."""
        for update in updates[:-1]:
            tip = objects.resolve(self.repo, update.new or "")
            if tip and ancestry.is_ancestor(self.repo, commit, tip):
                return update.ref
        return updates[-1].ref

    # --- how it is said ------------------------------------------------------------------------

    def _refused(
        self, ref: str, commit: str, problems: Sequence[Problem], run: str | None, help_: str
    ) -> Iterator[Refusal]:
        """``help_`` is for a commit of which no run at hand says anything."""
        known = [problem for problem in problems if problem.code != "uncovered"]
        if not known:
            if run is not None and run not in self.states.tips:
                help_ = self._bring(run)
            yield Refusal(
                ref=ref,
                commit=commit,
                code="not-covered",
                reason="no receipt that is at hand covers it",
                hint=help_,
            )
        for problem in known:
            yield Refusal(
                ref=ref,
                commit=commit,
                code=problem.code,
                reason=f"{problem.message} ({problem.where})",
                hint=f"git baton audit {run}" if run in self.states.tips else "",
            )


def matches(ref: str, patterns: Sequence[str]) -> bool:
    """Whether a ref is one that ``baton.protect`` means; a pattern that does not begin with
    ``refs/`` is one of branches."""
    whole = [p if p.startswith("refs/") else f"{_BRANCHES}{p}" for p in patterns if p]
    return glob_match(ref, whole)
