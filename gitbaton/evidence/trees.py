"""Whether recorded commits hold the trees that they must: merges recomputed, boxes accounted for.

Computed and recorded tree may differ in the tasks file only, and there the text must be the one
that git-baton writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec

from gitbaton.errors import BatonError, RepositoryError
from gitbaton.evidence import statement, ticks
from gitbaton.evidence.claims import Claim
from gitbaton.evidence.examine import named, printable
from gitbaton.evidence.recompute import Recomputer
from gitbaton.git import ancestry, objects
from gitbaton.git.disjoint import Disjoint, Kept
from gitbaton.git.merge import Asked
from gitbaton.git.odb import Entry
from gitbaton.model import codec, layout
from gitbaton.model.audit import Problem
from gitbaton.model.plan import Unit
from gitbaton.model.run import Attempt, RunRecord
from gitbaton.plan import openspec, tasksmd, write
from gitbaton.store import runs

_RECOMPUTED = ("merge", "update", "land")
_MANY = 8  # merges from which on a look at the whole branch costs less than making them


class Trees:
    """The trees of one run's commits."""

    def __init__(
        self, loaded: runs.Loaded, recomputer: Recomputer, claims: Mapping[str, Claim]
    ) -> None:
        self._loaded = loaded
        self._run = loaded.state.run
        self._recomputer = recomputer
        self._repo = recomputer.repo
        self._claims = claims
        self._tasks: dict[str, str] = {}
        self._prepared: set[str] = set()
        self._kept: dict[str, Kept] = {}
        """By merge that need not be made again, what became of the tasks file."""
        self._ticker: write.Ticker | None = None
        self._text: tuple[Entry | None, bytes | None] = None, None

    def tasks_path(self, commit: str) -> str:
        """The tasks file of the run's change in ``commit``."""
        known = self._tasks.get(commit)
        if known is None:
            known = ticks.tasks_path(self._repo, commit, self._run.target.folder)
            self._tasks[commit] = known
        return known

    # --- recomputing -----------------------------------------------------------------------------

    def prepare(self, claims: Sequence[Claim]) -> None:
        """Recompute the merges among ``claims`` together, or show that this is not needed."""
        new = [claim for claim in claims if not self.is_prepared(claim)]
        self._prepared.update(claim.commit for claim in new)
        if len(new) >= _MANY and self._disjoint is not None:
            new = [claim for claim in new if not self._is_kept(self._disjoint, claim)]
        asked = map(self._asked, new)
        self._recomputer.prepare(each for each in asked if each is not None)

    def _is_kept(self, disjoint: Disjoint, claim: Claim) -> bool:
        """Whether an integration merge is the merge of its parents, as far as not its tasks."""
        asked = self._asked(claim) if claim.kind == "merge" else None
        if asked is None:
            return False
        (tasks,) = asked.keep
        kept = disjoint.kept(claim.commit, tasks)
        if kept is None:
            return False
        self._kept[claim.commit] = kept
        folder = self._run.target.folder
        if not any(openspec.decides(folder, path) for path in kept.others):
            self._tasks.setdefault(claim.commit, tasks)
        return True

    @cached_property
    def _disjoint(self) -> Disjoint | None:
        try:
            return Disjoint(self._repo, self._run.base.commit, self._run.tip)
        except RepositoryError:  # whoever makes the merges will say so
            return None

    def is_prepared(self, claim: Claim) -> bool:
        return claim.kind not in _RECOMPUTED or claim.commit in self._prepared

    def _asked(self, claim: Claim) -> Asked | None:
        """What is to be merged again; None if it is damaged, which shows when it is judged."""
        try:
            ours, theirs = objects.commit_info(self._repo, claim.commit).parents
            own = theirs if claim.kind == "land" else ours
            return Asked(ours, theirs, (self.tasks_path(own),))
        except (BatonError, ValueError):
            return None

    def merge_problems(self, claim: Claim, attempt: Attempt) -> Iterator[Problem]:
        """An integration merge is the recomputed one, with the box of its ticket ticked."""
        kept = self._kept.get(claim.commit)
        if kept is None:
            tree, tasks = self._bare(claim)
            if tree is None:
                yield self._conflict(claim)
                return
            before = objects.entry_at(self._repo, tree, tasks)
        else:
            tree = objects.commit_info(self._repo, claim.commit).parents[0]
            tasks, before = self.tasks_path(tree), kept.before

        def texts() -> Iterator[bytes | None]:
            yield self._ticked(before, attempt.ticket)
            for unit in self._former_units:
                yield ticks.ticked_text(self._repo, tree, tasks, [attempt.ticket], unit)

        if kept is None:
            yield from self._compare(claim, tree, tasks, texts())
        else:
            yield from self._compare_tasks(claim, tasks, before, kept.after, texts())

    def _ticked(self, entry: Entry | None, key: str) -> bytes | None:
        """The tasks file ``entry`` with one ticket ticked; read anew only if the last merge that
        was judged did not leave this very text."""
        before = self._content(entry)
        if before is None:
            return None
        if self._ticker is None or self._ticker.data != before:
            self._ticker = write.Ticker(before, self._run.unit)
        if not self._ticker.tick(key):
            return write.carry_ticks(before, [key], unit=self._run.unit)
        return self._ticker.data

    def _content(self, entry: Entry | None) -> bytes | None:
        """The file ``entry``: what one merge leaves is what the next begins with."""
        if self._text[0] != entry:
            self._text = entry, objects.content(self._repo, entry)
        return self._text[1]

    def met_problems(self, claim: Claim, *, proven: bool) -> Iterator[Problem]:
        """An update or landing merge is the recomputed one with the boxes ticked that belong there;
        or it is ``proven`` by a receipt of its own, and ticks only what receipts resolved."""
        parents = objects.commit_info(self._repo, claim.commit).parents
        own, other = parents if claim.kind == "update" else parents[::-1]
        resolved = self.resolved_at(own)
        tree, tasks = self._bare(claim)
        found = [self._conflict(claim)]
        if tree is not None:
            units = (self._run.unit, *self._former_units)
            met = (ticks.met_text(self._repo, own, other, tasks, resolved, u) for u in units)
            found = list(self._compare(claim, tree, tasks, met))
        if not proven:
            yield from found
        elif found:
            yield from self._unearned(claim, tasks, own, other)

    def plan_problems(self, claim: Claim) -> Iterator[Problem]:
        """A plan commit touches nothing but the change folder."""
        parent = objects.commit_info(self._repo, claim.commit).parents[0]
        folder = self._run.target.folder + "/"
        changed = objects.changed_paths(self._repo, parent, claim.commit)
        beyond = [path for path in changed if not path.startswith(folder)]
        if beyond:
            yield Problem(
                code="plan-touches-code",
                where=f"{claim.commit}:{printable(beyond[0])}",
                message=f"a plan commit changes files outside of {folder}: {named(beyond)}",
            )

    def is_own_tree(self, claim: Claim) -> bool:
        """Whether a landing merge has just the tree of the integration commit that it lands."""
        info = objects.commit_info(self._repo, claim.commit)
        return claim.kind == "land" and info.tree == objects.tree_of(self._repo, info.parents[1])

    def _bare(self, claim: Claim) -> tuple[str | None, str]:
        """The recomputed tree before ticks, None for a conflict; and the path of the tasks file."""
        ours, theirs = objects.commit_info(self._repo, claim.commit).parents
        tasks = self.tasks_path(theirs if claim.kind == "land" else ours)
        return self._recomputer.merged(ours, theirs, (tasks,)), tasks

    def _conflict(self, claim: Claim) -> Problem:
        said = "its parents conflict when they are merged again" + self._other_recipe(claim)
        return Problem(code="not-reproducible", where=f"{claim.commit}#tree", message=said)

    def _compare(
        self, claim: Claim, tree: str, tasks: str, texts: Iterator[bytes | None]
    ) -> Iterator[Problem]:
        """The commit's tree is ``tree`` with one of ``texts`` as the tasks file."""
        differing = self._recomputer.differences(tree, claim.commit)
        beyond = [path for path in differing if path != tasks]
        if beyond:
            yield Problem(
                code="not-reproducible",
                where=f"{claim.commit}:{printable(beyond[0])}",
                message="merged again, its parents give another tree: "
                + named(beyond)
                + self._other_recipe(claim),
            )
            return
        before, after = (objects.entry_at(self._repo, t, tasks) for t in (tree, claim.commit))
        yield from self._compare_tasks(claim, tasks, before, after, texts)

    def _compare_tasks(
        self,
        claim: Claim,
        tasks: str,
        before: Entry | None,
        after: Entry | None,
        texts: Iterator[bytes | None],
    ) -> Iterator[Problem]:
        """The tasks file, which would be ``before`` in the mere merge, is ``after`` with one of
        ``texts``."""
        expected = next(texts)
        found = self._content(after)
        if found == expected or found in texts:
            if before and after and before[1] != after[1]:
                yield self._other_text(claim, tasks, "its mode is another one")
            return
        if found is None or expected is None or not write.marks_only_difference(found, expected):
            yield self._other_text(claim, tasks, "its text is not that of the merge")
            return
        more = ticks.ticked_keys(found, self._run.unit) - ticks.ticked_keys(
            expected, self._run.unit
        )
        if more:
            yield self._box(claim, tasks, sorted(more))
        else:
            yield self._other_text(claim, tasks, "boxes are marked otherwise than by the merge")

    def _other_text(self, claim: Claim, tasks: str, why: str) -> Problem:
        where = f"{claim.commit}:{printable(tasks)}"
        return Problem(code="not-reproducible", where=where, message=f"merged again, {why}")

    def _other_recipe(self, claim: Claim) -> str:
        """What differs between how the commit was made, as far as a receipt says, and here."""
        made: dict[str, str] = {}
        for teller in (claim, self._claims.get(claim.tested_by or "")):
            try:
                receipt = (teller.receipt if teller else None) or b""
                made = made or statement.parse(receipt).predicate.merge
            except BatonError:
                continue
        here = self._recomputer.recipe()
        keys = [key for key in sorted(made) if made[key] != here.get(key)]
        told = [f"{key} {made[key]} (here {here.get(key)})" for key in keys]
        return f"; it was made with {', '.join(told)}" if told else ""

    # --- boxes -----------------------------------------------------------------------------------

    def ticked_since(self, commit: str, since: str) -> tuple[str, ...]:
        """Tickets ticked in ``commit`` and not in ``since``, in the order of the file."""
        text = objects.blob_at(self._repo, commit, self.tasks_path(commit))
        before = objects.blob_at(self._repo, since, self.tasks_path(since)) or b""
        known = ticks.ticked_keys(before, self._run.unit)
        read = tasksmd.read(text or b"", unit=self._run.unit)
        return tuple(t.key for t in read.tickets if t.mark == "done" and t.key not in known)

    def resolved_at(self, tip: str) -> frozenset[str]:
        """The tickets that receipts had resolved at an integration commit: merged up to there, and
        ticked there (reopened ones are not)."""
        text = objects.blob_at(self._repo, tip, self.tasks_path(tip))
        return self._merged_up_to(tip) & ticks.ticked_keys(text or b"", self._run.unit)

    def _merged_up_to(self, tip: str) -> frozenset[str]:
        chain = ancestry.first_parent_chain(self._repo, tip, self._run.base.commit)
        return _tickets(self._claims.get(info.oid) for info in chain)

    def _unearned(self, claim: Claim, tasks: str, own: str, other: str) -> Iterator[Problem]:
        """Boxes that the merge ticked and neither side had, without a receipt."""
        after, *before = (
            ticks.ticked_keys(objects.blob_at(self._repo, c, tasks) or b"", self._run.unit)
            for c in (claim.commit, own, other)
        )
        more = after.difference(*before, self._merged_up_to(own))
        if more:
            yield self._box(claim, tasks, sorted(more))

    def _box(self, claim: Claim, tasks: str, keys: list[str]) -> Problem:
        return Problem(
            code="box-without-receipt",
            where=f"{claim.commit}:{printable(tasks)}",
            message=f"it ticks what no receipt of this merge resolves: {', '.join(keys)}",
        )

    @cached_property
    def _former_units(self) -> tuple[Unit | None, ...]:
        """The units that the run ever had, as far as its history can be read."""
        found: dict[Unit | None, None] = {}
        try:
            for info in ancestry.first_parent_chain(self._repo, self._loaded.oid, None):
                data = objects.blob_at(self._repo, info.tree, layout.RUN)
                found[codec.decode(data or b"", RunRecord).unit] = None
        except (RepositoryError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass  # a damaged history is not what is judged here
        return tuple(found)


def _tickets(claims: Iterable[Claim | None]) -> frozenset[str]:
    """The tickets of the integration merges among ``claims``."""
    merges = (c for c in claims if c is not None and c.kind == "merge")
    return frozenset(c.attempt.ticket for c in merges if c.attempt is not None)
