"""What a batch came to, for people: lines, markdown for a review, one HTML page by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gitbaton.model.batch import Closeout
from gitbaton.model.receipt import CheckResult
from gitbaton.report import pages, style
from gitbaton.report.lines import clean, facts, plural, wrapped

_MEMBERS = ("item", "came to", "why", "attempt", "merge", "title")
_GATES = ("gate", "exit", "output")
_CHILDREN = ("batch", "below", "came to")


def text(closeout: Closeout) -> str:
    """Outcome and numbers, then each member."""
    lines = [f"{style.bold(closeout.run)}  {clean(closeout.outcome)}  {clean(closeout.command)}"]
    lines += facts((name, clean(value)) for name, value in _facts(closeout))
    for item, kind, why, attempt, _, title in _members(closeout):
        lines.append(f"  {style.bold(item)}  {kind}  {clean(title)}")
        lines += wrapped(" ".join(filter(None, (why, attempt and f"({attempt})"))), 4)
    return style.joined(lines)


def markdown(closeout: Closeout) -> str:
    """Facts, members, gates, batches below it, files."""
    lines = [f"# {pages.markdown_text(closeout.command)}: {closeout.outcome}", ""]
    lines += [f"- {name}: {pages.markdown_text(value)}" for name, value in _facts(closeout)]
    for heading, head, rows in _tables(closeout):
        lines += ["", f"## {heading}", "", *pages.markdown_table(head, rows)]
    if closeout.work:
        lines += ["", "## Files", "", *(f"- {pages.markdown_text(path)}" for path in closeout.work)]
    return "\n".join(lines)


def html(closeout: Closeout) -> str:
    """The same as one page that loads nothing."""
    parts = [pages.html_table(("", ""), _facts(closeout))]
    for heading, head, rows in _tables(closeout):
        parts += [f"<h2>{heading}</h2>", pages.html_table(head, rows)]
    if closeout.work:
        files = "".join(f"<li>{pages.html_text(path)}</li>" for path in closeout.work)
        parts += ["<h2>Files</h2>", f"<ul>{files}</ul>"]
    good = all(member.accepted for member in closeout.members)
    return pages.html_page(closeout.command, closeout.outcome, good, parts)


def _facts(closeout: Closeout) -> Iterator[tuple[str, str]]:
    counts = Counter(member.disposition for member in closeout.members)
    came_to = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    yield "run", closeout.run
    yield "queue", f"{closeout.queue} at {closeout.queue_revision[:12]}"
    yield "membership, mode", f"{closeout.membership}, {closeout.mode}"
    yield "members", f"{len(closeout.members)}{f' ({came_to})' if came_to else ''}"
    yield "branch", f"{closeout.branch} at {closeout.tip[:12]}"
    yield "changed", plural(len(closeout.work), "file")
    yield "evidence", plural(len(closeout.evidence), "receipt")
    if closeout.usage is not None:
        yield "used", style.used(closeout.usage)
    yield "closed", f"{closeout.closed_at}, after {plural(closeout.freezes, 'freeze')}"


def _tables(
    closeout: Closeout,
) -> Iterator[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    if closeout.members:
        yield "Members", _MEMBERS, list(_members(closeout))
    if closeout.gates:
        yield "Gates", _GATES, [_gate(gate) for gate in closeout.gates]
    if closeout.children:
        below = [(child.run, child.parent, child.result) for child in closeout.children]
        yield "Batches below it", _CHILDREN, [tuple(row) for row in below]


def _members(closeout: Closeout) -> Iterator[tuple[str, str, str, str, str, str]]:
    for member in closeout.members:
        why = member.reason + (f" (by {', '.join(member.by)})" if member.by else "")
        if member.blocks:
            why = f"{why} needed by {member.blocks}".strip()
        merge = (member.merge_commit or "")[:12]
        yield member.item, member.disposition, why, member.attempt, merge, member.title


def _gate(gate: CheckResult) -> tuple[str, str, str]:
    return gate.command, str(gate.exit_code), gate.output_tail.strip()
