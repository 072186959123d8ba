"""The skill for coding agents: where it is put, and that nothing a person wrote is lost."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import scene

import gitbaton
from gitbaton.engine import instructions
from gitbaton.engine.context import Context
from gitbaton.errors import Refused

TOP = Path(gitbaton.__file__).parents[1]
PLUGINS = TOP / "gitbaton" / "plugins"
CLAUDE = Path(".claude/skills/git-baton/SKILL.md")
AGENTS = Path(".agents/skills/git-baton/SKILL.md")


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    top = tmp_path / "repo"
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    return scene.context(top)


@pytest.fixture
def top(ctx: Context) -> Path:
    assert ctx.repo.worktree is not None
    return ctx.repo.worktree


def test_hosts_that_load_skills_get_one(ctx: Context, top: Path) -> None:
    (top / "CLAUDE.md").write_text("# Ours\n")
    (top / ".agents").mkdir()
    assert instructions.write(ctx, "en") == [f"wrote {CLAUDE}", f"wrote {AGENTS}"]
    text = (top / CLAUDE).read_text()
    assert text.startswith("---\nname: git-baton\ndescription: ")
    assert (top / AGENTS).read_text() == text
    assert not (top / "AGENTS.md").exists()
    assert (top / "CLAUDE.md").read_text() == "# Ours\n"
    assert instructions.write(ctx, "en") == []


def test_others_get_a_section_and_keep_the_rest(ctx: Context, top: Path) -> None:
    page = top / "AGENTS.md"
    page.write_bytes(b"# Ours\r\nno newline at the end, \xff")
    assert instructions.write(ctx, "en") == ["wrote AGENTS.md (a section)"]
    page.write_bytes(page.read_bytes() + b"\n## Below\n")
    assert instructions.write(ctx, "en") == []
    assert instructions.write(ctx, "zh") == ["updated AGENTS.md (a section)"]
    data = page.read_bytes()
    assert data.startswith(b"# Ours\r\nno newline at the end, \xff\n\n<!-- git-baton: written")
    assert data.endswith(b"-->\n\n## Below\n")
    assert data.count(b"<!-- git-baton") == 2
    assert "任务单" in data.decode(errors="replace")
    assert b"\n# git-baton" not in data


@pytest.mark.parametrize("host", [True, False])
def test_what_a_person_edited_is_kept(ctx: Context, top: Path, host: bool) -> None:
    if host:
        (top / ".claude").mkdir()
    page = top / (CLAUDE if host else "AGENTS.md")
    instructions.write(ctx, "en")
    edited = page.read_text().replace("heartbeat", "heart-beat")
    page.write_text(edited)
    (change,) = instructions.write(ctx, "zh")
    assert change.startswith(f"kept {page.relative_to(top)}: it was edited")
    assert page.read_text() == edited


def test_a_skill_that_somebody_else_wrote_is_kept(ctx: Context, top: Path) -> None:
    (top / CLAUDE).parent.mkdir(parents=True)
    (top / CLAUDE).write_text("mine\n")
    assert instructions.write(ctx, "en")[0].startswith("kept")
    assert (top / CLAUDE).read_text() == "mine\n"


def test_a_section_whose_end_is_gone_is_kept(ctx: Context, top: Path) -> None:
    instructions.write(ctx, "en")
    page = top / "AGENTS.md"
    cut = page.read_text().partition("## You work")[0] + "mine\n"
    page.write_text(cut)
    assert instructions.write(ctx, "zh")[0].startswith("kept")
    assert page.read_text() == cut


def test_a_link_out_of_the_repository_is_not_followed(
    ctx: Context, top: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").write_text("mine\n")
    (top / "AGENTS.md").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="leads out of the working tree"):
        instructions.write(ctx, "en")
    assert (tmp_path / "elsewhere").read_text() == "mine\n"


def test_both_languages_teach_the_same() -> None:
    english, chinese = (instructions.skill_text(language) for language in ("en", "zh"))
    for text in (english, chinese):
        assert len(text.splitlines()) <= 80
    assert _verbs(english) == _verbs(chinese)
    assert {"actions", "verify", "seal", "reconcile", "dispose"} <= set(_verbs(english))


def _verbs(text: str) -> list[str]:
    return re.findall(r"git baton (\w+)", text)


def test_manifests_of_the_plugins_agree() -> None:
    market = json.loads((TOP / ".claude-plugin" / "marketplace.json").read_text())
    folders = [TOP / plugin["source"] for plugin in market["plugins"]]
    assert folders == [PLUGINS / "en", PLUGINS / "zh"]
    for plugin, folder in zip(market["plugins"], folders, strict=True):
        assert (folder / "skills" / "git-baton" / "SKILL.md").is_file()
        for name in (".claude-plugin/plugin.json", ".codex-plugin/plugin.json"):
            _require_same(folder / name, plugin)
        _require_same(folder / "gemini-extension.json", plugin)


def _require_same(manifest: Path, plugin: dict[str, str]) -> None:
    found = json.loads(manifest.read_text())
    assert found["version"] == gitbaton.__version__
    assert (found["name"], found["description"]) == (plugin["name"], plugin["description"])
