"""The root command: a table from verb to the module that has it.

Only the module of the verb that was typed is imported; `git-baton -h` imports none, since the
table holds the one-line helps as well.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

import click

from gitbaton import __version__
from gitbaton.cli.output import Output
from gitbaton.cli.verb import Verbs


class Entry(NamedTuple):
    """Where a verb is (``module:attribute`` in this package), and what it does."""

    place: str
    help: str


FAMILIES: dict[str, dict[str, Entry]] = {
    "Start": {
        "demo": Entry("setup:demo", "Run the whole loop in a new repository, to see how it works."),
        "init": Entry("setup:init", "Set up this repository: refspecs, display of notes, hooks."),
        "plan": Entry("plan:plan", "Show what would run: tickets, edges, checks, warnings."),
        "run": Entry("loop:run", "Run a change or batch to its end, one worker process a ticket."),
        "land": Entry("steer:land", "Bring the integration branch of a run to its target branch."),
    },
    "Look": {
        "status": Entry("look:status", "Show where a run stands and what to do next."),
        "list": Entry("look:runs", "List all runs."),
        "log": Entry("look:log", "Show what happened in a run, newest first."),
        "show": Entry("look:show", "Show one attempt: state, packet, receipt, output."),
        "board": Entry("board:board", "Make a page that shows a run: one file, for any browser."),
        "watch": Entry("watch:watch", "Watch a run that others drive, live, until it ends."),
        "audit": Entry("audit:audit", "Check all evidence of runs again, trusting nothing."),
        "receipt": Entry("receipt:receipt", "Show, verify or export a receipt."),
    },
    "Steer": {
        "abandon": Entry("steer:abandon", "Give an attempt up; its work stays."),
        "adopt": Entry("steer:adopt", "Take a retired attempt that has a receipt back."),
        "reopen": Entry("steer:reopen", "Make a resolved or failed ticket claimable again."),
        "pause": Entry("steer:pause", "Claim nothing new until resume."),
        "resume": Entry("steer:resume", "End a pause."),
        "update": Entry("steer:update", "Merge the base branch into the integration branch."),
        "cleanup": Entry("steer:cleanup", "Remove worktrees and branches of finished attempts."),
        "delete": Entry("steer:delete", "Remove all refs of a run."),
        "tasks": Entry("plan:tasks", "Tick or untick a box of the plan by hand."),
    },
    "Queues": {
        "queue": Entry("queue:queue", "Keep a queue of things to fix: bugs, findings, tests."),
        "findings": Entry("findings:findings", "Deal findings out to many fixers at once."),
        "batch": Entry("batch:batch", "Run items of a queue as a batch."),
        "report": Entry("batch:report", "Tell what a closed batch came to."),
    },
    "The loop, for a caller of your own": {
        "actions": Entry("loop:actions", "Claim what may start now and say what to do next."),
        "bind": Entry("loop:bind", "Record the id of the worker that took an attempt."),
        "heartbeat": Entry("loop:heartbeat", "Renew the lease of an attempt."),
        "reconcile": Entry("loop:reconcile", "Report the end of a worker; integrate its receipt."),
    },
    "For the worker": {
        "verify": Entry("worker:verify", "Run the checks in the attempt's worktree."),
        "seal": Entry("worker:seal", "Run the checks on the commit and record the receipt."),
        "dispose": Entry("batch:dispose", "Return an item of a batch other than by fixing it."),
    },
    "Settings and health": {
        "completion": Entry(
            "completion:completion", "Print the script that completes git-baton in a shell."
        ),
        "config": Entry("setup:config", "Show all settings with origin and meaning."),
        "doctor": Entry("setup:doctor", "Check the environment and the repository."),
        "hook": Entry("hook:hook", "Judge what is pushed; install the hooks that do so."),
        "notes": Entry("setup:notes", "Rebuild the git notes that show receipts."),
    },
}
VERBS: dict[str, Entry] = {name: e for family in FAMILIES.values() for name, e in family.items()}


class Root(Verbs):
    """``git-baton``: lazy verbs, and every outcome through `Output`."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        words = sys.argv[1:] if args is None else list(args)
        _prepare()
        out = Output(words)

        def run() -> int | None:
            status: int | None = click.Group.main(
                self,
                words,
                prog_name or "git-baton",
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                obj=out,
                **extra,
            )
            return status

        status = out.guard(run)
        if standalone_mode:
            sys.exit(status)
        return status

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, _, attribute = VERBS[cmd_name].place.partition(":")
        found: click.Command = getattr(import_module(f"gitbaton.cli.{module}"), attribute)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in VERBS and not args[0].startswith("-"):
            _unknown(args[0], ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        wide = max(map(len, VERBS))
        for title, family in FAMILIES.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(wide), e.help) for name, e in family.items()])


def _prepare() -> None:
    """Make the process one in which nothing that is said fails to be printed, and every ref is
    the one of that name."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # libgit2 takes no notice of it, so git would see other refs.
    os.environ.pop("GIT_NAMESPACE", None)


def _unknown(name: str, ctx: click.Context) -> NoReturn:
    from difflib import get_close_matches

    close = ["--help"] if name == "help" else get_close_matches(name, VERBS, n=3)
    meant = f", did you mean {' or '.join(close)}?" if close else ""
    raise click.UsageError(f"No such verb: {name}{meant}", ctx)


@click.group("git-baton", cls=Root, subcommand_metavar="VERB [ARGS]...")
@click.option(
    "-C",
    "directory",
    multiple=True,
    metavar="DIR",
    help="Run as if started in DIR.",
)
@click.version_option(__version__, message="git-baton %(version)s")
def cli(directory: tuple[str, ...]) -> None:
    """Run an approved plan with several workers; nothing counts as done without evidence."""
    for step in directory:
        try:
            os.chdir(step or ".")
        except OSError as error:
            raise click.UsageError(f"cannot change to {step}: {error.strerror}") from error
