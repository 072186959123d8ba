"""One process at work on one repository: what every verb starts from.

It opens the repository, reads the settings once, and answers the two questions that nearly every
verb begins with: which run, which attempt?
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gitbaton.clock import Clock, SystemClock
from gitbaton.config import Settings, settings
from gitbaton.errors import BatonError, NotFound, Refused, UsageError
from gitbaton.git import ancestry, process, refs
from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository
from gitbaton.lock import Lock
from gitbaton.model import layout
from gitbaton.model.ids import AttemptId, decode_key, encode_key, is_run_id, parse_attempt, run_id
from gitbaton.model.run import Event, RunState
from gitbaton.rules.frontier import recount
from gitbaton.store import notes, runs, transact

LOG = "log"
"""The file of an attempt directory that holds the worker's output."""


@dataclass(frozen=True)
class Context:
    """A repository as one process uses it. ``warn`` receives one-line warnings for people; ``seen``
    are the states that this process went by last, by run."""

    repo: Repository
    settings: Settings
    clock: Clock
    cwd: Path
    warn: Callable[[str], None]
    seen: dict[str, str] = field(default_factory=dict, compare=False, repr=False, kw_only=True)

    def transact(
        self,
        run: str,
        step: transact.Step,
        texts: Callable[[runs.Loaded], Mapping[str, bytes]] | None = None,
        *,
        notes_first: bool = False,
    ) -> runs.Loaded:
        """`store.transact` with the counts of ``live`` brought up to date.

        ``texts`` gives the notes to be written with it, by commit. They are a projection: if they
        cannot be written, that is a warning. With ``notes_first`` a kill cannot leave them out of a
        step that is sure to be repeated. Raises `Refused` ``foreign-mutation`` if the run does not
        go on from where it was last seen.
        """

        def failed(error: BatonError) -> None:
            self.warn(
                f"notes were not written ({error.message}); `git baton notes rebuild` makes them"
            )

        def counted(loaded: runs.Loaded) -> tuple[RunState, Event] | None:
            require_following(self.repo, layout.run_ref(run), self.seen.get(run), loaded.oid)
            self.seen[run] = loaded.oid
            made = step(loaded)
            return None if made is None else (recount(made[0]), made[1])

        beside = texts and notes.beside(
            self.repo, run, texts, self.clock, failed, first=notes_first
        )
        done = transact.transact(self.repo, run, counted, self.clock, beside)
        self.seen[run] = done.oid
        return done

    def require_identity(self) -> tuple[str, str]:
        """Name and email for merges and plan commits, the user's; raises `Refused`."""
        identity = self.repo.identity()
        if identity is None:
            raise Refused(
                "no-identity",
                "git does not know who you are, and merges are made in your name",
                "git config user.name NAME && git config user.email ADDRESS",
            )
        return identity

    def run_lock(self, run: str, purpose: str) -> Lock:
        """The kernel lock of this machine for one purpose of one run."""
        return Lock(self.repo.baton_dir / "locks" / f"{purpose}-{encode_key(run)}.lock")

    def branch(self, run: str) -> str:
        """The integration branch of a run."""
        return f"refs/heads/{self.settings.branch_prefix}/{run}"

    def attempt_branches(self, run: str) -> str:
        """What the branches of all attempts of a run begin with."""
        return f"refs/heads/{self.settings.branch_prefix}-attempt/{run}/"

    def attempt_branch(self, run: str, attempt: AttemptId) -> str:
        """The branch of one attempt."""
        return self.attempt_branches(run) + attempt.slug

    def attempts_dir(self, run: str) -> Path:
        """Where the attempt directories of a run lie on this machine."""
        return self.repo.baton_dir / "attempts" / run

    def attempt_dir(self, run: str, attempt: AttemptId) -> Path:
        """``token packet.json prompt.md log progress usage.json`` of one attempt."""
        return self.attempts_dir(run) / attempt.slug


def open_context(
    cwd: Path | None = None,
    *,
    clock: Clock | None = None,
    warn: Callable[[str], None] | None = None,
) -> Context:
    """Open the repository of ``cwd`` (or of ``GIT_DIR``); raises `RepositoryError`."""
    repo = open_repository(cwd)
    chosen = settings({key: [v for v, _ in values] for key, values in repo.config_all().items()})
    process.set_fsync(chosen.fsync)
    return Context(
        repo, chosen, clock or SystemClock(), cwd or Path.cwd(), warn or (lambda _: None)
    )


def require_following(repo: Repository, ref: str, before: str | None, now: str) -> None:
    """Raise `Refused` unless a state goes on, by first parents, from where it was seen ``before``:
    what is decided from one history must not be written into another."""
    if before in (None, now):
        return
    chain = ancestry.first_parent_chain(repo, now, None)
    if not any(commit.oid == before for commit in chain):
        raise Refused(
            "foreign-mutation",
            f"{ref} was at {before} and is now at {now}, which does not follow from it",
            f"`git log -g {ref}` shows who moved it; put it back: git update-ref {ref} {before}",
            {"before": before, "after": now},
        )


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names the nearest of ``known``, or that there is none."""
    from difflib import get_close_matches

    names = sorted(known)
    close = get_close_matches(name, names, n=3, cutoff=0.4)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"known: {', '.join(names[:8])}" if names else "there is none yet"


# --- which run ---------------------------------------------------------------------------------


def known_run(ctx: Context, name: str) -> bool:
    return is_run_id(name) and refs.read(ctx.repo, layout.run_ref(name)) is not None


def not_taken_over(ctx: Context, wanted: str | None = None) -> str | None:
    """How to take over ``wanted``, or any run, if it was only fetched; None if it was not."""
    for ref in refs.list_refs(ctx.repo, layout.TRACKED):
        remote, run = layout.fetched(ref) or ("", "")
        if run and wanted in (None, run):
            return (
                f"{run} was only fetched from {remote}; to have it here: git fetch {remote} "
                "'refs/baton/*:refs/baton/*' 'refs/notes/baton/*:refs/notes/baton/*'"
            )
    return None


def resolve_run(ctx: Context, name: str | None, *, must_exist: bool = True) -> str:
    """The run that is meant: the one named, else that of the current worktree, else the only active
    one, else the only one that has not landed, else the only one, else (where it need not exist)
    the only change.

    Raises `NotFound` with the nearest ids, or `UsageError` that lists the candidates.
    """
    if name is not None:
        run_id(name)
        if must_exist and not known_run(ctx, name):
            from gitbaton.engine.source import active_changes

            changes = active_changes(ctx)
            if name in changes:
                raise NotFound(
                    "not-started",
                    f"change {name} has not been started: it has no run yet",
                    not_taken_over(ctx) or f"start it: git baton run {name} --agent NAME",
                )
            known = {*runs.list_runs(ctx.repo), *changes}
            hint = (None if known else not_taken_over(ctx)) or nearest(name, known)
            raise NotFound("unknown-run", f"there is no run {name}", hint)
        return name
    here = attempt_here(ctx)
    if here is not None:
        return here[0]
    every = runs.list_runs(ctx.repo)
    readable = {run: is_over for run in every if (is_over := _is_complete(ctx, run)) is not None}
    active = [run for run, is_over in readable.items() if not is_over]
    to_land = [] if active else [run for run in readable if _is_to_land(ctx, run)]
    candidates = active or to_land or list(readable) or sorted(every)
    if len(candidates) == 1:
        return candidates[0]
    if not every and not must_exist:
        return _only_change(ctx)
    if not every:
        raise NotFound(
            "no-run",
            "this repository has no run yet",
            not_taken_over(ctx) or "start one: git baton run CHANGE --agent NAME --verify CMD",
        )
    raise UsageError("which-run", "which run is meant?", f"name one of: {', '.join(candidates)}")


def _is_complete(ctx: Context, run: str) -> bool | None:
    """None: the run cannot be read."""
    try:
        return runs.load_live(ctx.repo, run)[2].complete
    except BatonError:
        return None


def _is_to_land(ctx: Context, run: str) -> bool:
    from gitbaton.engine.view import is_seen_landed

    record = runs.load_live(ctx.repo, run)[1]
    base_is_there = refs.read(ctx.repo, record.base.ref) is not None
    return base_is_there and record.tip != record.base.commit and not is_seen_landed(ctx, record)


def _only_change(ctx: Context) -> str:
    from gitbaton.engine import source

    changes = source.active_changes(ctx)
    if len(changes) == 1:
        return changes[0]
    if not changes:
        raise NotFound(
            "no-change",
            "there is no change to run: no openspec/changes/<id>/ with a tasks file here",
            "write one with OpenSpec, or try `git baton demo`",
        )
    raise UsageError("which-run", "which change is meant?", f"name one of: {', '.join(changes)}")


# --- which attempt -----------------------------------------------------------------------------


def attempt_here(ctx: Context) -> tuple[str, AttemptId] | None:
    """The attempt whose worktree the current directory is in: worktrees are named
    ``.../<run>/<slug>`` as their attempt directories are."""
    top = ctx.repo.worktree
    if top is None or top == ctx.repo.main_worktree:
        return None
    run, slug = top.parent.name, top.name
    if not (ctx.attempts_dir(run) / slug).is_dir():
        return None
    return run, attempt_of_slug(slug)


def require_outside(ctx: Context, what: str) -> None:
    """Raise `Refused` ``inside-attempt`` where a worker would steer the run that judges it."""
    here = attempt_here(ctx)
    if here is None and not os.environ.get("BATON_TOKEN"):
        return
    place = (
        f"in the worktree of {here[0]}/{here[1]}" if here else "for who holds an attempt's token"
    )
    raise Refused(
        "inside-attempt",
        f"{what} is not possible {place}",
        "do it from another directory, with BATON_TOKEN unset",
    )


def attempt_of_slug(slug: str) -> AttemptId:
    """The inverse of `AttemptId.slug`."""
    key, _, number = slug.rpartition("-a")
    return AttemptId(decode_key(key), int(number))


def resolve_attempt(
    ctx: Context, text: str | None, *, run: str | None = None
) -> tuple[str, AttemptId]:
    """Run and attempt of ``RUN/TICKET@N``, ``TICKET@N``, ``TICKET`` (its newest attempt), or of the
    current worktree when ``text`` is None. Raises `NotFound` or `UsageError`."""
    if text is None:
        here = attempt_here(ctx)
        if here is None:
            raise UsageError(
                "which-attempt",
                "which attempt is meant? this directory is not an attempt's worktree",
                "name it: TICKET (its newest attempt), or RUN/TICKET@N",
            )
        return here
    prefix, slash, rest = text.partition("/")
    if run is None and slash and known_run(ctx, prefix):
        run, text = prefix, rest
    if run is None:
        try:
            run = resolve_run(ctx, None)
        except NotFound:
            hint = not_taken_over(ctx) or "see `git baton list`"
            raise NotFound("unknown-attempt", f"there is no attempt {text}", hint) from None
    ticket, number = parse_attempt(text)
    loaded = runs.load(ctx.repo, run)
    found = loaded.state.plan.ticket(ticket)
    key = found.key if found else ticket
    numbers = loaded.numbers(key)
    if not numbers:
        raise NotFound(
            "unknown-attempt",
            f"{run} has no attempt at {ticket}",
            nearest(ticket, [t.key for t in loaded.state.plan.tickets]),
        )
    if number is not None and number not in numbers:
        raise NotFound(
            "unknown-attempt",
            f"{run} has no attempt {ticket}@{number}",
            f"its attempts: {', '.join(f'{key}@{n}' for n in numbers)}",
        )
    return run, AttemptId(key, number or numbers[-1])


def token_for(ctx: Context, run: str, attempt: AttemptId, given: str | None) -> str:
    """The token to act with: ``given``, ``BATON_TOKEN``, or that of the attempt directory on this
    machine. Raises `Refused` when there is none."""
    token = given or os.environ.get("BATON_TOKEN")
    if token:
        return token
    try:
        token = (ctx.attempt_dir(run, attempt) / "token").read_text().strip()
    except OSError:
        raise Refused(
            "no-token",
            f"no token for {run}/{attempt} on this machine",
            "pass --token or set BATON_TOKEN",
        ) from None
    if not token:
        raise Refused(
            "no-token",
            f"the token file of {run}/{attempt} is empty",
            "pass --token or set BATON_TOKEN; or abandon the attempt",
        )
    return token
