"""Checks are programs of the user, and what they say is the only evidence there is.

So each runs in a session of its own with nothing to read, its output goes to a file and never
through a pipe that somebody might hold open, and everything that does not end in exit 0 - not
found, not executable, too slow, killed - is red. A check's process group ends with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from gitbaton.errors import Refused
from gitbaton.git.process import clean_environment
from gitbaton.model.receipt import CheckResult

TIMED_OUT, NOT_EXECUTABLE, NOT_FOUND = 124, 126, 127
TAIL = 2_000  # characters of output that a result keeps
_PIECE = 1 << 20
_PEEK = 0.1  # seconds between two looks at the output, when somebody wants to see it

OnOutput = Callable[[bytes], None]


def run_checks(
    commands: Sequence[str],
    cwd: Path,
    *,
    timeout: float,
    logs: Path,
    keep_open: Sequence[int] = (),
    stop_at_first_red: bool = False,
    on_output: OnOutput | None = None,
) -> tuple[CheckResult, ...]:
    """Run each command by ``sh -c`` in ``cwd``; ``timeout`` is in seconds for each (0: none).

    Outputs are ``check-<n>.log`` in ``logs``. Children inherit the descriptors ``keep_open``, so a
    lock on them outlives this process as long as a check does. ``on_output`` is given new output
    as it appears. Raises `Refused` ``no-checks`` when there is nothing to run: never a pass.
    """
    if not commands:
        raise Refused(
            "no-checks",
            "no check is configured, so nothing could be shown to work",
            "git config --add baton.verify 'COMMAND', or pass --verify COMMAND",
        )
    logs.mkdir(parents=True, exist_ok=True)
    results: list[CheckResult] = []
    for number, command in enumerate(commands, 1):
        log = logs / f"check-{number}.log"
        log.unlink(missing_ok=True)
        result = run_command(
            command, cwd, timeout=timeout, log=log, keep_open=keep_open, on_output=on_output
        )
        results.append(result)
        if stop_at_first_red and not result.green:
            break
    return tuple(results)


def run_command(
    command: str,
    cwd: Path,
    *,
    timeout: float,
    log: Path,
    keep_open: Sequence[int] = (),
    on_output: OnOutput | None = None,
) -> CheckResult:
    """Run one command and append its output to ``log``; see `run_checks`."""
    # Append mode, and pread below: parent and child share one file offset.
    with log.open("ab+", buffering=0) as output:
        start = os.fstat(output.fileno()).st_size
        began = time.monotonic()
        try:
            follow = _Follow(output.fileno(), start, on_output) if on_output else None
            code = _run(command, cwd, output, timeout, keep_open, follow)
        except (OSError, ValueError) as error:
            output.write(f"cannot start: {error}\n".encode())
            code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        spent = time.monotonic() - began
        digest, tail = _digest_and_tail(output.fileno(), start)
    return CheckResult(
        command=command,
        exit_code=code,
        duration_ms=round(spent * 1000),
        output_sha256=digest,
        output_tail=tail,
    )


def require_green(
    results: Sequence[CheckResult], payload: Mapping[str, object] | None = None
) -> None:
    """Raise `Refused` ``checks-failed`` unless there are checks and every one is green.

    The results are in the error's payload, beside what ``payload`` adds.
    """
    red = [result for result in results if not result.green]
    if results and not red:
        return
    if not red:
        raise Refused("no-checks", "no check ran", "git config --add baton.verify 'COMMAND'")
    more = f" (and {len(red) - 1} more)" if len(red) > 1 else ""
    raise Refused(
        "checks-failed",
        f"check failed: `{red[0].command}` {describe(red[0].exit_code)}{more}",
        "correct the work, commit, and seal again",
        {**(payload or {}), "checks": list(results)},
    )


def describe(exit_code: int) -> str:
    """What an exit code of a check means, as the end of a sentence."""
    match exit_code:
        case 124:
            return "timed out (exit 124)"
        case 126:
            return "could not be executed (exit 126)"
        case 127:
            return "was not found (exit 127)"
        case code if code > 128 and code - 128 in signal.valid_signals():
            return f"was killed by {signal.Signals(code - 128).name} (exit {code})"
        case code:
            return f"ended with exit {code}"


def _run(
    command: str,
    cwd: Path,
    output: BinaryIO,
    timeout: float,
    keep_open: Sequence[int],
    follow: _Follow | None,
) -> int:
    process = subprocess.Popen(
        ["sh", "-c", command],
        cwd=cwd,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=tuple(keep_open),
    )
    try:
        ended = _wait(process, timeout or None, follow)
    finally:
        # The leader is not reaped yet, so its group's number cannot belong to anybody else.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if follow:
        follow()
    if not ended:
        return TIMED_OUT
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _environment() -> dict[str, str]:
    """What a check says must not depend on whose attempt, or which verb, it runs for."""
    return {k: v for k, v in clean_environment().items() if not k.startswith("BATON_")}


def _wait(process: subprocess.Popen[bytes], timeout: float | None, follow: _Follow | None) -> bool:
    """Wait until the process has ended, without reaping it where that is possible."""
    deadline = None if timeout is None else time.monotonic() + timeout
    wait = _waiter(process)
    try:
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            pause = left if follow is None else min(_PEEK, _PEEK if left is None else left)
            if wait(pause):
                return True
            if follow is not None:
                follow()
            if deadline is not None and time.monotonic() >= deadline:
                return False
    finally:
        wait.close()


class _PidfdWaiter:
    """Waits on a pidfd: no polling, and the child stays a zombie until its group is dealt with."""

    def __init__(self, pid: int) -> None:
        self._fd = os.pidfd_open(pid)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)

    def __call__(self, seconds: float | None) -> bool:
        return bool(self._poll.poll(None if seconds is None else seconds * 1000))

    def close(self) -> None:
        os.close(self._fd)


class _PollWaiter:
    """Where there are no pidfds: `Popen.wait`, which looks again and again."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def __call__(self, seconds: float | None) -> bool:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self) -> None:
        pass


def _waiter(process: subprocess.Popen[bytes]) -> _PidfdWaiter | _PollWaiter:
    try:
        return _PidfdWaiter(process.pid)
    except (AttributeError, OSError):
        return _PollWaiter(process)


class _Follow:
    """Hands over what was appended to a file since ``start``, or since the last call."""

    def __init__(self, fd: int, start: int, on_output: OnOutput) -> None:
        self._fd = fd
        self._on_output = on_output
        self._at = start

    def __call__(self) -> None:
        while piece := os.pread(self._fd, _PIECE, self._at):
            self._at += len(piece)
            self._on_output(piece)


def _digest_and_tail(fd: int, start: int) -> tuple[str, str]:
    """SHA-256 and last characters of a file from ``start``, one piece in memory at a time."""
    digest = hashlib.sha256()
    last = b""
    while piece := os.pread(fd, _PIECE, start):
        start += len(piece)
        digest.update(piece)
        last = (last + piece)[-4 * TAIL - 3 :]
    return digest.hexdigest(), last.decode("utf-8", "replace")[-TAIL:]
