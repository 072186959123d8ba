"""What vouches for the history of a run from outside of it.

Whoever can push a state ref can write a history that agrees with itself. But each integration
merge names, by its ``Baton-State`` trailer, the state commit that recorded its receipt; whoever
has looked before remembers the tip; and a signed state commit cannot be made anew. None of these
moves when the history before it is rewritten, so each such change shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from gitbaton.errors import BatonError
from gitbaton.evidence import signature, statement
from gitbaton.evidence.chain import Chain, differing_line, spot
from gitbaton.evidence.signature import Signers
from gitbaton.git import ancestry, history, objects, refs
from gitbaton.git.repo import Repository
from gitbaton.model.audit import Problem
from gitbaton.model.ids import is_oid, is_run_id
from gitbaton.store import trailers

SEEN = "tips.json"
_STATE = "Baton-State"


class Mention(NamedTuple):
    """A merge commit that names a state commit of a run."""

    commit: str
    run: str
    state: str

    @property
    def witness(self) -> Witness:
        return Witness(self.state, f"the merge {self.commit} names", f"{self.commit}#{_STATE}")


class Witness(NamedTuple):
    """Somebody outside who knows a state commit: which, who, and where that is written.

    One that does not ``vouch`` for it has only heard of it, as a fetch has.
    """

    state: str
    who: str
    where: str
    vouches: bool = True


def mentioned(repo: Repository) -> dict[str, list[Mention]]:
    """By run, the merges on any branch, local or of a remote, that name a state commit."""
    tips = refs.list_refs(repo, "refs/heads/") | refs.list_refs(repo, "refs/remotes/")
    found: dict[str, list[Mention]] = {}
    for commit in history.commits(repo, set(tips.values()), (), saying=f"^{_STATE}: "):
        mention = mention_of(commit.oid, commit.message)
        if mention is not None:
            found.setdefault(mention.run, []).append(mention)
    return found


def mention_in(repo: Repository, commit: str) -> Mention | None:
    """`mention_of` a commit of the repository."""
    return mention_of(commit, objects.commit_info(repo, commit).message)


def mention_of(commit: str, message: str) -> Mention | None:
    """What a merge with this message says of the state; None if it names none."""
    fields = trailers.fields(message)
    run, state = fields.get("Run", ""), fields.get("State", "")
    if not is_run_id(run) or not is_oid(state) or "Nonce" in fields:
        return None  # no merge has a nonce; a push guard takes what has one for a state
    return Mention(commit, run, state)


class Anchored(NamedTuple):
    """What the anchors of a chain say against it, and how many of its newest state commits are
    behind none of them."""

    problems: list[Problem]
    unanchored: int


def judge(
    repo: Repository,
    chain: Chain,
    witnesses: Iterable[Witness],
    signers: Signers | None = None,
) -> Anchored:
    """Hold a chain against the states that others know, and against its own signatures."""
    if not chain.links:  # not even the tip can be read, which is a problem of the chain
        return Anchored([], 0)
    problems: dict[tuple[str, str], Problem] = {}
    lost: list[Witness] = []
    last = -1
    for witness in witnesses:
        if witness.state not in chain.place:
            lost.append(witness)
        elif witness.vouches:
            last = max(last, chain.place[witness.state])
    for witness in lost:
        for problem in _against(repo, chain, witness, last):
            problems.setdefault((problem.code, problem.where), problem)
    at = len(chain.links) - 1
    while signers is not None and at > last:
        found = signature.verify_commit(repo, chain.links[at].oid, signers)
        if found.trusted:
            last = at
        elif found.reason == "altered":
            where = spot(chain.links[at].oid, field="gpgsig")
            problem = Problem(code="bad-signature", where=where, message=found.why)
            problems.setdefault((problem.code, where), problem)
        at -= 1
    return Anchored(list(problems.values()), len(chain.links) - 1 - last)


def _against(repo: Repository, chain: Chain, witness: Witness, held: int) -> Iterator[Problem]:
    """Why the state that ``witness`` knows is not on the chain; up to the place ``held`` all is as
    others know it."""
    what = f"{witness.state}, which {witness.who}"
    try:
        branched = _branched(repo, chain, witness.state)
    except BatonError:
        after = f" after {chain.links[held].oid}" if held >= 0 else ""
        yield Problem(
            code="anchor-lost",
            where=witness.where,
            message=f"the history of {chain.run} was rewritten{after}: it lacks {what}",
        )
        return
    if branched.common == chain.tip:
        yield Problem(
            code="state-rewound",
            where=chain.tip,
            message=f"the state of {chain.run} was put back to here, or a newer one was not "
            f"fetched (refs/baton/*): it lacks {what}",
        )
        return
    place = chain.place[branched.common] + 1 if branched.common else 0
    for where in differences(repo, branched.first, chain.links[place].oid):
        yield Problem(
            code="state-rewritten",
            where=where,
            message=f"was altered: {branched.first} has another value, and leads to {what}",
        )


class _Branched(NamedTuple):
    """Where another history leaves a chain: the last commit in common (None: not one), and the
    first of its own."""

    common: str | None
    first: str


def _branched(repo: Repository, chain: Chain, state: str) -> _Branched:
    first = state
    for info in ancestry.first_parent_chain(repo, state, None):
        if info.oid in chain.place:
            return _Branched(info.oid, first)
        first = info.oid
    return _Branched(None, first)


def differences(repo: Repository, old: str, new: str) -> list[str]:
    """Everything in which the commit ``new`` differs from ``old``, as places in ``new``: fields of
    JSON files, other files, trailers, parents, author, time. Never empty."""
    before, after = objects.commit_info(repo, old), objects.commit_info(repo, new)
    found = [_file(repo, new, change) for change in objects.changes(repo, before.tree, after.tree)]
    if before.message != after.message:
        found.append(spot(new, field=differing_line(before.message, after.message)))
    if before.parents[1:] != after.parents[1:]:
        found.append(spot(new, field="parent"))
    if before.author != after.author:
        found.append(spot(new, field="author"))
    if before.committer_time != after.committer_time:
        found.append(spot(new, field="committer"))
    return found or [spot(new, field="header")]


def _file(repo: Repository, commit: str, change: objects.Change) -> str:
    if change.old is None or change.new is None:
        return spot(commit, change.path)
    try:
        old, new = (objects.read_blob(repo, entry[0]) for entry in (change.old, change.new))
    except BatonError:
        return spot(commit, change.path)
    field = statement.first_difference(new, old) or "(mode)"
    return spot(commit, change.path, "" if field == "(not JSON)" else field)


def seen_tips(repo: Repository) -> dict[str, str]:
    """Ref -> state commit that the last audit without a problem found there."""
    try:
        return msgspec.json.decode((repo.baton_dir / SEEN).read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        path = repo.baton_dir / SEEN
        raise BatonError(
            "tips-unreadable",
            f"{path} is damaged: {error}",
            "it holds the state tips that audits saw here; remove it to begin anew",
        ) from error


def remember(repo: Repository, tips: dict[str, str]) -> None:
    """Keep ``tips`` beside those of other refs, for the next audit in this clone."""
    known = seen_tips(repo)
    if {**known, **tips} == known:
        return
    repo.baton_dir.mkdir(parents=True, exist_ok=True)
    begun = repo.baton_dir / f"{SEEN}.new"
    begun.write_bytes(msgspec.json.format(msgspec.json.encode({**known, **tips})) + b"\n")
    begun.replace(repo.baton_dir / SEEN)
