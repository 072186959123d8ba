"""A worker process: started so that a crash at any moment leaves no unknown process behind.

Each worker leads a session and process group of its own, so it ends with all it started. It
waits at a gate until its group is on record, so whoever comes after a killed runner can name every
worker that still runs. A recorded number alone proves nothing, since the system uses it again:
the start time and the boot have to match too.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gitbaton.errors import RepositoryError
from gitbaton.model import codec

# The shell waits for one line on its stdin, which a killed runner can no longer write; then the
# command takes its place, with the prompt on stdin.
_GATE = 'IFS= read -r go && exec sh -c "$0" <"$1"'
_LOOK = 0.02  # seconds between two looks at a process that cannot be waited for


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """``runner.json``: a process group, when its leader started (text of the system), in which
    boot, and the session of the runner."""

    pgid: int
    started: str
    boot: str
    session: str


class Worker:
    """One worker process; `wait` from one thread, `signal` from any."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._ended = False
        self._lock = threading.Lock()

    @property
    def id(self) -> str:
        return f"pid-{self._process.pid}"

    def wait(self) -> int:
        """The exit code, 128 + n for a signal. What the worker left running is killed."""
        # As long as the leader is not reaped its group's number belongs to nobody else.
        with contextlib.suppress(AttributeError, ChildProcessError):
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            self._ended = True
            _signal_group(self._process.pid, signal.SIGKILL)
            code = self._process.wait()
        return code if code >= 0 else 128 - code

    def signal(self, number: int) -> None:
        """Send a signal to the worker's group; nothing if it has ended."""
        with self._lock:
            if not self._ended:
                _signal_group(self._process.pid, number)


def start(
    command: str,
    cwd: Path,
    *,
    env: Mapping[str, str],
    stdin: Path,
    log: Path,
    record: Path,
    boot: str,
    session: str,
) -> Worker:
    """Run ``command`` by ``sh -c`` in ``cwd``; output is appended to ``log``.

    Raises `RepositoryError` ``worker-not-started`` when no process can be made.
    """
    try:
        with log.open("ab", buffering=0) as output:
            process = subprocess.Popen(
                ["sh", "-c", _GATE, command, str(stdin)],
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        raise _not_started(cwd, error) from error
    gate = process.stdin
    assert gate is not None
    started = start_time(process.pid) or ""
    try:
        entry = Record(pgid=process.pid, started=started, boot=boot, session=session)
        part = record.with_suffix(".part")
        part.write_bytes(codec.encode(entry))
        part.replace(record)
        gate.write(b"go\n")
        gate.close()
    except OSError as error:
        with contextlib.suppress(OSError):
            gate.close()
        process.wait()
        raise _not_started(cwd, error) from error
    return Worker(process)


def _not_started(cwd: Path, error: OSError) -> RepositoryError:
    return RepositoryError(
        "worker-not-started",
        f"no worker can be started in {cwd}: {error.strerror}",
        "correct that, then run the same command again",
    )


def read_record(path: Path) -> Record | None:
    """The record of a worker; None when there is none or it cannot be read."""
    try:
        return codec.decode(path.read_bytes(), Record)
    except (OSError, msgspec.MsgspecError):
        return None


def end_orphan(record: Record, boot: str, grace: float) -> bool:
    """End the process group of ``record`` if it is still that one; whether there was one.

    It gets SIGTERM, and SIGKILL after ``grace`` seconds. Returns when its leader is gone.
    """
    if record.boot != boot or not record.started:
        return False
    with contextlib.ExitStack() as stack:
        gone = _watch(record.pgid, stack)
        # Only now is it sure that what is watched is what is judged.
        if start_time(record.pgid) != record.started:
            return False
        _signal_group(record.pgid, signal.SIGTERM)
        if not gone(grace):
            _signal_group(record.pgid, signal.SIGKILL)
            gone(grace)
        _signal_group(record.pgid, signal.SIGKILL)  # members that outlive the leader
    return True


def kill_children() -> None:
    """End the process groups that children of this process lead: checks that are under way."""
    for pid in _children():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)


def start_time(pid: int) -> str | None:
    """When a process started, as text that is only good for comparing; None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _ps_start_time(pid)
    except OSError:
        return None
    # The second field is the command's name in parentheses and may hold anything.
    fields = stat[stat.rfind(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def _ps_start_time(pid: int) -> str | None:
    done = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
    )
    state, _, started = done.stdout.strip().partition(" ")
    return started.strip() or None if state and not state.startswith("Z") else None


def _children() -> list[int]:
    if Path("/proc/self/stat").exists():
        with contextlib.suppress(OSError):
            found = [p.read_text().split() for p in Path("/proc/self/task").glob("*/children")]
            return [int(pid) for pids in found for pid in pids]
    done = subprocess.run(["ps", "-A", "-o", "ppid=,pid="], capture_output=True, check=False)
    rows = [line.split() for line in done.stdout.decode().splitlines()]
    return [int(row[1]) for row in rows if len(row) == 2 and row[0] == str(os.getpid())]


class _Watch:
    """Waits for a process that is not a child."""

    def __init__(self, pid: int, fd: int | None) -> None:
        self._pid = pid
        self._fd = fd

    def __call__(self, seconds: float) -> bool:
        if self._fd is not None:
            poll = select.poll()
            poll.register(self._fd, select.POLLIN)
            return bool(poll.poll(seconds * 1000))
        deadline = time.monotonic() + seconds
        while start_time(self._pid) is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK)
        return True


def _watch(pid: int, stack: contextlib.ExitStack) -> _Watch:
    try:
        fd = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return _Watch(pid, None)
    stack.callback(os.close, fd)
    return _Watch(pid, fd)


def _signal_group(pgid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pgid, number)
