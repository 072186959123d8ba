"""Queues in a repository: one chain, moved by compare-and-swap, whoever writes, dies or meddles."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from gitbaton.errors import Conflict, NotFound, Refused, RepositoryError, UsageError
from gitbaton.git import refs
from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository
from gitbaton.model.queue import Claim, Item
from gitbaton.store import queues, shards
from gitbaton.store.queues import QueueEvent

from .conftest import Git
from .sample import FixedClock

NAME = "bugs"
REF = f"refs/baton/queues/{NAME}"
EVENT = QueueEvent("test", "Something happened", "some-run")


def item(name: str, **fields: object) -> Item:
    return Item(id=name, title=f"fix {name}", **fields)  # type: ignore[arg-type]


def put(*names: str, event: QueueEvent = EVENT) -> queues.Step:
    return lambda queue: ({name: item(name) for name in names}, event)


@pytest.fixture
def queue(repo: Repository, clock: FixedClock) -> queues.Queue:
    """Three items."""
    return queues.transact(repo, NAME, put("1", "2", "a/b"), clock, create=True)


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Forget all that this process knows of shards."""
    return lambda: monkeypatch.setattr(shards, "_known", {})


def test_a_queue_is_one_commit_a_change(
    queue: queues.Queue, repo: Repository, git: Git, clock: FixedClock
) -> None:
    assert git("ls-tree", "-r", "--name-only", REF).split() == [
        "items/01/a%2Fb.json",
        "items/14/2.json",
        "items/2b/1.json",
        "queue.json",
    ]
    assert json.loads(git("show", f"{REF}:queue.json")) == {
        "created": "2030-01-02T12:00:00Z",
        "name": NAME,
        "schema": 1,
    }
    after = queues.transact(repo, NAME, lambda _: ({"1": None, "3": item("3")}, EVENT), clock)
    assert git("rev-parse", f"{REF}~1", REF).split() == [queue.oid, after.oid]
    changed = git("diff", "--no-renames", "--name-status", f"{REF}~1", REF)
    assert sorted(line[0] for line in changed.splitlines()) == ["A", "D"]
    said = git("log", "-1", "--format=%s%n%(trailers:only)", REF).splitlines()
    assert said[:4] == [
        "Something happened",
        "Baton-Event: test",
        f"Baton-Queue: {NAME}",
        "Baton-Run: some-run",
    ]
    assert said[4].startswith("Baton-Nonce: ")
    assert set(after.items) == {"2", "3", "a/b"}
    assert git("status", "--porcelain") == ""


def test_what_is_written_is_what_a_new_process_reads(
    queue: queues.Queue, repo: Repository, cold: Callable[[], None]
) -> None:
    written = dict(queue.items)
    cold()
    fresh = queues.load(repo, NAME)
    assert fresh.item("a/b") == item("a/b")
    assert fresh.item("nothing") is None
    assert fresh.items == written
    assert queues.list_queues(repo) == {NAME: queue.oid}


def test_closed_means_that_it_holds_nobody_up(repo: Repository, clock: FixedClock) -> None:
    states = {"open": item("open"), "obe": item("obe", state="obe")}
    queue = queues.transact(repo, NAME, lambda _: (states, EVENT), clock, create=True)
    assert [queue.closed(name) for name in ("open", "obe", "removed")] == [False, True, True]


def test_nothing_to_do_writes_nothing(
    queue: queues.Queue, repo: Repository, git: Git, clock: FixedClock
) -> None:
    before = git("count-objects")
    assert queues.transact(repo, NAME, lambda _: None, clock).oid == queue.oid
    assert git("count-objects") == before


def test_an_error_of_the_step_passes_through(
    queue: queues.Queue, repo: Repository, git: Git, clock: FixedClock
) -> None:
    def step(_: queues.Queue) -> None:
        raise Refused("no", "No.")

    with pytest.raises(Refused):
        queues.transact(repo, NAME, step, clock)
    assert git("rev-parse", REF) == queue.oid


def test_an_empty_change_moves_the_queue(
    queue: queues.Queue, repo: Repository, git: Git, clock: FixedClock, head: str
) -> None:
    after = queues.commit(repo, queue, {}, EVENT, clock, extra_parents=(head,))
    assert after.tree == queue.tree
    assert git("rev-parse", f"{REF}^1", f"{REF}^2").split() == [queue.oid, head]


def test_a_queue_that_moved_is_not_overwritten(
    queue: queues.Queue, repo: Repository, git: Git, clock: FixedClock
) -> None:
    moved = queues.commit(repo, queue, {"4": item("4")}, EVENT, clock)
    for attempt in (
        lambda: queues.commit(repo, queue, {"5": item("5")}, EVENT, clock),
        lambda: queues.commit(repo, moved, {"5": item("5")}, EVENT, clock, expect=queue.oid),
        lambda: queues.commit(repo, queues.Queue(repo, NAME), {}, EVENT, clock),
    ):
        with pytest.raises(Conflict) as refusal:
            attempt()
        assert refusal.value.code == "queue-moved"
    assert git("rev-parse", REF) == moved.oid


def test_a_push_that_comes_between_is_kept(
    queue: queues.Queue, repo: Repository, clock: FixedClock, path: Path
) -> None:
    elsewhere = open_repository(path)
    seen = []

    def step(now: queues.Queue) -> tuple[queues.Changes, QueueEvent]:
        seen.append(now.oid)
        if len(seen) == 1:  # somebody who does not take our lock
            queues.commit(elsewhere, now, {"theirs": item("theirs")}, EVENT, clock)
        return {"ours": item("ours")}, EVENT

    after = queues.transact(repo, NAME, step, clock)
    assert len(seen) == 2
    assert {"ours", "theirs"} <= set(after.items)


def test_a_rewritten_queue_stops_everything(
    queue: queues.Queue, repo: Repository, git: Git, clock: FixedClock
) -> None:
    # The old tip is there as a further parent: git itself would call this a descendant.
    tree = git("rev-parse", f"{REF}^{{tree}}")
    foreign = git("commit-tree", tree, "-p", "trunk", "-p", queue.oid, "-m", "rewritten")

    def step(now: queues.Queue) -> tuple[queues.Changes, QueueEvent]:
        git("update-ref", REF, foreign)
        return {"ours": item("ours")}, EVENT

    with pytest.raises(Refused) as refusal:
        queues.transact(repo, NAME, step, clock)
    assert refusal.value.code == "foreign-mutation"
    assert queue.oid in refusal.value.message and foreign in refusal.value.message
    assert git("rev-parse", REF) == foreign
    assert queues.descends(repo, queue.oid, queue.oid)
    assert not queues.descends(repo, queue.oid, foreign)


def test_a_deleted_queue_stops_everything(
    queue: queues.Queue, repo: Repository, git: Git, clock: FixedClock
) -> None:
    def step(now: queues.Queue) -> tuple[queues.Changes, QueueEvent]:
        git("update-ref", "-d", REF)
        return {"ours": item("ours")}, EVENT

    with pytest.raises(Refused, match="nothing"):
        queues.transact(repo, NAME, step, clock, create=True)


def test_an_unknown_queue_names_the_nearest(queue: queues.Queue, repo: Repository) -> None:
    for name in ("bug", "../x", ""):
        with pytest.raises(NotFound) as refusal:
            queues.load(repo, name)
        assert refusal.value.code == "unknown-queue"
        assert NAME in refusal.value.hint


@pytest.mark.parametrize("name", ["", ".x", "a/b", "a..b", "x.lock", "a b"])
def test_names_that_cannot_be(repo: Repository, clock: FixedClock, name: str) -> None:
    with pytest.raises(UsageError) as refusal:
        queues.transact(repo, name, put("1"), clock, create=True)
    assert refusal.value.code == "bad-queue-name"


def rewrite(git: Git, path: str, content: str) -> None:
    """Somebody replaces one file of the queue by plain git."""
    blob = git("hash-object", "-w", "--stdin", stdin=content)
    index = {"GIT_INDEX_FILE": str(Path(git("rev-parse", "--absolute-git-dir")) / "other-index")}
    os.environ.update(index)
    try:
        git("read-tree", REF)
        git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
        tree = git("write-tree")
    finally:
        del os.environ["GIT_INDEX_FILE"]
    git("update-ref", REF, git("commit-tree", tree, "-p", REF, "-m", "by hand"))


@pytest.mark.parametrize(
    "content", ["", "{", '{"id": 1}', "[]", '{"id": "2", "title": "of another"}', "\udcff{}"]
)
def test_a_damaged_item_is_told_in_one_line(
    queue: queues.Queue, repo: Repository, git: Git, content: str
) -> None:
    path = queues.item_path("1")
    rewrite(git, path, content.encode(errors="replace").decode())
    loaded = queues.load(repo, NAME)
    for read in (lambda: loaded.item("1"), lambda: loaded.items):
        with pytest.raises(RepositoryError) as refusal:
            read()
        assert refusal.value.code == "corrupt-queue"
        assert "1.json" in refusal.value.message and "\n" not in refusal.value.message
    assert loaded.item("2") == item("2")  # the others can be read


def test_a_damaged_item_is_healed_by_writing_it(
    queue: queues.Queue, repo: Repository, git: Git, clock: FixedClock
) -> None:
    rewrite(git, queues.item_path("1"), "{")
    after = queues.transact(repo, NAME, put("1"), clock)
    assert after.items["1"] == item("1")


def test_a_queue_without_its_record_is_damaged(
    queue: queues.Queue, repo: Repository, git: Git
) -> None:
    git("update-ref", REF, "trunk")
    with pytest.raises(RepositoryError) as refusal:
        queues.load(repo, NAME)
    assert refusal.value.code == "corrupt-queue"
    assert "queue.json" in refusal.value.message


def test_a_newer_schema_is_refused(
    queue: queues.Queue, repo: Repository, git: Git, clock: FixedClock
) -> None:
    rewrite(git, "queue.json", '{"schema": 2, "name": "bugs", "created": ""}')
    before = git("rev-parse", REF)
    with pytest.raises(RepositoryError) as refusal:
        queues.transact(repo, NAME, put("1"), clock)
    assert refusal.value.code == "newer-schema"
    assert git("rev-parse", REF) == before


def test_unknown_fields_survive(
    queue: queues.Queue, repo: Repository, git: Git, clock: FixedClock
) -> None:
    path = queues.item_path("1")
    rewrite(git, path, json.dumps({"id": "1", "title": "t", "later": {"x": [1]}}))
    queues.transact(repo, NAME, put("1"), clock)
    document = json.loads(git("show", f"{REF}:{path}"))
    assert document["later"] == {"x": [1]} and document["title"] == "fix 1"


def test_the_log(queue: queues.Queue, repo: Repository, clock: FixedClock) -> None:
    queues.transact(repo, NAME, put("9", event=QueueEvent("add", "add 9:\nBaton-Run: fake")), clock)
    newest, first = queues.log(repo, NAME)
    assert newest.event == QueueEvent("add", "add 9: Baton-Run: fake", "")
    assert (first.oid, first.event, first.at) == (queue.oid, EVENT, "2030-01-02T12:00:00Z")
    assert len({newest.nonce, first.nonce}) == 2


# --- many items, and copies of them --------------------------------------------------------------


def many(repo: Repository, clock: FixedClock, count: int = 64 * 60) -> queues.Queue:
    """A queue whose shards are worth a copy, written as one pack."""
    return queues.transact(repo, NAME, put(*map(str, range(count))), clock, create=True)


def copies(repo: Repository) -> list[Path]:
    return sorted((repo.baton_dir / "cache" / "queues").glob("*/*"))


def test_many_items_are_packed(repo: Repository, git: Git, clock: FixedClock) -> None:
    queue = many(repo, clock)
    counts = dict(line.split(": ") for line in git("count-objects", "-v").splitlines())
    assert int(counts["in-pack"]) == 64 * 60 and int(counts["count"]) < 200
    assert git("fsck", "--full", "--no-dangling") == ""
    assert queues.load(open_repository(repo.common_dir), NAME).items == queue.items


def test_copies_are_never_needed_and_never_wrong(
    repo: Repository, clock: FixedClock, cold: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = many(repo, clock)
    claim = Claim(run="r", attempt="7@1", capability="c")
    held = replace(queue.items["7"], state="claimed", claimed_by=claim)
    expected = {**queue.items, "7": held}
    queue = queues.transact(repo, NAME, lambda _: ({"7": held}, EVENT), clock)
    assert queue.items == expected
    cold()
    with monkeypatch.context() as patched:  # the copies alone will do
        patched.setattr(shards, "_decode_all", lambda *_: pytest.fail("no copy"))
        assert queues.load(repo, NAME).items == expected
    for at, copy in enumerate(copies(repo)):
        copy.write_bytes((b"", b"\0" * 100, copy.read_bytes()[:-9], b"\x90")[at % 3])
    cold()
    assert queues.load(repo, NAME).items == expected
    cold()
    assert queues.load(repo, NAME).items == expected  # from new copies


def test_a_change_replaces_one_copy(repo: Repository, clock: FixedClock) -> None:
    many(repo, clock)
    before = set(copies(repo))
    for _ in range(3):
        queues.transact(repo, NAME, put("7", "8"), clock)  # as they are
        queues.transact(
            repo, NAME, lambda now: ({"7": replace(now.items["7"], body="x")}, EVENT), clock
        )
        queues.transact(repo, NAME, put("7"), clock)
    assert set(copies(repo)) == before
    assert len(before) == 64


def test_old_copies_go_away(repo: Repository, clock: FixedClock, cold: Callable[[], None]) -> None:
    queue = many(repo, clock)
    folder = copies(repo)[0].parent
    for at in range(400):
        (folder / f"{at:040x}").write_bytes(b"")
        os.utime(folder / f"{at:040x}", (1, 1))
    copies(repo)[-1].unlink()
    cold()
    assert len(queues.load(repo, NAME).items) == len(queue.items)
    assert 64 <= len(copies(repo)) < 300


def test_a_reader_makes_nothing_in_a_repository_of_others(
    repo: Repository, clock: FixedClock, tmp_path: Path, cold: Callable[[], None]
) -> None:
    queue = many(repo, clock)
    clone = tmp_path / "clone"
    subprocess.run(["git", "init", "-q", str(clone)], check=True)
    source = str(repo.common_dir)
    subprocess.run(["git", "fetch", "-q", source, f"{REF}:{REF}"], cwd=clone, check=True)
    cold()
    other = open_repository(clone)
    assert queues.load(other, NAME).items == queue.items
    assert not other.baton_dir.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_repository_can_be_read(
    repo: Repository, clock: FixedClock, cold: Callable[[], None]
) -> None:
    queue = many(repo, clock)
    for copy in copies(repo):
        copy.unlink()
    folder = repo.baton_dir / "cache" / "queues"
    folder.chmod(0o500)
    cold()
    try:
        assert queues.load(repo, NAME).items == queue.items
    finally:
        folder.chmod(0o700)


# --- several processes ---------------------------------------------------------------------------


def _take(path: str, worker: int, rounds: int, results: multiprocessing.Queue[list[str]]) -> None:
    """Claim the first open item, again and again."""
    repo = open_repository(Path(path))
    taken: list[str] = []

    def step(queue: queues.Queue) -> tuple[queues.Changes, QueueEvent] | None:
        free = sorted(name for name, one in queue.items.items() if one.state == "open")
        if not free:
            return None
        claim = Claim(run=f"run-{worker}", attempt=f"{free[0]}@1", capability=str(worker))
        chosen[:] = free[:1]
        held = replace(queue.items[free[0]], state="claimed", claimed_by=claim)
        return {free[0]: held}, EVENT

    for _ in range(rounds):
        chosen: list[str] = []
        queues.transact(repo, NAME, step, FixedClock())
        taken += chosen
    results.put(taken)


def test_no_item_is_taken_twice(repo: Repository, clock: FixedClock, path: Path) -> None:
    names = [f"i{n}" for n in range(40)]
    queues.transact(repo, NAME, put(*names), clock, create=True)
    spawn = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[list[str]] = spawn.Queue()
    workers = [
        spawn.Process(target=_take, args=(str(path), worker, 12, results)) for worker in range(4)
    ]
    for worker in workers:
        worker.start()
    taken = [results.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert sorted(name for each in taken for name in each) == sorted(names)
    assert len(list(queues.log(repo, NAME))) == 41


_KILLED = """
import os, signal, sys
from pathlib import Path
from gitbaton.clock import SystemClock
from gitbaton.git import refs
from gitbaton.git.opening import open_repository
from gitbaton.model.queue import Item
from gitbaton.store import queues

def killed(*args, **options):
    os.kill(os.getpid(), signal.SIGKILL)

refs.cas = killed
new = {str(n): Item(id=str(n), title="new") for n in range(int(sys.argv[2]))}
queues.transact(open_repository(Path(sys.argv[1])), "bugs",
                lambda _: (new, queues.QueueEvent("x", "x")), SystemClock())
"""


@pytest.mark.parametrize("count", [2, 600])
def test_killed_between_objects_and_ref(
    queue: queues.Queue, repo: Repository, git: Git, clock: FixedClock, path: Path, count: int
) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, str(path), str(count)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert git("fsck", "--full", "--no-dangling") == ""
    assert refs.read(repo, REF) == queue.oid
    after = queues.transact(repo, NAME, put("9"), clock)
    assert set(after.items) == {"1", "2", "9", "a/b"}
