"""What the work cost, as those tell who did it: data of theirs, no evidence."""

from __future__ import annotations

import msgspec


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says it used. ``cost_usd`` is a decimal number as text, so that it stays
    exact; ``seconds`` is how long it was at it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: str | None = None
    seconds: int | None = None
