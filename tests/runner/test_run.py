"""`run` with real workers: small shell commands in a repository whose path is unpleasant."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from gitbaton.engine import look, opening, queue
from gitbaton.engine.context import Context, open_context
from gitbaton.errors import Interrupted, Refused, UsageError
from gitbaton.model.action import ActionBatch, Blocked, Complete
from gitbaton.model.transitions import WORKING
from gitbaton.runner import live, process
from gitbaton.runner.driver import run_loop
from gitbaton.store import runs

TASKS = """\
## 1. First

- [ ] 1.1 one
- [ ] 1.2 two
- [ ] 1.3 three

## 2. Second

- [ ] 2.1 four
"""
WRITE = "echo $BATON_TICKET >file-$BATON_TICKET"


def git(path: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=path, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def change(path: Path, tasks: str = TASKS, name: str = "add-it") -> None:
    folder = path / "openspec" / "changes" / name
    folder.mkdir(parents=True)
    (folder / "proposal.md").write_text("# Why\n\nBecause.\n")
    (folder / "tasks.md").write_text(tasks)
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", "plan")


class Runner:
    """A repository with a change, and its `run`; ``lines`` is what it printed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.out = io.StringIO()

    @property
    def ctx(self) -> Context:
        return open_context(self.path)

    def __call__(self, command: str | None, run: str = "add-it", **options: Any) -> ActionBatch:
        given: dict[str, Any] = {
            "agent": None,
            "jobs": 5,
            "checks": ("true",),
            "pauses": (0.0, 0.0),
            "view": live.View(self.out),
        }
        return run_loop(self.ctx, run, command=command, **{**given, **options})

    @property
    def lines(self) -> list[str]:
        return self.out.getvalue().splitlines()

    def attempt_dir(self, slug: str) -> Path:
        return self.ctx.attempts_dir("add-it") / slug

    def states(self) -> dict[str, str]:
        return {str(a.id): a.state for a in runs.load(self.ctx.repo, "add-it").all_attempts()}

    def show(self, name: str) -> str:
        return git(self.path, "show", f"baton/add-it:{name}")


@pytest.fixture
def runner(repo_dir: Path) -> Runner:
    change(repo_dir)
    return Runner(repo_dir)


def test_runs_to_the_end(runner: Runner) -> None:
    batch = runner(WRITE)
    assert batch.state == "complete"
    done = batch.actions[-1]
    assert isinstance(done, Complete)
    assert done.resolved == ("1.1", "1.2", "1.3", "2.1")
    assert runner.show("file-2.1") == "2.1"
    assert runner.show("openspec/changes/add-it/tasks.md").count("[x]") == 4
    assert set(runner.states().values()) == {"succeeded"}
    log = git(runner.path, "log", "--format=%s", "--no-merges", "baton/add-it")
    assert "1.2: two" in log.splitlines()
    assert "[1.1@1] started: one" in runner.lines
    assert "[2.1@1] integrated" in runner.lines
    assert not list((runner.ctx.repo.baton_dir / "runners").glob("*"))
    assert git(runner.path, "status", "--porcelain") == ""


def test_a_title_that_no_commit_message_can_hold(repo_dir: Path) -> None:
    change(repo_dir, "- [ ] 1 nu\0l \u202eand\x9b on\n")
    runner = Runner(repo_dir)
    assert runner(WRITE).state == "complete"
    assert git(repo_dir, "log", "-1", "--format=%s", "baton/add-it^2") == "1: nu l and on"


def test_a_complete_run_has_nothing_to_do(runner: Runner) -> None:
    runner(WRITE)
    assert runner("echo never >file; exit 1").state == "complete"
    assert len(runner.states()) == 4


def test_the_worker_gets_what_it_needs(runner: Runner) -> None:
    command = (
        'cat >prompt; env | grep ^BATON_ | sort >env; cmp prompt "$BATON_PROMPT_FILE"'
        ' && test -f "$BATON_PACKET" && test -d "$BATON_ATTEMPT_DIR" && pwd >cwd;'
        " git rev-parse --abbrev-ref HEAD >branch; echo said"
    )
    change_of = "## 1. One\n\n- [ ] 1.1 only\n"
    folder = runner.path / "openspec/changes/add-it/tasks.md"
    folder.write_text(change_of)
    git(runner.path, "commit", "-q", "-am", "shorter")
    assert runner(command).state == "complete"
    env = dict(line.split("=", 1) for line in runner.show("env").splitlines())
    assert env["BATON_RUN"] == "add-it"
    assert env["BATON_TICKET"] == "1.1"
    assert env["BATON_ATTEMPT"] == "1"
    assert env["BATON_ASSIGNMENT"] == "add-it/1.1@1"
    assert env["BATON_TOKEN"]
    assert "# 1.1 only" in runner.show("prompt")
    assert runner.show("branch") == "baton-attempt/add-it/1.1-a1"
    assert (runner.attempt_dir("1.1-a1") / "log").read_text() == "said\n"


def test_placeholders_are_quoted(runner: Runner) -> None:
    command = "printf %s {prompt} >a; cp {prompt_file} b; cat >c"
    assert runner(command, jobs=1, max_total_attempts=1).state == "blocked"
    assert runner.show("a").strip() == runner.show("b").strip()
    assert runner.show("c") == ""


def test_a_failed_check_is_told_to_the_worker(runner: Runner) -> None:
    command = (
        'cat >"$BATON_ATTEMPT_DIR/got-$(ls "$BATON_ATTEMPT_DIR" | grep -c got-)";'
        ' if grep -q "wanted: good in v" "$BATON_PROMPT_FILE"; then echo good >v-$BATON_TICKET;'
        " else echo bad >v-$BATON_TICKET; fi"
    )
    check = 'for f in v-*; do grep -q good $f || { echo "wanted: good in $f"; exit 1; }; done'
    batch = runner(command, checks=(check,))
    assert batch.state == "complete"
    assert set(runner.states()) == {"1.1@1", "1.2@1", "1.3@1", "2.1@1"}
    assert "[1.1@1] checks failed, again (1/2)" in runner.lines
    first = (runner.attempt_dir("1.1-a1") / "got-0").read_text()
    second = (runner.attempt_dir("1.1-a1") / "got-1").read_text()
    assert second.startswith(first)
    assert "wanted: good in v-1.1" in second[len(first) :]


def test_retries_end_and_the_next_attempt_knows_why(runner: Runner) -> None:
    batch = runner(WRITE, checks=("echo never good; exit 1",), retries=1)
    assert batch.state == "blocked"
    assert [a.code for a in batch.actions if isinstance(a, Blocked)] == ["attempts-exhausted"] * 3
    assert runner.lines.count("[1.1@1] checks failed, again (1/1)") == 1
    prompt = (runner.attempt_dir("1.1-a2") / "prompt.md").read_text()
    assert "never good" in prompt
    packet = json.loads((runner.attempt_dir("1.1-a2") / "packet.json").read_text())
    said = packet["previous_failure"]["message"].splitlines()
    assert said.count(said[0]) == 1
    assert len(runner.states()) == 9


def test_uncommitted_work_is_refused_with_no_commit(runner: Runner) -> None:
    command = (
        f"{WRITE}; if grep -q 'not committed' \"$BATON_PROMPT_FILE\";"
        " then git add -A; git commit -qm mine; fi"
    )
    assert runner(command, commit=False).state == "complete"
    assert "mine" in git(runner.path, "log", "--format=%s", "baton/add-it")


def test_a_worker_that_does_nothing_is_told_so(runner: Runner) -> None:
    command = (
        "grep -q 'no commit beyond its base' \"$BATON_PROMPT_FILE\""
        " && git commit -q --allow-empty -m 'nothing to do'; true"
    )
    assert runner(command, jobs=2).state == "complete"


def test_a_commit_hook_that_refuses_is_told_to_the_worker(runner: Runner) -> None:
    hook = Path(git(runner.path, "rev-parse", "--git-path", "hooks")) / "pre-commit"
    hook = runner.path / hook
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntest -f style || { echo 'style is missing' >&2; exit 1; }\n")
    hook.chmod(0o755)
    command = f"{WRITE}; grep -q 'style is missing' \"$BATON_PROMPT_FILE\" && echo x >style; true"
    assert runner(command, jobs=1).state == "complete"


@pytest.mark.parametrize("retries", [0, 2])
def test_a_commit_that_nobody_can_make_stops_the_run(runner: Runner, retries: int) -> None:
    hook = runner.path / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho nobody commits today >&2\nexit 1\n")
    hook.chmod(0o755)
    batch = runner(f"{WRITE}; echo x >>tries-$BATON_TICKET", jobs=1, retries=retries)
    assert batch.state == "blocked"
    (blocked,) = batch.actions
    assert isinstance(blocked, Blocked)
    assert blocked.code == "commit-failed"
    assert blocked.assignment == "add-it/1.1@1"
    assert "nobody commits today" in blocked.reason
    assert list(runner.states()) == ["1.1@1"]
    assert set(runner.states().values()) <= {"leased", "spawned"}
    hook.unlink()
    assert runner(WRITE).state == "complete"
    assert set(runner.states().values()) == {"succeeded"}
    assert len(runner.states()) == 4  # nothing was used up
    assert runner.show("tries-1.1").split() == ["x", "x"]


def test_a_worker_that_dies_at_once_is_tried_again(runner: Runner) -> None:
    command = (
        f'n="$BATON_ATTEMPT_DIR/tries"; echo x >>"$n"; test $(wc -l <"$n") -ge 3'
        f" || {{ echo no key >&2; exit 1; }}; {WRITE}"
    )
    assert runner(command).state == "complete"
    assert set(runner.states().values()) == {"succeeded"}
    assert len(runner.states()) == 4
    told = [line for line in runner.lines if "at once, again in" in line]
    assert len(told) == 8
    assert all(line.endswith("s: no key") for line in told)


def test_a_worker_that_fails_is_tried_again_as_a_new_attempt(runner: Runner) -> None:
    command = f"{WRITE}; git add -A; git commit -qm x; test $BATON_ATTEMPT = 2 || exit 7"
    assert runner(command).state == "complete"
    states = runner.states()
    assert states["1.1@1"] == "superseded"
    assert states["1.1@2"] == "succeeded"


def test_a_command_that_does_not_exist_stops_everything(runner: Runner) -> None:
    batch = runner("no-such-agent --go")
    assert batch.state == "blocked"
    assert [a.code for a in batch.actions if isinstance(a, Blocked)] == ["worker-cannot-start"]
    assert [a.hint for a in batch.actions if isinstance(a, Blocked) and "in a worktree" in a.hint]
    assert runner(WRITE).state == "complete"
    assert len(runner.states()) == 4  # nothing was used up


def test_a_conflict_is_resolved_by_a_worker(runner: Runner) -> None:
    command = (
        "if git rev-parse -q --verify MERGE_HEAD; then"
        " sed -i -e '/^<<<<<<< /d' -e '/^=======$/d' -e '/^>>>>>>> /d' README;"
        " else echo $BATON_TICKET >>README; fi"
    )
    assert runner(command, jobs=3).state == "complete"
    assert sorted(runner.show("README").split()) == ["1.1", "1.2", "1.3", "2.1", "hello"]
    assert any("resolve the conflict in README" in line for line in runner.lines)


def test_a_ticket_chooses_its_agent(runner: Runner) -> None:
    tasks = "## 1. One\n\n- [ ] 1.1 a <!-- baton: agent=other -->\n- [ ] 1.2 b\n"
    (runner.path / "openspec/changes/add-it/tasks.md").write_text(tasks)
    git(runner.path, "commit", "-q", "-am", "agents")
    git(runner.path, "config", "baton.agent.other.command", "echo other >by-$BATON_TICKET")
    git(runner.path, "config", "baton.agent.usual.command", "echo usual >by-$BATON_TICKET")
    assert runner(None, agent="usual").state == "complete"
    assert runner.show("by-1.1") == "other"
    assert runner.show("by-1.2") == "usual"


def test_a_limit_of_attempts(runner: Runner) -> None:
    batch = runner(WRITE, max_total_attempts=2)
    assert batch.state == "blocked"
    assert [a.code for a in batch.actions if isinstance(a, Blocked)] == ["max-total-attempts"]
    assert sorted(runner.states()) == ["1.1@1", "1.2@1"]
    assert set(runner.states().values()) == {"succeeded"}
    assert runner(WRITE).state == "complete"


def test_a_limit_of_time(runner: Runner) -> None:
    batch = runner(f"{WRITE}; sleep 600", jobs=2, max_minutes=0.02)
    assert [a.code for a in batch.actions if isinstance(a, Blocked)] == ["max-minutes"]
    assert set(runner.states().values()) <= {"leased", "spawned"}
    assert len(runner.states()) == 2
    assert runner(WRITE).state == "complete"
    assert len(runner.states()) == 4


def test_dry_run_touches_nothing(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    before = git(runner.path, "for-each-ref")
    batch = runner(WRITE, dry_run=True, jobs=2)
    said = capsys.readouterr().err
    assert "would start 1.1: one" in said
    assert "would start 1.3" not in said
    assert batch.run == "add-it"
    assert git(runner.path, "for-each-ref") == before
    assert not (runner.path / ".git" / "baton").exists()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"command": None}, "which-worker"),
        ({"command": "x", "agent": "claude"}, "which-worker"),
        ({"command": " "}, "which-worker"),
        ({"command": "x", "jobs": 0}, "bad-jobs"),
        ({"command": "x '{prompt}'"}, "quoted-placeholder"),
        ({"command": None, "agent": "cluade"}, "unknown-agent"),
    ],
)
def test_bad_options_change_nothing(runner: Runner, options: dict[str, Any], code: str) -> None:
    with pytest.raises(UsageError) as caught:
        runner(options.pop("command"), **options)
    assert caught.value.code == code
    assert not (runner.path / ".git" / "baton").exists()


def test_no_checks_changes_nothing(runner: Runner) -> None:
    with pytest.raises(Refused) as caught:
        runner(WRITE, checks=())
    assert caught.value.code == "no-checks"
    assert git(runner.path, "for-each-ref", "refs/baton") == ""


def test_an_item_that_a_worker_returns_is_told_as_returned(runner: Runner) -> None:
    queue.add(runner.ctx, "bugs", queue.Texts(title="Gone"), "BUG-1")
    opened = opening.open_batch(
        runner.ctx, queue="bugs", membership="live", mode="autopilot", checks=("true",)
    )
    dispose = f"{shlex.quote(sys.executable)} -m gitbaton dispose --as obe --reason 'gone since 2'"
    assert runner(dispose, run=opened.run).state == "complete"
    assert "[BUG-1@1] obe: gone since 2" in runner.lines


def test_an_attempt_taken_away_ends_its_worker_only(runner: Runner) -> None:
    """Somebody abandons an attempt while its worker works: the run goes on without it."""
    from gitbaton.engine import steer

    fifo = runner.path.parent / "fifo"
    os.mkfifo(fifo)
    command = (
        f"if [ $BATON_TICKET@$BATON_ATTEMPT = 1.1@1 ]; then echo $$ >{shlex.quote(str(fifo))};"
        f" sleep 600; fi; {WRITE}"
    )

    def abandon() -> None:
        fifo.read_text()
        steer.abandon(runner.ctx, "add-it/1.1@1", "test", True)

    other = threading.Thread(target=abandon)
    other.start()
    batch = runner(command, max_minutes=5, heartbeat=0.2)
    other.join()
    assert batch.state == "complete"
    assert runner.states()["1.1@1"] == "abandoned"
    assert runner.states()["1.1@2"] == "succeeded"


# --- another process, which is interrupted or killed -------------------------------------------

SCRIPT = """
import sys
from pathlib import Path
from gitbaton.engine.context import open_context
from gitbaton.errors import BatonError
from gitbaton.runner import loop
from gitbaton.runner.driver import run_loop
loop.GRACE = float(sys.argv[3])
try:
    batch = run_loop(open_context(Path(sys.argv[1])), "add-it", agent=None, command=sys.argv[2],
                     jobs=3, checks=("true",), plain=True)
except BatonError as error:
    print(error.code, error.message)
    sys.exit(error.exit_status)
print(batch.state)
"""


class Impatient(live.View):
    """Interrupts as soon as the run waits for others."""

    def say(self, text: str, *, good: bool = False, bad: bool = False) -> None:
        super().say(text, good=good, bad=bad)
        if text.startswith("waiting:"):
            raise KeyboardInterrupt


STUBBORN = "trap '' TERM INT; while :; do sleep 600; done"


class Elsewhere:
    """A runner in a process of its own, whose workers have begun; ``grace`` is how many seconds
    they have when they are stopped."""

    def __init__(self, runner: Runner, tail: str, grace: float = 60) -> None:
        fifo = runner.path.parent / "begun"
        os.mkfifo(fifo)
        command = f"{WRITE}; echo $$ >{shlex.quote(str(fifo))}; {tail}"
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(runner.path), command, str(grace)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.workers: list[int] = []
        while len(self.workers) < 3:
            self.workers += [int(word) for word in fifo.read_text().split()]
        self.started = {pid: process.start_time(pid) for pid in self.workers}

    def alive(self) -> list[int]:
        now = {pid: process.start_time(pid) for pid in self.workers}
        return [pid for pid in self.workers if now[pid] and now[pid] == self.started[pid]]

    def until_gone(self) -> None:
        """Wait for workers that were killed and that somebody else has to reap."""
        for pid in self.alive():
            with contextlib.suppress(ProcessLookupError):
                fd = os.pidfd_open(pid)
                assert select.select([fd], [], [], 60)[0], f"{pid} is alive"
                os.close(fd)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_then_resumed(runner: Runner, number: signal.Signals) -> None:
    elsewhere = Elsewhere(runner, "exec sleep 600")
    elsewhere.process.send_signal(number)
    out, err = elsewhere.process.communicate(timeout=60)
    assert elsewhere.process.returncode == 130, err
    assert out.startswith("interrupted interrupted with 3 attempts")
    assert elsewhere.alive() == []
    assert set(runner.states().values()) <= {"leased", "spawned"}
    assert runner(WRITE).state == "complete"
    assert sorted(runner.states()) == ["1.1@1", "1.2@1", "1.3@1", "2.1@1"]


def test_interrupted_twice_does_not_wait(runner: Runner) -> None:
    elsewhere = Elsewhere(runner, STUBBORN, grace=600)
    elsewhere.process.send_signal(signal.SIGINT)
    assert elsewhere.process.stderr is not None
    while "stopping" not in elsewhere.process.stderr.readline():
        pass
    elsewhere.process.send_signal(signal.SIGINT)
    out, err = elsewhere.process.communicate(timeout=60)
    assert elsewhere.process.returncode == 130, err
    assert out.startswith("interrupted interrupted with 3 attempts")
    assert elsewhere.alive() == []


def test_interrupted_at_every_moment_of_its_end(runner: Runner) -> None:
    """However often it is, the process ends by itself, and so do the workers."""
    elsewhere = Elsewhere(runner, STUBBORN, grace=600)
    while elsewhere.process.poll() is None:
        elsewhere.process.send_signal(signal.SIGINT)
    _, err = elsewhere.process.communicate(timeout=60)
    assert elsewhere.process.returncode == 130, err
    elsewhere.until_gone()
    assert runner(WRITE).state == "complete"
    assert sorted(runner.states()) == ["1.1@1", "1.2@1", "1.3@1", "2.1@1"]


def test_killed_then_resumed(runner: Runner) -> None:
    """The next runner ends the orphans first, and waits for no lease."""
    elsewhere = Elsewhere(runner, "exec sleep 600")
    elsewhere.process.kill()
    elsewhere.process.communicate()
    assert len(elsewhere.alive()) == 3
    seen = look.status(runner.ctx, "add-it").attempts
    assert {a.relay.suggested_action for a in seen if a.state in WORKING} == {"reconcile"}
    assert all(a.relay.runner_gone for a in seen if a.state in WORKING)
    batch = runner(f"test -f file-$BATON_TICKET || {WRITE}; git status --short", max_minutes=5)
    assert batch.state == "complete"
    assert elsewhere.alive() == []
    assert sorted(runner.states()) == ["1.1@1", "1.2@1", "1.3@1", "2.1@1"]
    log = (runner.attempt_dir("1.1-a1") / "log").read_text()
    assert "file-1.1" in log  # it went on in the same worktree
    assert "[1.1@1] started: one (again)" in runner.lines


def test_a_living_runner_keeps_its_attempts(runner: Runner) -> None:
    elsewhere = Elsewhere(runner, "exec sleep 600")
    try:
        with pytest.raises(Interrupted):
            runner(WRITE, view=Impatient(runner.out))
        assert len(elsewhere.alive()) == 3
        assert any(re.search(r"waiting: .*1\.1@1", line) for line in runner.lines)
        assert any(line.startswith("1.1@1 is held by session run-") for line in runner.lines)
    finally:
        elsewhere.process.send_signal(signal.SIGINT)
        elsewhere.process.communicate(timeout=60)
