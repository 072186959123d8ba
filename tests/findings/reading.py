"""What the tests of importers share."""

from __future__ import annotations

import json
from pathlib import Path

from gitbaton.findings.importers import read
from gitbaton.model.queue import Reported, Scan

DATA = Path(__file__).parent / "data"
ROOT = Path("/home/dev/project")
RECORDED = sorted(DATA.iterdir())


def recorded(name: str) -> Scan:
    (scan,) = read(Path(name), (DATA / name).read_bytes(), root=ROOT)
    return scan


def scans(data: object, name: str = "list.json", **how: str) -> list[Scan]:
    """What ``data`` reports; anything but text and bytes is written as JSON."""
    if isinstance(data, str):
        data = data.encode()
    elif not isinstance(data, bytes):
        data = json.dumps(data).encode()
    return read(Path(name), data, root=ROOT, **how)  # type: ignore[arg-type]


def reported(data: object, name: str = "list.json", **how: str) -> tuple[Reported, ...]:
    (scan,) = scans(data, name, **how)
    return scan.reported


def prints(scan: Scan) -> list[str]:
    return [one.fingerprint for one in scan.reported]
