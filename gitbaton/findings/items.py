"""A shard as an item of a queue: what a fixer is told, and where it may work."""

from __future__ import annotations

import hashlib
import shlex

from gitbaton.findings import documents
from gitbaton.findings.words import clip, one_line
from gitbaton.model.findings import Finding, Scope, Shard, shard_file
from gitbaton.model.queue import SEVERITIES, Item

_TOLD = 500
"""Findings that a prompt lists; a shard with more names its file for the rest."""
_MESSAGE = 300


def queue_name(index: bytes) -> str:
    """The queue that the shards of an index are in."""
    return f"shards-{hashlib.sha256(index).hexdigest()[:8]}"


def item_of(shard: Shard, of: int, folder: str, now: str) -> Item:
    """The item of one of ``of`` shards in ``folder``, an absolute path; ``now`` is RFC 3339."""
    paths = tuple(scope.scope_path for scope in shard.scopes)
    others = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    count = len(shard.findings)
    return Item(
        id=f"shard-{shard.shard}",
        title=f"Shard {shard.shard} of {of}: {count} finding{'s' if count != 1 else ''}"
        f" in {one_line(''.join(paths[:1]))}{others}",
        body=_body(shard, folder),
        severity=min((f.severity for f in shard.findings), key=SEVERITIES.index, default="info"),
        labels=tuple(sorted({finding.rule for finding in shard.findings if finding.rule})),
        paths=paths,
        scopes=paths,
        source="shards",
        fingerprint=hashlib.sha256(documents.encode(shard)).hexdigest(),
        created=now,
        updated=now,
    )


def _body(shard: Shard, folder: str) -> str:
    findings = [_line(finding) for finding in shard.findings[:_TOLD]]
    more = len(shard.findings) - len(findings)
    if more:
        findings.append(f"- and {more:,} more: all are in `{folder}/{shard_file(shard.shard)}`")
    verb = f"git baton findings status {shlex.quote(folder)} {shard.shard}"
    return "\n".join(
        (
            "Fix the findings below, and change nothing outside of this scope: others work there.",
            "",
            *map(_place, shard.scopes),
            "",
            f"## Findings ({len(shard.findings):,})",
            "",
            *findings,
            "",
            "## Say what became of each",
            "",
            "When you are done, name every finding once:",
            "",
            f"    {verb} --fixed ID... --failed ID=why...",
        )
    )


def _place(scope: Scope) -> str:
    path = one_line(scope.scope_path)
    if scope.scope_kind == "file":
        return f"- `{path}`"
    return f"- `{path}/` and all below it, which may be refactored freely"


def _line(finding: Finding) -> str:
    place = one_line(finding.path or "") + (f":{finding.line}" if finding.line else "")
    what = clip(one_line(finding.message), _MESSAGE)
    told = filter(None, (finding.rule, f"({finding.severity})", what))
    return f"- `{finding.id}` {place} {' '.join(told)}"
