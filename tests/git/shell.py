"""git as a person would use it, to build what is tested and to look at what came of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path


def git(cwd: Path, *args: str, stdin: bytes | None = None, code: int | None = 0) -> str:
    """Standard output without its last newline; ``code=None`` accepts any exit status."""
    done = subprocess.run(["git", *args], cwd=cwd, input=stdin, capture_output=True, check=False)
    if code is not None and done.returncode != code:
        raise AssertionError(f"git {args}: {done.returncode}: {done.stderr.decode()}")
    return os.fsdecode(done.stdout).removesuffix("\n")


def write(top: Path, files: Mapping[str, str | bytes | None]) -> None:
    """Write files below ``top``; None removes one."""
    for name, content in files.items():
        path = top / name
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def commit(top: Path, files: Mapping[str, str | bytes | None], message: str = "change") -> str:
    """Commit ``files`` on the branch checked out at ``top``; the commit's id."""
    write(top, files)
    git(top, "add", "-A")
    git(top, "commit", "-q", "--allow-empty", "-m", message)
    return git(top, "rev-parse", "HEAD")
