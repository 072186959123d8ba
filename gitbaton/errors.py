"""Every way in which git-baton refuses, as one hierarchy.

A refusal is data: a stable code, one line that says what is wrong, one that says what to do, and
the exit status. The command line prints these fields and nothing else, so no caller ever has to
parse a message. Raise the class whose exit status fits; name the code at the place of the cause.
"""

from __future__ import annotations

from typing import ClassVar


class BatonError(Exception):
    """A refusal that a user can act on.

    ``code`` is stable and lower-case-with-hyphens; ``message`` is one clear line; ``hint`` is what
    to do next (may be empty); ``payload`` holds further keys for the JSON document.
    """

    exit_status: ClassVar[int] = 1

    def __init__(
        self, code: str, message: str, hint: str = "", payload: dict[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message.rstrip()
        self.hint = hint
        self.payload = payload or {}


class Refused(BatonError):
    """The request cannot be granted in the present state; nothing was changed."""


class NotFound(BatonError):
    """What was named does not exist; the hint names the nearest that do."""


class RepositoryError(BatonError):
    """The repository cannot be used: absent, unsupported, read-only, full, or damaged."""


class Conflict(BatonError):
    """A ref moved under the caller; the operation may simply be tried again."""


class Busy(BatonError):
    """A lock is held by another process for longer than a caller should wait."""


class PlanError(BatonError):
    """The plan cannot be read; the message names the line."""


class UsageError(BatonError):
    """The command line itself is wrong."""

    exit_status = 2


class Interrupted(BatonError):
    """Stopped by a signal; everything can be resumed."""

    exit_status = 130


class NeedsPerson(BatonError):
    """The run cannot go on by itself."""

    exit_status = 3
