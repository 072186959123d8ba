"""What a run executes. A target is a tagged union, so that an engine verb never asks for a name
that only one kind of plan has.

Who has the authority over a run's plan follows from its target and is never set: a change has its
tasks.md, a virtual root has nothing but the descriptor of its batch.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from gitbaton.model.queue import Filters, OrderKey

SCHEMA = 1

Membership = Literal["snapshot", "live"]
Mode = Literal["autopilot", "one-item"]
StateAuthority = Literal["change", "virtual_root"]


class ChangeTarget(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="change"):
    """An OpenSpec change: ``<project>/openspec/changes/<change>``; ``project`` is "" at the top."""

    change: str
    project: str = ""

    @property
    def folder(self) -> str:
        """The change folder as a path in the tree."""
        return "/".join(filter(None, (self.project, "openspec/changes", self.change)))

    @property
    def name(self) -> str:
        """What people call it, where the run's id does not say it: a change needs no more."""
        return ""

    @property
    def state_authority(self) -> StateAuthority:
        return "change"

    @property
    def mode(self) -> Mode | None:
        """How a batch goes on after an item; a change has none."""
        return None


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Who asked for a batch, with which program, by which request, and when (RFC 3339, UTC)."""

    who: str
    tool: str
    request_id: str
    at: str


class VirtualBatchDescriptor(msgspec.Struct, frozen=True, kw_only=True):
    """A batch of items of a queue.

    ``command`` is a name for people; ``gates`` are commands that must be green on the integration
    tip before it closes; ``parent`` is the assignment below which it was opened.
    """

    schema: int = SCHEMA
    batch_id: str
    command: str
    queue: str
    filters: Filters = Filters()
    order: tuple[OrderKey, ...]
    membership: Membership
    mode: Mode
    gates: tuple[str, ...] = ()
    provenance: Provenance
    parent: str | None = None


class BatchTarget(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="batch"):
    """A virtual batch: a run without a domain artifact, so that no plan is ever written."""

    descriptor: VirtualBatchDescriptor

    @property
    def folder(self) -> str:
        """A path that no tree can hold: whatever is done about a tasks file comes to nothing."""
        return f".git/{self.descriptor.batch_id}"

    @property
    def project(self) -> str:
        return ""

    @property
    def name(self) -> str:
        return self.descriptor.command

    @property
    def mode(self) -> Mode:
        return self.descriptor.mode

    @property
    def state_authority(self) -> StateAuthority:
        return "virtual_root"


RootTarget = ChangeTarget | BatchTarget
