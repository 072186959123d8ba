"""The verb that judges runs from a clone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gitbaton.cli.output import Answer, context, current
from gitbaton.cli.verb import verb
from gitbaton.errors import Refused
from gitbaton.report import audit as report
from gitbaton.report.lines import clean, plural

if TYPE_CHECKING:
    from gitbaton.model.audit import AuditReport


@verb("audit")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option(
    "--rerun",
    is_flag=False,
    flag_value="0",
    metavar="[N]",
    help="Repeat the checks of the newest N receipts of each run (of all without N).",
)
@click.option(
    "--allow-commands", is_flag=True, help="Let --rerun run the commands, which it shows."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "md", "html"]),
    default="text",
    show_default=True,
    help="How to print the report.",
)
def audit(runs: tuple[str, ...], rerun: str | None, allow_commands: bool, form: str) -> Answer:
    """Check all evidence of runs again, trusting nothing.

    Needs only a clone; fetches the refs of git-baton from the remote if they are not here. Exit 1
    says that there are problems.
    """
    repeat = None
    if rerun is not None and rerun.isascii() and rerun.isdigit():
        repeat = int(rerun)
    elif rerun is not None:  # the word after --rerun was a run
        repeat, runs = 0, (rerun, *runs)
    if allow_commands and repeat is None:
        raise click.UsageError("--allow-commands goes with --rerun")

    from gitbaton.engine import audit as engine

    out = current()
    out.json = out.json or form == "json"
    found = engine.audit(context(), runs, repeat=repeat, allow_commands=allow_commands, say=_say)
    texts = {"md": report.markdown, "html": report.html}
    return Answer(found, texts.get(form, report.text), _error(found))


def _say(line: str) -> None:
    click.echo(f"git-baton: running {clean(line)}", err=True)


def _error(found: AuditReport) -> Refused | None:
    if found.ok:
        return None
    bad = [run for run in found.runs if not run.ok]
    count = sum(len(run.problems) for run in bad) + len(found.problems)
    where = f" in {plural(len(bad), 'run')}" if bad else ""
    first = next((p for run in bad for p in run.problems), None) or found.problems[0]
    return Refused(
        "audit-problems",
        f"{plural(count, 'problem')}{where}: {first.where}: {first.message}",
        "nothing of it should be relied on before that is explained",
    )
