"""git-baton as a user types it, on real repositories, in this process and on a clock of its own.

`Project` is a repository with one change. Its methods are what a caller's loop is made of, so that
a scenario reads like a transcript. After every scenario `Project.assert_sound` looks for what must
never be: an unrecorded commit on an integration branch, a box ticked without a receipt, an intent
or a lock left behind, an object missing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gitbaton.cli.main import cli
from gitbaton.clock import Moment

Json = dict[str, Any]

CHANGE = "add-login"
TASKS = """\
## 1. Start

- [ ] 1.1 Write the first file
- [ ] 1.2 Write the second file

## 2. End

- [ ] 2.1 Write the last file
"""
TWO = "- [ ] 1.1 One\n- [ ] 1.2 Two\n"  # tickets that wait for nothing
TASKS_MD = f"openspec/changes/{CHANGE}/tasks.md"
CHECK = "test ! -e broken"


class FakeClock:
    """A machine whose time only moves when the scenario says so."""

    def __init__(self) -> None:
        self.wall = datetime(2031, 5, 4, 12, tzinfo=UTC)
        self.monotonic = 1000.0
        self.machine = "machine-a"
        self.boot = "boot-1"

    def now(self) -> Moment:
        return Moment(self.wall, self.monotonic, self.machine, self.boot)

    def advance(self, seconds: float) -> None:
        """Time goes by."""
        self.monotonic += seconds
        self.wall += timedelta(seconds=seconds)

    def set_wall(self, seconds: float) -> None:
        """Somebody sets the wall clock, forward or back; no time goes by."""
        self.wall += timedelta(seconds=seconds)


class Said(dict[str, Any]):
    """The JSON document of a verb, with what it wrote to stderr."""

    stderr: str = ""

    @property
    def code(self) -> str:
        return str(self["error"]["code"])

    @property
    def message(self) -> str:
        return str(self["error"]["message"])

    def kinds(self) -> list[str]:
        return [action["kind"] for action in self["actions"]]

    def of(self, kind: str) -> list[Json]:
        return [action for action in self["actions"] if action["kind"] == kind]

    def dispatch(self, ticket: str) -> Json:
        """The one dispatch (or merge to resolve) of a ticket."""
        found = [
            a
            for a in self["actions"]
            if a["kind"] in ("dispatch", "resolve_merge") and a["ticket"] == ticket
        ]
        assert len(found) == 1, (ticket, self["actions"])
        return found[0]

    def tickets(self) -> list[str]:
        """The tickets that are handed out."""
        return [a["ticket"] for a in self["actions"] if a["kind"] in ("dispatch", "resolve_merge")]


class Project:
    """A repository at ``top`` on branch ``base``, and the current directory ``cwd`` in it."""

    def __init__(self, top: Path, clock: FakeClock, change_dir: Callable[[Path], None]) -> None:
        self.top = top
        self.cwd = top
        self.clock = clock
        self._chdir = change_dir

    @classmethod
    def init(
        cls,
        top: Path,
        clock: FakeClock,
        change_dir: Callable[[Path], None],
        base: str = "trunk",
        tasks: str | None = None,
    ) -> Project:
        """A new repository with one commit, and the current directory in it."""
        subprocess.run(["git", "init", "-q", "-b", base, str(top)], check=True)
        project = cls(top, clock, change_dir)
        project.git("config", "baton.fsync", "false")
        project.git("config", "baton.verify", CHECK)
        project.write("README", "hello\n")
        if tasks is not None:
            project.plan(tasks)
        project.git("add", "--all")
        project.git("commit", "-q", "-m", "first")
        change_dir(top)
        return project

    # --- commands ----------------------------------------------------------------------------

    def type(self, *args: str, cwd: Path | str | None = None, env: Json | None = None) -> Result:
        """``git baton ARGS`` as text for people."""
        self._chdir(Path(cwd or self.cwd))
        try:
            return CliRunner().invoke(cli, list(args), prog_name="git-baton", env=env)
        finally:
            self._chdir(self.cwd)

    def baton(
        self,
        *args: str,
        cwd: Path | str | None = None,
        code: int | None = 0,
        env: Json | None = None,
    ) -> Said:
        """``git baton ARGS --json``: stdout must be one document and the exit status ``code``."""
        options = args.index("--") if "--" in args else len(args)
        words = (*args[:options], "--json", *args[options:])
        result = self.type(*words, cwd=cwd, env=env)
        told = f"git baton {' '.join(args)}\n{result.stdout}{result.stderr}"
        if code is None:  # whatever it is
            code = result.exit_code
        assert result.exit_code == code, told
        said = Said(json.loads(result.stdout))
        assert said["ok"] is (code == 0), told
        assert ("error" in said) is (code != 0), told
        if code:
            assert said.code != "bug", told
            assert said["error"]["message"], told
        assert "Traceback" not in result.stderr, told
        said.stderr = result.stderr
        return said

    def refused(self, *args: str, code: int = 1, **options: Any) -> Said:
        """A verb that must say no and change nothing, in files or refs."""
        before = self.picture()
        said = self.baton(*args, code=code, **options)
        assert self.picture() == before, (args, said)
        return said

    def git(self, *args: str, cwd: Path | str | None = None, code: int = 0) -> str:
        done = subprocess.run(
            ["git", *args],
            cwd=cwd or self.top,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
        )
        assert done.returncode == code, (args, done.stdout, done.stderr)
        return done.stdout.rstrip("\n")

    # --- people ------------------------------------------------------------------------------

    def write(self, path: str, text: str, cwd: Path | str | None = None) -> Path:
        file = Path(cwd or self.top) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def commit(self, files: dict[str, str], cwd: Path | str | None = None) -> str:
        """Write and commit ``files``; the new commit."""
        where = cwd or self.top
        for path, text in files.items():
            self.write(path, text, where)
        self.git("add", "--all", *files, cwd=where)
        self.git("commit", "-q", "--allow-empty", "-m", f"work: {' '.join(files)}", cwd=where)
        return self.git("rev-parse", "HEAD", cwd=where)

    def plan(self, text: str, change: str = CHANGE, folder: str = "") -> Path:
        """Write the tasks of a change in the working tree."""
        place = f"{folder}openspec/changes/{change}"
        self.write(f"{place}/proposal.md", f"# {change}\n")
        return self.write(f"{place}/tasks.md", text)

    def approve(self, text: str) -> None:
        """Write the tasks of the change and commit them."""
        self.plan(text)
        self.git("add", "--all")
        self.git("commit", "-q", "-m", "the plan")

    def set(self, key: str, value: str) -> None:
        self.git("config", "--add", f"baton.{key}", value)

    # --- the loop of a caller ----------------------------------------------------------------

    def actions(self, *args: str, session: str = "s", code: int | None = 0, **options: Any) -> Said:
        return self.baton("actions", *args, "--session", session, code=code, **options)

    def reconcile(
        self,
        dispatch: Json,
        outcome: str = "completed",
        *args: str,
        session: str = "s",
        code: int = 0,
        **options: Any,
    ) -> Said:
        words = ("reconcile", dispatch["assignment"], "--outcome", outcome, "--session", session)
        return self.baton(*words, *args, code=code, **options)

    def work(self, dispatch: Json, files: dict[str, str] | None = None) -> str:
        """What a worker does: write and commit; the commit."""
        chosen = files if files is not None else {f"file-{dispatch['ticket']}": "done\n"}
        return self.commit(chosen, dispatch["cwd"])

    def seal(self, dispatch: Json, *args: str, code: int = 0) -> Said:
        return self.baton("seal", *args, cwd=dispatch["cwd"], code=code)

    def do(self, dispatch: Json, files: dict[str, str] | None = None) -> Said:
        """Work and seal."""
        self.work(dispatch, files)
        return self.seal(dispatch)

    def finish(self, batch: Said, session: str = "s") -> Said:
        """Do whatever is handed out, until nothing is; the last batch."""
        queue = [a for a in batch["actions"] if a["kind"] == "dispatch"]
        while queue:
            dispatch = queue.pop(0)
            self.do(dispatch)
            batch = self.reconcile(dispatch, session=session)
            queue += batch.of("dispatch")
        return batch

    # --- looking -----------------------------------------------------------------------------

    def branch(self, run: str = CHANGE) -> str:
        return f"refs/heads/baton/{run}"

    def tip(self, run: str = CHANGE) -> str:
        return self.git("rev-parse", self.branch(run))

    def state(self, path: str = "run.json", run: str = CHANGE) -> Json:
        document: Json = json.loads(self.git("show", f"refs/baton/runs/{run}:{path}"))
        return document

    def files(self, rev: str | None = None) -> list[str]:
        """The files of a commit, without those of the change."""
        listed = self.git("ls-tree", "-r", "--name-only", "-z", rev or self.branch())
        return [p for p in listed.split("\0") if p and "openspec/" not in p]

    def tasks(self, rev: str | None = None, run: str = CHANGE, folder: str = "") -> str:
        """The tasks file on the integration branch."""
        at = rev or self.branch(run)
        return self.git("show", f"{at}:{folder}openspec/changes/{run}/tasks.md") + "\n"

    def subjects(self, rev: str | None = None) -> list[str]:
        """Subjects of the first-parent chain since the base, oldest first."""
        names = self.git(
            "log", "--first-parent", "--reverse", "--format=%s", f"{self.base}..{rev or self.tip()}"
        )
        return names.splitlines()

    @property
    def base(self) -> str:
        return str(self.state()["base"]["commit"])

    def attempt(self, name: str, run: str = CHANGE) -> Json:
        """One attempt as ``status --all`` shows it."""
        status = self.baton("status", run, "--all")
        found = [a for a in status["attempts"] if a["assignment"] == f"{run}/{name}"]
        assert found, (name, status["attempts"])
        return dict(found[0])

    def picture(self) -> Json:
        """Everything a verb that says no must leave alone: refs, working trees, worktrees."""
        trees = [
            line.removeprefix("worktree ")
            for line in self.git("worktree", "list", "--porcelain").splitlines()
            if line.startswith("worktree ") and "/verify-" not in line  # the pool may grow
        ]
        return {
            "refs": self.git("for-each-ref"),
            "worktrees": trees,
            "status": {
                tree: self.git("status", "--porcelain", "--ignored", "-z", cwd=tree)
                for tree in trees
                if Path(tree, ".git").exists()
            },
            "beside": sorted(os.listdir(self.top.parent)),
        }

    # --- what must hold after every scenario -------------------------------------------------

    def assert_sound(self) -> None:
        assert self.git("fsck", "--connectivity-only", "--no-dangling", "--no-progress") == ""
        git_dir = Path(self.git("rev-parse", "--path-format=absolute", "--git-common-dir"))
        refs = git_dir / "refs"
        assert not list(refs.rglob("*.lock")) + list(git_dir.glob("*.lock"))
        prefix = "refs/baton/runs/"
        for ref in self.git("for-each-ref", "--format=%(refname)", prefix).splitlines():
            self._assert_run(ref.removeprefix(prefix))

    def _assert_run(self, run: str) -> None:
        record, live, plan = (self.state(f"{n}.json", run) for n in ("run", "live", "plan"))
        files = self.git("ls-tree", "-r", "--name-only", "-z", f"refs/baton/runs/{run}").split("\0")
        assert not [path for path in files if path.startswith("intents/")]
        attempts = [self.state(path, run) for path in files if path.endswith("attempt.json")]
        merges = {a["merge_commit"] for a in attempts if a.get("merge_commit")}
        known = merges | {entry["commit"] for entry in record.get("recorded", ())}
        base = record["base"]["commit"]
        chain = self.git("rev-list", "--first-parent", f"{base}..{record['tip']}").split()
        assert set(chain) <= known, "an unrecorded commit lies on the integration branch"
        for attempt in attempts:
            if attempt["state"] == "succeeded":
                self.git("merge-base", "--is-ancestor", attempt["merge_commit"], record["tip"])
                merged = self.git("rev-parse", f"{attempt['merge_commit']}^2")
                assert merged == attempt["sealed"]["commit"]
        if record.get("unit") == "section" or not chain:
            return
        self._assert_boxes(record, live, plan)

    def _assert_boxes(self, record: Json, live: Json, plan: Json) -> None:
        """A box that is ticked on the integration branch is resolved in the state."""
        target = record["target"]
        if target["type"] == "batch":
            return  # it has no tasks file
        folder = "/".join(filter(None, (target["project"], "openspec/changes", target["change"])))
        text = self.git("show", f"{record['tip']}:{folder}/tasks.md")
        ticked = set(re.findall(r"- \[x\] ([\d.]+) ", text))
        missing = set(live.get("missing", ()))
        keys = {ticket["key"] for ticket in plan["tickets"]}
        assert not (ticked & missing), "ticked, but not resolved"
        by_receipt = keys - missing - set(live.get("by_hand", ()))
        canceled = {t["key"] for t in plan["tickets"] if t.get("mark") == "canceled"}
        plain = {key for key in keys if re.fullmatch(r"[\d.]+", key)}
        assert (by_receipt - canceled) & plain <= ticked, "resolved, but not ticked"


NewProject = Callable[..., Project]


@pytest.fixture(autouse=True)
def sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the caller's environment, and no repository above the test's folder."""
    for name in [n for n in os.environ if n.startswith("BATON_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    fake = FakeClock()
    monkeypatch.setattr("gitbaton.engine.context.SystemClock", lambda: fake)
    return fake


@pytest.fixture
def new_project(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[NewProject]:
    """Make a repository: ``new_project(name="repo", base="trunk", tasks=TASKS)``."""
    made: list[Project] = []

    def make(name: str = "repo", base: str = "trunk", tasks: str | None = TASKS) -> Project:
        project = Project.init(tmp_path / name, clock, monkeypatch.chdir, base, tasks)
        made.append(project)
        return project

    yield make
    for project in made:
        project.assert_sound()


@pytest.fixture
def project(new_project: NewProject) -> Project:
    """A repository with the change ``add-login``: 1.1 and 1.2, then 2.1."""
    return new_project()


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``git baton`` as an installed package has it; the folder that holds it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "git-baton"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gitbaton "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    return folder
