"""What the verbs of queues print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from gitbaton.report import style
from gitbaton.report.lines import ago, clean, clean_block, facts, table

if TYPE_CHECKING:
    from gitbaton.engine.queue import Imported, Removed, Written
    from gitbaton.engine.queueview import Listed, Next, QueueLog, RelatedItems, Shown
    from gitbaton.model.queue import Item

_SEVERITY = {"critical": "red", "high": "red", "medium": "yellow"}
_KINDS = ("added", "updated", "reopened", "obe", "unchanged")


def imported(done: Imported) -> str:
    """How many items became what."""
    counts = [f"{count} {kind}" for kind in _KINDS if (count := getattr(done, kind))]
    told = ", ".join(counts) or "nothing to report"
    return f"{style.bold(done.queue)}  {style.listed(done.sources)}: {told}"


def listed(found: Listed, filters: Sequence[str], *, all_states: bool) -> str:
    """One line an item, and how many more there are."""
    if not found.items:
        meant = f" matches {style.listed(filters)}" if filters else ""
        kind = "no item" if all_states else "no item that may be started"
        return f"{style.bold(found.queue)}  {kind}{meant or ' is in it'}"
    lines = _rows(found.items, with_state=all_states)
    more = found.total - len(found.items)
    if more:
        lines.append(style.dim(f"and {more:,} more: -n {found.total} shows all"))
    return style.joined(lines)


def next_item(found: Next) -> str:
    if found.item is None:
        return f"{style.bold(found.queue)}  nothing may be started"
    return _item(found.item)


def shown(found: Shown) -> str:
    lines = [_item(found.item)]
    if found.unavailable is not None and found.unavailable != f"is {found.item.state}":
        lines.insert(1, f"  not to be started: it {clean(found.unavailable)}")
    return style.joined(lines)


def written(done: Written) -> str:
    item = done.item
    same = "" if done.changed else "  (as it was)"
    return f"{style.bold(item.id)}  {_state(item)}  {clean(item.title)}{same}"


def removed(done: Removed) -> str:
    return f"{style.bold(done.removed)}  removed from {clean(done.queue)}"


def related(found: RelatedItems) -> str:
    """The likeliest first, and what they have in common."""
    if not found.related:
        return f"{style.bold(found.item)}  no open item looks related"
    rows = [
        (style.bold(each.item.id), style.dim(", ".join(each.because[:4])), clean(each.item.title))
        for each in found.related
    ]
    return style.joined(table(rows))


def log(log: QueueLog) -> str:
    rows = [
        (style.dim(style.short(e.oid)), ago(e.at), clean(e.message), style.dim(e.run or ""))
        for e in log.events
    ]
    return style.joined(table(rows))


def _rows(items: Iterable[Item], *, with_state: bool) -> list[str]:
    return table(
        [
            (
                style.bold(item.id),
                click.style(item.severity, fg=_SEVERITY.get(item.severity)),
                _state(item) if with_state else "",
                clean(item.title),
                style.dim(item.section),
            )
            for item in items
        ]
    )


def _item(item: Item) -> str:
    """All that is known of one item."""
    lines = [f"{style.bold(item.id)}  {_state(item)}  {clean(item.title)}"]
    claim = item.claimed_by
    rows = [
        ("severity", item.severity),
        ("section", clean(item.section)),
        ("labels", style.listed(item.labels)),
        ("paths", style.listed(item.paths)),
        ("scopes", style.listed(item.scopes)),
        ("needs", style.listed(item.depends_on)),
        ("held by", clean(f"{claim.run}/{claim.attempt}") if claim else ""),
        ("owner", clean(item.owner or "")),
        ("reason", clean(item.reason)),
        ("source", clean(item.source)),
        ("created", ago(item.created)),
        ("updated", ago(item.updated)),
    ]
    lines += facts(rows)
    if item.body:
        lines += ["", *(f"  {line}".rstrip() for line in clean_block(item.body).splitlines())]
    return style.joined(lines)


_COLOURS = {"open": "green", "claimed": "cyan", "blocked": "red", "owned": "cyan"}


def _state(item: Item) -> str:
    return click.style(item.state, fg=_COLOURS.get(item.state), dim=item.state not in _COLOURS)
