"""What a run executes. A target is a tagged union, so that an engine verb never asks for a name
that only one kind of plan has."""

from __future__ import annotations

import msgspec


class ChangeTarget(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="change"):
    """An OpenSpec change: ``<project>/openspec/changes/<change>``; ``project`` is "" at the top."""

    change: str
    project: str = ""

    @property
    def folder(self) -> str:
        """The change folder as a path in the tree."""
        return "/".join(filter(None, (self.project, "openspec/changes", self.change)))


RootTarget = ChangeTarget
