"""What `receipt show` and `receipt verify` print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gitbaton.report import style, text
from gitbaton.report.lines import ago, clean, wrapped

if TYPE_CHECKING:
    from gitbaton.engine.receipt import Shown, Verdict


def shown(shown: Shown) -> str:
    """What a receipt says, what its checks printed too, and who says so."""
    predicate = shown.receipt.predicate
    rows = [
        ("commit", shown.commit),
        ("receipt", shown.receipt_sha256),
        ("origin", origin(shown)),
        ("sealed", f"{ago(predicate.sealed_at)}, in the {predicate.sealed_in}"),
        ("session", clean(predicate.session)),
        ("changed", style.listed(predicate.changed_files)),
    ]
    lines = [style.bold(shown.assignment) + ("  as merged" if shown.merged else "")]
    lines += [f"  {name:<10}{value}" for name, value in rows if value]
    lines.append("")
    for check in predicate.checks:
        lines += [text.checks((check,)), *style.quoted(check.output_tail, 5)]
    return style.joined(lines)


def verified(verdict: Verdict) -> str:
    """The verdict, or everything that is wrong."""
    word = click.style("invalid", fg="red") if verdict.problems else click.style("ok", fg="green")
    lines = [f"{word}  receipt {style.short(verdict.receipt_sha256)}, {origin(verdict)}"]
    for problem in verdict.problems:
        lines += wrapped(f"{problem.code}: {problem.message}", 2)
        lines += wrapped(f"at {problem.where}", 4)
    return style.joined(lines)


def origin(found: Shown | Verdict) -> str:
    """Who made a receipt, as far as the signature says."""
    if not found.signed:
        return "unsigned: integrity, not origin"
    if found.signer is None:
        return f"signed with {found.key or 'no key'}, which no allowed signer has"
    return f"signed by {clean(found.signer)} ({found.key})"
