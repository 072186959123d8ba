"""Listing commits that are new somewhere, by one `git rev-list`, however many there are.

Whoever judges a push has to look at ten thousand ordinary commits and find the few that matter;
git does that as fast as it lists them, and sees what still lies in the quarantine of a push. So
little is done for each commit before somebody asks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gitbaton.git import process
from gitbaton.git.repo import Repository

_STORE = (
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_QUARANTINE_PATH",
)
"""Where a caller keeps the objects that are not in the repository yet."""


class Listed(NamedTuple):
    """A commit as git listed it: its id, and its headers and message as they were told."""

    oid: str
    headers: bytes
    body: bytes

    @property
    def parents(self) -> tuple[str, ...]:
        return tuple(part[:40].decode() for part in self.headers.split(b"\nparent ")[1:])

    @property
    def by_ssh(self) -> bool:
        """Whether it carries an ssh signature, good or bad."""
        return b"\ngpgsig -----BEGIN SSH SIGNATURE-----" in self.headers

    @property
    def message(self) -> str:
        lines = self.body.decode(errors="replace").split("\n")
        return "\n".join(line.removeprefix("    ") for line in lines)

    @property
    def subject(self) -> str:
        """As `subject` of the message."""
        return subject(self.body)

    def says(self, words: bytes) -> bool:
        """Whether the message has ``words``, all in one line."""
        return words in self.body


def subject(message: bytes) -> str:
    """What the first line of a message is in every encoding: a cheap test of whether two may be
    the same."""
    return message.lstrip().partition(b"\n")[0].decode("ascii", "ignore").strip()


def commits(
    repo: Repository,
    tips: Iterable[str],
    known: Iterable[str],
    *,
    known_refs: Sequence[str] = (),
    saying: str | None = None,
) -> list[Listed]:
    """Commits reachable from ``tips`` and not from ``known``, newest first.

    ``known_refs`` are further options of rev-list that name what is known (``--remotes=origin``).
    With ``saying``, only commits of which a line of the message matches that regular expression.
    What is not a commit, and not a tag of one, counts for nothing. Raises `RepositoryError`.
    """
    args = ["--extended-regexp", f"--grep={saying}"] if saying is not None else []
    if known_refs:
        args += ["--not", *known_refs]
    return _listed(repo, args, [*tips, *(f"^{oid}" for oid in known)])


def these(repo: Repository, oids: Iterable[str]) -> dict[str, Listed]:
    """Just these commits, by id."""
    found = {oid: _lately.get(oid) for oid in oids}
    missing = [oid for oid, commit in found.items() if commit is None]
    found.update((c.oid, c) for c in _listed(repo, ["--no-walk=unsorted"], missing))
    return {oid: commit for oid, commit in found.items() if commit is not None}


_lately: dict[str, Listed] = {}
"""What was listed of late: somebody will ask for some of that again."""
_MOST = 20_000


def touching(repo: Repository, oids: Iterable[str], folder: str) -> frozenset[str]:
    """Those of ``oids`` that change something below ``folder``; merges are not looked at."""
    args = ["diff-tree", "--stdin", "-r", "--no-renames", "--name-only", "--", f"{folder}/"]
    told = _git(repo, args, oids).decode(errors="replace").split("\n")
    return frozenset(line for line in told if len(line) == 40 and "/" not in line)


def _listed(repo: Repository, args: Sequence[str], lines: Sequence[str]) -> list[Listed]:
    if not lines:
        return []
    found = []
    for record in _git(repo, ["rev-list", "--header", "--stdin", *args], lines).split(b"\0"):
        headers, _, message = record.partition(b"\n\n")
        oid, _, headers = headers.partition(b"\n")
        if oid:
            found.append(Listed(oid.decode(), b"\n" + headers, message))
    if len(_lately) > _MOST:
        _lately.clear()
    _lately.update((commit.oid, commit) for commit in found)
    return found


def _git(repo: Repository, args: Sequence[str], lines: Iterable[str]) -> bytes:
    return process.git(
        [f"--git-dir={repo.common_dir}", *args],
        repo.worktree or repo.common_dir,
        env={
            "GIT_LITERAL_PATHSPECS": "1",
            **{name: os.environ[name] for name in _STORE if name in os.environ},
        },
        stdin="".join(f"{line}\n" for line in lines).encode(),
    ).out
