"""Verbs for queues: what there is to fix, where it comes from, in which order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gitbaton.cli.output import Answer, context
from gitbaton.cli.verb import Verbs

if TYPE_CHECKING:
    from gitbaton.engine.queue import Texts
    from gitbaton.model.queue import Filters, ItemState, OrderKey, Severity

F = TypeVar("F", bound=Callable[..., Any])

# As in gitbaton/model/queue.py and gitbaton/engine/queue.py, which help and completion do not load.
SEVERITIES = ("critical", "high", "medium", "low", "info")
STATES = ("open", "fixed", "obe", "blocked", "deferred", "wontfix")
FORMATS = ("sarif", "json", "jsonl", "ruff", "eslint", "mypy", "junit", "github", "checklist")

_FIRST = 50


@click.group("queue", cls=Verbs)
def queue() -> None:
    """Keep a queue of things to fix: bugs, findings, tests.

    Batches work it off; batch open -h says how. What each verb does not name is the only queue of
    the repository, or else the queue 'default'.
    """


def _queue_option(function: F) -> F:
    return click.option(
        "--queue", "name", metavar="NAME", help="Queue (else the only one, else 'default')."
    )(function)


def _selector_options(function: F) -> F:
    options = (
        click.option(
            "--filter",
            "filters",
            multiple=True,
            metavar="K=V",
            help="Which: severity (or worse), section, label, path (a glob), id, text; repeat for "
            "several.",
        ),
        click.option(
            "--order",
            metavar="K,..",
            help="By severity, section, created, id; - before one reverses it "
            "(else severity,created,id).",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def _text_options(function: F) -> F:
    """What a person can say of an item; one that is repeatable is emptied by an empty word."""
    options = (
        click.option("--title", metavar="TEXT", help="One line."),
        click.option("--body", metavar="TEXT", help="All that a worker needs to know."),
        click.option("--section", metavar="TEXT", help="What it belongs to."),
        click.option("--severity", type=click.Choice(SEVERITIES), help="How bad it is."),
        click.option("--label", "labels", multiple=True, metavar="L", help="Repeat for several."),
        click.option("--path", "paths", multiple=True, metavar="P", help="Where it was found."),
        click.option(
            "--depends-on", multiple=True, metavar="ID", help="Item that must be closed first."
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def _first_option(default: int, what: str) -> Callable[[F], F]:
    return click.option(
        "-n", "limit", type=click.IntRange(1), default=default, show_default=True, help=what
    )


@queue.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--format", type=click.Choice(FORMATS), help="Of all files (else seen from each).")
@click.option("--source", metavar="S", help="Who reports this (else as the file says).")
@_queue_option
def import_(
    files: tuple[str, ...], format: str | None, source: str | None, name: str | None
) -> Answer:
    """Rescan: bring the queue to what its sources report now.

    Known findings are updated, new ones added, returned ones opened again, and those that the same
    source no longer reports become obe. FILE '-' is standard input.
    """
    from gitbaton.engine import queue as engine
    from gitbaton.report import queue as report

    done = engine.import_files(context(), name, files, format=format, source=source)
    return Answer(done, report.imported)


@queue.command("add")
@click.option("--id", "wanted", metavar="ID", help="Name of the item (else made of the title).")
@_text_options
@_queue_option
def add(wanted: str | None, name: str | None, **said: Any) -> Answer:
    """Put an item into the queue by hand."""
    from gitbaton.engine import queue as engine
    from gitbaton.report import queue as report

    return Answer(engine.add(context(), name, _texts(said), wanted), report.written)


@queue.command("list")
@click.option("--all", "all_states", is_flag=True, help="In any state, not only to be started.")
@_selector_options
@_first_option(_FIRST, "How many.")
@_queue_option
def list_(
    all_states: bool, filters: tuple[str, ...], order: str | None, limit: int, name: str | None
) -> Answer:
    """Show the items that may be started now, in order."""
    selector = _selector(filters, order)

    from gitbaton.engine import queueview as engine
    from gitbaton.report import queue as report

    found = engine.list_items(context(), name, *selector, limit=limit, all_states=all_states)
    return Answer(found, lambda listed: report.listed(listed, filters, all_states=all_states))


@queue.command("show")
@click.argument("item")
@_queue_option
def show(item: str, name: str | None) -> Answer:
    """Show one item."""
    from gitbaton.engine import queueview as engine
    from gitbaton.report import queue as report

    return Answer(engine.show(context(), name, item), report.shown)


@queue.command("set")
@click.argument("item")
@click.option("--state", type=click.Choice(STATES), help="Who holds or owns the item loses it.")
@_text_options
@click.option("--reason", metavar="TEXT", help="Why it is in its state.")
@_queue_option
def set_(item: str, state: ItemState | None, name: str | None, **said: Any) -> Answer:
    """Change an item: its state, or what is said of it.

    Labels, paths and dependencies are replaced by those given; an empty one ('') leaves none.
    """
    from gitbaton.engine import queue as engine
    from gitbaton.report import queue as report

    return Answer(engine.set_item(context(), name, item, _texts(said), state), report.written)


@queue.command("next")
@_selector_options
@_queue_option
def next_(filters: tuple[str, ...], order: str | None, name: str | None) -> Answer:
    """Show the item that a batch would start now."""
    selector = _selector(filters, order)

    from gitbaton.engine import queueview as engine
    from gitbaton.report import queue as report

    return Answer(engine.next_item(context(), name, *selector), report.next_item)


@queue.command("own")
@click.argument("item")
@click.option("--by", "run", required=True, metavar="RUN", help="The run that takes care of it.")
@_queue_option
def own(item: str, run: str, name: str | None) -> Answer:
    """Leave an item to a run of its own; batches skip it."""
    from gitbaton.engine import queue as engine
    from gitbaton.report import queue as report

    return Answer(engine.own(context(), name, item, run), report.written)


@queue.command("related")
@click.argument("item")
@_first_option(10, "How many.")
@_queue_option
def related(item: str, limit: int, name: str | None) -> Answer:
    """Show open items that may have the same cause.

    Advice only: nothing is ever put together by itself.
    """
    from gitbaton.engine import queueview as engine
    from gitbaton.report import queue as report

    return Answer(engine.related(context(), name, item, limit), report.related)


@queue.command("rm")
@click.argument("item")
@_queue_option
def rm(item: str, name: str | None) -> Answer:
    """Take an item out of the queue.

    Refused while a batch holds it. An item that a source still reports comes back with the next
    import: for that, set --state wontfix.
    """
    from gitbaton.engine import queue as engine
    from gitbaton.report import queue as report

    return Answer(engine.remove(context(), name, item), report.removed)


@queue.command("log")
@_first_option(20, "How many events.")
@_queue_option
def log(limit: int, name: str | None) -> Answer:
    """Show what happened to the queue, newest first."""
    from gitbaton.engine import queueview as engine
    from gitbaton.report import queue as report

    return Answer(engine.log(context(), name, limit), report.log)


def _selector(filters: tuple[str, ...], order: str | None) -> tuple[Filters, tuple[OrderKey, ...]]:
    from gitbaton.model.queue import ORDER
    from gitbaton.rules import selector

    return selector.parse_filters(filters), selector.parse_order(order) if order else ORDER


def _texts(said: dict[str, Any]) -> Texts:
    """Options that were not given are None; of repeatable ones, empty words go away."""
    from gitbaton.engine.queue import Texts

    given: dict[str, str | Severity | tuple[str, ...] | None] = {}
    for option, value in said.items():
        given[option] = tuple(filter(None, value)) if isinstance(value, tuple) else value
        if value == ():
            given[option] = None
    return Texts(**given)  # type: ignore[arg-type]
