"""A new revision of the plan: what people changed, and what that does to tickets in flight.

A box that a person ticked is ``resolved-by-hand``; an unticked one reopens nothing, since checking
out an older branch looks the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec.structs import replace

from gitbaton.model.plan import Mark, Plan, Ticket
from gitbaton.model.run import Live, RunState
from gitbaton.rules.state import attempts_of, stays_resolved, with_live

UNTICKED = "is no longer ticked"


def opening(plan: Plan) -> Live:
    """What a run begins with: boxes already ticked are resolved by hand."""
    return Live(
        revision=1,
        total=len(plan.tickets),
        canceled=sum(t.mark == "canceled" for t in plan.tickets),
        by_hand=tuple(t.key for t in plan.tickets if t.mark == "done"),
        missing=tuple(t.key for t in plan.tickets if t.mark == "open"),
    )


def resolved_by_receipt(state: RunState) -> frozenset[str]:
    """The keys of the plan that integrated receipts resolved: their ticks are git-baton's."""
    others = {*state.live.missing, *state.live.by_hand}
    return frozenset(
        t.key for t in state.plan.tickets if t.key not in others and t.mark != "canceled"
    )


def differs(old: Plan, new: Plan, ticked_by_run: Collection[str]) -> bool:
    """Whether ``new`` is worth a revision: keys, texts, edges, directives or human ticks changed.

    ``ticked_by_run`` are the keys resolved by receipts: their ticks are not a person's.
    """
    return _substance(old, ticked_by_run) != _substance(new, ticked_by_run)


def _substance(plan: Plan, ticked_by_run: Collection[str]) -> object:
    def mark(ticket: Ticket) -> Mark:
        return "done" if ticket.key in ticked_by_run else ticket.mark

    return (
        plan.order,
        plan.unit,
        [(t.digest, t.needs, t.level, t.agent, t.lease_seconds, mark(t)) for t in plan.tickets],
        [(s.title, s.text) for s in plan.sections],
    )


def revise(state: RunState, new: Plan) -> RunState:
    """``state`` under the plan ``new``; the same state when nothing of substance changed."""
    before = resolved_by_receipt(state)
    if not differs(state.plan, new, before):
        return state
    live = state.live
    texts = {t.key: t.digest for t in state.plan.tickets if t.key in before}
    gone = {**live.gone, **texts}  # what receipts resolved, also where it has left the plan
    keys = {t.key for t in new.tickets}
    by_receipt = {t.key for t in new.tickets if t.key in before or gone.get(t.key) == t.digest}
    others = [t for t in new.tickets if t.key not in by_receipt]
    ticked = _ticked_before(state)
    by_hand = {
        t.key: None
        for t in others
        if t.key in live.by_hand or (t.mark == "done" and t.key not in ticked)
    }
    missing = {t.key: None for t in others if t.key not in by_hand and t.mark != "canceled"}
    dropped = [k for k in live.missing if k not in keys and attempts_of(live, k)]
    revision = state.plan.revision + 1
    return with_live(
        replace(state, plan=replace(new, revision=revision)),
        revision=revision,
        total=len(new.tickets),
        resolved=len(by_receipt),
        canceled=len(others) - len(by_hand) - len(missing),
        by_hand=tuple(by_hand),
        missing=tuple(missing),
        dropped=tuple(k for k in dict.fromkeys((*live.dropped, *dropped)) if k not in keys),
        gone={k: text for k, text in gone.items() if k not in keys},
        records={k: r for k, r in live.records.items() if k in missing or k in dropped},
        warnings=tuple(dict.fromkeys((*live.warnings, *_warnings(new, texts, by_hand)))),
    )


def _ticked_before(state: RunState) -> frozenset[str]:
    """Open tickets that were reopened with their box ticked: that tick is nothing new."""
    missing = set(state.live.missing)
    return frozenset(t.key for t in state.plan.tickets if t.mark == "done" and t.key in missing)


def _warnings(new: Plan, texts: Mapping[str, str], by_hand: Collection[str]) -> Iterator[str]:
    """What stays resolved although its line says something else now."""
    for ticket in new.tickets:
        what = ""
        if texts.get(ticket.key, ticket.digest) != ticket.digest:
            what = "was resolved before its text changed"
        elif ticket.key in by_hand and ticket.mark == "open":
            what = UNTICKED
        if what:
            yield _warning(ticket.key, what)


def _warning(key: str, what: str) -> str:
    return f"{key} {what}, {stays_resolved(key)}"


def note_ticks(state: RunState, before: Collection[str], after: Collection[str]) -> RunState:
    """``state`` with a warning for each ticket that a receipt resolved and whose box was ticked
    ``before`` in the source of the plan but is not in the reading ``after``; a tick that came back
    takes its warning away."""
    resolved = resolved_by_receipt(state)
    found = [_warning(key, UNTICKED) for key in before if key in resolved and key not in after]
    over = {_warning(key, UNTICKED) for key in after}
    warnings = (w for w in (*state.live.warnings, *found) if w not in over)
    return with_live(state, warnings=tuple(dict.fromkeys(warnings)))
