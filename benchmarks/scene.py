"""Repositories and runs to measure on, made without the hours that it takes to work them off.

History comes from `git fast-import`, states go through the store, and every attempt has the three
files that a real one leaves: the attempt, its packet and a receipt that passes every check.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from gitbaton.clock import Moment
from gitbaton.engine.context import Context, open_context
from gitbaton.evidence import statement
from gitbaton.git import objects
from gitbaton.model import codec
from gitbaton.model.ids import AttemptId, assignment_id
from gitbaton.model.layout import ATTEMPT, PACKET, RECEIPT, path_of
from gitbaton.model.packet import Packet
from gitbaton.model.plan import Plan, Section, Ticket
from gitbaton.model.receipt import CheckResult, Predicate
from gitbaton.model.root import ChangeTarget
from gitbaton.model.run import (
    Advance,
    Attempt,
    Base,
    Event,
    Lease,
    Merged,
    PlanSource,
    RunRecord,
    RunState,
    Sealed,
)
from gitbaton.rules import lease, settle
from gitbaton.rules.claim import Choice, choose, claim
from gitbaton.rules.frontier import recount
from gitbaton.rules.revise import opening
from gitbaton.store import runs, transact

RUN = "add-login"
BASE = "refs/heads/main"
TASKS = f"openspec/changes/{RUN}/tasks.md"
CHECK = "true"
_WHO = "Bench <bench@example.com> 1893456000 +0000"


def git(where: Path, *args: str, stdin: bytes | None = None) -> str:
    """The output of git, which must succeed."""
    done = subprocess.run(
        ["git", "-C", str(where), *args], check=True, capture_output=True, input=stdin, timeout=300
    )
    return done.stdout.decode().rstrip("\n")


# --- history -----------------------------------------------------------------------------------


class History:
    """Commits for `git fast-import`: marks instead of object ids until all is written."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._marks = 0

    def commit(
        self, ref: str, files: dict[str, str], parents: Sequence[int] = (), text: str = "work\n"
    ) -> int:
        """A commit on top of ``parents`` with ``files`` set; returns its mark."""
        self._marks += 1
        self._say(f"commit {ref}\nmark :{self._marks}\ncommitter {_WHO}\n")
        self._data(text)
        for at, parent in enumerate(parents):
            self._say(f"{'merge' if at else 'from'} :{parent}\n")
        for path, content in files.items():
            self._say(f"M 100644 inline {path}\n")
            self._data(content)
        self._say("\n")
        return self._marks

    def write(self, top: Path) -> dict[int, str]:
        """Everything into a new repository at ``top`` (its files are not checked out)."""
        top.mkdir(parents=True)
        git(top, "init", "-q")
        return self.add_to(top / ".git")

    def add_to(self, git_dir: Path) -> dict[int, str]:
        """Everything into a repository; returns the commits by their marks."""
        marks = git_dir / "marks"
        git(
            git_dir,
            *("fast-import", "--quiet", f"--export-marks={marks}"),
            stdin=b"".join(self._parts),
        )
        pairs = (line.split() for line in marks.read_text().splitlines())
        return {int(mark[1:]): oid for mark, oid in pairs}

    def _say(self, text: str) -> None:
        self._parts.append(text.encode())

    def _data(self, text: str) -> None:
        raw = text.encode()
        self._parts.append(b"data %d\n%s\n" % (len(raw), raw))


def source_files(count: int) -> dict[str, str]:
    """``count`` small files, a hundred in a directory, beside the plan of a change."""
    files = {
        f"src/{at // 100:03d}/file{at:05d}.txt": "".join(f"{at} {line}\n" for line in range(20))
        for at in range(count)
    }
    return {
        **files,
        TASKS: tasks_text(60, 20),
        f"openspec/changes/{RUN}/proposal.md": "# Proposal\n",
    }


def tasks_text(tickets: int, in_section: int) -> str:
    """A plan of so many tickets, ``in_section`` of them in each section."""
    lines = ["# Tasks\n"]
    for at in range(tickets):
        section, place = divmod(at, in_section)
        if place == 0:
            lines.append(f"\n## {section + 1}. Section {section + 1}\n\n")
        lines.append(f"- [ ] {section + 1}.{place + 1} Ticket {at + 1}\n")
    return "".join(lines)


def key_of(at: int) -> str:
    """The key of the ticket at position ``at``, twenty in a section."""
    return f"{at // 20 + 1}.{at % 20 + 1}"


# --- a run -------------------------------------------------------------------------------------


def opened(top: Path) -> Context:
    """The repository as a verb sees it; warnings go nowhere."""
    return open_context(top, warn=lambda _: None)


def repository(top: Path) -> tuple[Context, str]:
    """A repository of a hundred files, and its only commit."""
    past = History()
    root = past.commit(BASE, source_files(100), text="first\n")
    oids = past.write(top)
    return opened(top), oids[root]


def start(ctx: Context, tickets: int, base_commit: str, run: str = RUN) -> runs.Loaded:
    """A run of so many tickets, none of them begun."""
    now = ctx.clock.now()
    record = RunRecord(
        id=run,
        target=ChangeTarget(change=RUN),
        base=Base(ref=BASE, commit=base_commit),
        branch=ctx.branch(run),
        tip=base_commit,
        checks=(CHECK,),
        source=PlanSource(kind="revision", at=BASE),
        created_at=now.stamp,
    )
    plan = Plan(
        sections=tuple(
            Section(title=f"Section {at + 1}", number=str(at + 1), line=at * 22 + 1)
            for at in range((tickets + 19) // 20)
        ),
        tickets=tuple(
            Ticket(
                key=key_of(at),
                title=f"Do what ticket {key_of(at)} asks for",
                section=at // 20,
                line=at + 3,
                boxes=(at + 3,),
            )
            for at in range(tickets)
        ),
    )
    state = recount(RunState(run=record, plan=plan, live=opening(plan)))
    event = Event(event="start", message=f"start {run}: {tickets} tickets")
    return transact.create(ctx.repo, state, event, ctx.clock)


def packet_of(ctx: Context, state: RunState, ticket: Ticket, attempt: AttemptId) -> bytes:
    """The exact bytes of a packet of usual size."""
    run = state.run
    return codec.encode(
        Packet(
            run=run.id,
            ticket=ticket.key,
            attempt=attempt.number,
            assignment=assignment_id(run.id, attempt),
            title=ticket.title,
            body="As the specification says; see the files named below.",
            section=state.plan.sections[ticket.section].title,
            section_text="",
            criteria=(f"{ticket.key} is covered by a test",),
            dependencies=(),
            plan_revision=1,
            base_commit=run.tip,
            worktree=_worktree(ctx, run.id, attempt),
            branch=ctx.attempt_branch(run.id, attempt).removeprefix("refs/heads/"),
            checks=run.checks,
            allowed_paths=(),
            protected_paths=(),
            context_files=(f"openspec/changes/{RUN}/proposal.md", TASKS),
            previous_failure=None,
            project_dir="",
        )
    )


def receipt_of(
    run: str, attempt: Attempt, commit: str, tree: str, changed: str, now: Moment
) -> tuple[Sealed, bytes]:
    """A receipt of ``commit`` that passes every check, and what the attempt records of it."""
    tail = "".join(f"test_{at:02d} ... ok\n" for at in range(20))
    predicate = Predicate(
        assignment=assignment_id(run, attempt.id),
        run=run,
        mode=None,
        ticket=attempt.ticket,
        attempt=attempt.number,
        session=attempt.session,
        plan_revision=attempt.plan_revision,
        packet_sha256=attempt.packet_sha256,
        token_sha256=attempt.lease.token_sha256,
        base_commit=attempt.base_commit,
        changed_files=(changed,),
        checks=(
            CheckResult(
                command=CHECK,
                exit_code=0,
                duration_ms=1200,
                output_sha256=hashlib.sha256(tail.encode()).hexdigest(),
                output_tail=tail,
            ),
        ),
        sealed_in="verification-worktree",
        sealed_at=now.stamp,
        environment=statement.environment(),
    )
    data = statement.build(commit=commit, tree=tree, predicate=predicate)
    sealed = Sealed(
        receipt_sha256=statement.digest(data),
        commit=commit,
        tree=tree,
        sealed_in="verification-worktree",
        sealed_at=now.stamp,
    )
    return sealed, data


def claim_one(ctx: Context, run: str, session: str) -> Attempt:
    """The next ticket claimed for ``session``: the transition that `actions` makes."""
    chosen: list[Choice] = []

    def step(loaded: runs.Loaded) -> tuple[RunState, Event]:
        chosen[:] = choose(loaded.state, session, 1, 64)
        state = claimed(ctx, loaded.state, chosen[0], session)
        return state, _event("claim", chosen[0].id, session)

    attempt = ctx.transact(run, step).attempt(chosen[0].id)
    assert attempt is not None
    return attempt


def claimed(ctx: Context, state: RunState, choice: Choice, session: str) -> RunState:
    """The state after that claim."""
    now = ctx.clock.now()
    packet = packet_of(ctx, state, choice.ticket, choice.id)
    return claim(
        state,
        choice,
        session=session,
        lease=_lease(ctx, session),
        base_commit=state.run.tip,
        branch=ctx.attempt_branch(state.run.id, choice.id),
        worktree=_worktree(ctx, state.run.id, choice.id),
        packet=packet,
        packet_sha256=hashlib.sha256(packet).hexdigest(),
        now=now,
    )


def seal_one(ctx: Context, run: str, attempt: Attempt, commit: str, changed: str) -> None:
    """The attempt sealed at ``commit``: it waits for integration."""
    now = ctx.clock.now()
    tree = objects.tree_of(ctx.repo, commit)
    sealed, data = receipt_of(run, attempt, commit, tree, changed, now)

    def step(loaded: runs.Loaded) -> tuple[RunState, Event]:
        state = settle.seal(loaded.state, attempt, sealed, data, None, (), now)
        return state, _event("seal", attempt.id, attempt.session)

    ctx.transact(run, step)


def finish_one(ctx: Context, run: str, attempt: Attempt) -> None:
    """The attempt sealed and integrated in one transition, at the commit that it began with."""
    now = ctx.clock.now()
    tree = objects.tree_of(ctx.repo, attempt.base_commit)
    sealed, data = receipt_of(run, attempt, attempt.base_commit, tree, "out.txt", now)
    member = Merged(
        ticket=attempt.ticket,
        number=attempt.number,
        receipt_sha256=sealed.receipt_sha256,
        commit=sealed.commit,
    )
    intent = Advance(
        id="bench",
        machine=now.machine,
        boot=now.boot,
        started_at=now.stamp,
        branch=ctx.branch(run),
        old=sealed.commit,
        new=sealed.commit,
        merges=(member,),
    )

    def step(loaded: runs.Loaded) -> tuple[RunState, Event]:
        state = settle.seal(loaded.state, attempt, sealed, data, None, (), now)
        return settle.finish(state, intent, now), _event("integrate", attempt.id, attempt.session)

    ctx.transact(run, step)


# --- a run with a past -------------------------------------------------------------------------


def worked_off(top: Path, finished: int, left: int = 1) -> None:
    """A repository whose run has so many finished attempts, one in flight and ``left`` tickets
    to go.

    The past is packed, as it is in any repository of that age: sealed and merge commits, attempt
    branches, archived attempts. Only the chain of state commits is shorter than in real life.
    """
    past = History()
    root = past.commit(BASE, source_files(100), text="first\n")
    tip, members = root, []
    for at in range(finished):
        key = key_of(at)
        branch = f"refs/heads/baton-attempt/{RUN}/{AttemptId(key, 1).slug}"
        file = {_changed_file(at): f"{key}\n"}
        sealed = past.commit(branch, file, [tip])
        text = f"{key} Ticket\n\nBaton-Run: {RUN}\nBaton-Ticket: {key}\n"
        tip = past.commit(f"refs/heads/baton/{RUN}", file, [tip, sealed], text)
        members.append((sealed, tip))
    oids = past.write(top)
    ctx = opened(top)
    start(ctx, finished + 1 + left, oids[root])
    _archive(ctx, oids[root], [(oids[sealed], oids[merge]) for sealed, merge in members])
    attempt = claim_one(ctx, RUN, "another")
    Path(attempt.worktree).mkdir(parents=True)
    # What `git gc` would leave, without the minute that it thinks about deltas.
    git(top, "repack", "-d", "-q")
    git(top, "pack-refs", "--all")
    git(top, "commit-graph", "write", "--reachable")


def complete(top: Path) -> None:
    """Finish what a run of `worked_off` has left."""
    ctx = opened(top)
    state = runs.load(ctx.repo, RUN).state
    for attempt in state.live.attempts.values():
        finish_one(ctx, RUN, attempt)
    while runs.load(ctx.repo, RUN).state.live.missing:
        finish_one(ctx, RUN, claim_one(ctx, RUN, "bench"))


def _archive(ctx: Context, base: str, members: Sequence[tuple[str, str]]) -> None:
    """Attempts that are over, with these sealed and merge commits, written as one transition."""
    state = runs.load(ctx.repo, RUN).state
    over = [
        _archived(ctx, state, at, before, sealed, merge)
        for at, (before, (sealed, merge)) in enumerate(
            zip([base, *(merge for _, merge in members)], members, strict=False)
        )
    ]
    touched = {attempt.id: attempt for attempt, _, _ in over}
    files: dict[str, bytes | None] = {}
    for attempt, packet, receipt in over:
        files[path_of(attempt.id, PACKET)] = packet
        files[path_of(attempt.id, RECEIPT)] = receipt
    _pack_ahead(ctx, touched, files)
    done = {attempt.ticket for attempt in touched}
    tip = members[-1][1]

    def step(loaded: runs.Loaded) -> tuple[RunState, Event]:
        live = loaded.state.live
        missing = tuple(key for key in live.missing if key not in done)
        state = replace(
            loaded.state,
            run=replace(loaded.state.run, tip=tip),
            live=replace(live, missing=missing, resolved=len(done)),
            touched=touched,
            files=files,
            parents=(tip,),
        )
        return state, Event(event="integrate", message=f"integrate {len(done)} attempts")

    ctx.transact(RUN, step)


def _archived(
    ctx: Context, state: RunState, at: int, base: str, commit: str, merge: str
) -> tuple[Attempt, bytes, bytes]:
    """The attempt at the ticket of position ``at``, its packet and its receipt."""
    now = ctx.clock.now()
    ticket = state.plan.tickets[at]
    attempt_id = AttemptId(ticket.key, 1)
    packet = packet_of(ctx, state, ticket, attempt_id)
    attempt = Attempt(
        ticket=ticket.key,
        number=1,
        state="succeeded",
        session="bench",
        lease=_lease(ctx, "bench"),
        base_commit=base,
        branch=ctx.attempt_branch(RUN, attempt_id),
        worktree=_worktree(ctx, RUN, attempt_id),
        packet_sha256=hashlib.sha256(packet).hexdigest(),
        ticket_digest=ticket.digest,
        plan_revision=1,
        merge_commit=merge,
        tested_by=commit,
        claimed_at=now.stamp,
        ended_at=now.stamp,
    )
    tree = objects.tree_of(ctx.repo, commit)
    sealed, receipt = receipt_of(RUN, attempt, commit, tree, _changed_file(at), now)
    return replace(attempt, sealed=sealed), packet, receipt


def _pack_ahead(
    ctx: Context, touched: dict[AttemptId, Attempt], files: dict[str, bytes | None]
) -> None:
    """Put the objects of that transition into a pack: the store then finds them there, instead of
    writing some fifty thousand of them one by one."""
    everything = {path_of(i, ATTEMPT): codec.encode(attempt) for i, attempt in touched.items()}
    everything |= {path: data for path, data in files.items() if data is not None}
    ahead = History()
    ahead.commit("refs/ahead", {path: data.decode() for path, data in everything.items()})
    ahead.add_to(ctx.repo.common_dir)
    git(ctx.repo.common_dir, "update-ref", "-d", "refs/ahead")


def _changed_file(at: int) -> str:
    """What the work on the ticket of position ``at`` added."""
    return f"work/{at // 100:03d}/{key_of(at)}.txt"


def _worktree(ctx: Context, run: str, attempt: AttemptId) -> str:
    top = ctx.repo.main_worktree or ctx.repo.common_dir
    return str(top.parent / f"{top.name}.baton" / run / attempt.slug)


def _lease(ctx: Context, session: str) -> Lease:
    return lease.grant(ctx.clock.now(), session, "a token that nobody has to guess", 3600)


def _event(kind: str, attempt: AttemptId, session: str) -> Event:
    return Event(
        event=kind,
        message=f"{kind} {attempt} for {session}",
        ticket=attempt.ticket,
        attempt=attempt.number,
        session=session,
    )
