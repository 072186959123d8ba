"""One attempt from dispatch to receipt: what the thread that looks after it does.

The worker is a program that ends. Everything after that - committing what it left, sealing, telling
it what was refused and starting it again - happens here, many attempts side by side; what becomes
of the run is decided elsewhere, from the `Ended` that comes out.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from gitbaton.engine import worker as engine
from gitbaton.engine.context import LOG, Context
from gitbaton.engine.contract import PROMPT
from gitbaton.engine.prepare import CHECKED, PREPARED, recorded_paths
from gitbaton.errors import BatonError, NeedsPerson, NotFound, Refused
from gitbaton.evidence.checks import TAIL, describe
from gitbaton.git import checkout, refs
from gitbaton.git.process import clean_environment
from gitbaton.lock import Lock
from gitbaton.model.action import Dispatch, ResolveMerge
from gitbaton.model.ids import AttemptId
from gitbaton.model.receipt import CheckResult
from gitbaton.runner import process
from gitbaton.runner.agents import agent_command, fill, prompt_on_stdin
from gitbaton.runner.live import View, last_line
from gitbaton.runner.session import LOST, RUNNER, Leases
from gitbaton.store import runs
from gitbaton.store.trailers import one_line

QUICK = 10.0  # seconds within which a worker that dies has most likely not begun
_NOT_ITS_FAULT = frozenset(("setup-failed", "copy-failed", "no-checks", "being-integrated"))

Work = Dispatch | ResolveMerge
Outcome = Literal["completed", "failed", "left", "lost"]


class Ended(NamedTuple):
    """How it went. ``left`` stays as it is, to be resumed; ``lost`` belongs to somebody else by
    now; ``message`` is for the next attempt; an ``error`` is none of the worker's and concerns the
    whole run."""

    work: Work
    outcome: Outcome
    message: str = ""
    error: BaseException | None = None


@dataclass(frozen=True)
class Terms:
    """What holds for every attempt of one `run`. ``pauses`` are seconds before each new try with
    a worker that died at once."""

    ctx: Context
    command: str
    retries: int
    commit: bool
    session: str
    pauses: Sequence[float]
    view: View
    leases: Leases
    crew: Crew


class Crew:
    """The workers that are alive. Once told to stop, none is added."""

    def __init__(self) -> None:
        self._workers: set[process.Worker] = set()
        self._lock = threading.Lock()
        self.stopping = threading.Event()

    def start(self, make: Callable[[], process.Worker]) -> process.Worker | None:
        """The worker that ``make`` starts, or None when stopping."""
        with self._lock:
            if self.stopping.is_set():
                return None
            worker = make()
            self._workers.add(worker)
            return worker

    def remove(self, worker: process.Worker) -> None:
        with self._lock:
            self._workers.discard(worker)

    def stop(self, number: int) -> None:
        """Start nothing more and send a signal to all."""
        with self._lock:
            self.stopping.set()
            workers = list(self._workers)
        for worker in workers:
            worker.signal(number)


class _Lost(Exception):
    """The attempt is no longer ours."""


def attend(terms: Terms, run: str, work: Work, lock: Lock, *, bound: bool) -> Ended:
    """Bring an attempt to its receipt, or to the end of what can be tried inside it.

    ``lock`` is the attempt's runner lock, held; it is released. ``bound``: an earlier worker's id
    is on record already. Never raises.
    """
    attempt = _Attempt(terms, run, work, bound)
    try:
        outcome = attempt.work_off()
        return Ended(work, outcome, attempt.message)
    except _Lost:
        return Ended(work, "lost")
    except BaseException as error:
        return Ended(work, "left", error=error)
    finally:
        terms.leases.remove(work.assignment)
        lock.release()


class _Attempt:
    def __init__(self, terms: Terms, run: str, work: Work, bound: bool) -> None:
        self._terms = terms
        self._ctx = terms.ctx
        self._run = run
        self._work = work
        self._id = AttemptId(work.ticket, work.attempt)
        self._name = str(self._id)
        self._dir = self._ctx.attempt_dir(run, self._id)
        self._bound = bound
        self._lost = threading.Event()
        self.message = ""
        configured = self._ctx.settings.agents
        self._template = agent_command(work.agent, configured) if work.agent else terms.command

    def work_off(self) -> Outcome:
        """Start the worker, seal, and do so again as often as that makes sense."""
        terms, prompt = self._terms, self._work.prompt
        refused = died = 0
        retries, uncommitted = terms.retries, ""
        while True:
            before, began = self._tip(), time.monotonic()
            code = self._run_worker(prompt, refused)
            if code is None or terms.crew.stopping.is_set():
                return "left"
            if self._lost.is_set():
                raise _Lost
            if code != 0:
                quick = time.monotonic() - began < QUICK and self._tip() == before
                if quick and code in (126, 127):
                    raise self._no_such_command(code)
                if not quick or died >= len(terms.pauses):
                    return self._fail(f"the worker {describe(code)}", self._log_tail())
                if not self._pause(code, terms.pauses[died]):
                    return "left"
                died += 1
                continue
            refusal = self._seal()
            if refusal is None:
                terms.view.event(self._name, "sealed")
                return "completed"
            if terms.crew.stopping.is_set():
                return "left"
            said = _what_refused(refusal)
            if said and said == uncommitted:
                raise self._cannot_commit(said)
            if said and not uncommitted:
                retries += 1  # a hook may want something that the worker can do
            uncommitted = said
            if refused >= retries:
                return self._fail(refusal.message, details(refusal))
            refused += 1
            what = "checks failed" if refusal.code == "checks-failed" else refusal.message
            terms.view.event(self._name, f"{what}, again ({refused}/{retries})", bad=True)
            prompt = self._work.prompt + complaint(refusal)

    def _fail(self, headline: str, details: str) -> Outcome:
        self._terms.view.event(self._name, f"{headline}: given up", bad=True)
        self.message = f"{headline}\n\n{details}".strip()
        return "failed"

    def _log_tail(self) -> str:
        try:
            with (self._dir / LOG).open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL))
                return log.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def _run_worker(self, prompt: str, number: int) -> int | None:
        """Exit code of one worker process; None when it was not to be started any more."""
        terms = self._terms
        worker = terms.crew.start(lambda: self._start(prompt, number))
        if worker is None:
            return None
        try:
            agent = None if self._bound else worker.id
            self._bound = True  # further workers at this attempt go by the id of the first
            terms.leases.started(self._work.assignment, agent, lambda: self._give_up(worker))
            terms.view.phase(self._name, "at work")
            return worker.wait()
        finally:
            terms.crew.remove(worker)

    def _start(self, prompt: str, number: int) -> process.Worker:
        prompt_file = self._dir / PROMPT
        if number:
            prompt_file = self._dir / f"prompt-{number + 1}.md"
            prompt_file.write_text(prompt)
        stdin = prompt_file if prompt_on_stdin(self._template) else Path(os.devnull)
        return process.start(
            fill(self._template, prompt, prompt_file),
            Path(self._work.cwd),
            env=self._environment(prompt_file),
            stdin=stdin,
            log=self._dir / LOG,
            record=self._dir / RUNNER,
            boot=self._ctx.clock.now().boot,
            session=self._terms.session,
        )

    def _environment(self, prompt_file: Path) -> dict[str, str]:
        work = self._work
        return clean_environment(
            {
                "BATON_RUN": self._run,
                "BATON_TICKET": work.ticket,
                "BATON_ATTEMPT": str(work.attempt),
                "BATON_ASSIGNMENT": work.assignment,
                "BATON_TOKEN": work.token,
                "BATON_PACKET": work.packet,
                "BATON_PROMPT_FILE": str(prompt_file),
                "BATON_ATTEMPT_DIR": str(self._dir),
            }
        )

    def _has_receipt(self) -> bool:
        """A worker may seal by itself, and even be integrated before it has ended."""
        attempt = runs.load(self._ctx.repo, self._run).attempt(self._id)
        return attempt is not None and attempt.state in ("sealed", "integrating", "succeeded")

    def _give_up(self, worker: process.Worker) -> None:
        if not self._has_receipt():
            self._lost.set()
            worker.signal(signal.SIGTERM)

    def _pause(self, code: int, seconds: float) -> bool:
        text = f"worker {describe(code)} at once, again in {seconds:g} s"
        if said := last_line(self._dir / LOG):
            text += f": {said}"
        self._terms.view.event(self._name, text, bad=True)
        self._terms.view.phase(self._name, "waits")
        return not self._terms.crew.stopping.wait(seconds)

    def _seal(self) -> BatonError | None:
        """Commit what is left and seal; returns what the worker can mend."""
        self._terms.view.phase(self._name, "checks")
        try:
            if self._terms.commit:
                self._commit_rest()
            engine.seal(self._ctx, self._work.assignment, self._work.token, noted=False)
        except (Refused, NotFound) as error:
            if error.code in LOST:
                if self._has_receipt():
                    return None
                raise _Lost from error
            if error.code in _NOT_ITS_FAULT:
                raise
            return error
        return None

    def _commit_rest(self) -> None:
        top = Path(self._work.cwd)
        if not (top / ".git").exists() or checkout.head_ref(top) != self._ref:
            return  # `seal` says what is wrong
        prepared, checked = (
            recorded_paths(self._ctx, self._run, self._id, which) for which in (PREPARED, CHECKED)
        )
        checkout.commit_all(top, commit_message(self._work), prepared | checked)

    @property
    def _ref(self) -> str:
        return "refs/heads/" + self._work.branch.removeprefix("refs/heads/")

    def _tip(self) -> str | None:
        return refs.read(self._ctx.repo, self._ref)

    def _cannot_commit(self, said: str) -> NeedsPerson:
        return NeedsPerson(
            "commit-failed",
            f"what the worker left cannot be committed: {said}",
            f"see what `git commit` says in {self._work.cwd}, repair that, then run again",
        )

    def _no_such_command(self, code: int) -> NeedsPerson:
        return NeedsPerson(
            "worker-cannot-start",
            f"the worker's command {describe(code)}: {self._template}",
            f"correct the command, which runs in a worktree; its output is in {self._dir / LOG}",
        )


def _what_refused(refusal: BatonError) -> str:
    """The first line of what git or a hook said against a commit; empty for other refusals."""
    if refusal.code != "commit-failed":
        return ""
    output = str(refusal.payload.get("output", ""))
    return next((line.strip() for line in output.splitlines() if line.strip()), refusal.message)


def commit_message(work: Work) -> str:
    """``KEY: title`` in at most 72 characters; a longer title is repeated below."""
    title = " ".join(one_line(work.title).split())
    subject = f"{work.ticket}: {title}"
    if len(subject) <= 72:
        return subject + "\n"
    return f"{subject[:71].rstrip()}…\n\n{title}\n"


_AGAIN = """
## Not accepted yet

You have worked on this before; your work is in this worktree, and it was refused:
"""


def complaint(refusal: BatonError) -> str:
    """What a worker is told when it starts again, as the end of its prompt."""
    return "\n".join((_AGAIN, f"{refusal.message}\n", details(refusal)))


def details(refusal: BatonError) -> str:
    """What a refusal says beyond its message: the hint, and what red checks printed."""
    parts = []
    if refusal.hint:
        parts.append(f"{refusal.hint}\n")
    checks = refusal.payload.get("checks", ())
    for check in checks if isinstance(checks, Sequence) else ():
        if isinstance(check, CheckResult) and not check.green:
            said = check.output_tail.strip()
            parts.append(f"`{check.command}` {describe(check.exit_code)}:\n\n```\n{said}\n```\n")
    output = refusal.payload.get("output")
    if isinstance(output, str) and output.strip():
        parts.append(f"```\n{output.strip()}\n```\n")
    return "\n".join(parts)
