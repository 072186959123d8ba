"""Only exit 0 is green, and nothing that a check started outlives it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gitbaton.errors import BatonError, Refused
from gitbaton.evidence.checks import require_green, run_checks
from gitbaton.lock import Lock
from gitbaton.model.receipt import CheckResult


def run(tmp_path: Path, *commands: str, timeout: float = 20) -> tuple[CheckResult, ...]:
    return run_checks(commands, tmp_path, timeout=timeout, logs=tmp_path / "logs")


def ended(pid: int) -> bool:
    """Whether a process is gone (or waits to be reaped), within two seconds."""
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.005)
    return False


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("true", 0),
        ("exit 5", 5),  # as pytest that collected nothing
        ("no-such-program-anywhere", 127),
        ("./plain-file", 126),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
    ],
)
def test_exit_codes(tmp_path: Path, command: str, code: int) -> None:
    (tmp_path / "plain-file").write_text("text")
    (result,) = run(tmp_path, command)
    assert result.exit_code == code
    assert result.green == (code == 0)


def test_a_check_that_cannot_start_is_red(tmp_path: Path) -> None:
    results = run_checks(["true"], tmp_path / "absent", timeout=5, logs=tmp_path / "logs")
    assert [r.exit_code for r in results] == [127]
    assert "cannot start" in results[0].output_tail


def test_no_checks_are_never_a_pass(tmp_path: Path) -> None:
    with pytest.raises(Refused) as refused:
        run(tmp_path)
    assert refused.value.code == "no-checks"
    assert "--verify" in refused.value.hint
    with pytest.raises(BatonError):
        require_green(())


def test_a_timeout_kills_the_whole_group(tmp_path: Path) -> None:
    (result,) = run(tmp_path, "sleep 60 & echo $!; wait", timeout=0.3)
    assert result.exit_code == 124
    assert result.duration_ms < 5000
    assert ended(int(result.output_tail))


def test_a_lingering_grandchild_ends_with_the_check(tmp_path: Path) -> None:
    began = time.monotonic()
    (result,) = run(tmp_path, "sleep 60 & echo $!")
    assert result.green
    assert time.monotonic() - began < 10
    assert ended(int(result.output_tail))


def test_output_is_a_file_with_digest_and_tail(tmp_path: Path) -> None:
    (result,) = run(tmp_path, "printf 'caf\\303\\251\\377'; seq 1 100000; echo end >&2")
    kept = (tmp_path / "logs" / "check-1.log").read_bytes()
    assert kept.startswith(b"caf\xc3\xa9\xff1\n2\n")
    assert result.output_sha256 == hashlib.sha256(kept).hexdigest()
    assert result.output_tail == kept.decode(errors="replace")[-2000:]
    assert len(result.output_tail) == 2000
    assert result.output_tail.endswith("100000\nend\n")


def test_a_tail_of_wide_characters_is_whole(tmp_path: Path) -> None:
    (tmp_path / "wide").write_text("x" + "\N{SNAKE}" * 5000)
    (result,) = run(tmp_path, "cat wide")
    assert result.output_tail == "\N{SNAKE}" * 2000


def test_a_check_has_nothing_to_read_and_knows_no_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    monkeypatch.setenv("BATON_TOKEN", "secret")
    (result,) = run(tmp_path, 'cat; echo "[$GIT_DIR][$BATON_TOKEN]"')
    assert result.output_tail == "[][]\n"


def test_all_run_unless_told_to_stop(tmp_path: Path) -> None:
    assert [r.exit_code for r in run(tmp_path, "exit 1", "true")] == [1, 0]
    results = run_checks(
        ["exit 1", "true"], tmp_path, timeout=5, logs=tmp_path / "l", stop_at_first_red=True
    )
    assert [r.exit_code for r in results] == [1]


def test_output_can_be_followed(tmp_path: Path) -> None:
    seen: list[bytes] = []
    run_checks(
        ["echo one", "echo two"], tmp_path, timeout=5, logs=tmp_path / "l", on_output=seen.append
    )
    assert b"".join(seen) == b"one\ntwo\n"


def test_the_failure_names_command_and_exit_code(tmp_path: Path) -> None:
    results = run(tmp_path, "true", "echo no; exit 3", "exit 4")
    with pytest.raises(Refused) as refused:
        require_green(results)
    assert refused.value.code == "checks-failed"
    assert refused.value.message == (
        "check failed: `echo no; exit 3` ended with exit 3 (and 1 more)"
    )
    assert refused.value.payload == {"checks": list(results)}
    require_green(results[:1])


CALLER = """
import sys
from pathlib import Path
from gitbaton.evidence.checks import run_checks
from gitbaton.lock import Lock
here = Path(sys.argv[1])
lock = Lock(here / "lock").acquire()
command = "echo $$ > pid.part; mv pid.part pid; exec sleep 60"
run_checks([command], here, timeout=60, logs=here / "logs", keep_open=(lock.fd,))
"""


def caller(tmp_path: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A process that runs a long check under a lock, and the check's pid."""
    process = subprocess.Popen([sys.executable, "-c", CALLER, str(tmp_path)])
    while not (tmp_path / "pid").exists():
        assert process.poll() is None
        time.sleep(0.005)
    return process, int((tmp_path / "pid").read_text())


def test_an_orphaned_check_keeps_the_lock(tmp_path: Path) -> None:
    process, check = caller(tmp_path)
    process.kill()
    process.wait()
    lock = Lock(tmp_path / "lock")
    assert not lock.try_acquire()
    os.kill(check, signal.SIGKILL)
    assert ended(check)
    lock.acquire(timeout=2).release()


def test_an_interrupt_kills_the_check(tmp_path: Path) -> None:
    process, check = caller(tmp_path)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) != 0
    assert ended(check)


def test_a_check_does_not_inherit_other_locks(tmp_path: Path) -> None:
    with Lock(tmp_path / "other") as other:
        fcntl.fcntl(other.fd, fcntl.F_GETFD)
        (result,) = run(tmp_path, f"[ ! -e /dev/fd/{other.fd} ]")
    assert result.green
