"""How to start the common coding agents so that they work alone and ask nobody.

Their options differ and change often, so all of them stand in one table that a setting can
override: a flag that was renamed costs a user one `git config`, not a release. This module only
makes command lines; it never starts one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gitbaton.errors import UsageError


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """One agent. ``command`` is a template for the shell, ``program`` the executable it needs on
    PATH, ``note`` one line for people. A template without placeholder gets the prompt on stdin."""

    name: str
    command: str
    program: str
    note: str


# The prompt goes over stdin or a file wherever the agent can read one: a single argument is
# limited to 128 KiB on Linux and is visible to every user of the machine.
_PRESETS = (
    Preset(
        name="claude",
        command="claude -p --permission-mode acceptEdits --allowedTools Bash",
        program="claude",
        note="may edit files and run any shell command; whatever else would ask is denied",
    ),
    Preset(
        name="codex",
        command="codex exec --sandbox workspace-write -",
        program="codex",
        note="its sandbox has no network and cannot commit; git-baton commits for it",
    ),
    Preset(
        name="gemini",
        command="gemini --approval-mode yolo --skip-trust",
        program="gemini",
        note="approves every tool; not sandboxed",
    ),
    Preset(
        name="opencode",
        command="opencode run --auto",
        program="opencode",
        note="approves what its own configuration does not deny; not sandboxed",
    ),
    Preset(
        name="aider",
        # --yes-always would also agree to analytics, to browser pages and to a changed .gitignore;
        # histories and the tag cache would otherwise be committed with the work.
        command=(
            "aider --message-file {prompt_file} --yes-always --no-suggest-shell-commands"
            " --no-analytics --no-check-update --no-show-release-notes --no-show-model-warnings"
            " --no-detect-urls --no-gitignore --no-pretty --no-stream"
            " --chat-history-file /dev/null --input-history-file /dev/null;"
            " status=$?; rm -rf .aider.tags.cache.v*; exit $status"
        ),
        program="aider",
        note="edits and commits, but runs no shell commands",
    ),
    Preset(
        name="cursor-agent",
        command="cursor-agent -p --force --trust",
        program="cursor-agent",
        note="runs everything its permissions do not deny",
    ),
    Preset(
        name="copilot",
        command="copilot --allow-all-tools --no-ask-user",
        program="copilot",
        note="every tool, but only paths in the worktree and the temporary folder",
    ),
)

PRESETS: Mapping[str, Preset] = {preset.name: preset for preset in _PRESETS}

# `${prompt}` is a variable of the shell, not a placeholder.
_PLACEHOLDER = re.compile(r"(?<!\$)\{(prompt|prompt_file)\}")


def agent_command(name: str, configured: Mapping[str, str]) -> str:
    """The command template of agent ``name``.

    ``configured`` maps agent names to their `baton.agent.<name>.command`; it overrides presets and
    adds to them, a blank value counts as not set. Raises `UsageError` `unknown-agent`, whose hint
    lists the known names, nearest first.
    """
    if command := configured.get(name, "").strip():
        return command
    if preset := PRESETS.get(name):
        return preset.command
    known = {*PRESETS, *(other for other, command in configured.items() if command.strip())}
    names = _nearest_first(name, known)
    raise UsageError(
        "unknown-agent",
        f"there is no agent named {name!r}",
        f"known: {', '.join(names)}; any other command: --command CMD, or "
        "git config baton.agent.NAME.command CMD",
        {"agents": names},
    )


def fill(template: str, prompt: str, prompt_file: Path) -> str:
    """``template`` with `{prompt}` and `{prompt_file}` replaced by their quoted values.

    All else stays as it is, other braces included, and what was put in is not looked at again.
    Raises `UsageError` `quoted-placeholder` for a placeholder inside quotes, where the quoting of
    its value would end and the shell would run the prompt's text.
    """
    values = {"prompt": prompt, "prompt_file": str(prompt_file)}

    def value(match: re.Match[str]) -> str:
        if _inside_quotes(template[: match.start()]):
            raise UsageError(
                "quoted-placeholder",
                f"{match[0]} stands inside quotes in the agent's command",
                f"write {match[0]} without quotes around it; its value is quoted already",
            )
        return shlex.quote(values[match[1]])

    return _PLACEHOLDER.sub(value, template)


def prompt_on_stdin(template: str) -> bool:
    """Whether the prompt is to be written to the command's stdin: the template names no
    placeholder. Otherwise stdin must be empty, as most agents append it to their prompt."""
    return _PLACEHOLDER.search(template) is None


def missing_program(command: str) -> str | None:
    """One line that says what to install if ``command`` (before `fill`) is a preset whose program
    is not on PATH. None for every other command: its first word may be anything to a shell."""
    import shutil

    for preset in PRESETS.values():
        if command == preset.command and shutil.which(preset.program) is None:
            return (
                f"{preset.program} is not on PATH: install it, or set "
                f"baton.agent.{preset.name}.command"
            )
    return None


def _nearest_first(name: str, known: set[str]) -> list[str]:
    from difflib import SequenceMatcher

    def distance(other: str) -> tuple[float, str]:
        likeness = SequenceMatcher(None, name.casefold(), other.casefold()).ratio()
        return -likeness, other

    return sorted(known, key=distance)


def _inside_quotes(text: str) -> bool:
    """Whether the shell is inside '...' or "..." after ``text``. Inside "$(...)" it is not."""
    ends = [""]  # what ends each construct that is open, the innermost last
    at = 0
    while at < len(text):
        char, end = text[at], ends[-1]
        if end == "'":
            if char == "'":
                ends.pop()
        elif char == "\\":
            at += 1
        elif char == end:
            ends.pop()
        elif char in '"`' or (char == "'" and end != '"'):
            ends.append(char)
        elif char == "(" and (end != '"' or text[at - 1 : at] == "$"):
            ends.append(")")
        at += 1
    return ends[-1] in ("'", '"')
