"""Whose word counts: a status speaks for the findings of its own shard, and for nothing else.

Where two shards claim one scope, as after a second sharding into the same folder, the newer status
speaks for it and the older is set aside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from gitbaton.findings.outcome import Duplicate, Flag, Folder, Verdict
from gitbaton.findings.shards import above
from gitbaton.model.findings import Finding, Status


class Claim(NamedTuple):
    """What a status says of a finding."""

    verdict: Verdict
    reason: str = ""


SILENCE = Claim("remaining")


class Claims:
    """All that the statuses of a folder say. ``findings`` are those of all shards and the residue,
    by id; ``shard_of`` says which shard each counts in (None: in none), ``claims`` what is said of
    them by who may say it."""

    def __init__(self, folder: Folder) -> None:
        self.statuses = folder.statuses
        self.shards = {shard.shard: shard for shard in folder.shards}
        self.findings: dict[str, Finding] = {f.id: f for f in folder.index.residue}
        self._listed: dict[str, list[int]] = defaultdict(list)
        self._claimants: dict[str, list[int]] = defaultdict(list)
        for number, shard in self.shards.items():
            for finding in shard.findings:
                self.findings[finding.id] = finding
                self._listed[finding.id].append(number)
            for scope in shard.scopes:
                self._claimants[scope.scope_path].append(number)
        said = {number: _said(status) for number, status in self.statuses.items()}
        speaking = lru_cache(maxsize=None)(self._speaking)  # many findings are in one file
        self.claims: dict[str, Claim] = {}
        self.shard_of: dict[str, int | None] = dict.fromkeys(self.findings)
        for name, listed in self._listed.items():
            speaker = speaking(self.findings[name].path or "") or self._newest(listed)
            own = speaker in listed
            self.shard_of[name] = speaker if own else listed[0]
            if own and name in (claims := said.get(speaker, {})):
                self.claims[name] = claims[name]

    def _speaking(self, path: str) -> int | None:
        """The shard whose status speaks for a path; None if no shard claims it."""
        numbers = self._claiming(path)
        return self._newest(numbers) if numbers else None

    def _claiming(self, path: str) -> list[int]:
        """The shards of which a scope is ``path``, or a folder above it."""
        places = (place for place in (*above(path), path) if place in self._claimants)
        return sorted({number for place in places for number in self._claimants[place]})

    def _newest(self, numbers: Sequence[int]) -> int:
        def age(number: int) -> tuple[bool, str, int]:
            status = self.statuses.get(number)
            return status is not None, status.written if status else "", number

        return max(numbers, key=age)

    def duplicates(self) -> Iterator[Duplicate]:
        """The scopes that several shards claim."""
        for path in sorted(self._claimants):
            numbers = self._claiming(path)
            if len(numbers) > 1:
                kept = self._newest(numbers)
                yield Duplicate(scope_path=path, shards=tuple(numbers), kept=kept)

    def flags(self) -> Iterator[Flag]:
        """What the statuses say that does not count."""
        for number, status in sorted(self.statuses.items()):
            shard = self.shards.get(number)
            if shard is None:
                what = "the index knows no such shard"
                yield Flag(shard=number, code="no-such-shard", message=what)
                continue
            own = {finding.id for finding in shard.findings}
            for name in _said(status):
                if name not in own:
                    yield self._foreign(number, name)
            for name in dict.fromkeys(each.id for each in status.failed):
                if name in status.fixed:
                    what = f"{name} is said to be both fixed and failed: it counts as failed"
                    yield Flag(shard=number, code="contradiction", finding=name, message=what)

    def _foreign(self, number: int, name: str) -> Flag:
        listed = self._listed.get(name)
        whose = f"shard {listed[0]}'s" if listed else "no shard's"
        what = f"{name} is {whose}: what is said of it here does not count"
        return Flag(shard=number, code="foreign-finding", finding=name, message=what)


def _said(status: Status) -> dict[str, Claim]:
    said = dict.fromkeys(status.fixed, Claim("fixed"))
    return {**said, **{each.id: Claim("failed", each.reason) for each in status.failed}}
