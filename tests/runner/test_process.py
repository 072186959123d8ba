"""Real processes: what a worker gets, and that none outlives who may end it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gitbaton.errors import RepositoryError
from gitbaton.runner import process

BOOT = "this-boot"


@pytest.fixture
def room(tmp_path: Path) -> Path:
    where = tmp_path / 'it\'s $HOME "here"'
    where.mkdir()
    (where / "prompt").write_text("do it\n")
    return where


def start(room: Path, command: str, stdin: str = "prompt") -> process.Worker:
    return process.start(
        command,
        room,
        env={"PATH": os.environ["PATH"], "WORD": "a b"},
        stdin=room / stdin,
        log=room / "log",
        record=room / "runner.json",
        boot=BOOT,
        session="s",
    )


def alive(pid: int) -> bool:
    return process.start_time(pid) is not None


def test_worker_gets_prompt_environment_and_directory(room: Path) -> None:
    worker = start(room, 'cat; echo "$WORD" >out; pwd; echo bad >&2; exit 3')
    assert worker.wait() == 3
    assert (room / "log").read_text() == f"do it\n{room}\nbad\n"
    assert (room / "out").read_text() == "a b\n"


def test_log_is_appended_and_signals_become_exit_codes(room: Path) -> None:
    assert start(room, "echo one").wait() == 0
    assert start(room, "echo two; kill -TERM $$").wait() == 128 + signal.SIGTERM
    assert (room / "log").read_text() == "one\ntwo\n"


def test_command_not_found_is_127(room: Path) -> None:
    assert start(room, "no-such-program --do").wait() == 127


def test_what_a_worker_leaves_running_is_ended(room: Path) -> None:
    worker = start(room, "sleep 600 & echo $! >pid")
    assert worker.wait() == 0
    gone(int((room / "pid").read_text()))


def test_a_signal_reaches_the_whole_group(room: Path) -> None:
    worker = start(room, "mkfifo f; sleep 600 & echo $! >pid; echo x >f; wait")
    (room / "f").exists() or until_fifo(room / "f")
    (room / "f").read_text()
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 128 + signal.SIGTERM
    gone(int((room / "pid").read_text()))
    worker.signal(signal.SIGTERM)  # nothing, and nobody else


def test_a_missing_directory_is_one_line(room: Path) -> None:
    with pytest.raises(RepositoryError) as caught:
        process.start(
            "true",
            room / "gone",
            env={},
            stdin=room / "prompt",
            log=room / "log",
            record=room / "runner.json",
            boot=BOOT,
            session="s",
        )
    assert caught.value.code == "worker-not-started"


def test_a_worker_that_cannot_be_recorded_never_begins(room: Path) -> None:
    with pytest.raises(RepositoryError):
        process.start(
            "touch began",
            room,
            env={"PATH": os.environ["PATH"]},
            stdin=room / "prompt",
            log=room / "log",
            record=room / "no" / "runner.json",
            boot=BOOT,
            session="s",
        )
    assert not (room / "began").exists()


def test_an_orphan_is_ended_only_when_it_is_that_very_process(room: Path) -> None:
    orphan = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        right = process.Record(
            pgid=orphan.pid, started=process.start_time(orphan.pid) or "", boot=BOOT, session="s"
        )
        other = process.Record(pgid=orphan.pid, started="1", boot=BOOT, session="s")
        assert not process.end_orphan(other, BOOT, 1)
        assert not process.end_orphan(right, "another boot", 1)
        assert orphan.poll() is None
        assert process.end_orphan(right, BOOT, 60)
        assert orphan.wait(60) == -signal.SIGTERM
        assert not process.end_orphan(right, BOOT, 1)
    finally:
        orphan.kill()
        orphan.wait()


def test_an_orphan_that_ignores_sigterm_is_killed(room: Path) -> None:
    read, write = os.pipe()
    orphan = subprocess.Popen(
        ["sh", "-c", "trap '' TERM; echo ready; exec sleep 600"],
        start_new_session=True,
        stdout=write,
    )
    os.close(write)
    try:
        assert os.read(read, 10)
        started = process.start_time(orphan.pid) or ""
        record = process.Record(pgid=orphan.pid, started=started, boot=BOOT, session="s")
        assert process.end_orphan(record, BOOT, 0.1)
        assert orphan.wait(60) == -signal.SIGKILL
    finally:
        os.close(read)
        orphan.kill()
        orphan.wait()


def test_a_killed_runner_leaves_a_record_of_its_worker(room: Path) -> None:
    """The worker runs only once it is on record, so the record is there whenever a worker is."""
    code = (
        "import os,sys\nfrom pathlib import Path\nfrom gitbaton.runner import process\n"
        "room=Path(sys.argv[1])\n"
        "process.start('mkfifo f; echo x >f; sleep 600', room, env=dict(os.environ),"
        " stdin=room/'prompt', log=room/'log', record=room/'runner.json', boot='b', session='s')\n"
        "open(room/'ready').read()\n"
    )
    os.mkfifo(room / "ready")
    runner = subprocess.Popen([sys.executable, "-c", code, str(room)])
    with (room / "ready").open("w"):
        runner.kill()
        runner.wait()
    record = process.read_record(room / "runner.json")
    assert record is not None
    assert alive(record.pgid)
    assert process.end_orphan(record, "b", 60)
    gone(record.pgid)


def test_a_damaged_record_is_none(room: Path) -> None:
    (room / "runner.json").write_text(json.dumps({"pgid": "x"}))
    assert process.read_record(room / "runner.json") is None
    assert process.read_record(room / "nothing") is None


def gone(pid: int) -> None:
    """Wait for a process that somebody else has to reap."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    import select

    try:
        assert select.select([fd], [], [], 60)[0], f"{pid} is alive"
    finally:
        os.close(fd)


def until_fifo(path: Path) -> None:
    import time

    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)
