"""Time as a value, so that no rule ever looks at a clock.

Leases are judged by the monotonic clock of one machine and one boot; wall time is for display
only. A `Moment` carries both, with the identity of the machine that read them. Tests pass a clock
of their own.
"""

from __future__ import annotations

import hashlib
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol


class Moment(NamedTuple):
    """One reading: UTC wall time, monotonic seconds, and whose clock it was."""

    wall: datetime
    monotonic: float
    machine: str
    boot: str

    @property
    def stamp(self) -> str:
        """RFC 3339 in UTC with seconds, as stored and as printed in JSON."""
        return stamp(self.wall)


class Clock(Protocol):
    """Whatever can tell the moment."""

    def now(self) -> Moment: ...


class SystemClock:
    """The clocks of this machine.

    ``time.monotonic`` is CLOCK_MONOTONIC on Linux: it stands still during suspend, so a lease
    does not run out while a laptop sleeps.
    """

    def __init__(self) -> None:
        self._machine = _machine_id()
        self._boot = _boot_id()

    def now(self) -> Moment:
        return Moment(datetime.now(UTC), time.monotonic(), self._machine, self._boot)


def stamp(moment: datetime) -> str:
    """RFC 3339 in UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_stamp(text: str) -> datetime:
    """The inverse of `stamp`."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def _machine_id() -> str:
    """Sixteen hex digits that differ between machines, also between clones of one image."""
    try:
        identity = Path("/etc/machine-id").read_text().strip()
    except OSError:
        import uuid

        identity = f"{uuid.getnode():x}"
    return hashlib.sha256(f"{identity} {os.uname().nodename}".encode()).hexdigest()[:16]


def _boot_id() -> str:
    """Differs after every boot; on systems without a boot id, the boot time in minutes."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"boot-{int((time.time() - time.monotonic()) / 60)}"
