"""Which fixer gets which findings: so that many work side by side, and none on another's files.

Ownership is by scope. A scope is the outermost folder above a finding that may be refactored as a
whole, or else the file; so no scope lies in another one. Whole scopes are dealt out, the largest
first, each to the shard that has least.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from gitbaton.errors import BatonError
from gitbaton.findings.finding import Finding as Found
from gitbaton.findings.fingerprint import fingerprints
from gitbaton.findings.words import one_line
from gitbaton.model.findings import SCHEMA, Finding, Index, IndexEntry, Scope, Shard, shard_file
from gitbaton.model.ids import made_name

SIZE = 30
"""Findings that a fresh context can deal with."""
_LETTERS = 12


class Dealt(NamedTuple):
    """All findings dealt out: the shards, and the list of them."""

    listed: Index
    shards: tuple[Shard, ...]


# --- what there is to be dealt out -------------------------------------------------------------


def named(found: Sequence[Found]) -> list[Finding]:
    """What was found, by place, each with an id that a later scan gives it too. What is done
    already is left out, and what is listed twice at one place is there once.

    Raises `BatonError` ``duplicate-finding`` when a source itself calls two by one name.
    """
    known: dict[str, Finding] = {}
    for one, fingerprint in zip(found, fingerprints(found), strict=True):
        if fingerprint is None or one.closed:
            continue
        finding = _finding(one, fingerprint)
        if known.setdefault(finding.id, finding) != finding:
            raise BatonError(
                "duplicate-finding",
                f"{finding.id} is the name of two findings: {finding.message[:80]!r} is not the"
                " only one",
                "give each an id of its own, or none",
            )
    return sorted(known.values(), key=_by_place)


def _finding(found: Found, fingerprint: str) -> Finding:
    place = found.places[0] if found.places else None
    rule = one_line(found.rule)
    said = one_line(found.message) or one_line(found.title)
    return Finding(
        id=found.id or made_name(rule.rpartition(".")[2], fingerprint, _LETTERS),
        path=place.path if place else None,
        line=place.line if place else None,
        rule=rule,
        severity=found.severity,
        message=said or one_line(" ".join(found.more)),
    )


def _by_place(finding: Finding) -> tuple[str, int, str, str]:
    return finding.path or "", finding.line or 0, finding.rule, finding.id


# --- scopes ------------------------------------------------------------------------------------


def above(path: str) -> Iterator[str]:
    """The folders that ``path`` lies in, the outermost first."""
    at = path.find("/", 1)
    while at > 0:
        yield path[:at]
        at = path.find("/", at + 1)


def scopes(paths: Collection[str], is_owned: Callable[[str], bool]) -> dict[str, Scope]:
    """The scope of each path. ``is_owned`` says of a folder that it is refactored as a whole; one
    that is itself reported is as well."""
    folders = {folder for path in paths for folder in above(path)}
    owned = {folder for folder in folders if folder in paths or is_owned(folder)}
    owner = {path: next((f for f in above(path) if f in owned), path) for path in paths}
    return {
        path: Scope(scope, "skill_dir" if scope in folders else "file")
        for path, scope in owner.items()
    }


# --- dealing out -------------------------------------------------------------------------------


def shard(
    findings: Sequence[Finding],
    is_owned: Callable[[str], bool],
    *,
    source: Sequence[str] = (),
    size: int = SIZE,
    count: int | None = None,
) -> Dealt:
    """Deal ``findings`` out: into ``count`` shards, or as few as keep each within ``size``. Fewer
    if there are fewer scopes, and a single scope may be larger."""
    placed = [finding for finding in findings if finding.path]
    scope_of = scopes({finding.path or "" for finding in placed}, is_owned)
    by_scope: dict[Scope, list[Finding]] = defaultdict(list)
    for finding in placed:
        by_scope[scope_of[finding.path or ""]].append(finding)
    if count is not None:
        size = max(1, -(-len(placed) // count))
    dealt = _dealt({scope: len(found) for scope, found in by_scope.items()}, size, count)
    shards = tuple(
        Shard(
            schema_version=SCHEMA,
            shard=number,
            scopes=tuple(own),
            findings=tuple(finding for scope in own for finding in by_scope[scope]),
        )
        for number, own in enumerate(dealt, start=1)
    )
    residue = tuple(finding for finding in findings if not finding.path)
    return Dealt(_index(shards, residue, source, size), shards)


def _index(
    shards: Sequence[Shard], residue: tuple[Finding, ...], source: Sequence[str], size: int
) -> Index:
    entries = tuple(
        IndexEntry(
            shard=each.shard,
            file=shard_file(each.shard),
            findings=len(each.findings),
            scopes=each.scopes,
        )
        for each in shards
    )
    return Index(
        schema_version=SCHEMA,
        source=tuple(source),
        shard_size=size,
        shards=entries,
        residue=residue,
    )


def _dealt(sizes: dict[Scope, int], size: int, count: int | None) -> list[list[Scope]]:
    """The scopes of each shard. Without a ``count`` the number of shards is found by halving: with
    as many as there are scopes every shard is small enough."""
    if not sizes:
        return []
    order = sorted(sizes, key=lambda scope: (-sizes[scope], scope))
    if count is not None:
        return _into(min(count, len(order)), order, sizes)
    rest = [found for found in sizes.values() if found <= size]
    few, many = len(order) - len(rest) + -(-sum(rest) // size), len(order)
    while few < many:
        middle = (few + many) // 2
        if all(_fits(own, sizes, size) for own in _into(middle, order, sizes)):
            many = middle
        else:
            few = middle + 1
    return _into(many, order, sizes)


def _fits(own: Sequence[Scope], sizes: dict[Scope, int], size: int) -> bool:
    return len(own) == 1 or sum(sizes[scope] for scope in own) <= size


def _into(count: int, order: Sequence[Scope], sizes: dict[Scope, int]) -> list[list[Scope]]:
    """``order`` dealt to ``count`` shards, each scope to the one that has least; of several, the
    first."""
    shards: list[list[Scope]] = [[] for _ in range(count)]
    least = [(0, at) for at in range(count)]
    for scope in order:
        has, at = least[0]
        shards[at].append(scope)
        heapq.heapreplace(least, (has + sizes[scope], at))
    return [sorted(own) for own in shards]


# --- what came from elsewhere ------------------------------------------------------------------


def require_separate(shards: Sequence[Shard]) -> None:
    """Raise `BatonError` ``overlapping-scopes`` if two shards may change one file, or ``bad-scope``
    for a scope that is no place in the project."""
    owner = {scope.scope_path: shard.shard for shard in shards for scope in shard.scopes}
    for shard in shards:
        for path in (scope.scope_path for scope in shard.scopes):
            if path.startswith("/") or {"", ".", ".."} & set(path.split("/")):
                raise BatonError(
                    "bad-scope",
                    f"shard {shard.shard}: {path[:200]!r} is no path inside the project",
                    "shard findings whose paths are relative to the top of the repository",
                )
            for place in (*above(path), path):
                if owner.get(place, shard.shard) != shard.shard:
                    raise BatonError(
                        "overlapping-scopes",
                        f"shards {owner[place]} and {shard.shard} both claim {path}",
                        "shard the findings again: no scope may be in two shards",
                    )
