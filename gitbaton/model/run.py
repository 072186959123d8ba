"""The state of a run: what lies in the tree of ``refs/baton/runs/<run>``.

``run.json`` is a `RunRecord`, ``live.json`` a `Live`, ``plan.json`` a `Plan`, each file under
``intents/`` an `Intent`, each ``attempt.json`` an `Attempt`. `RunState` is these together, plus
what the next commit on the chain is going to write; rules map one `RunState` to the next.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from gitbaton.model.batch import Batch, Disposition
from gitbaton.model.ids import AttemptId
from gitbaton.model.plan import Order, Plan, Unit
from gitbaton.model.root import RootTarget
from gitbaton.model.transitions import ACTIVE, TERMINAL, AttemptState
from gitbaton.model.usage import Usage

SCHEMA = 1

TicketState = Literal[
    "waiting",
    "ready",
    "active",
    "resolved",
    "resolved-by-hand",
    "canceled",
    "failed",
    "dropped",
]
RecordedKind = Literal["plan", "update", "accept", "land"]


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """Where the run started: a branch (full ref name) and the commit it had."""

    ref: str
    commit: str


class PlanSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where the plan is read from at each ``actions``: a working tree (absolute path of its top),
    a revision (full ref name or object id) or a queue (full ref name). ``files`` are the blobs of
    the change folder as last read there (path in the tree -> object id): what differs from them is
    what people changed."""

    kind: Literal["worktree", "revision", "queue"]
    at: str
    files: dict[str, str] = {}


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A commit on the integration branch (or, for ``land``, on its target) that no ticket made, and
    the SHA-256 of its own receipt and of that receipt's signature, if there are such."""

    commit: str
    kind: RecordedKind
    onto: str = ""
    receipt_sha256: str | None = None
    signature_sha256: str | None = None


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``run.json``. ``generation`` counts state commits; ``tip`` is the integration commit that
    the state last recorded; ``paused`` is the reason of a pause."""

    schema: int = SCHEMA
    id: str
    generation: int = 0
    target: RootTarget
    base: Base
    branch: str
    tip: str
    checks: tuple[str, ...]
    order: Order | None = None
    unit: Unit | None = None
    source: PlanSource
    recorded: tuple[Recorded, ...] = ()
    paused: str | None = None
    created_at: str
    updated_at: str = ""


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds an attempt, and until when.

    ``deadline`` is in monotonic seconds of ``boot`` on ``machine``; ``beat`` counts renewals;
    ``renewed_at`` is wall time for display.
    """

    holder: str
    machine: str
    boot: str
    token_sha256: str
    ttl_seconds: int
    beat: int = 0
    deadline: float
    renewed_at: str


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why an attempt is not what it should be: a stable code and what a person needs to see."""

    code: str
    message: str = ""


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt of an attempt: SHA-256 of its exact bytes, and of those of its signature if it is
    signed, and the commit it is bound to."""

    receipt_sha256: str
    signature_sha256: str | None = None
    commit: str
    tree: str
    sealed_in: str
    sealed_at: str


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """``attempt.json``: one leased try at a ticket.

    ``ticket_digest`` binds it to the ticket's text; ``resolves`` is the number of the attempt whose
    merge conflict it resolves and ``resolved_commit`` that attempt's sealed commit; ``counted``
    says whether it counts toward the attempts a ticket may have. ``tested_by`` is the commit on
    which the checks of its merged tree ran. In a batch, ``capability`` is what it holds its item of
    the queue by, and ``queue_revision`` the revision at which it was selected.
    """

    ticket: str
    number: int
    state: AttemptState
    session: str
    agent_id: str | None = None
    lease: Lease
    base_commit: str
    branch: str
    worktree: str
    packet_sha256: str
    ticket_digest: str
    plan_revision: int
    counted: bool = True
    resolves: int | None = None
    resolved_commit: str | None = None
    conflicts: tuple[str, ...] = ()
    failure: Failure | None = None
    usage: Usage | None = None
    sealed: Sealed | None = None
    accepted_digest: str | None = None
    merge_commit: str | None = None
    merged_receipt_sha256: str | None = None
    merged_signature_sha256: str | None = None
    tested_by: str | None = None
    capability: str | None = None
    queue_revision: str | None = None
    claimed_at: str
    ended_at: str | None = None

    @property
    def id(self) -> AttemptId:
        return AttemptId(self.ticket, self.number)

    @property
    def active(self) -> bool:
        return self.state in ACTIVE

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL


class TicketRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a ticket that was tried and is not resolved: highest attempt number, how
    many attempts counted since it was last reopened, whether they are exhausted, and the last
    failure (goes into the next packet)."""

    last: int = 0
    counted: int = 0
    failed: bool = False
    failure: Failure | None = None


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A follow-up or finding that a worker recorded when it sealed."""

    assignment: str
    kind: Literal["followup", "finding"]
    text: str


class Halt(msgspec.Struct, frozen=True, kw_only=True):
    """Why integration cannot go on at ``tip``; void as soon as the tip is another. A ``passing``
    one may have ended since (a directory with changes, say) and is tried again at every look."""

    code: str
    reason: str
    hint: str
    tip: str
    passing: bool = False


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """``live.json``: all that ``status`` needs, whatever the number of finished attempts.

    ``missing`` are the keys not resolved, in plan order; ``attempts`` those not terminal;
    ``records`` exist for tried, unresolved tickets only. ``gone`` are tickets that receipts
    resolved and that have left the plan since, with the digest of their text: if they come back
    with the same text, they are still resolved. ``unclosed`` is a batch that has not closed: with
    nothing left to do in it, it is not complete yet. ``usage`` is the sum over all attempts.
    """

    revision: int = 0
    total: int = 0
    resolved: int = 0
    canceled: int = 0
    ready: int = 0
    by_hand: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    gone: dict[str, str] = {}
    missing: tuple[str, ...] = ()
    records: dict[str, TicketRecord] = {}
    attempts: dict[str, Attempt] = {}
    notes: tuple[Note, ...] = ()
    warnings: tuple[str, ...] = ()
    halt: Halt | None = None
    unclosed: bool = False
    usage: Usage | None = None

    @property
    def exhausted(self) -> bool:
        """Every ticket of the latest plan is resolved, by receipt or by hand, or canceled."""
        return not self.missing and not any(a.active for a in self.attempts.values())

    @property
    def complete(self) -> bool:
        """There is nothing left to do, and a batch has closed."""
        return self.exhausted and not self.unclosed


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """One ticket's merge within an `Advance`. ``receipt`` is the text of the merged commit's own
    receipt when checks ran on exactly this commit, ``signature`` its signature; ``tested_by`` the
    commit they ran on."""

    ticket: str
    number: int
    receipt_sha256: str
    commit: str
    tested_by: str | None = None
    receipt: str | None = None
    signature: str | None = None


class Prepare(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="prepare"):
    """Worktrees are being made for these attempts (``TICKET@N``)."""

    id: str
    machine: str
    boot: str
    started_at: str
    attempts: tuple[str, ...]


class Advance(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="advance"):
    """The integration branch is being moved from ``old`` to ``new``.

    Everything that becomes true once it has moved is in here, so that whoever finds the intent can
    finish it: merges of tickets, commits to record, receipts of such commits and their signatures
    (by object id), tickets to reopen, and what of the plan's ``source`` the branch then holds.
    ``worktree`` is the directory where the branch is checked out, if any.
    """

    id: str
    machine: str
    boot: str
    started_at: str
    branch: str
    old: str | None
    new: str
    worktree: str | None = None
    merges: tuple[Merged, ...] = ()
    recorded: tuple[Recorded, ...] = ()
    receipts: dict[str, str] = {}
    signatures: dict[str, str] = {}
    reopened: tuple[str, ...] = ()
    source: PlanSource | None = None


class Land(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="land"):
    """A target branch is being moved from ``old`` to ``new``; ``record`` is what the state keeps of
    a landing merge (none for a fast-forward), ``receipts`` its receipt, ``signatures`` that one's
    signature."""

    id: str
    machine: str
    boot: str
    started_at: str
    branch: str
    old: str
    new: str
    worktree: str | None = None
    record: Recorded | None = None
    receipts: dict[str, str] = {}
    signatures: dict[str, str] = {}


class Hold(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="hold"):
    """Items of a queue are being taken at revision ``queue_revision`` for attempts that are not in
    the state yet: by attempt (``ITEM@N``), the capability; ``session`` is who claims."""

    id: str
    machine: str
    boot: str
    started_at: str
    queue_revision: str
    capabilities: dict[str, str]
    session: str

    def is_for(self, item: str) -> bool:
        """Whether the item is among them."""
        return any(AttemptId.parse(name).ticket == item for name in self.capabilities)


class Return(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="return"):
    """An item is being given back to its queue as ``disposition`` says."""

    id: str
    machine: str
    boot: str
    started_at: str
    item: str
    disposition: Disposition


class Close(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="close"):
    """A batch is being closed at the revision of its queue that it was frozen at."""

    id: str
    machine: str
    boot: str
    started_at: str
    queue_revision: str


Intent = Prepare | Advance | Land | Hold | Return | Close


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One transition as the log shows it; becomes subject and trailers of the state commit."""

    event: str
    message: str
    ticket: str = ""
    attempt: int = 0
    session: str = ""


INTENT = "-intent"
"""How the name of an event ends that says what is about to happen."""


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a value; only a batch has ``batch``. ``touched``, ``files`` and ``parents`` are what
    the next state commit is to write beyond the rest: attempts that changed, further files of the
    tree (None removes), and commits to keep from pruning."""

    run: RunRecord
    plan: Plan
    live: Live
    batch: Batch | None = None
    intents: dict[str, Intent] = {}
    touched: dict[AttemptId, Attempt] = {}
    files: dict[str, bytes | None] = {}
    parents: tuple[str, ...] = ()

    def attempt(self, attempt: AttemptId) -> Attempt | None:
        """The attempt if it is not terminal (or was touched by this transition)."""
        return self.touched.get(attempt) or self.live.attempts.get(str(attempt))
