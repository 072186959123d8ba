"""A receipt is bytes: made once, stored, hashed, signed and compared as they are.

They are an in-toto Statement v1 in JSON with sorted keys and no floats, so that any in-toto tool
reads them; but nothing here ever re-encodes a receipt to verify it.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from functools import cache
from typing import Any

import msgspec

import gitbaton
from gitbaton.errors import BatonError
from gitbaton.git.process import git_version
from gitbaton.model import codec
from gitbaton.model.receipt import (
    PREDICATE_TYPE,
    STATEMENT_TYPE,
    Environment,
    Predicate,
    Statement,
    Subject,
)

_OID = re.compile(r"[0-9a-f]{40}")


def build(*, commit: str, tree: str, predicate: Predicate) -> bytes:
    """The exact bytes of a receipt whose subject is ``commit`` with its ``tree`` (object ids)."""
    subject = (
        Subject(name="commit", digest={"gitCommit": commit}),
        Subject(name="tree", digest={"gitTree": tree}),
    )
    return codec.encode(Statement(subject=subject, predicate=predicate))


def parse(data: bytes) -> Statement:
    """Read a receipt; raises `BatonError` ``receipt-unreadable``, which says what is wrong."""
    try:
        statement = codec.decode(data, Statement)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(str(error)) from error
    if statement.type_ != STATEMENT_TYPE:
        raise _unreadable(f"_type is {statement.type_!r}")
    if statement.predicateType != PREDICATE_TYPE:
        raise _unreadable(f"predicateType is {statement.predicateType!r}")
    named = [(subject.name, tuple(subject.digest)) for subject in statement.subject]
    if sorted(named) != [("commit", ("gitCommit",)), ("tree", ("gitTree",))]:
        raise _unreadable("subject is not one commit and one tree")
    if not (_OID.fullmatch(statement.commit) and _OID.fullmatch(statement.tree)):
        raise _unreadable("subject holds no object id")
    return statement


def digest(data: bytes) -> str:
    """The SHA-256 that a state, a trailer and a signature name a receipt by."""
    return hashlib.sha256(data).hexdigest()


def first_difference(a: bytes, b: bytes) -> str | None:
    """Where two copies of a receipt differ, as a JSON path: ``predicate.checks[0].exit_code``.

    None when they are equal; ``(not JSON)`` and ``(formatting)`` where there is no such path.
    """
    if a == b:
        return None
    try:
        left, right = json.loads(a), json.loads(b)
    except (ValueError, RecursionError):
        return "(not JSON)"
    return _difference(left, right, "") or "(formatting)"


@cache
def environment() -> Environment:
    """The programs that a receipt of this process is made with."""
    return Environment(
        git=".".join(map(str, git_version())),
        git_baton=gitbaton.__version__,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
    )


def _difference(a: Any, b: Any, path: str) -> str | None:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(a.keys() | b.keys()):
            below = f"{path}.{key}" if path else str(key)
            if (key in a) != (key in b):
                return below
            if found := _difference(a[key], b[key], below):
                return found
        return None
    if isinstance(a, list) and isinstance(b, list):
        for index, (left, right) in enumerate(zip(a, b, strict=False)):
            if found := _difference(left, right, f"{path}[{index}]"):
                return found
        return None if len(a) == len(b) else f"{path}[{min(len(a), len(b))}]"
    # 1 == True in Python, not in JSON.
    return None if type(a) is type(b) and a == b else path or "(whole)"


def _unreadable(why: str) -> BatonError:
    return BatonError(
        "receipt-unreadable",
        f"the receipt cannot be read: {why}",
        "it is damaged or not a receipt; `git baton audit` shows what is affected",
    )
