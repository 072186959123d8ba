from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from gitbaton.errors import Conflict, NotFound, Refused, RepositoryError
from gitbaton.git import objects, refs
from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository
from gitbaton.model import layout
from gitbaton.model.ids import AttemptId
from gitbaton.model.run import Event, Prepare, RunState
from gitbaton.store import runs, transact

from .conftest import Git
from .sample import EVENT, RUN, FixedClock, attempt_of, state_of

REF = f"refs/baton/runs/{RUN}"
replace = msgspec.structs.replace


def nothing(loaded: runs.Loaded) -> tuple[RunState, Event]:
    """A transition that changes only the generation."""
    return loaded.state, EVENT


def count_up(loaded: runs.Loaded) -> tuple[RunState, Event]:
    """One more in the number of resolved tickets."""
    live = replace(loaded.state.live, resolved=loaded.state.live.resolved + 1)
    return replace(loaded.state, live=live), EVENT


def with_attempt(loaded: runs.Loaded, attempt: AttemptId, state: str = "leased") -> RunState:
    value = attempt_of(attempt, state)
    live = loaded.state.live
    if not value.terminal:
        live = replace(live, attempts={**live.attempts, str(attempt): value})
    return replace(loaded.state, live=live, touched={attempt: value})


def test_create_makes_a_root_commit(run: runs.Loaded, git: Git) -> None:
    assert git("ls-tree", "-r", "--name-only", REF).split() == [
        "live.json",
        "plan.json",
        "run.json",
    ]
    assert git("log", "--format=%P|%s|%an <%ae>|%cI", REF) == (
        "|Something happened|Ann <ann@example.com>|2030-01-02T12:00:00+00:00"
    )
    assert json.loads(git("show", f"{REF}:run.json"))["updated_at"] == "2030-01-02T12:00:00Z"


def test_create_twice_is_refused(run: runs.Loaded, repo: Repository, clock: FixedClock) -> None:
    with pytest.raises(Conflict) as refusal:
        transact.create(repo, run.state, EVENT, clock)
    assert refusal.value.code == "run-exists"
    assert runs.load(repo, RUN).oid == run.oid


def test_a_transition_is_one_commit_on_top(
    run: runs.Loaded, repo: Repository, git: Git, clock: FixedClock
) -> None:
    attempt = AttemptId("1.1", 1)

    def step(loaded: runs.Loaded) -> tuple[RunState, Event]:
        state = with_attempt(loaded, attempt)
        files = {layout.path_of(attempt, layout.PACKET): b"{}"}
        event = Event(event="claim", message="Claim 1.1", ticket="1.1", attempt=1, session="s")
        return replace(state, files=files), event

    loaded = transact.transact(repo, RUN, step, clock)
    assert loaded.state.run.generation == run.state.run.generation + 1
    assert (loaded.state.touched, loaded.state.files, loaded.state.parents) == ({}, {}, ())
    assert git("rev-parse", f"{REF}~1") == run.oid
    assert git("diff", "--name-status", f"{REF}~1", REF).splitlines() == [
        "M\tlive.json",
        "M\trun.json",
        f"A\t{layout.path_of(attempt, 'attempt.json')}",
        f"A\t{layout.path_of(attempt, 'packet.json')}",
    ]
    trailers = git("log", "-1", "--format=%(trailers:only)", REF).split("\n")
    assert trailers[:5] == [
        "Baton-Event: claim",
        f"Baton-Run: {RUN}",
        "Baton-Ticket: 1.1",
        "Baton-Attempt: 1",
        "Baton-Session: s",
    ]
    fresh = runs.load(repo, RUN)
    assert (fresh.oid, fresh.state) == (loaded.oid, loaded.state)


def test_what_a_transition_returns_is_what_a_new_process_reads(
    run: runs.Loaded, repo: Repository, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = transact.transact(
        repo, RUN, lambda now: (with_attempt(now, AttemptId("1.1", 1)), EVENT), clock
    )
    monkeypatch.setattr("gitbaton.store.records._known", {})
    assert runs.load(repo, RUN).state == loaded.state


def test_nothing_to_do_writes_nothing(
    run: runs.Loaded, repo: Repository, git: Git, clock: FixedClock
) -> None:
    before = git("count-objects")
    assert transact.transact(repo, RUN, lambda _: None, clock).oid == run.oid
    assert git("count-objects") == before


def test_an_error_of_the_step_passes_through(
    run: runs.Loaded, repo: Repository, git: Git, clock: FixedClock
) -> None:
    def step(_: runs.Loaded) -> None:
        raise Refused("no", "No.")

    with pytest.raises(Refused):
        transact.transact(repo, RUN, step, clock)
    assert git("rev-parse", REF) == run.oid


def test_files_are_removed(run: runs.Loaded, repo: Repository, clock: FixedClock) -> None:
    def put(content: bytes | None) -> transact.Step:
        return lambda now: (replace(now.state, files={layout.CLOSEOUT: content}), EVENT)

    assert transact.transact(repo, RUN, put(b"{}"), clock).file(layout.CLOSEOUT) == b"{}"
    assert transact.transact(repo, RUN, put(None), clock).file(layout.CLOSEOUT) is None


def test_intents_come_and_go(run: runs.Loaded, repo: Repository, clock: FixedClock) -> None:
    intent = Prepare(id="p1", machine="m", boot="b", started_at="now", attempts=("1.1@1",))
    begun = transact.transact(
        repo, RUN, lambda now: (replace(now.state, intents={"p1": intent}), EVENT), clock
    )
    assert runs.load(repo, RUN).state.intents == {"p1": intent}
    assert begun.file("intents/p1.json") is not None
    ended = transact.transact(repo, RUN, lambda now: (replace(now.state, intents={}), EVENT), clock)
    assert ended.file("intents/p1.json") is None
    assert runs.load(repo, RUN).state.intents == {}


def test_extra_parents_survive_gc(
    run: runs.Loaded, repo: Repository, git: Git, clock: FixedClock, head: str
) -> None:
    tree = git("rev-parse", "trunk^{tree}")
    sealed = git("commit-tree", tree, "-p", "trunk", "-m", "work")
    parents = (sealed, run.oid, head, sealed)
    loaded = transact.transact(
        repo, RUN, lambda now: (replace(now.state, parents=parents), EVENT), clock
    )
    assert objects.commit_info(repo, loaded.oid).parents == (run.oid, sealed, head)
    for _ in range(3):
        transact.transact(repo, RUN, count_up, clock)
    git("reflog", "expire", "--expire=now", "--all")
    git("gc", "-q", "--prune=now")
    assert git("cat-file", "-t", sealed) == "commit"
    assert transact.transact(repo, RUN, count_up, clock).state.live.resolved == 4


def test_a_missing_parent_is_refused(
    run: runs.Loaded, repo: Repository, git: Git, clock: FixedClock
) -> None:
    with pytest.raises(RepositoryError) as refusal:
        transact.transact(
            repo, RUN, lambda now: (replace(now.state, parents=("1" * 40,)), EVENT), clock
        )
    assert refusal.value.code == "missing-object"
    assert git("rev-parse", REF) == run.oid


def test_unknown_fields_survive(
    run: runs.Loaded, repo: Repository, git: Git, clock: FixedClock
) -> None:
    attempt = AttemptId("1.1", 1)
    transact.transact(repo, RUN, lambda now: (with_attempt(now, attempt, "failed"), EVENT), clock)
    paths = ["run.json", "live.json", layout.path_of(attempt, layout.ATTEMPT)]
    for path in paths:
        document = json.loads(git("show", f"{REF}:{path}")) | {"later": {"a": [1]}}
        rewrite(git, path, json.dumps(document))

    def step(loaded: runs.Loaded) -> tuple[RunState, Event]:
        state, event = count_up(loaded)
        changed = attempt_of(attempt, "abandoned")
        return replace(state, touched={attempt: changed}), event

    transact.transact(repo, RUN, step, clock)
    for path in paths:
        assert json.loads(git("show", f"{REF}:{path}"))["later"] == {"a": [1]}


def rewrite(git: Git, path: str, content: str) -> str:
    """Somebody replaces one file of the state by plain git; returns the new state commit."""
    blob = git("hash-object", "-w", "--stdin", stdin=content)
    parts = path.split("/")
    for depth in range(len(parts) - 1, -1, -1):
        folder = "/".join(parts[:depth])
        lines = git("ls-tree", "-z", f"{REF}:{folder}").split("\0")
        kept = [line for line in lines if line and line.partition("\t")[2] != parts[depth]]
        kind = "100644 blob" if depth == len(parts) - 1 else "040000 tree"
        blob = git("mktree", "-z", stdin="\0".join([*kept, f"{kind} {blob}\t{parts[depth]}", ""]))
    commit = git("commit-tree", blob, "-p", REF, "-m", "by hand")
    git("update-ref", REF, commit)
    return commit


def test_a_newer_schema_is_refused(
    run: runs.Loaded, repo: Repository, git: Git, clock: FixedClock
) -> None:
    document = json.loads(git("show", f"{REF}:run.json")) | {"schema": 2, "target": 5}
    commit = rewrite(git, "run.json", json.dumps(document))
    for verb in (
        lambda: runs.load(repo, RUN),
        lambda: runs.load_live(repo, RUN),
        lambda: transact.transact(repo, RUN, count_up, clock),
    ):
        with pytest.raises(RepositoryError, match="written by a newer git-baton") as refusal:
            verb()
        assert refusal.value.code == "newer-schema"
    assert git("rev-parse", REF) == commit


@pytest.mark.parametrize("name", ["run.json", "live.json", "plan.json"])
@pytest.mark.parametrize("content", ["", '{"id": "add-l', "[]", "\udcff"])
def test_a_damaged_state_names_ref_and_path(
    run: runs.Loaded, repo: Repository, git: Git, clock: FixedClock, name: str, content: str
) -> None:
    rewrite(git, name, content.encode("utf-8", "surrogateescape").decode("latin-1"))
    with pytest.raises(RepositoryError) as refusal:
        transact.transact(repo, RUN, count_up, clock)
    assert refusal.value.code == "corrupt-state"
    assert REF in refusal.value.message
    assert name in refusal.value.message
    assert "\n" not in refusal.value.message
    # What the hint says, done.
    git("update-ref", REF, f"{REF}~1")
    transact.transact(repo, RUN, count_up, clock)


def test_a_state_that_is_no_commit_is_damaged(run: runs.Loaded, repo: Repository, git: Git) -> None:
    git("update-ref", REF, git("hash-object", "-w", "--stdin", stdin="x"))
    with pytest.raises(RepositoryError) as refusal:
        runs.load(repo, RUN)
    assert refusal.value.code == "corrupt-state"


def test_a_damaged_attempt_hurts_only_who_reads_it(
    run: runs.Loaded, repo: Repository, git: Git, clock: FixedClock
) -> None:
    broken = AttemptId("1.1", 1)
    transact.transact(repo, RUN, lambda now: (with_attempt(now, broken, "failed"), EVENT), clock)
    rewrite(git, layout.path_of(broken, layout.ATTEMPT), "{")
    loaded = transact.transact(repo, RUN, count_up, clock)
    with pytest.raises(RepositoryError) as refusal:
        loaded.attempt(broken)
    assert refusal.value.code == "corrupt-state"
    assert layout.path_of(broken, layout.ATTEMPT) in refusal.value.message
    healed = transact.transact(
        repo, RUN, lambda now: (with_attempt(now, broken, "abandoned"), EVENT), clock
    )
    assert healed.attempt(broken) == attempt_of(broken, "abandoned")


@pytest.mark.parametrize("key", ["a/b", "..", "größe", "two words", "../../x", ".git", "%2e"])
def test_odd_ticket_keys(
    run: runs.Loaded, repo: Repository, git: Git, clock: FixedClock, key: str
) -> None:
    attempt = AttemptId(key, 1)
    loaded = transact.transact(
        repo, RUN, lambda now: (with_attempt(now, attempt, "failed"), EVENT), clock
    )
    assert loaded.attempt(attempt) == attempt_of(attempt, "failed")
    assert loaded.attempts_of(key) == [attempt_of(attempt, "failed")]
    assert list(loaded.all_attempts()) == [attempt_of(attempt, "failed")]
    git("fsck", "--strict")


def test_hostile_text_adds_no_trailer(
    run: runs.Loaded, repo: Repository, git: Git, clock: FixedClock
) -> None:
    event = Event(
        event="claim",
        message="Claim\n\nBaton-Event: seal",
        ticket="x\n\nBaton-Ticket: y",
        session="s\r\nBaton-Session: root\x00",
    )
    transact.transact(repo, RUN, lambda now: (now.state, event), clock)
    names = git("log", "-1", "--format=%(trailers:keyonly)", REF).split()
    assert names == ["Baton-Event", "Baton-Run", "Baton-Ticket", "Baton-Session", "Baton-Nonce"]
    entry = next(runs.log(repo, RUN))
    assert entry.event.event == "claim"
    assert entry.event.message == "Claim  Baton-Event: seal"


def test_without_an_identity_commits_are_git_batons_own(
    repo: Repository, git: Git, head: str, clock: FixedClock
) -> None:
    git("config", "--unset", "user.name")
    git("config", "--unset", "user.email")
    git("config", "user.useConfigOnly", "true")
    transact.create(repo, state_of(head), EVENT, clock)
    assert git("log", "-1", "--format=%an <%ae>", REF) == "git-baton <git-baton@localhost>"


def test_delete_removes_state_and_notes(
    run: runs.Loaded, repo: Repository, git: Git, head: str
) -> None:
    git("notes", f"--ref=baton/{RUN}", "add", "-m", "x", head)
    transact.delete(repo, RUN)
    assert git("for-each-ref", "--format=%(refname)") == "refs/heads/trunk"
    with pytest.raises(NotFound):
        transact.delete(repo, RUN)


def test_an_intent_lock_is_held_once(repo: Repository) -> None:
    with transact.intent_lock(repo, "x"):
        assert not transact.intent_lock(repo, "x").try_acquire()
        assert transact.intent_lock(repo, "y").try_acquire()


# Concurrency


def _count_in_a_process(path: Path, times: int) -> None:
    repo = open_repository(path)
    for _ in range(times):
        transact.transact(repo, RUN, count_up, FixedClock())


def test_eight_processes_lose_no_update(
    run: runs.Loaded, repo: Repository, path: Path, git: Git
) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_count_in_a_process, args=(path, 12)) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 8
    loaded = runs.load(repo, RUN)
    assert loaded.state.live.resolved == 96
    assert git("rev-list", "--count", "--first-parent", REF) == "97"
    assert loaded.state.run.generation == run.state.run.generation + 96


def test_a_writer_that_knows_no_lock_is_not_overwritten(
    run: runs.Loaded, repo: Repository, git: Git, clock: FixedClock
) -> None:
    seen = []

    def step(loaded: runs.Loaded) -> tuple[RunState, Event]:
        seen.append(loaded.oid)
        if len(seen) <= 20:
            document = json.loads(git("show", f"{REF}:live.json"))
            rewrite(git, "live.json", json.dumps(document | {"total": len(seen) + 100}))
        return count_up(loaded)

    loaded = transact.transact(repo, RUN, step, clock)
    assert len(seen) == len(set(seen)) == 21
    assert (loaded.state.live.resolved, loaded.state.live.total) == (1, 120)
    assert git("rev-list", "--count", "--first-parent", REF) == "22"


def test_a_run_deleted_under_a_transition_is_not_made_again(
    run: runs.Loaded, repo: Repository, git: Git, clock: FixedClock
) -> None:
    def step(loaded: runs.Loaded) -> tuple[RunState, Event]:
        git("update-ref", "-d", REF)
        return count_up(loaded)

    with pytest.raises(NotFound):
        transact.transact(repo, RUN, step, clock)
    assert refs.read(repo, REF) is None


_DIES = """
import os, signal, sys
from pathlib import Path
from gitbaton.git import refs
from gitbaton.git.opening import open_repository
from gitbaton.store import transact
from store.sample import FixedClock
from store.test_transact import RUN, count_up

transact.refs.cas = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
transact.transact(open_repository(Path(sys.argv[1])), RUN, count_up, FixedClock())
"""


def test_killed_before_the_ref_moves_leaves_the_old_state(
    run: runs.Loaded, repo: Repository, path: Path, git: Git, clock: FixedClock
) -> None:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    died = subprocess.run([sys.executable, "-c", _DIES, str(path)], env=env, check=False)
    assert died.returncode == -signal.SIGKILL
    assert runs.load(repo, RUN).oid == run.oid
    assert transact.transact(repo, RUN, count_up, clock).state.live.resolved == 1
    git("fsck", "--strict")


def test_a_ref_lock_left_behind_is_removed(
    run: runs.Loaded, repo: Repository, clock: FixedClock, capfd: pytest.CaptureFixture[str]
) -> None:
    lock = repo.common_dir / f"{REF}.lock"
    lock.touch()
    assert transact.transact(repo, RUN, count_up, clock).state.live.resolved == 1
    assert not lock.exists()
    assert str(lock) in capfd.readouterr().err


# Cost


def grown(repo: Repository, loaded: runs.Loaded, clock: FixedClock, attempts: int) -> runs.Loaded:
    """The run with that many finished attempts, in one transition."""
    ids = [AttemptId(f"{n // 10}.{n % 10}", 1) for n in range(attempts)]
    touched = {attempt: attempt_of(attempt, "succeeded") for attempt in ids}
    return transact.transact(
        repo, RUN, lambda now: (replace(now.state, touched=touched), EVENT), clock
    )


def test_ten_thousand_attempts_make_a_transition_no_dearer(
    run: runs.Loaded, repo: Repository, path: Path, git: Git, clock: FixedClock
) -> None:
    from gitbaton.git import process

    attempt = AttemptId("fresh", 1)

    def cost() -> tuple[int, int]:
        """Objects and bytes (uncompressed) that one claim writes."""
        before = set(git("cat-file", "--batch-all-objects", "--batch-check").splitlines())
        transact.transact(repo, RUN, lambda now: (with_attempt(now, attempt), EVENT), clock)
        new = set(git("cat-file", "--batch-all-objects", "--batch-check").splitlines()) - before
        return len(new), sum(int(line.split()[2]) for line in new)

    few, few_bytes = cost()
    process.set_fsync(False)
    try:
        grown(repo, run, clock, 10_000)
    finally:
        process.set_fsync(True)
    many, many_bytes = cost()
    assert many <= few
    assert many_bytes < few_bytes + 20_000
