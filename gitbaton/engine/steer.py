"""The verbs by which a person steers a run: abandon, adopt, reopen, pause, resume."""

from __future__ import annotations

import msgspec

from gitbaton.engine import advance, integrate, membership, prepare, trust
from gitbaton.engine.context import (
    Context,
    nearest,
    require_outside,
    resolve_attempt,
    resolve_run,
)
from gitbaton.engine.remains import last_red_check
from gitbaton.engine.view import relay_of
from gitbaton.errors import NotFound, Refused
from gitbaton.git import objects
from gitbaton.model.ids import assignment_id
from gitbaton.model.run import Event, Recorded, RunState
from gitbaton.model.transitions import AttemptState
from gitbaton.plan import write
from gitbaton.rules import retire
from gitbaton.store import runs


class Abandoned(msgspec.Struct, frozen=True, kw_only=True):
    assignment: str
    state: AttemptState
    destroys: tuple[str, ...]
    preserves: tuple[str, ...]
    next: str


class Adopted(msgspec.Struct, frozen=True, kw_only=True):
    assignment: str
    state: AttemptState
    adopted_from: AttemptState
    commit: str
    merge_commit: str | None
    follow_up: str


class Steered(msgspec.Struct, frozen=True, kw_only=True):
    run: str
    state: str
    mode: str | None = None
    ticket: str | None = None


def abandon(ctx: Context, assignment: str, reason: str = "", force: bool = False) -> Abandoned:
    """Give an attempt up; refused, with the facts, while it may well be alive."""
    require_outside(ctx, "abandoning an attempt")
    run, attempt_id = resolve_attempt(ctx, assignment)
    said = "\n".join(filter(None, (reason, last_red_check(ctx, run, attempt_id))))

    def step(loaded: runs.Loaded) -> tuple[RunState, Event] | None:
        attempt = loaded.attempt(attempt_id)
        assert attempt is not None
        now = ctx.clock.now()
        try:
            state = retire.abandon(loaded.state, attempt, said, now, force=force)
        except Refused as error:
            error.payload["relay"] = msgspec.to_builtins(
                relay_of(ctx, run, attempt, loaded.state.live)
            )
            raise
        if state is loaded.state:
            return None
        text = f"abandon {attempt_id}" + (f": {reason}" if reason else "")
        return state, Event(
            event="abandon", message=text, ticket=attempt_id.ticket, attempt=attempt_id.number
        )

    attempt = ctx.transact(run, step).attempt(attempt_id)
    assert attempt is not None
    preserved = [
        f"worktree {attempt.worktree}",
        f"branch {advance.short(attempt.branch)} and its commits",
        "packet",
    ]
    if attempt.sealed is not None:
        preserved.append(f"receipt of {attempt.sealed.commit[:12]}")
    return Abandoned(
        assignment=assignment_id(run, attempt_id),
        state=attempt.state,
        destroys=("the lease", "the right to be reconciled"),
        preserves=tuple(preserved),
        next=f"the next `git baton actions` may claim {attempt_id.ticket} again",
    )


def adopt(ctx: Context, assignment: str) -> Adopted:
    """Revive a retired attempt that has a receipt, and integrate it."""
    run, attempt_id = resolve_attempt(ctx, assignment)
    loaded = runs.load(ctx.repo, run)
    before = loaded.attempt(attempt_id)
    assert before is not None
    if before.sealed is not None:
        failure = trust.judge(ctx, loaded, before)
        if failure is not None:
            raise Refused(failure.code, failure.message, "the work itself is on its branch")

    def step(fresh: runs.Loaded) -> tuple[RunState, Event]:
        attempt = fresh.attempt(attempt_id)
        assert attempt is not None
        if attempt.sealed != before.sealed:
            raise Refused("receipt-changed", f"{attempt_id} was sealed anew meanwhile", "try again")
        siblings = fresh.attempts_of(attempt_id.ticket)
        state = retire.adopt(fresh.state, attempt, siblings, ctx.clock.now())
        return state, Event(
            event="adopt",
            message=f"adopt {attempt_id}",
            ticket=attempt_id.ticket,
            attempt=attempt_id.number,
        )

    ctx.transact(run, step)
    integrate.integrate(ctx, run)
    after = runs.load(ctx.repo, run).attempt(attempt_id)
    assert after is not None and after.sealed is not None
    return Adopted(
        assignment=assignment_id(run, attempt_id),
        state=after.state,
        adopted_from=before.state,
        commit=after.sealed.commit,
        merge_commit=after.merge_commit,
        follow_up=_after_adoption(after.state, run),
    )


def _after_adoption(state: AttemptState, run: str) -> str:
    if state == "succeeded":
        return "integrated; `git baton actions` goes on"
    if state == "blocked-review":
        return f"not integrated, see `git baton status {run}`"
    return "another process integrates it"


def reopen(ctx: Context, run_name: str | None, ticket_key: str, reason: str) -> Steered:
    """Make a resolved, hand-resolved or failed ticket claimable again; a tick on the integration
    branch is taken back by a plan commit."""
    require_outside(ctx, "reopening a ticket")
    run = resolve_run(ctx, run_name)
    with advance.exclusively(ctx, run):
        advance.recover(ctx, run)
        loaded = runs.load(ctx.repo, run)
        advance.heal_branch(ctx, loaded)
        ticket = loaded.state.plan.ticket(ticket_key)
        if ticket is None:
            raise NotFound(
                "unknown-ticket",
                f"{run} has no ticket {ticket_key}",
                nearest(ticket_key, [t.key for t in loaded.state.plan.tickets]),
            )
        retire.require_reopenable(loaded.state, ticket.key)
        if loaded.state.batch is not None and ticket.key not in loaded.state.live.missing:
            raise Refused(
                "member-returned",
                f"{ticket.key} has been returned by {run}",
                f"`git baton queue set {ticket.key} --state open` gives it to the next batch",
            )
        event = Event(event="reopen", message=f"reopen {ticket.key}: {reason}", ticket=ticket.key)
        commit = _untick(ctx, loaded, ticket.key, reason)
        if commit is None:
            ctx.transact(run, lambda fresh: (retire.reopen(fresh.state, ticket.key), event))
        else:
            record = Recorded(commit=commit, kind="plan")
            intent = advance.new_advance(
                ctx, loaded, commit, recorded=(record,), reopened=(ticket.key,)
            )
            advance.carry_out(ctx, run, intent, event)
    return Steered(run=run, state=run_state(ctx, run), ticket=ticket.key)


def _untick(ctx: Context, loaded: runs.Loaded, key: str, reason: str) -> str | None:
    """A commit on top of the tip in which the ticket's box is open; None if it is already."""
    run = loaded.state.run
    tasks = prepare.tasks_path_of(ctx, loaded)
    text = objects.blob_at(ctx.repo, run.tip, tasks)
    if text is None:
        return None
    open_text = write.set_marks(text, [key], False, unit=run.unit, ignore_missing=True)
    if open_text == text:
        return None
    tree = objects.edit_tree(ctx.repo, objects.tree_of(ctx.repo, run.tip), {tasks: open_text})
    return objects.create_commit(
        ctx.repo,
        tree,
        [run.tip],
        f"Reopen {key}\n\n{reason}\n\nBaton-Run: {run.id}\nBaton-Event: plan\n",
        author=ctx.require_identity(),
        when=ctx.clock.now().wall,
    )


def pause(ctx: Context, run_name: str | None, reason: str) -> Steered:
    """Claim nothing new until `resume`; what is in flight goes on."""
    run = resolve_run(ctx, run_name)
    event = Event(event="pause", message=f"pause: {reason}")
    ctx.transact(run, lambda loaded: (retire.pause(loaded.state, reason), event))
    return Steered(run=run, state=run_state(ctx, run))


def resume(ctx: Context, run_name: str | None) -> Steered:
    """Go on after a pause; a halt of the integration is looked at again."""
    run = resolve_run(ctx, run_name)

    def step(loaded: runs.Loaded) -> tuple[RunState, Event] | None:
        state = membership.resumed(ctx, retire.resume(loaded.state))
        return None if state == loaded.state else (state, Event(event="resume", message="resume"))

    record = ctx.transact(run, step).state.run
    return Steered(run=run, state=run_state(ctx, run), mode=record.target.mode)


def run_state(ctx: Context, run: str) -> str:
    """The state of a run as ``status`` shows it."""
    from gitbaton.engine.view import state_of

    _, record, live = runs.load_live(ctx.repo, run)
    return state_of(record, live)
