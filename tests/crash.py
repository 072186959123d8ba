"""Every verb killed, or refused a system call, at every point where it changes something.

`strace` stops one run of a verb at its k-th `rename`, `write`, `mkdir` and so on, in the verb
itself or in one of the git processes that it starts. Then the same verb is run again, the run is
driven to its end by the ordinary loop, and the invariants are checked: nothing acknowledged is
lost, nothing is done twice, nobody has to repair anything.

    python tests/crash.py --all                   every point of every verb (an hour)
    python tests/crash.py --all --verb seal
    python tests/crash.py --sample 60             as many as fit into a minute

A kill takes down the whole verb: of a git process that is killed, the verb dies with it, or (an
orphan) the verb dies first and git goes on. An error (a full disk, an I/O error) must be told in
one line, and the same verb must work afterwards.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import batch_scene
import scene

from gitbaton.engine import worker
from gitbaton.engine.dispatch import actions
from gitbaton.engine.reconcile import reconcile
from gitbaton.model.action import Dispatch
from gitbaton.store import runs

CALLS = (
    "write",
    "pwrite64",
    "writev",
    "sendfile",
    "copy_file_range",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "unlink",
    "unlinkat",
    "rmdir",
    "mkdir",
    "mkdirat",
    "ftruncate",
    "fsync",
    "fdatasync",
)
# What a full disk and a bad one refuse.
REFUSED = {
    "ENOSPC": {"write", "pwrite64", "writev", "rename", "link", "symlink", "mkdir", "fsync"},
    "EIO": {"write", "pwrite64", "writev", "rename", "link", "unlink", "mkdir", "fsync"},
}
SECTIONS = (2, 1)
ITEMS = ("B-1", "B-2")
REQUEST = "crash"

_GIT = """\
#!/bin/sh
# git as the verb under test starts it: each process is counted, and one of them meets its fate.
read n < "$CRASH_FOLDER/count"; n=$((n + 1)); echo $n > "$CRASH_FOLDER/count"
case "$CRASH_MODE" in
trace) exec strace -y -qq -o "$CRASH_FOLDER/git.$n" -e trace="$CRASH_CALLS" "$CRASH_GIT" "$@" ;;
esac
test $n -eq "$CRASH_AT" || exec "$CRASH_GIT" "$@"
case "$CRASH_MODE" in
orphan) kill -9 $PPID; exec "$CRASH_GIT" "$@" ;;
kill) strace -qq -o /dev/null -e trace="$CRASH_CALL" -e inject="$CRASH_INJECT" "$CRASH_GIT" "$@"
      code=$?; test $code -eq 137 && kill -9 $PPID; exit $code ;;
error) exec strace -qq -o /dev/null -e trace="$CRASH_CALL" -e inject="$CRASH_INJECT" \
           "$CRASH_GIT" "$@" ;;
esac
"""


class Point(NamedTuple):
    """The ``count``-th ``call`` of process ``git`` (0: the verb itself) and its ``fate``: ``kill``,
    ``orphan``, ``ENOSPC`` or ``EIO``. ``what`` shows the call."""

    git: int
    call: str
    count: int
    fate: str
    what: str

    @property
    def kills(self) -> bool:
        return self.fate in ("kill", "orphan")

    def __str__(self) -> str:
        process = f"git {self.git}" if self.git else "verb"
        return f"{self.fate} {process} {self.call}#{self.count} {self.what}"


@dataclass
class Stage:
    """A prepared repository and the command that is going to be cut off in it.

    ``again`` is what a caller does after the cut; ``done`` codes with which that may also say that
    there is nothing left to do. ``sealed`` commits were acknowledged before. ``check`` goes on to
    the end of something else than the run of the change, and judges that.
    """

    command: tuple[str, ...]
    again: tuple[str, ...] = ()
    cwd: Path = Path("repo")
    done: tuple[str, ...] = ()
    sealed: dict[str, str] = field(default_factory=dict)
    reopened: tuple[str, ...] = ()
    landed: bool = False
    check: Callable[[Path], None] | None = None


# --- preparing, one function a verb ------------------------------------------------------------


def _claimed(top: Path, capacity: int = 4) -> list[Dispatch]:
    batch = scene.act(scene.context(top), capacity=capacity)
    return [a for a in batch.actions if isinstance(a, Dispatch)]


def _sealed(top: Path, given: Dispatch) -> tuple[str, str]:
    scene.work(given)
    done = worker.seal(scene.context(top), given.assignment, token=given.token)
    return given.ticket, done.commit


def _move_base(top: Path) -> None:
    (top / "base.txt").write_text("moved\n")
    scene.git(top, "add", "base.txt")
    scene.git(top, "commit", "-q", "-m", "base moved")


def prepare_actions(top: Path) -> Stage:
    command = ("actions", scene.RUN, "--session", "s", "--capacity", "2")
    return Stage(command, (*command, "--redeliver"))


def prepare_seal(top: Path) -> Stage:
    first, second = _claimed(top)
    acknowledged = dict([_sealed(top, first)])
    scene.work(second)
    cwd = Path(os.path.relpath(second.cwd, top.parent))
    return Stage(("seal",), cwd=cwd, sealed=acknowledged)


def prepare_reconcile(top: Path) -> Stage:
    acknowledged = dict(_sealed(top, given) for given in _claimed(top))
    command = ("reconcile", f"{scene.RUN}/1.1@1", "--outcome", "completed", "--session", "s")
    again = ("actions", scene.RUN, "--session", "s", "--redeliver")
    return Stage(command, again, sealed=acknowledged)


def prepare_reconcile_checked_out(top: Path) -> Stage:
    stage = prepare_reconcile(top)
    scene.git(top, "worktree", "add", "-q", str(top.parent / "view"), f"baton/{scene.RUN}")
    return stage


def prepare_land(top: Path) -> Stage:
    scene.drive(top)
    return Stage(("land", scene.RUN), landed=True)


def prepare_land_merge(top: Path) -> Stage:
    scene.drive(top)
    _move_base(top)
    return Stage(("land", scene.RUN), landed=True)


def prepare_update(top: Path) -> Stage:
    given = _claimed(top)[0]
    acknowledged = dict([_sealed(top, given)])
    _move_base(top)
    return Stage(("update", scene.RUN), sealed=acknowledged)


def prepare_reopen(top: Path) -> Stage:
    given = _claimed(top)[0]
    acknowledged = dict([_sealed(top, given)])
    reconcile(scene.context(top), given.assignment, outcome="completed", session="s")
    return Stage(
        ("reopen", scene.RUN, "1.1", "--reason", "once more"),
        done=("ticket-open",),
        sealed=acknowledged,
        reopened=("1.1",),
    )


def prepare_queue_import(top: Path) -> Stage:
    batch_scene.add(top, ITEMS)
    (top / "found.json").write_text(
        '[{"id": "C-1", "title": "one"}, {"id": "C-2", "title": "two"}]'
    )
    command = ("queue", "import", "found.json", "--queue", batch_scene.QUEUE)
    return Stage(command, check=partial(_check_batch, items=(*ITEMS, "C-1", "C-2")))


def prepare_batch_open(top: Path) -> Stage:
    batch_scene.add(top, ITEMS)
    words = ("--queue", batch_scene.QUEUE, "--request-id", REQUEST)
    return Stage(("batch", "open", *words), check=_check_batch)


def prepare_batch_actions(top: Path) -> Stage:
    batch_scene.add(top, ITEMS)
    run = batch_scene.open_root(top, REQUEST)
    command = ("actions", run, "--session", "s", "--capacity", "2")
    return Stage(command, (*command, "--redeliver"), check=_check_batch)


def _handed_out(top: Path) -> tuple[str, list[Dispatch]]:
    """An open batch, and what was handed out of it."""
    batch_scene.add(top, ITEMS)
    run = batch_scene.open_root(top, REQUEST)
    batch = actions(scene.context(top), run, session="s", capacity=4)
    return run, [a for a in batch.actions if isinstance(a, Dispatch)]


def prepare_batch_reconcile(top: Path) -> Stage:
    """The last report of a batch, which integrates all and closes it."""
    run, given = _handed_out(top)
    for each in given:
        _sealed(top, each)
    command = ("reconcile", given[0].assignment, "--outcome", "completed", "--session", "s")
    again = ("actions", run, "--session", "s", "--redeliver")
    return Stage(command, again, check=_check_batch)


def prepare_dispose(top: Path) -> Stage:
    """The first waits for the last, which nobody has taken yet."""
    _, given = _handed_out(top)
    batch_scene.add(top, ["C-1"])
    cwd = Path(os.path.relpath(given[0].cwd, top.parent))
    words = ("--as", "blocked", "--by", "C-1", "--reason", "later")
    return Stage(("dispose", *words), cwd=cwd, check=partial(_check_batch, items=(*ITEMS, "C-1")))


def _check_batch(top: Path, items: Sequence[str] = ITEMS) -> None:
    batch_scene.drive(top, batch_scene.open_root(top, REQUEST))
    batch_scene.check(top, [REQUEST], items)


VERBS: dict[str, Callable[[Path], Stage]] = {
    "actions": prepare_actions,
    "seal": prepare_seal,
    "reconcile": prepare_reconcile,
    "reconcile-checked-out": prepare_reconcile_checked_out,
    "land": prepare_land,
    "land-merge": prepare_land_merge,
    "update": prepare_update,
    "reopen": prepare_reopen,
    "queue-import": prepare_queue_import,
    "batch-open": prepare_batch_open,
    "batch-actions": prepare_batch_actions,
    "batch-reconcile": prepare_batch_reconcile,
    "dispose": prepare_dispose,
}


# --- cutting off -------------------------------------------------------------------------------


class Rig:
    """One verb, its prepared stage, and a folder in which one copy at a time is played.

    Worktrees record absolute paths, so every copy is put where the original was made.
    """

    def __init__(self, folder: Path, verb: str) -> None:
        self.verb = verb
        self.folder = folder.resolve()
        self.now = self.folder / "now"
        self.pristine = self.folder / "pristine"
        self.top = self.now / "repo"
        self.traces = self.folder / "traces"
        binaries = self.folder / "bin"
        for made in (binaries, self.traces):
            made.mkdir(parents=True)
        (binaries / "git").write_text(_GIT)
        (binaries / "git").chmod(0o755)
        scene.make_repository(self.top, SECTIONS)
        self.stage = VERBS[verb](self.top)
        self.now.rename(self.pristine)

    def reset(self) -> None:
        shutil.rmtree(self.now, ignore_errors=True)
        shutil.copytree(self.pristine, self.now, symlinks=True)

    def points(self) -> list[Point]:
        """Every point of the verb, found by letting it run once undisturbed."""
        self.reset()
        log = self.traces / "verb"
        trace = ["strace", "-y", "-qq", "-o", str(log), "-e", "trace=" + ",".join(CALLS)]
        done = self.run(self.stage.command, prefix=trace, mode="trace")
        assert done.returncode == 0, done
        found = list(self._mutations(0, log))
        for number in range(1, int((self.traces / "count").read_text()) + 1):
            found.append(Point(number, "exec", 1, "orphan", ""))
            found += self._mutations(number, self.traces / f"git.{number}")
        return found

    def _mutations(self, git: int, log: Path) -> Iterator[Point]:
        counts: dict[str, int] = {}
        for line in log.read_text(errors="replace").splitlines():
            call = line.partition("(")[0]
            counts[call] = counts.get(call, 0) + 1
            if call not in CALLS or str(self.now) not in line:
                continue  # pipes, temporary files elsewhere
            what = line.partition("(")[2].replace(str(self.now), "")[:90]
            yield Point(git, call, counts[call], "kill", what)
            for fate, refused in REFUSED.items():
                if call in refused:
                    yield Point(git, call, counts[call], fate, what)

    def run(
        self,
        command: tuple[str, ...],
        *,
        prefix: list[str] | None = None,
        mode: str = "",
        at: int = 0,
        inject: str = "",
    ) -> subprocess.CompletedProcess[str]:
        env = scene.with_package()
        if mode:
            (self.traces / "count").write_text("0\n")
            env["CRASH_GIT"] = shutil.which("git") or "git"
            env["PATH"] = f"{self.folder / 'bin'}:{env['PATH']}"
            env["CRASH_FOLDER"] = str(self.traces)
            env["CRASH_CALLS"] = ",".join(CALLS)
            env.update(
                CRASH_MODE=mode,
                CRASH_AT=str(at),
                CRASH_INJECT=inject,
                CRASH_CALL=inject.partition(":")[0],
            )
        return subprocess.run(
            [*(prefix or []), sys.executable, "-m", "gitbaton", *command],
            cwd=self.now / self.stage.cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def cut(self, point: Point) -> subprocess.CompletedProcess[str]:
        """Run the verb with ``point`` in its way."""
        if point.fate == "orphan":
            return self.run(self.stage.command, mode="orphan", at=point.git)
        killed = point.fate == "kill"
        # A signal alone lets the call be made first.
        fate = "error=EINTR:signal=SIGKILL" if killed else f"error={point.fate}"
        inject = f"{point.call}:{fate}:when={point.count}"
        if point.git:
            mode = "kill" if killed else "error"
            return self.run(self.stage.command, mode=mode, at=point.git, inject=inject)
        # Without a trace of the call, strace would not touch it.
        trace = ["strace", "-qq", "-o", "/dev/null", "-e", f"trace={point.call}"]
        return self.run(self.stage.command, prefix=[*trace, "-e", f"inject={inject}"])

    def play(self, point: Point) -> bool:
        """Cut the verb off, and prove that nothing came of it; raises AssertionError. False if the
        verb was not cut off: it did not mind the error, or did not make the call this time."""
        self.reset()
        cut = self.cut(point)
        if not point.kills:
            _one_clear_line(cut)
        if "notes rebuild" in cut.stderr:  # notes are a projection: the warning says what to do
            self.run(("notes", "rebuild"))
        scene.check_objects(self.top)
        again = self.run(self.stage.again or self.stage.command)
        said = again.stdout + again.stderr
        if again.returncode != 0:
            assert any(self._says(code) for code in self.stage.done), f"{again}"
        assert "Traceback" not in said and "this is a bug" not in said, again
        self.check()
        return cut.returncode in (-9, 137) if point.kills else cut.returncode != 0

    def _says(self, code: str) -> bool:
        again = self.run((*(self.stage.again or self.stage.command), "--json"))
        error = scene.document(again.stdout).get("error")
        return isinstance(error, dict) and error["code"] == code

    def check(self) -> None:
        """The run goes on to its end by the ordinary loop, and all is as it should be."""
        if self.stage.check is not None:
            self.stage.check(self.top)
            return
        if self.stage.landed:
            self._check_landed()
        scene.drive(self.top)
        scene.check_run(
            self.top,
            scene.keys_of(SECTIONS),
            sealed=self.stage.sealed,
            reopened=self.stage.reopened,
        )

    def _check_landed(self) -> None:
        run = runs.load(scene.context(self.top).repo, scene.RUN).state.run
        assert scene.git(self.top, "merge-base", "trunk", run.tip) == run.tip
        status = scene.git(self.top, "status", "--porcelain")
        assert status == "", f"files differ from the branch: {status}"


def _one_clear_line(cut: subprocess.CompletedProcess[str]) -> None:
    """A refused call is survived, or told in one line with what to do about it."""
    assert "Traceback" not in cut.stderr and "this is a bug" not in cut.stderr, cut
    if cut.returncode != 0:
        lines = [x for x in cut.stderr.splitlines() if not re.match("git-baton: (warning|rem)", x)]
        assert cut.returncode > 0 and lines and lines[0].startswith("git-baton: "), cut
        assert len(lines) <= 2 and all(len(line) < 400 for line in lines), cut


# --- sweeping ----------------------------------------------------------------------------------


def sweep(
    folder: Path, verb: str, seconds: float | None, *, seed: int = 1, only: str = ""
) -> Mapping[Point, str]:
    """Play every point of a verb, or in random order those for which there is time; what failed."""
    deadline = time.monotonic() + seconds if seconds else None
    rig = Rig(folder, verb)
    points = [point for point in rig.points() if re.search(only, str(point))]
    if deadline:
        random.Random(seed).shuffle(points)
    failed: dict[Point, str] = {}
    played = kills = hits = stopped = 0
    for point in points:
        if deadline and time.monotonic() > deadline:
            break
        played += 1
        kills += point.kills
        try:
            stops = rig.play(point)
            stopped += stops
            hits += stops and point.kills
        except Exception as error:
            failed[point] = f"{type(error).__name__}: {error}"
            print(f"{verb}: {point}\n    {failed[point][:1500]}", flush=True)
    # Names of objects are random, so that now and then a call is not made again; but a trace that
    # hits nothing proves nothing.
    if 2 * hits < kills - len(failed):
        failed[points[0]] = f"only {hits} of {kills} kills hit their mark"
    print(
        f"{verb}: {played} of {len(points)} points played, {stopped} stopped the verb, "
        f"{len(failed)} failed",
        flush=True,
    )
    return failed


def fast_folder() -> str | None:
    """Memory, where there is some: a killed process loses nothing that was not synced."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--all", action="store_true", help="every point")
    how.add_argument("--sample", type=float, metavar="SECONDS", help="what fits into that time")
    parser.add_argument("--verb", action="append", choices=VERBS, help="only these verbs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", default="", metavar="REGEX", help="only points that match it, e.g. ^kill"
    )
    given = parser.parse_args()
    if shutil.which("strace") is None:
        parser.error("strace is not installed")
    verbs = given.verb or list(VERBS)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="baton-crash-", dir=fast_folder()) as folder:
        os.environ.update(scene.sealed_environment(Path(folder)))
        for verb in verbs:
            place = Path(folder) / verb
            seconds = given.sample / len(verbs) if given.sample else None
            failed += len(sweep(place, verb, seconds, seed=given.seed, only=given.only))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
