"""What the verbs of findings in shards print, and the report that they write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gitbaton.report import style
from gitbaton.report.lines import clean, plural
from gitbaton.report.pages import markdown_table, markdown_text

if TYPE_CHECKING:
    from gitbaton.engine.findings import Aggregated, Told, Written
    from gitbaton.findings.outcome import Report
    from gitbaton.model.findings import Finding

Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""A heading, the heads of the columns, the rows."""

_MOST = 20
"""Lines about what does not count."""
_SHARDS = ("shard", "ended", "fixed", "failed", "remaining", "said fixed", "notes")
_UNFIXED = ("shard", "id", "severity", "where", "rule", "message", "why")
_NEW = ("id", "severity", "where", "rule", "message")


def sharded(done: Written) -> str:
    """How many of what, and how to go on."""
    what = f"{plural(done.findings, 'finding')} in {plural(done.scopes, 'scope')}"
    size = f", {done.smallest} to {done.largest} findings each" if done.shards else ""
    lines = [f"{style.bold(done.out)}  {plural(done.shards, 'shard')}{size}: {what}"]
    if done.residue:
        lines.append(f"  {plural(done.residue, 'finding')} without a path: in no shard")
    if done.shards:
        lines.append(f"  run them: {style.do(f'git baton batch open --shards {done.out}')}")
    return style.joined(lines)


def told(status: Told) -> str:
    counts = f"{status.fixed} fixed, {status.failed} failed, {status.remaining} remaining"
    return f"shard {status.shard}: {counts}  {style.dim(status.file)}"


def aggregated(done: Aggregated) -> str:
    """What does not count, then the line that sums up."""
    lines = [f"shard {number}: no status" for number in done.missing]
    lines += [
        f"shards {', '.join(map(str, each.shards))} all claim {clean(each.scope_path)}:"
        f" only {each.kept} counts"
        for each in done.duplicates
    ]
    lines += [f"shard {flag.shard}: {clean(flag.message)}" for flag in done.flagged[:_MOST]]
    if len(done.flagged) > _MOST:
        lines.append(f"and {len(done.flagged) - _MOST} more flagged: see the report")
    if done.new:
        lines.append(f"{plural(done.new, 'finding')} of the rescan new")
    counts = f"fixed={done.fixed} failed={done.failed} remaining={done.remaining}"
    lines.append(f"DONE: shards={done.shards} {counts}. Report: {clean(done.report)}")
    return style.joined(lines)


def markdown(report: Report) -> str:
    """Numbers, shards, what does not count, what is left."""
    total = report.fixed + report.failed + report.remaining
    lines = [
        f"# Findings: {report.fixed} of {total} fixed",
        "",
        f"- fixed {report.fixed}, failed {report.failed}, remaining {report.remaining}",
        f"- from {markdown_text(', '.join(report.source)) or 'nothing'}",
        f"- {_scanned(report)}",
    ]
    for heading, head, rows in _tables(report):
        lines += ["", f"## {heading}", "", *markdown_table(head, rows)]
    return "\n".join(lines)


def _scanned(report: Report) -> str:
    if report.rescan is None:
        return "no rescan: the numbers are what the fixers say"
    return f"rescan: {report.rescan.still} of these still found, {len(report.rescan.new)} new"


def _tables(report: Report) -> Iterator[Table]:
    if report.shards:
        rows = [
            (
                *(str(each.shard), each.agent_exit_reason),
                *map(str, (each.fixed, each.failed, each.remaining, each.claimed)),
                each.notes,
            )
            for each in report.shards
        ]
        yield "Shards", _SHARDS, rows
    if report.duplicates:
        yield (
            "Claimed by several shards",
            ("scope", "shards", "counts"),
            [(d.scope_path, ", ".join(map(str, d.shards)), str(d.kept)) for d in report.duplicates],
        )
    if report.flagged:
        flags = [(str(flag.shard), flag.code, flag.message) for flag in report.flagged]
        yield "What does not count", ("shard", "code", "what"), flags
    yield from _findings(report)


def _findings(report: Report) -> Iterator[Table]:
    for verdict, heading in (("failed", "Failed"), ("remaining", "Remaining")):
        rows = [
            (str(one.shard or "none"), *_cells(one.finding), one.reason)
            for one in report.unfixed
            if one.verdict == verdict
        ]
        if rows:
            yield heading, _UNFIXED, rows
    if report.rescan and report.rescan.new:
        yield "New", _NEW, [_cells(finding) for finding in report.rescan.new]


def _cells(finding: Finding) -> tuple[str, str, str, str, str]:
    where = (finding.path or "") + (f":{finding.line}" if finding.line else "")
    return finding.id, finding.severity, where, finding.rule, finding.message
