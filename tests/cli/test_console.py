"""Every example that the docs mark as `console` is typed as it stands, and prints what they say.

`$ ` begins a command, `> ` goes on with it, the rest is its output; `...` stands for anything, also
for whole lines. The commands of one page are typed one after the other, in one directory.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

TOP = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in [*TOP.glob("*.md"), *(TOP / "docs").rglob("*.md")]
    if "```console" in page.read_text(encoding="utf-8")
)
_FENCE = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)


class Typed(NamedTuple):
    command: str
    printed: str


def _typed(page: str) -> Iterator[Typed]:
    for fence in _FENCE.finditer(page):
        command, printed = "", ""
        for line in fence[1].splitlines():
            if line.startswith("$ "):
                if command:
                    yield Typed(command, printed)
                command, printed = line[2:], ""
            elif line.startswith(">") and not printed:
                command += "\n" + line[2:]
            else:
                printed += line + "\n"
        yield Typed(command, printed)


def _matches(expected: str, found: str) -> bool:
    parts = (re.escape(part) for part in re.split(r"^\.\.\.\n|\.\.\.", expected, flags=re.M))
    return re.fullmatch(r"(?s:.*)".join(parts), found) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(TOP).as_posix())
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    home, here = tmp_path / "ada", tmp_path / "work"
    home.mkdir()
    here.mkdir()
    (home / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.com\n")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "BATON_"))}
    path = f"{Path(sys.executable).parent}:{env['PATH']}"
    env.update(HOME=str(home), PATH=path, COLUMNS="100", GIT_CONFIG_NOSYSTEM="1", LC_ALL="C.UTF-8")
    for command, printed in _typed(page.read_text(encoding="utf-8")):
        script = f"{command}\ncode=$?; pwd > {tmp_path}/cwd; exit $code"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=here,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        here = Path((tmp_path / "cwd").read_text().rstrip("\n"))
        assert done.returncode == 0, f"$ {command}\n{done.stdout}"
        assert _matches(printed, done.stdout), f"$ {command}\n{done.stdout}"


def test_another_output_would_be_found() -> None:
    assert _matches("a ... c\n...\nz\n", "a b c\nx\ny\nz\n")
    assert not _matches("a\n", "b\n")
    assert not _matches("", "b\n")
