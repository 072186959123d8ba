"""Where everything lies in the repository: the names of refs and the tree of a run state.

This is the on-disk format. One run is one chain of commits under ``refs/baton/runs/<run>``; the
tree of each commit is the whole state at that time::

    run.json                    RunRecord: schema version, id, target, base, checks, generation
    plan.json                   Plan: the current revision (earlier ones are in history)
    live.json                   Live: attempts not yet over, counts; all that a status needs
    batch.json                  Batch: members and dispositions; of a batch only
    intents/<id>.json           Intent: one per operation that spans refs or files
    tickets/<xx>/<ticket>/<NN>/ one attempt
        attempt.json            Attempt
        packet.json             Packet, exact bytes
        receipt.json            exact sealed bytes
        receipt.sig             its signature, when signed
        merged.json             receipt of the merged commit, when checks ran on that
        merged.sig
    commits/<oid>.json          receipts of commits that no ticket made; <oid>.sig when signed
    closeout.json               when the run is closed

``<xx>`` is the shard of the key (first SHA-256 byte & 63, two hex digits), so that a transition
rewrites small trees only; ``<ticket>`` the percent-encoded key; ``<NN>`` the attempt number in at
least two digits.

The subject of a state commit is one human line; its last paragraph holds the trailers
``Baton-Event Baton-Run Baton-Ticket Baton-Attempt Baton-Session Baton-Nonce``. Its first parent is
the previous state. Further parents are commits that the state refers to: an object id that only a
blob names would be pruned by gc and missing from a fetch.
"""

from __future__ import annotations

from functools import lru_cache

from gitbaton.model.ids import AttemptId, decode_key, encode_key, is_number, shard

RUN = "run.json"
PLAN = "plan.json"
LIVE = "live.json"
BATCH = "batch.json"
CLOSEOUT = "closeout.json"
INTENTS = "intents"
TICKETS = "tickets"
COMMITS = "commits"

ATTEMPT = "attempt.json"
PACKET = "packet.json"
RECEIPT = "receipt.json"
RECEIPT_SIGNATURE = "receipt.sig"
MERGED = "merged.json"
MERGED_SIGNATURE = "merged.sig"

RUNS = "refs/baton/runs/"
QUEUES = "refs/baton/queues/"
NOTES = "refs/notes/baton/"
TRACKED = "refs/baton-remote/"
"""Below it, by remote: what was last fetched."""


def run_ref(run: str) -> str:
    """The ref that holds the state of a run."""
    return RUNS + run


def notes_ref(run: str) -> str:
    """The ref that holds the notes of a run."""
    return NOTES + run


def fetched(ref: str) -> tuple[str, str] | None:
    """(remote, run) of the ref of a state that was fetched; None for any other ref."""
    remote, found, run = ref.removeprefix(TRACKED).rpartition("/runs/")
    return (remote, run) if found and ref.startswith(TRACKED) else None


def path_of(attempt: AttemptId, name: str = "") -> str:
    """The path of one file of an attempt, or of its directory."""
    folder = f"{ticket_folder(attempt.ticket)}/{attempt.number:02d}"
    return f"{folder}/{name}" if name else folder


@lru_cache(4096)
def ticket_folder(ticket: str) -> str:
    """The directory that holds the attempts of a ticket."""
    return f"{TICKETS}/{shard(ticket)}/{encode_key(ticket)}"


def attempt_of(path: str) -> tuple[AttemptId, str] | None:
    """The inverse of `path_of`; None for any other path, a misplaced one included."""
    parts = path.split("/", 4)
    if len(parts) < 4 or not is_number(parts[3]) or not path.isascii():
        return None
    attempt = AttemptId(decode_key(parts[2]), int(parts[3]))
    name = parts[4] if len(parts) == 5 else ""
    return (attempt, name) if path_of(attempt, name) == path else None


def intent_path(intent: str) -> str:
    """The path of an intent."""
    return f"{INTENTS}/{encode_key(intent)}.json"


def commit_path(oid: str, suffix: str = "json") -> str:
    """The path of the receipt (``json``) or signature (``sig``) of a commit no ticket made."""
    return f"{COMMITS}/{oid}.{suffix}"


def commit_of(path: str) -> str | None:
    """The commit whose receipt lies at ``path``; None for any other path."""
    folder, _, name = path.partition("/")
    oid, dot, suffix = name.rpartition(".")
    return oid if folder == COMMITS and dot and suffix == "json" and "/" not in oid else None
