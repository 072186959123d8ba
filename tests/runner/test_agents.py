"""Templates are filled for a real shell, so a real shell says whether they are right."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitbaton.errors import UsageError
from gitbaton.runner.agents import (
    PRESETS,
    agent_command,
    fill,
    missing_program,
    prompt_on_stdin,
)

NASTY = 'it\'s `touch pwned` $(touch pwned) "x" \\ {prompt_file} {prompt} {a,b}\n-- two\n'


def arguments(command: str, cwd: Path) -> list[str]:
    """The arguments a program gets when the shell runs ``command`` (`show` is the program)."""
    show = cwd / "show"
    show.write_text(f"#!{sys.executable}\nimport json,sys\nprint(json.dumps(sys.argv[1:]))\n")
    show.chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=cwd,
        env={"PATH": f"{cwd}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", PRESETS)
def test_preset_is_one_valid_shell_command(name: str) -> None:
    preset = PRESETS[name]
    assert preset.name == name
    assert preset.command.split()[0] == preset.program
    assert "\n" not in preset.command + preset.note
    filled = fill(preset.command, NASTY, Path("/a b/prompt.md"))
    subprocess.run(["sh", "-n", "-c", filled], check=True)


def test_documentation_has_every_preset_as_it_is() -> None:
    text = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()
    for preset in PRESETS.values():
        assert f"| `{preset.name}` |" in text
        assert preset.command in text


def test_aider_keeps_its_exit_status_and_leaves_no_cache(tmp_path: Path) -> None:
    fake = tmp_path / "aider"
    fake.write_text('#!/bin/sh\nmkdir .aider.tags.cache.v4\ntest -f "$2" && exit 7\n')
    fake.chmod(0o755)
    prompt_file = tmp_path / "a 'b'.md"
    prompt_file.write_text("do it")
    command = fill(PRESETS["aider"].command, "unused", prompt_file)
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=False
    )
    assert done.returncode == 7
    assert not list(tmp_path.glob(".aider*"))


def test_settings_override_and_add() -> None:
    configured = {"codex": "codex exec --yolo -", "mine": "my-agent {prompt_file}", "claude": " "}
    assert agent_command("codex", configured) == "codex exec --yolo -"
    assert agent_command("mine", configured) == "my-agent {prompt_file}"
    assert agent_command("claude", configured) == PRESETS["claude"].command
    assert agent_command("gemini", {}) == PRESETS["gemini"].command


def test_unknown_agent_lists_the_nearest_first() -> None:
    with pytest.raises(UsageError) as caught:
        agent_command("Cursor", {"mine": "x", "blank": ""})
    assert caught.value.code == "unknown-agent"
    names = caught.value.payload["agents"]
    assert isinstance(names, list)
    assert names[0] == "cursor-agent"
    assert set(names) == {*PRESETS, "mine"}
    assert "known: cursor-agent, " in caught.value.hint


def test_values_reach_the_program_unchanged(tmp_path: Path) -> None:
    got = arguments(fill("show {prompt} --f={prompt_file}", NASTY, Path("/a 'b'/p.md")), tmp_path)
    assert got == [NASTY, "--f=/a 'b'/p.md"]
    assert not (tmp_path / "pwned").exists()


@given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")))
def test_what_was_put_in_is_not_looked_at_again(prompt: str) -> None:
    assert shlex.split(fill("a {prompt} {prompt_file}", prompt, Path("{prompt}"))) == [
        "a",
        prompt,
        "{prompt}",
    ]


@pytest.mark.parametrize(
    "template",
    [
        "a {b} {} {{x}} ${HOME} {prompts} {prompt-file} {Prompt}",
        'prompt=x; a "${prompt}" ${prompt_file}',
        "awk '{print $1}' f.{a,b}",
    ],
)
def test_other_braces_stay(template: str) -> None:
    assert fill(template, "P", Path("/p")) == template
    assert prompt_on_stdin(template)


@pytest.mark.parametrize(
    "template",
    ['a "{prompt}"', "a '{prompt}'", 'a "x\\"{prompt}"', "a \"$(b)\" \"{prompt_file}\"",
     "a \"$(b '{prompt}')\"", "a 'it'\\''s' '{prompt}'"],
)  # fmt: skip
def test_placeholder_in_quotes_is_refused(template: str) -> None:
    with pytest.raises(UsageError) as caught:
        fill(template, "$(touch pwned)", Path("/p"))
    assert caught.value.code == "quoted-placeholder"
    assert not prompt_on_stdin(template)


@pytest.mark.parametrize(
    "template",
    [
        'show "$(cat {prompt_file})"',
        "show \"$(cat < {prompt_file} | (cat))\"",
        "(show \"it's\" >&2); show \"$(printf '%s' \"x\" >&2; cat {prompt_file})\"",
        "show \"`cat {prompt_file}`\"",
        "show it\\'s >&2; show \"$(cat {prompt_file})\"",
    ],
)  # fmt: skip
def test_command_substitution_in_quotes_is_fine(template: str, tmp_path: Path) -> None:
    prompt_file = tmp_path / "a 'b'.md"
    prompt_file.write_text("the prompt")
    assert arguments(fill(template, "unused", prompt_file), tmp_path) == ["the prompt"]


def test_missing_program_names_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    command = PRESETS["aider"].command
    text = missing_program(command)
    assert text is not None
    assert text.startswith("aider is not on PATH")
    assert "baton.agent.aider.command" in text
    assert "\n" not in text
    assert missing_program("FOO=1 no-such-program") is None
    (tmp_path / "aider").write_text("#!/bin/sh\n")
    (tmp_path / "aider").chmod(0o755)
    assert missing_program(command) is None
