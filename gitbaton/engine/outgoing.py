"""What doctor looks at where work leaves the repository: hooks, signatures, what was pushed.

Evidence that stays behind is no evidence to anybody else, and a hook that another program has
replaced says nothing. Only what was fetched or pushed before is looked at, no remote is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gitbaton.engine import hooks
from gitbaton.engine.context import Context
from gitbaton.engine.health import Check, guarded, repaired
from gitbaton.engine.membership import descriptor_of
from gitbaton.errors import BatonError
from gitbaton.evidence import signature
from gitbaton.evidence.at_hand import refs_of
from gitbaton.git import ancestry, refs, remote
from gitbaton.model import layout
from gitbaton.model.run import RunRecord, RunState
from gitbaton.store import queues, runs

_PROBE = b"is this key at hand?"


def hooks_check(ctx: Context) -> Check:
    """Whether pushes are judged, where they are to be."""
    wanted = "pre-receive" if ctx.repo.main_worktree is None else "pre-push"
    hook = next(hook for hook in hooks.status(ctx).hooks if hook.name == wanted)
    if hook.installed:
        return Check(name="hooks", ok=True, message=f"{wanted} is judged by {hook.path}")
    fix = "git baton hook install"
    if lost := _displaced(Path(hook.path), wanted):
        said = f"{wanted} does not call git-baton any more: its hook now lies at {lost}"
        return Check(name="hooks", ok=False, message=said, fix=fix)
    if ctx.settings.protect:
        said = f"nothing judges pushes to {', '.join(ctx.settings.protect)}: no {wanted} hook"
        return Check(name="hooks", ok=False, message=said, fix=fix)
    return Check(name="hooks", ok=True, message="not installed; no branch is protected")


def _displaced(file: Path, name: str) -> Path | None:
    """Our hook under a name that git does not run, or without the permission to."""
    beside = sorted(file.parent.glob(f"{name}*"))
    return next((path for path in beside if hooks.is_ours(path)), None)


def signing(ctx: Context) -> Check:
    """Whether receipts can be signed, by a key that is trusted here."""
    signer = signature.signer_of(ctx.repo, ctx.settings)
    if signer is None:
        required = ctx.settings.require_signature
        return Check(
            name="signing",
            ok=not required,
            message="receipts are not signed: integrity, not origin",
            fix="git config baton.signingKey KEY" if required else "",
        )
    made = signature.sign(signer, _PROBE)
    known = signature.signers_of(ctx.repo, ctx.settings)
    if known is None:
        return Check(name="signing", ok=True, message=f"receipts are signed with {signer.key}")
    verified = signature.verify(_PROBE, made, known, at=ctx.clock.now().wall)
    if not verified.trusted:
        return Check(
            name="signing",
            ok=False,
            message=f"what {signer.key} signs is not trusted here: {verified.why}",
            fix=f"add its public key to {known.path}",
        )
    said = f"receipts are signed with {signer.key}, by {verified.signer}"
    return Check(name="signing", ok=True, message=said)


def signers(ctx: Context) -> Check:
    """Whether it is known whom to trust, where that is needed."""
    known = signature.signers_of(ctx.repo, ctx.settings)
    if known is not None:
        return Check(name="signers", ok=True, message=f"trusted are those in {known.path}")
    required = ctx.settings.require_signature
    return Check(
        name="signers",
        ok=not required,
        message="there are no allowed signers, so no signature shows who made it",
        fix="git config baton.allowedSigners FILE" if required else "",
    )


# --- what was pushed ---------------------------------------------------------------------------


def pushes(ctx: Context, fix: bool) -> Iterator[Check]:
    """Per remote: work that is there without its evidence."""
    local = runs.list_runs(ctx.repo)
    for name in remote.remotes(ctx.repo) if local else ():
        yield guarded(f"remote {name}", lambda name=name: _remote(ctx, name, local, fix))  # type: ignore[misc]


def _remote(ctx: Context, name: str, local: dict[str, str], fix: bool) -> Check:
    title = f"remote {name}"
    tracked = f"{layout.TRACKED}{name}/"
    fetched = ctx.repo.config_all("remote.").get(f"remote.{name}.fetch", [])
    if not any(tracked in value for value, _ in fetched):
        if fix:
            refspec = f"+refs/baton/*:{tracked}*"
            remote.add_fetch_refspec(ctx.repo, name, refspec)
            return repaired(title, f"git config --add remote.{name}.fetch '{refspec}'")
        said = "not known which evidence is there: its refs are not fetched (git baton init)"
        return Check(name=title, ok=True, message=said)
    there = refs.list_refs(ctx.repo, f"{tracked}runs/")
    mirrors = ctx.repo.config_get(f"remote.{name}.mirror") == "true"
    lost = [ref.rpartition("/")[2] for ref in there if ref.rpartition("/")[2] not in local]
    if mirrors and lost:
        return Check(
            name=title,
            ok=False,
            message=f"it is a mirror: a push deletes there what is not here: {', '.join(lost)}",
            fix=f"git config --unset remote.{name}.mirror",
        )
    for run, oid in local.items():
        if wrong := _partial(ctx, name, run, oid, there.get(f"{tracked}runs/{run}")):
            return Check(
                name=title,
                ok=False,
                message=wrong,
                fix=f"git push {name} {' '.join(refs_of(run, _queue_of(ctx, run)))}",
            )
    return Check(name=title, ok=True, message="it has the evidence of all work that it has")


def _partial(ctx: Context, name: str, run: str, here: str, there: str | None) -> str:
    """What is wrong with a run at a remote; "" if nothing is."""
    try:
        record = runs.load(ctx.repo, run).state.run
        known = runs.load(ctx.repo, run, at=there).state if there else None
    except BatonError:
        return ""  # the check of the run speaks of it
    if there is not None and not _same_chain(ctx, here, there):
        return f"the state of {run} there and the one here have gone different ways"
    if known is not None and (wrong := _without_queue(ctx, name, known)):
        return wrong
    work = _work_at(ctx, name, record)
    if work is None:
        return ""
    ref, commit = work
    if known is None:
        return f"it has {ref} at {commit[:12]}, but not the state of {run}"
    if not ancestry.is_ancestor(ctx.repo, commit, known.run.tip):
        return f"it has {ref} at {commit[:12]}, which the state of {run} there does not know"
    return ""


def _without_queue(ctx: Context, name: str, known: RunState) -> str:
    """What is wrong with the queue at a remote of a batch whose state there is ``known``."""
    descriptor, batch = descriptor_of(known.run), known.batch
    if descriptor is None or batch is None:
        return ""
    queue = refs.read(ctx.repo, f"{layout.TRACKED}{name}/queues/{descriptor.queue}")
    if queue is None:
        return f"it has the state of {known.run.id}, but not its queue {descriptor.queue}"
    if not queues.descends(ctx.repo, batch.queue_revision, queue):
        return (
            f"it has queue {descriptor.queue} at {queue[:12]}, which is not what "
            f"{known.run.id} there has seen of it"
        )
    return ""


def _queue_of(ctx: Context, run: str) -> str | None:
    descriptor = descriptor_of(runs.load_live(ctx.repo, run)[1])
    return descriptor.queue if descriptor else None


def _work_at(ctx: Context, name: str, record: RunRecord) -> tuple[str, str] | None:
    """A branch of a remote that has what a run integrated, and the newest such commit there."""
    prefix = f"refs/remotes/{name}/"
    branch = record.branch.removeprefix("refs/heads/")
    tip = refs.read(ctx.repo, prefix + branch)
    if tip is not None and tip != record.base.commit:
        return branch, tip
    target = record.base.ref.removeprefix("refs/heads/")
    landed = refs.read(ctx.repo, prefix + target)
    integrated = record.tip != record.base.commit
    if landed and integrated and ancestry.is_ancestor(ctx.repo, record.tip, landed):
        return target, record.tip
    return None


def _same_chain(ctx: Context, one: str, other: str) -> bool:
    """Whether one of two states comes after the other, by first parents."""
    return any(
        commit.oid == old
        for new, old in ((one, other), (other, one))
        for commit in ancestry.first_parent_chain(ctx.repo, new, None)
    )
