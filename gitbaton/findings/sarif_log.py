"""The part of SARIF 2.1.0 that is read, as structs; everything else in a log is skipped.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/ - names are the standard's own, in camel case.
"""

from __future__ import annotations

from typing import Any

import msgspec


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class Message(_Part, frozen=True):
    text: str | None = None
    markdown: str | None = None
    id: str | None = None
    arguments: list[str] | None = None


class ArtifactLocation(_Part, frozen=True):
    uri: str | None = None
    uri_base_id: str | None = None
    index: int = -1


class Artifact(_Part, frozen=True):
    location: ArtifactLocation | None = None


class Snippet(_Part, frozen=True):
    text: str | None = None


class Region(_Part, frozen=True):
    start_line: int | None = None
    start_column: int | None = None
    snippet: Snippet | None = None


class PhysicalLocation(_Part, frozen=True):
    artifact_location: ArtifactLocation | None = None
    region: Region | None = None


class LogicalLocation(_Part, frozen=True):
    name: str | None = None
    fully_qualified_name: str | None = None


class Location(_Part, frozen=True):
    physical_location: PhysicalLocation | None = None
    logical_locations: list[LogicalLocation] | None = None


class ComponentReference(_Part, frozen=True):
    name: str | None = None
    index: int = -1


class RuleReference(_Part, frozen=True):
    id: str | None = None
    index: int = -1
    tool_component: ComponentReference | None = None


class Suppression(_Part, frozen=True):
    status: str = "accepted"


class Fix(_Part, frozen=True):
    description: Message | None = None


class Result(_Part, frozen=True):
    message: Message
    rule_id: str | None = None
    rule_index: int = -1
    rule: RuleReference | None = None
    kind: str = "fail"
    level: str | None = None
    rank: float = -1
    locations: list[Location] | None = None
    fingerprints: dict[str, str] | None = None
    partial_fingerprints: dict[str, str] | None = None
    suppressions: list[Suppression] | None = None
    baseline_state: str | None = None
    fixes: list[Fix] | None = None
    properties: dict[str, Any] | None = None


class Configuration(_Part, frozen=True):
    level: str | None = None
    rank: float = -1


class Rule(_Part, frozen=True):
    id: str
    short_description: Message | None = None
    full_description: Message | None = None
    help_uri: str | None = None
    message_strings: dict[str, Message] | None = None
    default_configuration: Configuration | None = None
    properties: dict[str, Any] | None = None


class Component(_Part, frozen=True):
    name: str
    rules: list[Rule] | None = None


class Tool(_Part, frozen=True):
    driver: Component
    extensions: list[Component] | None = None


class Invocation(_Part, frozen=True):
    execution_successful: bool = True


class Automation(_Part, frozen=True):
    id: str | None = None


class Run(_Part, frozen=True):
    tool: Tool
    results: list[Result] | None = None
    artifacts: list[Artifact] | None = None
    original_uri_base_ids: dict[str, ArtifactLocation] | None = None
    automation_details: Automation | None = None
    invocations: list[Invocation] | None = None


class Log(_Part, frozen=True):
    runs: list[Run]
