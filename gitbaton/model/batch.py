"""What only a batch has in its state: ``batch.json``, and ``closeout.json`` at its end.

What is fixed is told by receipts, as everywhere; here lies what receipts cannot tell: who belongs
to the batch, what was decided about a member without one, and how the batch comes to its end.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from gitbaton.model.ids import AttemptId
from gitbaton.model.receipt import CheckResult
from gitbaton.model.root import Membership, Mode
from gitbaton.model.usage import Usage

DispositionKind = Literal[
    "fixed", "obe", "blocked", "owned", "local-gate", "unresolved", "eligibility-lost"
]
ACCEPTED: frozenset[DispositionKind] = frozenset(("fixed", "obe"))
"""What counts as done."""
LEAVES: frozenset[DispositionKind] = frozenset(("obe", "owned", "eligibility-lost"))
"""What takes a member out of the batch without a receipt, for good."""
PAUSES: frozenset[DispositionKind] = frozenset(("local-gate", "unresolved"))
"""What stops the root until a person has done something."""

Outcome = Literal["done", "queue-empty", "obe", "owned", "eligibility-lost"]
"""How a batch ended; a one-item root ends by the disposition of its item."""


class Disposition(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt (``ITEM@N``; "" where none was under way) came to. ``by`` are the items that
    block it, or the run that owns it."""

    kind: DispositionKind
    reason: str
    by: tuple[str, ...] = ()
    attempt: str = ""
    at: str

    @property
    def accepted(self) -> bool:
        return self.kind in ACCEPTED


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """An item that the batch has admitted. ``blocks`` is the member that it was admitted for as a
    required descendant; ``blockers`` are the items that it waits for itself. ``history`` are its
    dispositions, the newest last."""

    id: str
    blocks: str | None = None
    blockers: tuple[str, ...] = ()
    history: tuple[Disposition, ...] = ()

    @property
    def disposition(self) -> Disposition | None:
        return self.history[-1] if self.history else None

    @property
    def left(self) -> bool:
        """Whether it has left the batch without a receipt."""
        return self.disposition is not None and self.disposition.kind in LEAVES


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """Why git-baton itself paused a root, as a stable code; ``member`` is the item it is about."""

    code: Literal[
        "blocked",
        "blocker-cycle",
        "blocker-missing",
        "blocker-unavailable",
        "local-gate",
        "unresolved",
        "gate-failed",
    ]
    reason: str
    member: str = ""


class Freeze(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing was selectable at this queue revision. ``count`` counts freezes; ``gates`` are the
    results on ``tip``, None before they ran; ``thawed``: the batch went on after all."""

    count: int
    queue_revision: str
    tip: str
    gates: tuple[CheckResult, ...] | None = None
    thawed: bool = False

    @property
    def red(self) -> bool:
        return self.gates is not None and not all(gate.green for gate in self.gates)


ChildResult = Literal["accepted", "blocked", "empty", "paused"]
"""What a batch returns to the attempt below which it was opened."""


class Child(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that was opened below an attempt of this one, and what it came to."""

    run: str
    parent: str
    result: ChildResult
    closeout: str | None = None


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """``batch.json``. ``queue_revision`` is the one seen last; ``members`` are in the order of
    admission; ``pending`` is the rest of a frozen set, in its order; ``closed`` is when and how the
    batch ended."""

    queue_revision: str
    members: tuple[Member, ...] = ()
    pending: tuple[str, ...] = ()
    freeze: Freeze | None = None
    pause: Pause | None = None
    children: tuple[Child, ...] = ()
    closed: Outcome | None = None

    @property
    def frozen(self) -> bool:
        return self.freeze is not None and not self.freeze.thawed

    def member(self, item: str) -> Member | None:
        """The member of that id."""
        return next((m for m in self.members if m.id == item), None)

    def returned(self, attempt: AttemptId) -> Disposition | None:
        """What an attempt was returned as, other than by a receipt."""
        member = self.member(attempt.ticket)
        history = member.history if member else ()
        return next((d for d in history if d.attempt == str(attempt)), None)


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one member, as the closeout tells it."""

    item: str
    title: str
    disposition: DispositionKind
    accepted: bool
    blocks: str | None = None
    reason: str = ""
    by: tuple[str, ...] = ()
    attempt: str = ""
    merge_commit: str | None = None
    receipt_sha256: str | None = None


class Closeout(msgspec.Struct, frozen=True, kw_only=True):
    """``closeout.json``, the one terminal record of a batch.

    ``work`` are the files in which the integration tip differs from the base, ``evidence`` the
    SHA-256 of all receipts that were integrated, ``admitted`` the history of admissions; children
    are folded into all three. ``usage`` is what its workers told they used.
    """

    run: str
    batch_id: str
    command: str
    outcome: Outcome
    mode: Mode
    membership: Membership
    queue: str
    queue_revision: str
    freezes: int
    base_commit: str
    tip: str
    branch: str
    members: tuple[Returned, ...]
    admitted: tuple[str, ...]
    work: tuple[str, ...]
    evidence: tuple[str, ...]
    gates: tuple[CheckResult, ...] = ()
    children: tuple[Child, ...] = ()
    usage: Usage | None = None
    opened_at: str
    closed_at: str
