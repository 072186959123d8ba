"""What a worker is given: packet, prompt and token, in the attempt directory.

All three are on disk, synced, before the claim that mentions them is committed; so a claim that
exists can always be delivered, and delivered again.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import indent
from typing import NamedTuple

import msgspec

from gitbaton.engine.context import Context
from gitbaton.engine.disk import File, write_before_a_ref, write_synced
from gitbaton.evidence.ticks import TreeFolder
from gitbaton.model import codec
from gitbaton.model.ids import AttemptId, assignment_id
from gitbaton.model.packet import Packet
from gitbaton.model.run import RunState
from gitbaton.plan import openspec
from gitbaton.rules.claim import Choice
from gitbaton.rules.frontier import predecessors

TOKEN, PACKET, PROMPT = "token", "packet.json", "prompt.md"


def new_token() -> str:
    """A secret that fences an attempt."""
    return secrets.token_urlsafe(24)


class Contract(NamedTuple):
    """What one attempt is given; ``data`` are the packet's exact bytes."""

    packet: Packet
    data: bytes
    token: str


def new_contract(
    ctx: Context, state: RunState, choice: Choice, worktree: Path, branch: str
) -> Contract:
    """The contract of the attempt that ``choice`` is about to become."""
    packet = build_packet(ctx, state, choice, worktree, branch)
    return Contract(packet, codec.encode(packet), new_token())


def build_packet(
    ctx: Context, state: RunState, choice: Choice, worktree: Path, branch: str
) -> Packet:
    """The work contract of the attempt that ``choice`` is about to become."""
    ticket, run = choice.ticket, state.run
    section = state.plan.sections[ticket.section]
    folder = TreeFolder(ctx.repo, run.tip)
    known = state.live.records.get(ticket.key)
    return Packet(
        run=run.id,
        ticket=ticket.key,
        attempt=choice.number,
        assignment=assignment_id(run.id, choice.id),
        title=ticket.title,
        body=ticket.body,
        section=section.title,
        section_text=section.text,
        criteria=tuple(c.text for c in ticket.criteria),
        dependencies=predecessors(state.plan, ticket),
        plan_revision=state.plan.revision,
        base_commit=run.tip,
        worktree=str(worktree),
        branch=branch.removeprefix("refs/heads/"),
        checks=tuple(dict.fromkeys((*run.checks, *ticket.checks))),
        allowed_paths=ticket.paths,
        protected_paths=ctx.settings.protect_paths,
        context_files=choice.ticket.context
        or tuple(openspec.context_files(folder, run.target.folder)),
        previous_failure=known.failure if known else None,
        project_dir=run.target.project,
        conflicts=choice.resolves.conflicts if choice.resolves else (),
        mode=run.target.mode,
    )


def prompt_of(packet: Packet) -> str:
    """The packet as instructions for a worker, markdown."""
    parts = [f"# {packet.ticket} {packet.title}", packet.body]
    if packet.conflicts:
        parts.append(
            "## A merge to resolve\n\nThe work on this ticket is done and checked, but it conflicts"
            " with what was integrated meanwhile. A merge is in progress in this worktree. Resolve"
            " it so that both sides keep their meaning, and commit the merge. In conflict:\n\n"
            + _bullets(packet.conflicts)
        )
    if packet.criteria:
        parts.append("## Done when\n\n" + _bullets(packet.criteria))
    if packet.section_text:
        parts.append(f"## About the section: {packet.section}\n\n{packet.section_text}")
    if packet.context_files:
        parts.append("## Read first\n\n" + _bullets(f"`{path}`" for path in packet.context_files))
    if packet.previous_failure is not None:
        failure = packet.previous_failure
        quoted = indent(failure.message.strip(), "> ", lambda line: True)
        parts.append(f"## What went wrong before ({failure.code})\n\n{quoted}")
    parts.append("## Rules\n\n" + _bullets(_rules(packet)))
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _rules(packet: Packet) -> list[str]:
    rules = [
        f"Work only in this worktree (`{packet.worktree}`), on the branch it is on"
        f" (`{packet.branch}`). Do this ticket and nothing else.",
        "Commit your work. Do not tick boxes or edit the tasks file: that is done for you.",
        "These checks must be green on what you committed: "
        + ", ".join(f"`{command}`" for command in packet.checks),
        "`git baton verify` runs them here; `git baton seal` records the evidence.",
    ]
    if packet.mode:
        rules.append(
            "If there is nothing left to fix, say so in place of a commit: `git baton dispose --as"
            " obe --reason 'WHY'`. If it cannot be fixed here: `--as blocked --by ITEM`, or `--as"
            " unresolved`, with a reason too."
        )
    if packet.project_dir:
        rules.insert(1, f"The project is in `{packet.project_dir}/`; the checks run there.")
    if packet.allowed_paths:
        rules.append("Change only: " + ", ".join(f"`{p}`" for p in packet.allowed_paths))
    if packet.protected_paths:
        rules.append("Do not change: " + ", ".join(f"`{p}`" for p in packet.protected_paths))
    return rules


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


# --- on disk -----------------------------------------------------------------------------------


def write_contracts(ctx: Context, contracts: Iterable[Contract]) -> None:
    """Write token, packet and prompt of each, synced."""
    write_before_a_ref([file for contract in contracts for file in _files(ctx, contract)])


def _files(ctx: Context, contract: Contract) -> Iterator[File]:
    packet = contract.packet
    folder = ctx.attempt_dir(packet.run, AttemptId(packet.ticket, packet.attempt))
    folder.mkdir(parents=True, exist_ok=True)
    yield File(folder / PACKET, contract.data)
    yield File(folder / PROMPT, prompt_of(packet).encode())
    yield _token_file(folder, contract.token)


def write_token(folder: Path, token: str) -> None:
    """Put the current token of an attempt in its directory, readable by its owner only."""
    write_before_a_ref([_token_file(folder, token)])


def _token_file(folder: Path, token: str) -> File:
    return File(folder / TOKEN, token.encode() + b"\n", mode=0o600)


def read_packet(ctx: Context, run: str, attempt: AttemptId, stored: bytes | None) -> Packet:
    """The packet of an attempt; ``stored`` are its bytes in the state, which decide."""
    data = stored if stored is not None else (ctx.attempt_dir(run, attempt) / PACKET).read_bytes()
    return codec.decode(data, Packet)


def restore_contract(ctx: Context, run: str, attempt: AttemptId, packet: bytes) -> str:
    """The prompt of an attempt; packet and prompt are written again where they are missing."""
    folder = ctx.attempt_dir(run, attempt)
    prompt = prompt_of(msgspec.json.decode(packet, type=Packet))
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in ((PACKET, packet), (PROMPT, prompt.encode())):
        path = folder / name
        if not path.exists() or path.read_bytes() != data:
            write_synced(path, data)
    return prompt
