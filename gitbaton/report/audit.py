"""What an audit found, for people: lines, markdown for a review, one HTML page by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from gitbaton.report import style
from gitbaton.report.lines import clean, plural, wrapped

if TYPE_CHECKING:
    from gitbaton.model.audit import AuditReport, Problem, RunAudit

_STYLE = """\
:root { color-scheme: light dark; --bad: #b3261e; --good: #1b6e3c; --line: #8884; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { border-top: 1px solid var(--line); padding-top: 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0; }
td { border-top: 1px solid var(--line); overflow-wrap: anywhere; }
code { font-size: .9em; }
.ok { color: var(--good); } .bad { color: var(--bad); }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --good: #7bd88f; } }
"""


def text(report: AuditReport) -> str:
    """Verdict and numbers of each run, then its problems."""
    lines: list[str] = []
    for run in report.runs:
        verdict = click.style("ok", fg="green", bold=True) if run.ok else _bad(run)
        lines += [f"{style.bold(run.run)}  {verdict}", *wrapped(", ".join(_numbers(run)), 2)]
        if run.resolved_by_hand:
            lines += wrapped(f"resolved by hand: {style.listed(run.resolved_by_hand)}", 2)
        lines += _problem_lines(run.problems)
    lines += _problem_lines(report.problems)
    return style.joined(lines)


def _bad(run: RunAudit) -> str:
    return click.style(plural(len(run.problems), "problem"), fg="red", bold=True)


def _problem_lines(problems: Iterable[Problem]) -> Iterator[str]:
    for problem in problems:
        yield f"  {click.style(problem.code, fg='red')}  {clean(problem.where)}"
        yield from wrapped(problem.message, 4)


def _numbers(run: RunAudit) -> list[str]:
    """What was looked at, and how much of it nothing from outside vouches for."""
    if run.unanchored:
        beyond = f"{run.unanchored} of them after the last anchor"
    else:
        beyond = "all of them anchored, or seen by an earlier audit"
    numbers = [
        f"{plural(run.transitions, 'transition')} ({beyond})",
        plural(run.receipts, "receipt"),
        plural(run.merges, "merge"),
    ]
    if run.rerun:
        numbers.append(f"checks of {plural(run.rerun, 'receipt')} repeated")
    return numbers


def markdown(report: AuditReport) -> str:
    """One table of runs, one of problems."""
    lines = [
        "# Audit",
        "",
        "| run | verdict | transitions | unanchored | receipts | merges | repeated | by hand |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    lines += [f"| {' | '.join(map(_cell, _row(run)))} |" for run in report.runs]
    problems = list(_all(report))
    if problems:
        lines += ["", "## Problems", "", "| run | code | where | what |", "|---|---|---|---|"]
        lines += [f"| {' | '.join(map(_cell, row))} |" for row in problems]
    return "\n".join(lines)


def _cell(content: str) -> str:
    escaped = clean(content)
    for char in "\\`*_[]<>|&":
        escaped = escaped.replace(char, f"\\{char}")
    return escaped


def html(report: AuditReport) -> str:
    """The same as one page that loads nothing."""
    from html import escape

    def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
        heads = "".join(f'<th scope="col">{escape(word)}</th>' for word in head)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(clean(cell))}</td>' for cell in row)}</tr>\n"
            for row in rows
        )
        return f"<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>"

    head = ("run", "verdict", "transitions", "unanchored", "receipts", "merges", "repeated")
    parts = [table((*head, "by hand"), map(_row, report.runs))]
    problems = list(_all(report))
    if problems:
        parts += ["<h2>Problems</h2>", table(("run", "code", "where", "what"), problems)]
    verdict, kind = ("no problem", "ok") if report.ok else (plural(len(problems), "problem"), "bad")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Audit: {verdict}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n"
        f'<h1>Audit: <span class="{kind}">{verdict}</span></h1>\n'
        + "\n".join(parts)
        + "\n</body>\n</html>"
    )


def _row(run: RunAudit) -> tuple[str, ...]:
    return (
        run.run,
        "ok" if run.ok else plural(len(run.problems), "problem"),
        str(run.transitions),
        str(run.unanchored),
        str(run.receipts),
        str(run.merges),
        str(run.rerun),
        ", ".join(run.resolved_by_hand),
    )


def _all(report: AuditReport) -> Iterator[tuple[str, str, str, str]]:
    for run in report.runs:
        for problem in run.problems:
            yield run.run, problem.code, problem.where, problem.message
    for problem in report.problems:
        yield "", problem.code, problem.where, problem.message
