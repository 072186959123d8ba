"""The verbs of findings in shards. None of them needs a repository, only a folder.

Each file is written in one step, so that who reads while another writes sees the old or the new;
and whatever is written anew from the same input has the same bytes.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from gitbaton.clock import stamp
from gitbaton.errors import BatonError, NotFound, Refused, UsageError
from gitbaton.findings import aggregate as folding
from gitbaton.findings import documents, importers
from gitbaton.findings import shards as planning
from gitbaton.findings.outcome import Duplicate, Flag, Folder, Report
from gitbaton.model.findings import (
    INDEX,
    SCHEMA,
    Failed,
    Finding,
    Index,
    Shard,
    Status,
    shard_file,
    status_file,
)
from gitbaton.rules.globs import glob_match

REPORT, REPORT_JSON, RESIDUE = "report.md", "report.json", "residue.json"

_STATUS = re.compile(r"shard-([1-9][0-9]{0,8})\.status\.json")
_SKILL = "SKILL.md"


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What was dealt out: ``findings`` into ``shards``, by ``scopes``; ``residue`` has no path."""

    out: str
    schema_version: int
    shards: int
    findings: int
    scopes: int
    largest: int
    smallest: int
    residue: int


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A status as written; ``remaining`` are the findings that it does not speak of."""

    shard: int
    file: str
    fixed: int
    failed: int
    remaining: int


class Aggregated(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a report. ``shards`` is how many there are; ``residue`` names the file with
    what is to be sharded again, and ``new`` is how much of it the rescan alone found."""

    shards: int
    fixed: int
    failed: int
    remaining: int
    missing: tuple[int, ...]
    duplicates: tuple[Duplicate, ...]
    flagged: tuple[Flag, ...]
    new: int
    report: str
    report_json: str
    residue: str


# --- shard -------------------------------------------------------------------------------------


def shard(
    files: Sequence[str],
    out: Path,
    *,
    size: int = planning.SIZE,
    count: int | None = None,
    scopes: Sequence[str] = (),
    format: str | None = None,
) -> Written:
    """Read findings from ``files`` (``-`` is standard input) and deal them out into ``out``.

    Raises as importers do, and `Refused` ``shards-exist`` if other shards are there.
    """
    findings = read_findings(files, format)
    made = planning.shard(
        findings,
        _owned(findings, scopes),
        source=[Path(file).name for file in files],
        size=size,
        count=count,
    )
    texts = {shard_file(each.shard): documents.encode(each) for each in made.shards}
    texts[INDEX] = documents.encode(made.listed)  # the last: with it the shards are there
    try:
        out.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, FileNotFoundError) as error:  # a file, a link to nowhere, /proc/x
        raise UsageError(
            "no-folder", f"{out} is no folder", "name another one with --out"
        ) from error
    if (out / INDEX).exists() and any(_differs(out / name, data) for name, data in texts.items()):
        raise Refused(
            "shards-exist",
            f"{out} holds other shards already",
            "name another folder with --out, or remove that one",
        )
    for name, data in texts.items():
        _write(out / name, data)
    sizes = [len(each.findings) for each in made.shards]
    return Written(
        out=str(out),
        schema_version=SCHEMA,
        shards=len(sizes),
        findings=len(findings),
        scopes=sum(len(each.scopes) for each in made.shards),
        largest=max(sizes, default=0),
        smallest=min(sizes, default=0),
        residue=len(made.listed.residue),
    )


def read_findings(files: Sequence[str], format: str | None = None) -> list[Finding]:
    """What ``files`` report together. An empty JSON list reports nothing, whatever its format."""
    given = [(path, data) for path, data in read_files(files) if data.strip() != b"[]"]
    found = importers.findings(given, format=format, root=_top())
    return planning.named([finding for part in found.values() for finding in part])


def read_files(files: Iterable[str]) -> Iterator[tuple[Path | None, bytes]]:
    """The bytes of each file that a person named, once; ``-`` is standard input. Raises
    `UsageError` ``no-such-file``."""
    for name in dict.fromkeys(files):
        try:
            data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        except FileNotFoundError as error:
            raise UsageError("no-such-file", f"there is no file {name}", "") from error
        yield (None if name == "-" else Path(name)), data


def _top() -> Path:
    """What paths are relative to: the working tree that we are in, else this folder."""
    here = Path.cwd()
    return next((place for place in (here, *here.parents) if (place / ".git").exists()), here)


def _owned(findings: Sequence[Finding], patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether a folder is refactored as a whole: it is a skill, or a pattern means it."""
    meant = [pattern.rstrip("/") for pattern in patterns]
    reported = {finding.path for finding in findings}
    top = _top()

    def owned(folder: str) -> bool:
        skill = f"{folder}/{_SKILL}"
        return glob_match(folder, meant) or skill in reported or os.path.isfile(top / skill)

    return owned


# --- status ------------------------------------------------------------------------------------


def tell(
    folder: Path, number: int, *, fixed: Sequence[str], failed: Sequence[str], notes: str = ""
) -> Told:
    """Write what became of the findings of a shard; ``failed`` are ``ID=why``. What was told
    before is replaced.

    Raises `UsageError` ``foreign-finding`` or ``fixed-and-failed``.
    """
    shard = _read_shard(folder, number)
    own = {finding.id for finding in shard.findings}
    reasons = dict(_reason(word, own) for word in failed)
    for name in (*fixed, *reasons):
        if name not in own:
            raise UsageError(
                "foreign-finding",
                f"{name} is no finding of shard {number}",
                f"{folder / shard_file(number)} lists them",
            )
    if both := [name for name in fixed if name in reasons]:
        raise UsageError("fixed-and-failed", f"{both[0]} is named as fixed and as failed", "")
    path = folder / status_file(number)
    status = Status(
        schema_version=SCHEMA,
        shard=number,
        fixed=tuple(dict.fromkeys(fixed)),
        failed=tuple(Failed(id=name, reason=reason) for name, reason in reasons.items()),
        notes=notes,
        written=stamp(datetime.now(UTC)),
    )
    if (before := _read_status(path, number)) is not None:
        same = replace(status, written=before.written)
        status = before if same == before else status
    _write(path, documents.encode(status))
    done = len(status.fixed) + len(status.failed)
    return Told(
        shard=number,
        file=str(path),
        fixed=len(status.fixed),
        failed=len(status.failed),
        remaining=len(own) - done,
    )


def _reason(word: str, own: set[str]) -> tuple[str, str]:
    """``ID=why``; an id may hold a "=" itself."""
    parts = word.split("=")
    for at in range(1, len(parts)):
        if (name := "=".join(parts[:at])) in own:
            return name, "=".join(parts[at:]).strip()
    return parts[0] if word not in own else word, "=".join(parts[1:]).strip()


def _read_status(path: Path, number: int) -> Status | None:
    """A status that can be read; None for any other, which is to be replaced."""
    try:
        return documents.read_status(path.read_bytes(), number)
    except (FileNotFoundError, BatonError):
        return None


# --- aggregate ---------------------------------------------------------------------------------


def read_folder(folder: Path) -> Folder:
    """All of a folder of shards. A status that is damaged is told of; everything else that is
    raises `BatonError` ``bad-shards``, another schema version ``other-schema``."""
    index = read_index(folder)
    shards = tuple(_read_shard(folder, entry.shard) for entry in index.shards)
    statuses: dict[int, Status] = {}
    unreadable: dict[int, str] = {}
    for path in sorted(folder.iterdir()):
        if (named := _STATUS.fullmatch(path.name)) is None:
            continue
        number = int(named[1])
        try:
            statuses[number] = documents.read_status(path.read_bytes(), number)
        except BatonError as error:
            if error.code != "bad-shards":
                raise
            unreadable[number] = error.message
    return Folder(index=index, shards=shards, statuses=statuses, unreadable=unreadable)


def read_index(folder: Path) -> Index:
    """Raises `NotFound` ``no-shards``, or as `read_folder` does."""
    return documents.read_index(index_bytes(folder))


def index_bytes(folder: Path) -> bytes:
    """The bytes of the index; raises `NotFound` ``no-shards``."""
    try:
        return (folder / INDEX).read_bytes()
    except FileNotFoundError as error:
        raise NotFound(
            "no-shards",
            f"{folder} holds no {INDEX}",
            "make it: git baton findings shard FINDINGS --out DIR",
        ) from error


def _read_shard(folder: Path, number: int) -> Shard:
    try:
        return documents.read_shard((folder / shard_file(number)).read_bytes(), number)
    except FileNotFoundError as error:
        index_bytes(folder)
        raise NotFound(
            "no-such-shard", f"{folder} holds no {shard_file(number)}", f"see {folder / INDEX}"
        ) from error


def aggregate(folder: Path, rescans: Sequence[str] = (), format: str | None = None) -> Report:
    """What became of all findings; ``rescans`` are files of a scan made after the fixes, which must
    cover all that was sharded: what it does not find is gone."""
    read = read_folder(folder)
    return folding.aggregate(read, read_findings(rescans, format) if rescans else None)


def keep(folder: Path, report: Report, markdown: str) -> Aggregated:
    """Write a report into its folder: as Markdown, as JSON, and what is to be sharded again."""
    _write(folder / REPORT, markdown.encode() + b"\n")
    _write(folder / REPORT_JSON, documents.encode(report))
    _write(folder / RESIDUE, documents.encode(report.residue()))
    return Aggregated(
        shards=len(report.shards),
        fixed=report.fixed,
        failed=report.failed,
        remaining=report.remaining,
        missing=report.missing,
        duplicates=report.duplicates,
        flagged=report.flagged,
        new=len(report.rescan.new) if report.rescan else 0,
        report=str(folder / REPORT),
        report_json=str(folder / REPORT_JSON),
        residue=str(folder / RESIDUE),
    )


# --- on disk -----------------------------------------------------------------------------------


def _differs(path: Path, data: bytes) -> bool:
    return not path.exists() or path.read_bytes() != data


def _write(path: Path, data: bytes) -> None:
    """Replace a file in one step, if it is not like that already. It is not synced: all of it can
    be made again."""
    if not _differs(path, data):
        return
    begun = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        begun.write_bytes(data)
        begun.replace(path)
    except BaseException:
        begun.unlink(missing_ok=True)
        raise
