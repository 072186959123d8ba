"""The history of a run read anew, from its first state to its last, without believing any of it.

Every verb trusts the newest state, because only `store.transact` moves the ref. Whoever was not
there cannot: so each state commit is compared with the one before it, by the rules that the verbs
themselves obey, and with what its own message says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from gitbaton.clock import stamp
from gitbaton.errors import RepositoryError
from gitbaton.evidence import roots, steps
from gitbaton.git import ancestry, objects
from gitbaton.git.chain import Walked, walk
from gitbaton.git.commit import CommitInfo
from gitbaton.git.repo import Repository
from gitbaton.model import codec, layout
from gitbaton.model.audit import Problem
from gitbaton.model.batch import Batch
from gitbaton.model.ids import AttemptId, is_oid
from gitbaton.model.run import Attempt, Event, Intent, RunRecord
from gitbaton.store import trailers

T = TypeVar("T")

_NONCE = re.compile(r"[0-9a-f]{32}")
_FIELD = re.compile(r" at `\$\.?([^`]*)`")
"""Where in a document msgspec found something else than there should be."""


class Link(NamedTuple):
    """One state commit, with what its message says."""

    oid: str
    extra: tuple[str, ...]
    event: Event
    nonce: str


class Chain:
    """The state commits of a run, oldest first, and what is wrong with them. ``receipts`` are the
    blobs of all receipts that were ever recorded."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.links: list[Link] = []
        self.place: dict[str, int] = {}
        self.problems: list[Problem] = []
        self.receipts: set[str] = set()

    def add(self, oid: str, parents: Sequence[str], message: str) -> Link:
        link = Link(oid, tuple(parents[1:]), *trailers.parse(message))
        self.place[oid] = len(self.links)
        self.links.append(link)
        return link

    @property
    def tip(self) -> str:
        return self.links[-1].oid


def spot(commit: str, path: str = "", field: str = "") -> str:
    """Where a problem is: ``COMMIT:PATH#FIELD``, of which the part before the ``#`` is git's."""
    return f"{commit}{f':{path}' if path else ''}{f'#{field}' if field else ''}"


def read(repo: Repository, run: str, tip: str) -> Chain:
    """The chain that ends at the state commit ``tip``, judged."""
    chain = Chain(run)
    judge = _Judge(repo, chain)
    try:
        for walked in walk(repo, tip):
            judge.judge(walked)
    except RepositoryError as error:
        return _damaged(repo, run, tip, error)
    return chain


def _damaged(repo: Repository, run: str, tip: str, error: RepositoryError) -> Chain:
    """What can be told of a chain in which something cannot be read: how far it goes."""
    infos: list[CommitInfo] = []
    try:
        infos.extend(ancestry.first_parent_chain(repo, tip, None))
        at = tip
    except RepositoryError as found:
        at, error = (infos[-1].parents[0] if infos else tip), found
    chain = Chain(run)
    for info in reversed(infos):
        chain.add(info.oid, info.parents, info.message)
    chain.problems.append(Problem(code=error.code, where=at, message=error.message))
    return chain


class _Live(msgspec.Struct, frozen=True):
    """What of ``live.json`` a step is judged by."""

    attempts: dict[str, Attempt] = {}


class _Cut(msgspec.Struct, frozen=True):
    """The same, with each attempt as the JSON that it is."""

    attempts: dict[str, msgspec.Raw] = {}


class _Judge:
    """Goes along a chain and remembers what the next step has to be compared with."""

    def __init__(self, repo: Repository, chain: Chain) -> None:
        self.repo = repo
        self.chain = chain
        self.before: steps.View | None = None
        """The state before, if it could be read."""
        self.nonces: set[str] = set()
        self.kept: set[str] = set()
        """Commits that the chain keeps from pruning, and the run's base."""
        self.files: dict[str, str] = {}
        """The files of the state, by path."""
        self.intents: dict[str, Intent] = {}
        self.known: dict[str, tuple[str, Any]] = {}
        """By path, the last blob and what it decodes to: most files are the same in the next."""
        self.attempts: dict[bytes, Attempt] = {}
        """Those of the last ``live.json``, by their JSON: most are the same in the next."""

    def judge(self, walked: Walked) -> None:
        """Go on by one commit."""
        link = self.chain.add(walked.oid, walked.parents, walked.message)
        old: dict[str, str | None] = {}
        for path, was, now in walked.changes:
            old[path] = was and was[0]
            if now is None:
                self.files.pop(path, None)
            else:
                self.files[path] = now[0]
        before, self.before = self.before, None
        try:
            objects.tree_of(self.repo, walked.oid)  # git log does not look at its digest
            self._intend(old)
            after = self._view()
            if before is not None:
                before = before._replace(archived=partial(self._archived, old))
            self._step(link, walked, before, after, list(old))
        except RepositoryError as error:
            path, field = (str(error.payload.get(key, "")) for key in ("path", "field"))
            self._report(link, error.code, path, field, error.message)
        else:
            self.before = after

    def _step(
        self,
        link: Link,
        walked: Walked,
        before: steps.View | None,
        after: steps.View,
        changed: Sequence[str],
    ) -> None:
        written = [
            steps.Written.at(path)
            for path in changed
            if path.startswith((layout.TICKETS, layout.COMMITS))
        ]
        for path, _, name in written:
            if name == layout.RECEIPT and path in self.files:
                self.chain.receipts.add(self.files[path])
        self._message(link, walked, after)
        moved = list(steps.changes(before, after, written))
        found: Iterable[steps.Finding] = ()  # if the one before could not be read
        if before is not None:
            found = [
                *steps.judge(before, after, link.event, written, moved),
                *roots.judge(before, after, link.event, moved),
            ]
        elif link is self.chain.links[0]:
            self.kept.add(after.record.base.commit)
            found = [*steps.judge_first(after, link.event), *roots.judge_first(after)]
        for finding in found:
            self._report(link, *finding)
        self._parents(link, before, after, moved)

    def _report(self, link: Link, code: str, path: str, field: str, message: str) -> None:
        where = spot(link.oid, "" if path == steps.MESSAGE else path, field)
        said = f"{link.event.event or 'state'}: {field or path} {message}"
        self.chain.problems.append(Problem(code=code, where=where, message=said))

    def _view(self) -> steps.View:
        return steps.View(
            record=self._file(layout.RUN, partial(self._decode, RunRecord)),
            attempts=self._file(layout.LIVE, self._live),
            plan=self.files.get(layout.PLAN, ""),
            intents=list(self.intents.values()),
            archived=partial(self._archived, {}),
            batch=self._batch(),
            closeout=self.files.get(layout.CLOSEOUT, ""),
        )

    def _batch(self) -> Batch | None:
        there = layout.BATCH in self.files
        return self._file(layout.BATCH, partial(self._decode, Batch)) if there else None

    def _intend(self, changed: Iterable[str]) -> None:
        """Bring the standing intents up to date."""
        for path in changed:
            if path.startswith(layout.INTENTS):
                self.intents.pop(path, None)
                if path in self.files:
                    # A union is not a type to mypy, though msgspec decodes it like one.
                    self.intents[path] = self._decode(cast(Any, Intent), self.files[path], path)

    def _file(self, path: str, decode: Callable[[str, str], T]) -> T:
        oid = self.files.get(path)
        if oid is None:
            raise _unreadable(path, "the file is missing")
        known = self.known.get(path)
        if known is None or known[0] != oid:
            known = self.known[path] = oid, decode(oid, path)
        value: T = known[1]
        return value

    def _live(self, oid: str, path: str) -> Mapping[str, Attempt]:
        """The attempts in a ``live.json``, of which few are other ones than before."""
        cut = self._decode(_Cut, oid, path).attempts
        try:
            found = {
                key: (text, self.attempts.get(text) or codec.decode(text, Attempt))
                for key, text in zip(cut, map(bytes, cut.values()), strict=True)
            }
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return self._decode(_Live, oid, path).attempts  # says where it is wrong
        self.attempts = dict(found.values())
        return {key: attempt for key, (_, attempt) in found.items()}

    def _decode(self, kind: type[T], oid: str, path: str) -> T:
        try:
            return codec.decode(objects.read_blob(self.repo, oid), kind)
        except RepositoryError as error:
            raise _unreadable(path, error.message, error.code) from error
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise _unreadable(path, str(error)) from error

    def _archived(self, old: Mapping[str, str | None], attempt: AttemptId) -> Attempt | None:
        """The attempt at its own place, as it was before the blobs ``old`` were replaced."""
        path = layout.path_of(attempt, layout.ATTEMPT)
        oid = old[path] if path in old else self.files.get(path)
        return None if oid is None else self._decode(Attempt, oid, path)

    def _message(self, link: Link, walked: Walked, state: steps.View) -> None:
        """The message is the one that a transition of this run writes, at the time it names."""
        event, nonce = link.event, link.nonce
        if not _NONCE.fullmatch(nonce) or nonce in self.nonces:
            self._report(link, "bad-trailer", steps.MESSAGE, "Baton-Nonce", "is not one of its own")
        self.nonces.add(nonce)
        expected = trailers.compose(self.chain.run, event, nonce)
        if walked.message != expected:
            field = differing_line(expected, walked.message)
            self._report(link, "bad-trailer", steps.MESSAGE, field, "is not as git-baton writes it")
        if state.record.id != self.chain.run:
            said = f"is {state.record.id!r} in the state of {self.chain.run}"
            self._report(link, "swapped-state", layout.RUN, "id", said)
        try:
            time = _stamp(walked.time)
        except (ValueError, OverflowError, OSError):
            time = f"{walked.time} seconds after 1970"
        if state.record.updated_at != time:
            said = f"is {state.record.updated_at}, but the commit is of {time}"
            self._report(link, "bad-time", layout.RUN, "updated_at", said)

    def _parents(
        self,
        link: Link,
        before: steps.View | None,
        after: steps.View,
        moved: Iterable[steps.Change],
    ) -> None:
        """Commits that the state newly names are kept by it, and it keeps no others."""
        named = {
            oid: (path, field) for path, field, oid in steps.named_commits(before, after, moved)
        }
        for oid in link.extra:
            if oid not in named and not _knows(after, oid) and not (before and _knows(before, oid)):
                self._report(
                    link, "foreign-parent", steps.MESSAGE, "parent", f"{oid} is not in the state"
                )
            self._keep(oid)
        for oid, (path, field) in named.items():
            if oid in self.kept:
                continue
            if not is_oid(oid):
                self._report(link, "corrupt-state", path, field, f"is {oid!r}, no object id")
                continue
            if not any(self._contains(parent, oid) for parent in link.extra):
                said = f"names {oid}, which no parent holds"
                self._report(link, "missing-parent", path, field, said)
            self.kept.add(oid)  # once is enough

    def _keep(self, oid: str) -> None:
        """The commit is kept, and with it the chain of merges that leads to it."""
        try:
            for info in ancestry.first_parent_chain(self.repo, oid, None):
                if info.oid in self.kept:
                    return
                self.kept.add(info.oid)
        except RepositoryError:
            self.kept.add(oid)  # whoever judges the branch will find it missing

    def _contains(self, parent: str, oid: str) -> bool:
        try:
            return ancestry.is_ancestor(self.repo, oid, parent)
        except RepositoryError:
            return False


def _knows(state: steps.View, oid: str) -> bool:
    """Whether a state names the commit as its tip, or an intent means to make it that."""
    return oid == state.record.tip or any(oid == getattr(i, "new", None) for i in state.intents)


@lru_cache(64)
def _stamp(seconds: int) -> str:
    try:
        return stamp(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):  # no time that a clock could have told
        return f"{seconds} seconds"


def differing_line(expected: str, found: str) -> str:
    """The first line in which two messages differ, by the name of its trailer."""
    ours, theirs = expected.splitlines(), found.splitlines()
    for at in range(max(len(ours), len(theirs))):
        a = ours[at] if at < len(ours) else ""
        b = theirs[at] if at < len(theirs) else ""
        if a != b:
            if at == 0:
                return "subject"
            name = (a or b).partition(": ")[0]
            return name if name.startswith("Baton-") else "message"
    return "message"


def _unreadable(path: str, reason: str, code: str = "corrupt-state") -> RepositoryError:
    field = _FIELD.search(reason)
    return RepositoryError(code, reason, payload={"path": path, "field": field[1] if field else ""})
