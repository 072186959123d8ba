"""Every event that a verb writes, and what it may change: the table by which steps are judged.

What an event may change of a batch is told in ``roots``.
"""

from __future__ import annotations

from typing import NamedTuple


class Allowed(NamedTuple):
    """What an event may do: the states that attempts enter, their fields and those of the run that
    change, the files of attempts that are written, and whether it is about one attempt only (others
    may then enter ``beside``)."""

    enters: frozenset[str] = frozenset()
    fields: frozenset[str] = frozenset()
    record: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    one: bool = False
    beside: frozenset[str] = frozenset()
    plan: bool = False


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OVER = _words("state failure ended_at")
_INTEND = Allowed(enters=_words("integrating"), fields=_words("state"))
_FINISH = Allowed(
    enters=_words("succeeded"),
    fields=_OVER
    | _words("merge_commit tested_by")
    | _words("merged_receipt_sha256 merged_signature_sha256"),
    record=_words("tip recorded source"),
    files=_words("attempt.json merged.json merged.sig commits"),
    plan=True,
)
_LAND = Allowed(record=_words("recorded"), files=_words("commits"))
_RETIRED = _words("attempt.json")

EVENTS: dict[str, Allowed] = {
    **dict.fromkeys(("start", "halt", "land-intent"), Allowed()),
    "configure": Allowed(record=_words("checks order unit")),
    "pause": Allowed(record=_words("paused")),
    "resume": Allowed(record=_words("paused"), plan=True),
    "claim": Allowed(
        enters=_words("leased superseded"),
        fields=_words("state"),
        files=_words("packet.json attempt.json"),
    ),
    "prepare": Allowed(enters=_words("unknown failed"), fields=_OVER, files=_RETIRED),
    "expire": Allowed(enters=_words("unknown failed"), fields=_OVER, files=_RETIRED),
    "redeliver": Allowed(fields=_words("session lease"), one=True),
    "bind": Allowed(enters=_words("spawned"), fields=_words("state agent_id lease"), one=True),
    "heartbeat": Allowed(enters=_words("running"), fields=_words("state lease"), one=True),
    "seal": Allowed(
        enters=_words("sealed"),
        fields=_OVER | _words("sealed usage"),
        files=_words("receipt.json receipt.sig attempt.json"),
        one=True,
    ),
    "end": Allowed(
        enters=_words("unknown failed"),
        fields=_OVER | _words("usage"),
        files=_RETIRED,
        one=True,
        beside=_words("failed"),
    ),
    "usage": Allowed(fields=_words("usage"), files=_RETIRED, one=True),
    "review": Allowed(enters=_words("blocked-review"), fields=_words("state failure"), one=True),
    "conflict": Allowed(
        enters=_words("blocked-review"), fields=_words("state failure conflicts"), one=True
    ),
    "abandon": Allowed(enters=_words("abandoned"), fields=_OVER, files=_RETIRED, one=True),
    "adopt": Allowed(
        enters=_words("sealed superseded"),
        fields=_OVER | _words("accepted_digest"),
        files=_RETIRED,
        one=True,
        beside=_words("superseded"),
    ),
    "admit": Allowed(record=_words("paused"), plan=True),
    "dispose": Allowed(
        enters=_words("closed"),
        fields=_OVER,
        record=_words("paused"),
        files=_RETIRED,
        one=True,
        plan=True,
    ),
    "gates": Allowed(record=_words("paused")),
    **dict.fromkeys(("claim-intent", "dispose-intent", "close-intent"), Allowed()),
    **dict.fromkeys(("freeze", "fold", "close"), Allowed()),
    "void": Allowed(enters=_words("sealed"), fields=_words("state")),
    "recover": _FINISH,
    "land": _LAND,
    **dict.fromkeys(("integrate", "plan", "update", "accept", "reopen"), _FINISH),
    **dict.fromkeys(("integrate-intent", "update-intent", "accept-intent"), _INTEND),
    **dict.fromkeys(("plan-intent", "reopen-intent"), _INTEND._replace(plan=True)),
}
"""Every event that a verb writes, and what it may change."""
