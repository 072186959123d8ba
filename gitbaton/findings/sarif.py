"""SARIF 2.1.0, the format that most analysers can write.

Tools fill it in very differently: rules in the driver or in extensions, found by index, by id or
by the front of an id; levels in the result, the rule or a score; paths against bases defined
elsewhere. `sarif_log` says what is read, this module what it means.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

from gitbaton.findings import severity
from gitbaton.findings.content import Document, convert
from gitbaton.findings.finding import Finding, Found, Malformed, Place
from gitbaton.findings.places import Places, is_absolute
from gitbaton.findings.sarif_log import (
    ArtifactLocation,
    Component,
    Configuration,
    Location,
    Log,
    Message,
    PhysicalLocation,
    Region,
    Result,
    Rule,
    Run,
)
from gitbaton.model.queue import Severity

VERSION = "2.1.0"

_LINK = re.compile(r"(?<!\\)\[((?:[^][\\]|\\.)+)\]\([^()\s]*\)")
_PLACEHOLDER = re.compile(r"\{(\d{1,4})\}")
_REPORTED = ("fail", "open", "review")
_LINE_HASH = "primaryLocationLineHash"
_BASES = 8
_DESCRIPTION = 1000


def is_sarif(value: Any) -> bool:
    """Whether a JSON value looks like a SARIF log, of whatever version."""
    return (
        isinstance(value, dict) and "runs" in value and ("version" in value or "$schema" in value)
    )


def read(document: Document, places: Places) -> Found:
    """The results of each run, by the name of its tool. What the tool counts as passed, suppressed
    or absent is not reported."""
    value = document.value
    if isinstance(value, dict) and value.get("version") != VERSION:
        version = str(value.get("version", "of no version"))[:20]
        raise Malformed(f"SARIF {version}, but only {VERSION} is read")
    found: Found = {}
    for run in convert(value, Log).runs:
        found.setdefault(_source(run), []).extend(_Reader(run, places).findings())
    return found


def _source(run: Run) -> str:
    """The name of the tool, and the category where one tool runs for several parts
    (``codeql:python``)."""
    name = "-".join(run.tool.driver.name.lower().split()) or "sarif"
    details = run.automation_details
    category = (details.id or "").rpartition("/")[0] if details else ""
    return f"{name}:{category}" if category else name


class _Reader:
    """One run: its results look up rules, artifacts and bases in it."""

    def __init__(self, run: Run, places: Places) -> None:
        self._run = run
        self._places = places
        self._components = [run.tool.driver, *(run.tool.extensions or ())]
        self._by_id = {rule.id: rule for part in self._components for rule in part.rules or ()}
        self._path = functools.lru_cache(maxsize=None)(self._path_of)

    def findings(self) -> Iterator[Finding]:
        name = self._run.tool.driver.name
        results = self._run.results
        failed = any(not one.execution_successful for one in self._run.invocations or ())
        if results is None or (failed and not results):
            # else all that the tool ever reported would count as gone
            raise Malformed(f"{name} did not finish: its run has no results")
        for result in results:
            if _is_reported(result):
                yield self._finding(result)

    def _finding(self, result: Result) -> Finding:
        rule = self._rule(result)
        name = result.rule_id or (result.rule and result.rule.id) or (rule.id if rule else "")
        locations = result.locations or []
        places = tuple(filter(None, map(self._place, locations)))
        message = self._message(result.message, rule)
        if not places and (symbol := _symbol(locations)):
            message = f"{message} (in {symbol})"
        return Finding(
            message=message,
            rule=name,
            places=places,
            severity=_severity(result, rule),
            snippet=_snippet(locations),
            more=tuple(_advice(result, rule, message)),
            labels=_tags(rule),
            known_by=_known_by(result, name, places),
        )

    def _rule(self, result: Result) -> Rule | None:
        reference = result.rule
        index = result.rule_index
        component: Component | None = self._components[0]
        if reference:
            index = reference.index if reference.index >= 0 else index
            if of := reference.tool_component:
                named = (part for part in self._components if of.name and part.name == of.name)
                extensions = self._components[1:]
                known = 0 <= of.index < len(extensions)
                component = extensions[of.index] if known else next(named, None)
        rules = (component.rules if component else None) or []
        if 0 <= index < len(rules):
            return rules[index]
        name = result.rule_id or (reference.id if reference else None) or ""
        while name and name not in self._by_id:  # CA1000/1 is a case of CA1000
            name = name.rpartition("/")[0]
        return self._by_id.get(name)

    def _message(self, message: Message, rule: Rule | None) -> str:
        text = message.text
        if text is None and message.id and rule and rule.message_strings:
            text = (rule.message_strings.get(message.id) or message).text
        text = text if text is not None else message.markdown or ""
        arguments = message.arguments or []

        def argument(found: re.Match[str]) -> str:
            at = int(found[1])
            return arguments[at] if at < len(arguments) else found[0]

        if arguments:
            text = _PLACEHOLDER.sub(argument, text)
        return _LINK.sub(r"\1", text)

    def _place(self, location: Location) -> Place | None:
        physical = location.physical_location or PhysicalLocation()
        artifact = physical.artifact_location
        path = self._path(artifact) if artifact else ""
        region = physical.region or Region()
        return Place(path, region.start_line, region.start_column) if path else None

    def _path_of(self, at: ArtifactLocation) -> str:
        artifacts = self._run.artifacts or []
        if at.uri is None and 0 <= at.index < len(artifacts):
            at = artifacts[at.index].location or at
        uri, base = at.uri or "", at.uri_base_id
        bases = self._run.original_uri_base_ids or {}
        for _ in range(_BASES):  # bases may have bases, or refer to each other
            outer = bases.get(base or "")
            if is_absolute(uri) or outer is None:
                break
            joined = f"{outer.uri.rstrip('/')}/{uri}" if outer.uri else uri
            if is_absolute(joined):
                inside = self._places.uri(joined)
                # the checkout of another machine: its root is ours
                return self._places.uri(uri) if is_absolute(inside) else inside
            uri, base = joined, outer.uri_base_id
        return self._places.uri(uri)


def _is_reported(result: Result) -> bool:
    suppressed = any(one.status == "accepted" for one in result.suppressions or ())
    return result.kind in _REPORTED and not suppressed and result.baseline_state != "absent"


def _severity(result: Result, rule: Rule | None) -> Severity:
    """The security score, else the level, else the rank."""
    for properties in (result.properties, rule.properties if rule else None):
        score = _number((properties or {}).get("security-severity"))
        if score is not None:
            return severity.of_score(score)
    default = (rule.default_configuration if rule else None) or Configuration()
    level = result.level or default.level
    rank = result.rank if result.rank >= 0 else default.rank
    if level is None and rank >= 0:
        return severity.of_score(rank / 10)
    return severity.LEVELS.get(level or "warning", "medium")


def _number(value: object) -> float | None:
    try:
        number = float(value) if isinstance(value, str | int | float) else -1.0
    except (ValueError, OverflowError):
        return None
    return number if 0 <= number <= 10 else None


def _known_by(result: Result, rule: str, places: tuple[Place, ...]) -> tuple[str, ...]:
    """The fingerprints of the tool, if it made some: full ones say all by themselves, partial ones
    together with rule and path."""
    if full := _hashes(result.fingerprints):
        return (rule, min(full))  # the oldest of several versions: newer ones come and go
    partial = _hashes(result.partial_fingerprints)
    if not partial:
        return ()
    hashed = [one for one in partial if one.startswith(_LINE_HASH)] or sorted(partial)
    return (rule, places[0].path if places else "", *hashed)


def _hashes(fingerprints: dict[str, str] | None) -> list[str]:
    """Without what only stands in for a fingerprint, such as semgrep's "requires login"."""
    pairs = (fingerprints or {}).items()
    return [f"{name}={value}" for name, value in pairs if value and not re.search(r"\s", value)]


def _snippet(locations: list[Location]) -> str:
    for location in locations[:1]:
        region = location.physical_location and location.physical_location.region
        if region and region.snippet:
            return region.snippet.text or ""
    return ""


def _symbol(locations: list[Location]) -> str:
    names = (name for location in locations for name in location.logical_locations or ())
    return next((one.fully_qualified_name or one.name or "" for one in names), "")


def _tags(rule: Rule | None) -> tuple[str, ...]:
    tags = (rule.properties or {}).get("tags") if rule else None
    return tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()


def _advice(result: Result, rule: Rule | None, message: str) -> Iterator[str]:
    """What the tool says about mending it, without repeating the message."""
    for fix in result.fixes or ():
        if fix.description and fix.description.text:
            yield f"Suggested: {fix.description.text}"
    if rule is None:
        return
    yield rule.help_uri or ""
    about = rule.full_description or rule.short_description
    if about and about.text and about.text.strip() != message.strip():
        yield _opening(about.text)


def _opening(text: str) -> str:
    """The first paragraphs of a description: some tools put their whole manual there."""
    opening = ""
    for paragraph in text.split("\n\n"):
        if opening and len(opening) + len(paragraph) > _DESCRIPTION:
            break
        opening = f"{opening}\n\n{paragraph}".strip()
    return opening
