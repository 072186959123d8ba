"""Settings: every ``git config baton.*`` key with its type, default and meaning, as one table.

The table is the only place that knows a setting; parsing, `git baton config`, and the reference
page are made from it. Values come from git, so scopes, includes and ``-c`` work as everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from gitbaton.errors import UsageError

Kind = Literal["text", "texts", "count", "seconds", "flag", "choice"]


class Setting(NamedTuple):
    """One key below ``baton.``; ``choices`` for the kind ``choice``, ``least`` for numbers."""

    key: str
    kind: Kind
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()
    least: int = 0

    @property
    def field(self) -> str:
        """The attribute of `Settings`."""
        return re.sub(r"(?<=[a-z])([A-Z])", lambda m: "_" + m[1].lower(), self.key)


SETTINGS: tuple[Setting, ...] = (
    Setting("verify", "texts", (), "check command; repeat the key for several"),
    Setting("setup", "texts", (), "command that prepares a new worktree, e.g. installs packages"),
    Setting("copy", "texts", (), "untracked file or folder copied into a new worktree, e.g. .env"),
    Setting("base", "text", "", "branch a run starts from (default: detected)"),
    Setting("capacity", "count", 5, "tickets one session may hold at once", least=1),
    Setting("maxActive", "count", 64, "tickets a run may have in flight in all", least=1),
    Setting("maxAttempts", "count", 3, "attempts a ticket may use before it fails", least=1),
    Setting("leaseSeconds", "seconds", 7200, "how long a claim lasts without a heartbeat", least=1),
    Setting("checkTimeout", "seconds", 1800, "after which a check is killed and red", least=1),
    Setting("setupTimeout", "seconds", 0, "after which setup is killed (0: never)"),
    Setting(
        "verifyMerged",
        "choice",
        "diverged",
        "when checks run on the merged tree",
        choices=("diverged", "always", "never"),
    ),
    Setting(
        "sealIn",
        "choice",
        "verification-worktree",
        "where the checks of a seal run",
        choices=("verification-worktree", "worktree"),
    ),
    Setting("protectPaths", "texts", (), "pattern of paths that workers may not change"),
    Setting("require", "texts", (), "command that every receipt of a landed tree must have run"),
    Setting("protect", "texts", (), "pattern of refs whose new commits must be covered"),
    Setting("requireSignature", "flag", False, "refuse receipts without a trusted signature"),
    Setting("signingKey", "text", "", "ssh key for receipts (default: user.signingKey if ssh)"),
    Setting("allowedSigners", "text", "", "file of trusted signers (default: git's own setting)"),
    Setting("worktreeDir", "text", "", "folder for worktrees (default: sibling <repo>.baton)"),
    Setting("branchPrefix", "text", "baton", "first part of the branches git-baton makes"),
    Setting("remote", "text", "", "remote that land --push-branch pushes to (default: detected)"),
    Setting("remoteTimeout", "seconds", 30, "after which a remote that hangs is given up", least=1),
    Setting("notify", "text", "", "command started when a run is complete, blocked or paused"),
    Setting("fsync", "flag", True, "sync to disk before success is printed"),
)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The values in force. Seconds are whole seconds; ``agents`` maps names to commands."""

    verify: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    copy: tuple[str, ...] = ()
    base: str = ""
    capacity: int = 5
    max_active: int = 64
    max_attempts: int = 3
    lease_seconds: int = 7200
    check_timeout: int = 1800
    setup_timeout: int = 0
    verify_merged: Literal["diverged", "always", "never"] = "diverged"
    seal_in: Literal["verification-worktree", "worktree"] = "verification-worktree"
    protect_paths: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()
    require_signature: bool = False
    signing_key: str = ""
    allowed_signers: str = ""
    worktree_dir: str = ""
    branch_prefix: str = "baton"
    remote: str = ""
    remote_timeout: int = 30
    notify: str = ""
    fsync: bool = True
    agents: dict[str, str] = {}


def settings(raw: Mapping[str, Sequence[str]]) -> Settings:
    """Parse the values of `git config` (keys as git prints them: ``baton.maxactive``).

    Raises `UsageError` that names the key of a value that cannot be read; unknown keys are left to
    `unknown_keys`.
    """
    found, errors = read(raw)
    for error in errors.values():
        raise error
    return found


def read(raw: Mapping[str, Sequence[str]]) -> tuple[Settings, dict[str, UsageError]]:
    """As `settings`, with the default for what cannot be read, and what is wrong with it by key
    (as in `SETTINGS`)."""
    values: dict[str, Any] = {"agents": {}}
    errors: dict[str, UsageError] = {}
    for setting in SETTINGS:
        given = raw.get(f"baton.{setting.key.lower()}")
        if given:
            try:
                values[setting.field] = _parse(setting, given)
            except UsageError as error:
                errors[setting.key] = error
    for key, given in raw.items():
        name = _agent_name(key)
        if name:
            values["agents"][name] = given[-1]
    return Settings(**values), errors


def unknown_keys(raw: Mapping[str, Sequence[str]]) -> list[str]:
    """Keys below ``baton.`` that mean nothing: typing errors, or those of another version."""
    known = {f"baton.{setting.key.lower()}" for setting in SETTINGS}
    return [
        key for key in raw if key.startswith("baton.") and key not in known and not _agent_name(key)
    ]


def of_unknown(key: str) -> str:
    """One line about a key that `unknown_keys` found."""
    return f"{key} means nothing to this version of git-baton and has no effect"


def duration(text: str) -> int:
    """Seconds of ``90``, ``90s``, ``15m``, ``4h`` or ``1d``; raises `UsageError`."""
    match = re.fullmatch(r"(\d+)\s*([smhd]?)", text.strip())
    if not match:
        raise UsageError("bad-duration", f"{text!r} is no duration", "write 90s, 15m, 4h or 1d")
    return int(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]


def _agent_name(key: str) -> str:
    match = re.fullmatch(r"baton\.agent\.(.+)\.command", key)
    return match[1] if match else ""


def _parse(setting: Setting, given: Sequence[str]) -> Any:
    value = given[-1]
    match setting.kind:
        case "texts":
            # As in git's own multi-valued keys, an empty value clears what came before it.
            kept = list(given)
            while "" in kept:
                kept = kept[kept.index("") + 1 :]
            return tuple(kept)
        case "text":
            return value
        case "flag":
            return _flag(setting, value)
        case "choice":
            if value not in setting.choices:
                raise _bad(setting, value, f"one of {', '.join(setting.choices)}")
            return value
        case "seconds":
            try:
                number = duration(value)
            except UsageError:
                raise _bad(setting, value, "a time such as 90s, 15m, 4h or 1d") from None
        case _:
            if not value.isascii() or not value.isdigit():
                raise _bad(setting, value, "a whole number")
            number = int(value)
    if number < setting.least:
        raise _bad(setting, value, f"at least {setting.least}")
    return number


def _flag(setting: Setting, value: str) -> bool:
    if value.lower() in ("true", "yes", "on", "1"):
        return True
    if value.lower() in ("false", "no", "off", "0", ""):
        return False
    raise _bad(setting, value, "true or false")


def _bad(setting: Setting, value: str, wanted: str) -> UsageError:
    return UsageError(
        "bad-setting",
        f"baton.{setting.key} is {value!r}, but must be {wanted}",
        f"git config baton.{setting.key} ...",
    )
