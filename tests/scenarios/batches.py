"""Batches over a queue as a caller of its own drives them, for the scenarios about them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from .conftest import Json, Project, Said

QUEUE = "bugs"
MEANT = "label=bug"
"""The filter of every batch here; an item without the label is in its queue, but not meant."""


def add(project: Project, item: str, *words: str, meant: bool = True, queue: str = QUEUE) -> None:
    """An item that a batch may take (``meant``), or that only a blocker can bring into one."""
    label = ("--label", "bug") if meant else ()
    said = ("--id", item, "--title", f"fix {item}", "--queue", queue)
    project.baton("queue", "add", *said, *label, *words)


def items(project: Project, queue: str = QUEUE) -> dict[str, Json]:
    """All items of a queue, by id."""
    listed = project.baton("queue", "list", "--all", "--queue", queue)
    return {item["id"]: item for item in listed["items"]}


def states(project: Project, queue: str = QUEUE) -> dict[str, str]:
    return {name: item["state"] for name, item in items(project, queue).items()}


class Root:
    """A batch and the session that drives it. Whatever it answers must say its mode."""

    def __init__(self, project: Project, opened: Said, mode: str) -> None:
        self.project = project
        self.opened = opened
        self.run = str(opened["run"])
        self.mode = mode

    # --- the loop ----------------------------------------------------------------------------

    def actions(self, *words: str, capacity: int = 8, code: int | None = None) -> Said:
        size = ("--capacity", str(capacity))
        return self._in_its_mode(self.project.actions(self.run, *size, *words, code=code))

    def reconcile(self, dispatch: Json, *, capacity: int = 8, code: int | None = None) -> Said:
        size = ("--capacity", str(capacity))
        words = ("reconcile", dispatch["assignment"], "--outcome", "completed", "--session", "s")
        return self._in_its_mode(self.project.baton(*words, *size, code=code))

    def do(self, dispatches: Sequence[Json]) -> None:
        """Fix and seal each."""
        for dispatch in dispatches:
            self.project.do(dispatch)

    def fix(self, dispatches: Sequence[Json], **options: int) -> Said:
        """Fix each, then report the last, which integrates them all; what is next."""
        self.do(dispatches)
        return self.reconcile(dispatches[-1], **options)

    def dispose(self, dispatch: Json, *words: str, code: int = 0) -> Said:
        """The worker's return, from its worktree."""
        return self.project.baton("dispose", *words, cwd=dispatch["cwd"], code=code)

    def drive(self, batch: Said | None = None) -> Said:
        """Fix whatever is handed out, until nothing is; the last batch."""
        batch = batch or self.actions()
        while given := batch.of("dispatch"):
            batch = self.fix(given)
        return batch

    def resume(self) -> Said:
        return self._in_its_mode(self.project.baton("resume", self.run))

    def _in_its_mode(self, said: Said) -> Said:
        assert said["mode"] == self.mode
        return said

    # --- looking -----------------------------------------------------------------------------

    @property
    def ref(self) -> str:
        return f"refs/baton/runs/{self.run}"

    def status(self) -> Said:
        return self.project.baton("status", self.run, "--all")

    def state(self, path: str) -> Json:
        return self.project.state(path, self.run)

    def tip(self) -> str:
        return self.project.tip(self.run)

    def attempt(self, name: str) -> Json:
        return self.project.attempt(name, self.run)

    def closeout(self) -> Json:
        """What the report says, which is the closeout in the state and the one on the tip."""
        report = {**self.project.baton("report", self.run)}
        assert report.pop("ok")
        assert report == self.state("closeout.json")
        assert report == self._closeout_on_tip()
        return report

    def assert_open(self) -> None:
        """Nothing says that it has closed: no report, no closeout, no commit on the queue."""
        assert self.project.refused("report", self.run).code == "not-closed"
        assert "closeout.json" not in self.project.git("ls-tree", "-r", "--name-only", self.ref)
        assert self.closings() == 0

    def closings(self) -> int:
        """How often the queue was closed by it."""
        queue = self.state("run.json")["target"]["descriptor"]["queue"]
        log = self.project.baton("queue", "log", "--queue", queue)
        return sum(e["event"] == "close" and e["run"] == self.run for e in log["events"])

    def _closeout_on_tip(self) -> Json:
        shown = self.project.git("notes", "--ref", f"baton/{self.run}", "show", self.tip())
        (found,) = (document for document in documents(shown) if "outcome" in document)
        return found


def open_root(
    project: Project,
    *words: str,
    membership: str = "live",
    mode: str = "autopilot",
    request: str = "r",
    queue: str = QUEUE,
) -> Root:
    """Open a batch, or find it."""
    kind = ("--membership", membership, "--mode", mode, "--request-id", request)
    opened = project.baton("batch", "open", "--queue", queue, "--filter", MEANT, *kind, *words)
    return Root(project, opened, mode)


def documents(text: str) -> Iterator[Json]:
    """The JSON documents of a note, one after the other."""
    decoder = json.JSONDecoder()
    while text := text.strip():
        document, end = decoder.raw_decode(text)
        yield document
        text = text[end:]
