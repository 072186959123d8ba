"""What became of findings in shards: what fixers say, held against a fresh scan if there is one.

Nothing counts as fixed because nobody speaks of it: a shard without a status keeps its findings.
Where a scan made after the fixes is at hand, it decides, whatever was or was not said.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gitbaton.findings.claims import SILENCE, Claim, Claims
from gitbaton.findings.fingerprint import normalised
from gitbaton.findings.outcome import Flag, Folder, Outcome, Report, Rescan, Unfixed, Verdict
from gitbaton.model.findings import Finding


class _Seen(NamedTuple):
    """A scan held against what was to be fixed: the ids that it still finds, and what is new."""

    still: frozenset[str]
    new: tuple[Finding, ...]


def aggregate(folder: Folder, rescan: Sequence[Finding] | None = None) -> Report:
    """Fold all statuses into one report; ``rescan`` is what a scan after the fixes finds."""
    said = Claims(folder)
    seen = None if rescan is None else _compared(said, rescan)
    verdicts = {name: _verdict(name, said, seen) for name in said.findings}
    counts = Counter((said.shard_of[name], verdict) for name, (verdict, _) in verdicts.items())
    total = Counter(verdict for verdict, _ in verdicts.values())
    return Report(
        source=folder.index.source,
        fixed=total["fixed"],
        failed=total["failed"],
        remaining=total["remaining"],
        missing=tuple(n for n in sorted(said.shards) if _ended(folder, n) == "missing"),
        duplicates=tuple(said.duplicates()),
        flagged=tuple(_flags(folder, said, seen)),
        rescan=seen and Rescan(still=len(seen.still), new=seen.new),
        shards=tuple(_outcome(folder, said, number, counts) for number in sorted(said.shards)),
        unfixed=tuple(
            Unfixed(finding=finding, verdict=verdict, shard=said.shard_of[name], reason=reason)
            for name, finding in said.findings.items()
            for verdict, reason in (verdicts[name],)
            if verdict != "fixed"
        ),
    )


def _verdict(name: str, said: Claims, seen: _Seen | None) -> Claim:
    claim = said.claims.get(name, SILENCE)
    if seen is None:
        return claim
    if name not in seen.still:
        return Claim("fixed")
    return Claim("remaining", "still found") if claim.verdict == "fixed" else claim


def _compared(said: Claims, rescan: Sequence[Finding]) -> _Seen:
    """Findings are the same if they look alike, or have the same id. Of several that look alike a
    scan tells no more than how many are left: whoever says to have fixed one is believed first."""
    alike: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for name, finding in said.findings.items():
        alike[_looks(finding)].append(name)
    for names in alike.values():
        names.sort(key=lambda name: said.claims.get(name, SILENCE).verdict != "fixed")
    still: set[str] = set()
    others: list[Finding] = []
    for finding in rescan:
        if left := alike.get(_looks(finding)):
            still.add(left.pop())
        else:
            others.append(finding)
    again = {finding.id for finding in others} & said.findings.keys() - still
    new = tuple(finding for finding in others if finding.id not in again)
    return _Seen(frozenset(still | again), new)


def _looks(finding: Finding) -> tuple[str, str, str]:
    return finding.rule, finding.path or "", normalised(finding.message)


def _flags(folder: Folder, said: Claims, seen: _Seen | None) -> Iterator[Flag]:
    for number, what in sorted(folder.unreadable.items()):
        yield Flag(shard=number, code="unreadable", message=what)
    yield from said.flags()
    for name, claim in said.claims.items():
        if seen and claim.verdict == "fixed" and name in seen.still:
            what = f"{name} is said to be fixed, and is still found"
            yield Flag(
                shard=said.shard_of[name] or 0, code="still-found", finding=name, message=what
            )


def _ended(folder: Folder, number: int) -> str:
    """How the fixer of a shard ended."""
    if number in folder.unreadable:
        return "unreadable"
    status = folder.statuses.get(number)
    return status.agent_exit_reason if status else "missing"


def _outcome(
    folder: Folder, said: Claims, number: int, counts: Counter[tuple[int | None, Verdict]]
) -> Outcome:
    status = folder.statuses.get(number)
    return Outcome(
        shard=number,
        agent_exit_reason=_ended(folder, number),
        claimed=len(set(status.fixed)) if status else 0,
        fixed=counts[number, "fixed"],
        failed=counts[number, "failed"],
        remaining=counts[number, "remaining"],
        notes=status.notes if status else "",
    )
