"""A new revision of the plan: what people changed, and what that does to tickets in flight.

A box that a person ticked is ``resolved-by-hand``; an unticked one reopens nothing, since checking
out an older branch looks the same.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from gitbaton.model.plan import Mark, Plan, Ticket
from gitbaton.model.run import Live, RunState
from gitbaton.rules.state import attempts_of, with_live


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
    by_receipt = resolved_by_receipt(state)
    if not differs(state.plan, new, by_receipt):
        return state
    live = state.live
    by_hand: list[str] = []
    missing: list[str] = []
    warnings = list(live.warnings)
    marks = {t.key: t.mark for t in state.plan.tickets}
    digests = {t.key: t.digest for t in state.plan.tickets if t.key in by_receipt}
    gone = {**live.gone, **digests}
    by_receipt |= {t.key for t in new.tickets if gone.get(t.key) == t.digest}
    for ticket in new.tickets:
        key = ticket.key
        if key in by_receipt:
            if gone[key] != ticket.digest:
                warnings.append(
                    f"{key} was resolved before its text changed, and stays resolved: "
                    f"`git baton reopen {key}` makes it claimable again"
                )
            continue
        was = marks.get(key)
        reopened = was == "done" and key in live.missing
        if key in live.by_hand or (ticket.mark == "done" and not reopened):
            by_hand.append(key)
            if ticket.mark == "open":
                warnings.append(
                    f"{key} is no longer ticked, but stays resolved: "
                    f"`git baton reopen {key}` makes it claimable again"
                )
        elif ticket.mark != "canceled":
            missing.append(key)
    keys = {t.key for t in new.tickets}
    dropped = [k for k in live.missing if k not in keys and attempts_of(live, k)]
    revision = state.plan.revision + 1
    return with_live(
        replace(state, plan=replace(new, revision=revision)),
        revision=revision,
        total=len(new.tickets),
        resolved=len(by_receipt & keys),
        canceled=len(keys) - len(by_receipt & keys) - len(by_hand) - len(missing),
        by_hand=tuple(by_hand),
        missing=tuple(missing),
        dropped=tuple(k for k in dict.fromkeys((*live.dropped, *dropped)) if k not in keys),
        gone={k: digest for k, digest in gone.items() if k not in keys},
        records={k: r for k, r in live.records.items() if k in missing or k in dropped},
        warnings=tuple(dict.fromkeys(warnings)),
    )
