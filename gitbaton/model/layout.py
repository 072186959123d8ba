"""Where each object lies in the tree of a run state. The tree is the on-disk format::

    run.json  plan.json  live.json  closeout.json
    intents/<id>.json
    tickets/<xx>/<ticket>/<NN>/{attempt,packet,receipt,merged}.json  receipt.sig  merged.sig
    commits/<oid>.json  <oid>.sig

``<xx>`` is the shard of the ticket's key, ``<ticket>`` the encoded key, ``<NN>`` the attempt's
number with at least two digits. A flat directory of all attempts would make every transition
rewrite it; 64 shards keep that small.
"""

from __future__ import annotations

from gitbaton.model.ids import AttemptId, encode_key, shard

RUN = "run.json"
PLAN = "plan.json"
LIVE = "live.json"
INTENTS = "intents"
TICKETS = "tickets"
COMMITS = "commits"


def intent_path(intent_id: str) -> str:
    return f"{INTENTS}/{intent_id}.json"


def ticket_path(ticket: str) -> str:
    """The folder that holds all attempts of a ticket."""
    return f"{TICKETS}/{shard(ticket)}/{encode_key(ticket)}"


def attempt_path(attempt: AttemptId, name: str) -> str:
    """A file of an attempt, e.g. ``receipt.json``."""
    return f"{ticket_path(attempt.ticket)}/{attempt.number:02d}/{name}"


def commit_path(oid: str) -> str:
    """The receipt of an update, landing or accepted commit."""
    return f"{COMMITS}/{oid}.json"
