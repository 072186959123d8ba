"""Rewriting the history of a run as somebody would who can push anything and reads the code.

The state chain is made anew from some commit on, with a change in it and in whatever follows, so
that it agrees with itself; nothing is left of the old one but what others remember.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from gitbaton.git import ancestry, objects, odb
from gitbaton.git.repo import Repository

Alter = Callable[[bytes], bytes]
ZERO, ONE = "0" * 40, "1" * 40


class Field(NamedTuple):
    """One value in a JSON document, by the keys that lead to it."""

    keys: tuple[str | int, ...]
    value: Any

    @property
    def name(self) -> str:
        text = ""
        for key in self.keys:
            text += f"[{key}]" if isinstance(key, int) else f".{key}"
        return text.removeprefix(".")


def fields(document: Any, keys: tuple[str | int, ...] = ()) -> Iterator[Field]:
    """Every value in a document that holds no other."""
    items: Sequence[tuple[str | int, Any]] = ()
    if isinstance(document, dict):
        items = list(document.items())
    elif isinstance(document, list):
        items = list(enumerate(document))
    if not items:
        yield Field(keys, document)
    for key, below in items:
        yield from fields(below, (*keys, key))


def other(value: Any) -> Any:
    """A value of the same type that is not ``value``."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if value is None:
        return "x"
    if isinstance(value, str):
        if len(value) == 40 and set(value) <= set("0123456789abcdef"):
            return ONE if value != ONE else ZERO
        return f"{value}x"
    return ["x"] if isinstance(value, list) else {"x": "x"}


def with_field(data: bytes, field: Field) -> bytes:
    """``data`` with the field changed, if it has it with that value."""
    document = json.loads(data)
    at = document
    for key in field.keys[:-1]:
        try:
            at = at[key]
        except (KeyError, IndexError, TypeError):
            return data
    last = field.keys[-1] if field.keys else None
    try:
        if last is None or at[last] != field.value:
            return data
    except (KeyError, IndexError, TypeError):
        return data
    at[last] = other(field.value)
    return json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"


class Raw(NamedTuple):
    """A commit as its headers and its message."""

    headers: list[tuple[str, str]]
    message: str

    @classmethod
    def read(cls, repo: Repository, oid: str) -> Raw:
        _, data = odb.read_any(repo, oid)
        head, _, message = data.decode().partition("\n\n")
        pairs = [line.partition(" ") for line in head.splitlines()]
        return cls([(name, value) for name, _, value in pairs], message)

    def with_header(self, name: str, values: Sequence[str]) -> Raw:
        """All headers of that name replaced, where the first of them stood."""
        at = next((i for i, (n, _) in enumerate(self.headers) if n == name), 1)
        rest = [h for h in self.headers if h[0] != name]
        return Raw([*rest[:at], *((name, v) for v in values), *rest[at:]], self.message)

    @property
    def parents(self) -> list[str]:
        return [value for name, value in self.headers if name == "parent"]

    def write(self, repo: Repository) -> str:
        head = "\n".join(f"{name} {value}" for name, value in self.headers)
        return str(repo.handle.write(1, f"{head}\n\n{self.message}".encode()))


class History:
    """The state chain of a run, oldest first, and how to make it anew."""

    def __init__(self, repo: Repository, tip: str) -> None:
        self.repo = repo
        self.oids = [info.oid for info in ancestry.first_parent_chain(repo, tip, None)][::-1]

    def files(self, at: int) -> dict[str, str]:
        """Path -> blob of what the commit at place ``at`` changed."""
        old = self.oids[at - 1] if at else None
        found = objects.changes(self.repo, old, self.oids[at])
        return {c.path: c.new[0] for c in found if c.new is not None}

    def with_file(self, at: int, path: str, alter: Alter, *, keep_old: bool = False) -> list[str]:
        """The chain with a file altered from place ``at`` on, as long as it alters."""

        def edit(number: int, raw: Raw) -> Raw:
            tree = dict(raw.headers)["tree"]
            data = objects.blob_at(self.repo, tree, path)
            if data is None:
                return raw
            altered = objects.edit_tree(self.repo, tree, {path: alter(data)})
            return raw.with_header("tree", [altered])

        return self.with_commits(at, edit, keep_old=keep_old)

    def with_commits(
        self, at: int, edit: Callable[[int, Raw], Raw], *, keep_old: bool = False
    ) -> list[str]:
        """The chain with ``edit`` applied to every commit from place ``at`` on; with ``keep_old``
        the newest names the old tip as a further parent, so that git takes it for a descendant."""
        made = self.oids[:at]
        for number in range(at, len(self.oids)):
            raw = edit(number, Raw.read(self.repo, self.oids[number]))
            parents = raw.parents
            if made:
                parents = [made[-1], *parents[1:]]
            if keep_old and number == len(self.oids) - 1:
                parents.append(self.oids[-1])
            made.append(raw.with_header("parent", parents).write(self.repo))
        return made
