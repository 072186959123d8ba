"""Hooks: the two that judge a push, and putting them in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gitbaton.cli.output import Answer, context, current
from gitbaton.cli.verb import Verbs
from gitbaton.errors import Refused
from gitbaton.report import hooks as report
from gitbaton.report.lines import plural

if TYPE_CHECKING:
    from gitbaton.engine.push import Judged

_names = click.argument(
    "names", nargs=-1, type=click.Choice(["pre-push", "pre-receive"]), metavar="[HOOK]..."
)


@click.group("hook", cls=Verbs)
def hook() -> None:
    """Judge what is pushed; install the hooks that do so."""


@hook.command("pre-push")
@click.argument("remote", required=False)
@click.argument("url", required=False)
def pre_push(remote: str | None, url: str | None) -> Answer:
    """Judge what is about to be pushed. Called by git, with the refs on stdin.

    Commits on the branch of a run and on protected branches (baton.protect) must be covered by
    receipts; elsewhere, only those that say that git-baton made them.
    """
    from gitbaton.engine import push

    return _answer(push.pre_push(context(), remote, url))


@hook.command("pre-receive")
def pre_receive() -> Answer:
    """Judge what a server has received. Called by git, with the refs on stdin.

    As pre-push; and refs/baton and its notes are neither deleted nor rewritten.
    """
    from gitbaton.engine import push

    return _answer(push.pre_receive(context()))


@hook.command("install")
@_names
def install(names: tuple[str, ...]) -> Answer:
    """Have git call git-baton before it pushes; in a bare repository, before it accepts a push.

    A hook that is there is kept, and runs first. Idempotent.
    """
    from gitbaton.engine import hooks

    return Answer(hooks.install(context(), names), report.changed)


@hook.command("uninstall")
@_names
def uninstall(names: tuple[str, ...]) -> Answer:
    """Take the hooks away; what was there before is put back."""
    from gitbaton.engine import hooks

    return Answer(hooks.uninstall(context(), names), report.changed)


@hook.command("status")
def status() -> Answer:
    """Show which hooks are installed, and where."""
    from gitbaton.engine import hooks

    return Answer(hooks.status(context()), report.status)


def _answer(judged: Judged) -> Answer:
    error = None
    if judged.refused:
        first = judged.refused[0]
        hint = judged.hints[0] if len(judged.hints) == 1 else ""
        count = plural(len({(r.ref, r.commit) for r in judged.refused}), "commit")
        what = first.ref if first.commit is None else f"{count} not covered"
        why = f": {first.reason}" if current().json else ""  # people have read it in the list
        error = Refused("push-refused", f"the push is refused: {what}{why}", hint)
    return Answer(judged, report.judged, error)
