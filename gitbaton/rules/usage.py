"""What attempts used, summed: tokens as whole numbers, money as exact decimals."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal

from msgspec.structs import replace

from gitbaton.model.run import Attempt, RunState
from gitbaton.model.usage import Usage
from gitbaton.rules.state import with_live

_EXACT = Context(prec=60)
"""Digits enough for any number of attempts, each of which may name some two dozen."""


def total(used: Iterable[Usage | None]) -> Usage | None:
    """The sum of what was told; a figure that nobody told stays None, and so does a sum of
    nothing."""
    told = [usage for usage in used if usage is not None]
    costs = [Decimal(usage.cost_usd) for usage in told if usage.cost_usd is not None]
    found = Usage(
        input_tokens=_sum(usage.input_tokens for usage in told),
        output_tokens=_sum(usage.output_tokens for usage in told),
        cost_usd=_money(costs) if costs else None,
        seconds=_sum(usage.seconds for usage in told),
    )
    return None if found == Usage() else found


def with_usage(state: RunState, attempt: Attempt, used: Usage | None) -> tuple[RunState, Attempt]:
    """``attempt`` with what it ``used`` instead of what it told before, and the sum of the run."""
    if used == attempt.usage:
        return state, attempt
    summed = total((state.live.usage, _negative(attempt.usage), used))
    return with_live(state, usage=summed), replace(attempt, usage=used)


def _negative(used: Usage | None) -> Usage | None:
    if used is None:
        return None
    cost = None if used.cost_usd is None else f"-{used.cost_usd}"
    counts = (used.input_tokens, used.output_tokens, used.seconds)
    tokens_in, tokens_out, seconds = (None if n is None else -n for n in counts)
    return Usage(input_tokens=tokens_in, output_tokens=tokens_out, cost_usd=cost, seconds=seconds)


def _sum(figures: Iterable[int | None]) -> int | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None


def _money(costs: Iterable[Decimal]) -> str:
    summed = Decimal(0)
    for cost in costs:
        summed = _EXACT.add(summed, cost)
    return f"{summed.normalize(_EXACT):f}"
