"""What a commit says, from the bytes that it is.

Nearly every commit is one that git writes today, and is read here at once; libgit2, which looks it
up a second time, reads what is out of the ordinary: other encodings, signatures, damage.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

import pygit2
from pygit2.enums import ObjectType

from gitbaton.errors import RepositoryError
from gitbaton.git import odb
from gitbaton.git.repo import Repository

_NAME = rb"[\w\x80-\xff](?:[^\n<>\0]*[\w\x80-\xff])?"
"""One of which libgit2 would leave out nothing at either end."""
_ORDINARY = re.compile(
    rb"tree ([0-9a-f]{40})\n"
    rb"((?:parent [0-9a-f]{40}\n)*)"
    rb"author (%(name)b) <(%(name)b)> \d{1,10} [+-]\d{4}\n"
    rb"committer %(name)b <%(name)b> (\d{1,10}) ([+-])(0\d|1[0-4])([0-5]\d)\n"
    rb"\n+([^\0]*)" % {b"name": _NAME}
)


class CommitInfo(NamedTuple):
    """What a commit says; ``author`` is (name, email)."""

    oid: str
    tree: str
    parents: tuple[str, ...]
    message: str
    author: tuple[str, str]
    committer_time: datetime


def read_commit(repo: Repository, oid: str) -> CommitInfo:
    """What the commit ``oid`` says."""
    found = _ORDINARY.fullmatch(odb.read(repo, oid, ObjectType.COMMIT))
    if found is None:
        return _info(_commit(repo, oid))
    tree, parents, name, email, seconds, sign, hours, minutes, message = found.groups()
    offset = int(hours) * 60 + int(minutes)
    return CommitInfo(
        oid=oid,
        tree=tree.decode(),
        parents=tuple(parents.decode().split()[1::2]),
        message=_decoded(message, "utf-8"),
        author=(_decoded(name, "utf-8"), _decoded(email, "utf-8")),
        committer_time=_time(int(seconds), -offset if sign == b"-" else offset),
    )


def _commit(repo: Repository, oid: str) -> pygit2.Commit:
    try:
        return repo.handle[oid].peel(pygit2.Commit)
    except pygit2.GitError as error:  # a commit that no git would have written
        raise RepositoryError("corrupt-repository", f"commit {error}", "git fsck") from error


def _info(commit: pygit2.Commit) -> CommitInfo:
    author = commit.author
    encoding = commit.message_encoding or "utf-8"
    return CommitInfo(
        oid=str(commit.id),
        tree=str(commit.tree_id),
        parents=tuple(str(parent) for parent in commit.parent_ids),
        message=_decoded(commit.raw_message, encoding),
        author=(_decoded(author.raw_name, encoding), _decoded(author.raw_email, encoding)),
        committer_time=_time(commit.commit_time, commit.commit_time_offset),
    )


def _time(seconds: int, minutes: int) -> datetime:
    """What a commit says of its time, which may be anything: the nearest that can be told."""
    try:
        zone = timezone(timedelta(minutes=minutes))
        return datetime.fromtimestamp(seconds, UTC).astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return (datetime.max if seconds > 0 else datetime.min).replace(tzinfo=UTC)


def _decoded(raw: bytes, encoding: str) -> str:
    try:
        return raw.decode(encoding, errors="surrogateescape")
    except LookupError:
        return raw.decode(errors="surrogateescape")
