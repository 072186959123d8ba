"""`init --agent-instructions`, as it is typed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from .conftest import Baton


def test_instructions_for_agents(repo: Path, baton: Baton) -> None:
    shown = baton("init")
    assert "AGENTS.md" not in shown.out
    assert baton("init", "--agent-instructions", "--json").json["changes"] == [
        "wrote AGENTS.md (a section)"
    ]
    assert baton("init", "--agent-instructions").out == "nothing to change\n"
    assert baton("init", "--agent-instructions=zh").out == "updated AGENTS.md (a section)\n"
    assert "任务单" in (repo / "AGENTS.md").read_text()
    assert baton("init", "--agent-instructions=fr").status == 2


def test_a_bare_repository_has_no_place_for_them(repo: Path, baton: Baton, tmp_path: Path) -> None:
    subprocess.run(["git", "clone", "-q", "--bare", str(repo), str(tmp_path / "bare")], check=True)
    done = baton("-C", str(tmp_path / "bare"), "init", "--agent-instructions", "--json")
    assert done.status == 1
    assert done.json["error"]["code"] == "no-worktree"
