"""Audit needs only a clone: what it lacks of the run's refs it fetches, into a place of their own.

States of this repository come first; where there are none, those of the remote are looked at as
they are there now. What an audit without a problem saw is remembered in this clone, so that a
state that is put back later shows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from gitbaton.engine.context import Context, nearest
from gitbaton.errors import BatonError, NotFound, Refused, RepositoryError
from gitbaton.evidence import anchors, guard
from gitbaton.evidence.anchors import Mention, Witness
from gitbaton.evidence.audit import Place, audit_run
from gitbaton.evidence.covered import policy_of
from gitbaton.evidence.queued import Line
from gitbaton.evidence.recompute import Recomputer
from gitbaton.git import ancestry, refs, remote
from gitbaton.model import layout
from gitbaton.model.audit import AuditReport, Problem, RunAudit
from gitbaton.model.ids import run_id
from gitbaton.model.push import Update
from gitbaton.store import runs

_RUNS, _NOTES = layout.RUNS, layout.NOTES
_Queues = dict[str, dict[str, Line]]


def audit(
    ctx: Context,
    names: Sequence[str] = (),
    *,
    repeat: int | None = None,
    allow_commands: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> AuditReport:
    """The verdict on the runs named, or on all. ``repeat`` has the checks of so many receipts of
    each run repeated (0: of all), which ``allow_commands`` must permit; ``say`` is given a line
    before each.

    Raises `RepositoryError` for a shallow clone, `NotFound` for a run that nothing speaks of, and
    `Refused` ``commands-not-allowed``, with the commands in the payload.
    """
    ctx.repo.require_history()
    for name in names:
        run_id(name)
    mentioned = anchors.mentioned(ctx.repo)
    fetched = _fetch(ctx, names or list(mentioned))
    if fetched is not _NOTHING:  # the branches of the remote may name more
        mentioned = anchors.mentioned(ctx.repo)
    seen = anchors.seen_tips(ctx.repo)
    places = _places(ctx, names, mentioned, seen)
    if repeat is not None:
        from gitbaton.engine import rerun

        rerun.require_allowed(ctx, places, repeat, allow_commands)
    policy = policy_of(ctx.repo, ctx.settings)
    found: list[RunAudit] = []
    with Recomputer(ctx.repo) as recomputer:
        for place in places:
            known = [mention.witness for mention in mentioned.get(place.run, ())]
            known += _tips(place, seen, fetched.before)
            verdict = audit_run(ctx.repo, place, policy, recomputer, known)
            if place.ref in fetched.gone:
                verdict = _with(verdict, [fetched.gone[place.ref]])
            if repeat is not None and place.state is not None:
                done = rerun.repeat(ctx, place, repeat, say)
                verdict = replace(_with(verdict, done.problems), rerun=done.receipts)
            found.append(verdict)
    _remember(ctx, zip(places, found, strict=True))
    problems = tuple(_protected(ctx, places)) if ctx.settings.protect else ()
    return AuditReport(runs=tuple(found), problems=problems)


def _tips(place: Place, seen: dict[str, str], before: dict[str, str]) -> Iterator[Witness]:
    """The state that was in the same place before, when it was audited and when it was fetched."""
    if place.ref in seen:
        yield Witness(seen[place.ref], "an earlier audit saw", f"{place.ref} as audited")
    if place.ref in before:
        yield Witness(before[place.ref], "was here before", f"{place.ref} as fetched", False)


def _with(verdict: RunAudit, problems: Sequence[Problem]) -> RunAudit:
    return replace(verdict, ok=verdict.ok and not problems, problems=(*verdict.problems, *problems))


def _remember(ctx: Context, judged: Iterable[tuple[Place, RunAudit]]) -> None:
    tips = {place.ref: place.state for place, verdict in judged if verdict.ok and place.state}
    try:
        anchors.remember(ctx.repo, tips)
    except OSError as error:
        ctx.warn(f"the tips that were seen could not be kept: {error}")


def _oldest(ctx: Context, commits: Sequence[str]) -> str:
    """The commit that most of the others descend from."""
    oldest = commits[0]
    for commit in commits[1:]:
        if ancestry.is_ancestor(ctx.repo, commit, oldest):
            oldest = commit
    return oldest


def _protected(ctx: Context, places: Iterable[Place]) -> Iterator[Problem]:
    """What lies on protected branches and should never have got there: everything since the first
    run began on one is judged as if it was pushed now."""
    bases: set[str] = set()
    for place in places:
        with suppress(BatonError):  # a problem of that run
            bases.add(runs.load(ctx.repo, place.run, at=place.state).state.run.base.commit)
    for ref, name, tip in _branches(ctx):
        if not guard.matches(name, ctx.settings.protect):
            continue
        within = [base for base in bases if _contains(ctx, tip, base)]
        if not within:
            continue
        update = Update(name, _oldest(ctx, within), tip)
        for refusal in guard.judge(ctx.repo, ctx.settings, [update], quarantined=False):
            if refusal.code != "ticked-by-hand":  # listed with the run
                yield Problem(
                    code=refusal.code,
                    where=refusal.commit or ref,
                    message=f"lies on {ref}, which is protected: {refusal.reason}",
                )


def _contains(ctx: Context, tip: str, base: str) -> bool:
    try:
        return ancestry.is_ancestor(ctx.repo, base, tip)
    except BatonError:  # there is no such base: a problem of its run
        return False


def _branches(ctx: Context) -> Iterator[tuple[str, str, str]]:
    """(ref, name of the branch where it is at home, commit) of local and remote branches."""
    for ref, oid in refs.list_refs(ctx.repo, "refs/heads/").items():
        yield ref, ref, oid
    for name in remote.remotes(ctx.repo):
        prefix = f"refs/remotes/{name}/"
        for ref, oid in refs.list_refs(ctx.repo, prefix).items():
            yield ref, f"refs/heads/{ref.removeprefix(prefix)}", oid


# --- what the remote has ----------------------------------------------------------------------


class _Fetched(NamedTuple):
    """Tracking refs as they were before, and what is wrong with those that the remote lacks."""

    before: dict[str, str] = {}
    gone: dict[str, Problem] = {}


_NOTHING = _Fetched()


def _fetch(ctx: Context, names: Sequence[str]) -> _Fetched:
    """Bring the tracking refs up to date, unless the runs, those of ``names``, are this
    repository's own."""
    local = {ref.removeprefix(_RUNS) for ref in refs.list_refs(ctx.repo, _RUNS)}
    if local and local.issuperset(names):
        return _NOTHING
    before = refs.list_refs(ctx.repo, layout.TRACKED)
    name = _remote(ctx)
    if name is None:
        return _Fetched(before)
    prefix = ctx.settings.branch_prefix
    spaces = {
        "refs/baton/": f"{layout.TRACKED}{name}/",
        _NOTES: f"{layout.TRACKED}{name}/notes/",
        f"refs/heads/{prefix}/": f"refs/remotes/{name}/{prefix}/",
    }
    seconds = ctx.settings.remote_timeout
    try:
        there = remote.listing(ctx.repo, name, [f"{space}*" for space in spaces], seconds)
        wanted = {
            tracking + ref.removeprefix(space): oid
            for space, tracking in spaces.items()
            for ref, oid in there.items()
            if ref.startswith(space)
        }
        if any(refs.read(ctx.repo, ref) != oid for ref, oid in wanted.items()):
            specs = [f"+{space}*:{tracking}*" for space, tracking in spaces.items()]
            remote.fetch(ctx.repo, name, specs, seconds)
    except RepositoryError as error:
        if not before:
            raise RepositoryError(
                error.code,
                error.message,
                f"git fetch {name} '+refs/baton/*:{layout.TRACKED}{name}/*'",
            ) from error
        ctx.warn(f"{error.message}; what was fetched before is judged")
        return _Fetched(before)
    return _Fetched(before, _gone(name, before, wanted))


def _gone(name: str, before: Iterable[str], there: Collection[str]) -> dict[str, Problem]:
    return {
        ref: Problem(
            code="state-deleted",
            where=ref,
            message=f"{name} has this state no more; what was fetched before is judged",
        )
        for ref in before
        if ref.startswith(f"{layout.TRACKED}{name}/runs/") and ref not in there
    }


def _remote(ctx: Context) -> str | None:
    """The remote to ask: ``baton.remote``, that of the current branch, or the only one."""
    if ctx.settings.remote:
        return ctx.settings.remote
    every = list(remote.remotes(ctx.repo))
    branch = (ctx.repo.head_branch() or "").removeprefix("refs/heads/")
    own = ctx.repo.config_get(f"branch.{branch}.remote") if branch else None
    if own in every:
        return own
    if len(every) > 1:
        raise Refused("which-remote", "which remote has the runs?", "git config baton.remote NAME")
    return every[0] if every else None


# --- where the runs are ------------------------------------------------------------------------


def _places(
    ctx: Context,
    names: Sequence[str],
    mentioned: dict[str, list[Mention]],
    seen: dict[str, str],
) -> list[Place]:
    """Every run that anything here speaks of, or those named."""
    states = _states(ctx)
    branches = refs.list_refs(ctx.repo, "refs/heads/") | refs.list_refs(ctx.repo, "refs/remotes/")
    known = {
        **dict.fromkeys(states),
        **dict.fromkeys(mentioned),
        **{ref.rpartition("/")[2]: None for ref in seen},
    }
    chosen = list(dict.fromkeys(names)) or list(known)
    if not chosen:
        raise NotFound(
            "no-run",
            "there is no run here to audit",
            "start one: git baton run CHANGE --agent NAME --verify CMD",
        )
    for name in chosen:
        if name not in known:
            raise NotFound("unknown-run", f"there is no run {name}", nearest(name, known))
    queues = _queues(ctx)
    return [_place(ctx, run, states.get(run), branches, queues) for run in sorted(chosen)]


def _states(ctx: Context) -> dict[str, str]:
    """Run -> the ref of its state: of this repository, else of the first remote that has it."""
    found = {ref.removeprefix(_RUNS): ref for ref in refs.list_refs(ctx.repo, _RUNS)}
    for ref in refs.list_refs(ctx.repo, layout.TRACKED):
        name, _, run = ref.removeprefix(layout.TRACKED).partition("/runs/")
        if name and run:
            found.setdefault(run, ref)
    return found


def _queues(ctx: Context) -> _Queues:
    """The queues that are here, by the part of their refs that tells where they are from."""
    found: _Queues = {}
    every = refs.list_refs(ctx.repo, layout.QUEUES) | refs.list_refs(ctx.repo, layout.TRACKED)
    for ref, oid in every.items():
        place, between, name = ref.rpartition("/queues/")
        if between:
            found.setdefault(place, {})[name] = Line(ctx.repo, name, ref, oid)
    return found


def _place(
    ctx: Context,
    run: str,
    ref: str | None,
    branches: dict[str, str],
    queues: _Queues,
) -> Place:
    suffix = f"/{ctx.settings.branch_prefix}/{run}"
    own = {
        name: oid
        for name, oid in branches.items()
        if name == f"refs/heads{suffix}"
        or (name.startswith("refs/remotes/") and name.endswith(suffix))
    }
    if ref is None:
        return Place(run, layout.run_ref(run), None, None, own)
    notes = layout.notes_ref(run)
    if ref.startswith(layout.TRACKED):
        notes = ref.replace("/runs/", "/notes/")
    beside = queues.get(ref.rpartition("/runs/")[0], {})
    return Place(run, ref, refs.read(ctx.repo, ref), _read(ctx, notes), own, beside)


def _read(ctx: Context, ref: str) -> str | None:
    try:
        return refs.read(ctx.repo, ref)
    except RepositoryError as error:
        ctx.warn(f"{error.message}; notes are not looked at")
        return None
