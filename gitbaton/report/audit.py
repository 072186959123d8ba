"""What an audit found, for people: lines, markdown for a review, one HTML page by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from gitbaton.report import pages, style
from gitbaton.report.lines import clean, plural, wrapped

if TYPE_CHECKING:
    from gitbaton.model.audit import AuditReport, Problem, RunAudit

_HEAD = ("run", "verdict", "transitions", "unanchored", "receipts", "merges", "repeated", "by hand")
_PROBLEMS = ("run", "code", "where", "what")


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
    lines = ["# Audit", "", *pages.markdown_table(_HEAD, map(_row, report.runs), "llrrrrrl")]
    problems = list(_all(report))
    if problems:
        lines += ["", "## Problems", "", *pages.markdown_table(_PROBLEMS, problems)]
    return "\n".join(lines)


def html(report: AuditReport) -> str:
    """The same as one page that loads nothing."""
    parts = [pages.html_table(_HEAD, map(_row, report.runs))]
    problems = list(_all(report))
    if problems:
        parts += ["<h2>Problems</h2>", pages.html_table(_PROBLEMS, problems)]
    verdict = "no problem" if report.ok else plural(len(problems), "problem")
    return pages.html_page("Audit", verdict, report.ok, parts)


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
