"""Verbs for findings in shards: deal out, say what became of a shard, add it all up.

None of them opens a repository: they are for fixers and places that have none.
"""

from __future__ import annotations

from pathlib import Path

import click

from gitbaton.cli.output import Answer
from gitbaton.cli.queue import FORMATS
from gitbaton.cli.verb import Verb, Verbs
from gitbaton.report import findings as text

_SEVERAL = ("--fixed", "--failed")


class _Ids(Verb):
    """``--fixed A B C``, as fixers write it, is ``--fixed A --fixed B --fixed C``; and ``--fixed``
    with nothing behind it says nothing."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        option = ""
        spread: list[str] = []
        for word in args:
            if word in _SEVERAL:
                option = word
            elif word.startswith("-"):
                option = ""
                spread.append(word)
            else:
                spread += [option, word] if option else [word]
        return super().parse_args(ctx, spread)


@click.group("findings", cls=Verbs)
def findings() -> None:
    """Deal findings out to many fixers at once.

    Each finding is in one shard, and no two shards have a file in common. batch open --shards runs
    them; fixers outside of git-baton can use the files as they are.
    """


def _format_option(what: str) -> click.Option:
    return click.Option(
        ["--format"], type=click.Choice(FORMATS), help=f"How {what} is to be read (else found out)."
    )


@findings.command("shard", params=[_format_option("FINDINGS")])
@click.argument("files", nargs=-1, required=True, metavar="FINDINGS...")
@click.option(
    "--shard-size",
    "size",
    type=click.IntRange(min=1),
    metavar="N",
    help="Findings in a shard at most, unless one scope has more (else 30).",
)
@click.option(
    "--shards", "count", type=click.IntRange(1, 100_000), metavar="N", help="So many shards."
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="PATTERN",
    help="Folders that one fixer may refactor as a whole, e.g. 'skills/*'; repeat for several.",
)
@click.option("--out", required=True, metavar="DIR", help="Folder for the shards.")
def shard(
    files: tuple[str, ...],
    size: int | None,
    count: int | None,
    scopes: tuple[str, ...],
    out: str,
    format: str | None,
) -> Answer:
    """Deal findings out into DIR: index.json and shard-K.json.

    A scope is a folder with SKILL.md, a folder that PATTERN matches, or else a file; it is in one
    shard with all that was found there. The same findings make the same shards.
    """
    from gitbaton.engine import findings as engine

    if size is not None and count is not None:
        raise click.UsageError("--shard-size and --shards exclude each other")
    if not out:  # an unset variable is not to mean the current folder
        raise click.UsageError("--out is empty")
    extra = {"size": size} if size is not None else {}
    result = engine.shard(files, Path(out), count=count, scopes=scopes, format=format, **extra)
    return Answer(result, text.sharded)


@findings.command("status", cls=_Ids)
@click.argument("folder", metavar="DIR")
@click.argument("number", type=click.IntRange(min=1), metavar="K")
@click.option("--fixed", multiple=True, metavar="ID...", help="Findings that are fixed.")
@click.option(
    "--failed", multiple=True, metavar="ID=WHY...", help="Findings that are not, and why."
)
@click.option("--notes", default="", metavar="T", help="Anything else for the report.")
def status(
    folder: str, number: int, fixed: tuple[str, ...], failed: tuple[str, ...], notes: str
) -> Answer:
    """Say what became of the findings of shard K: shard-K.status.json.

    What was said of this shard before is replaced.
    """
    from gitbaton.engine import findings as engine

    return Answer(
        engine.tell(Path(folder), number, fixed=fixed, failed=failed, notes=notes), text.told
    )


@findings.command("aggregate", params=[_format_option("the rescan")])
@click.argument("folder", metavar="DIR")
@click.option(
    "--rescan",
    "rescans",
    multiple=True,
    metavar="FILE",
    help="A scan made after the fixes: what it does not find is fixed, what it finds is not.",
)
def aggregate(folder: str, rescans: tuple[str, ...], format: str | None) -> Answer:
    """Add up what the fixers say, into report.md and report.json.

    What is not fixed goes into residue.json, for another findings shard.
    """
    from gitbaton.engine import findings as engine

    report = engine.aggregate(Path(folder), rescans, format)
    return Answer(engine.keep(Path(folder), report, text.markdown(report)), text.aggregated)
