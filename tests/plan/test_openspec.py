"""The OpenSpec layout."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitbaton.plan import openspec
from gitbaton.plan.openspec import DiskFolder


def put(top: Path, path: str, text: str = "x") -> None:
    (top / path).parent.mkdir(parents=True, exist_ok=True)
    (top / path).write_text(text)


CHANGE = "openspec/changes/add-login"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    for path in (
        f"{CHANGE}/tasks.md",
        f"{CHANGE}/proposal.md",
        f"{CHANGE}/specs/auth/spec.md",
        f"{CHANGE}/specs/ui/deep/spec.md",
        f"{CHANGE}/specs/ui/image.png",
        "openspec/changes/zeta/proposal.md",
        "openspec/changes/.hidden/x.md",
        "openspec/changes/archive/2026-01-02-old/tasks.md",
        "openspec/changes/archive/2026-03-04-old/tasks.md",
        "openspec/changes/archive/undated/tasks.md",
        "openspec/changes/README.md",
    ):
        put(tmp_path, path)
    return tmp_path


def test_changes_and_archive(top: Path) -> None:
    folder = DiskFolder(top)
    assert openspec.changes(folder) == ["add-login", "zeta"]
    assert openspec.archived(folder) == {
        "old": "openspec/changes/archive/2026-03-04-old",
        "undated": "openspec/changes/archive/undated",
    }
    assert openspec.changes(DiskFolder(top / "nowhere")) == []


def test_nearest_project(top: Path) -> None:
    put(top, "apps/web/openspec/changes/a/tasks.md")
    put(top, "apps/web/src/x")
    assert openspec.find_project(top, top) == ""
    assert openspec.find_project(top / "apps", top) == ""
    assert openspec.find_project(top / "apps/web/src", top) == "apps/web"
    assert openspec.find_project(top / "apps/web/openspec/changes", top) == "apps/web"
    assert openspec.find_project(top.parent, top) is None
    assert openspec.find_project(top / "apps/web/src", top / "apps/web/src") is None


def test_tasks_file_by_default(top: Path) -> None:
    assert openspec.tasks_path(DiskFolder(top), CHANGE) == f"{CHANGE}/tasks.md"
    assert (
        openspec.tasks_path(DiskFolder(top), "openspec/changes/new")
        == "openspec/changes/new/tasks.md"
    )


SCHEMA = """\
name: rapid
artifacts:
  - id: plan
    generates: work/todo.md
    instruction: |
      artifacts:
        - id: tasks
          generates: wrong.md
  - id: tasks
    generates: "steps.md"  # checked off
apply:
  requires: [tasks]
  instruction: |
    tracks: wrong.md
  tracks: work/todo.md
"""


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (SCHEMA, "work/todo.md"),
        (SCHEMA.replace("  tracks: work/todo.md\n", ""), "steps.md"),
        (SCHEMA.replace("work/todo.md\n", "null\n"), "steps.md"),
        (SCHEMA.partition("apply:")[0] + "apply: {requires: [tasks], tracks: a.md}\n", "a.md"),
        (SCHEMA.replace("tracks: work/todo.md", "tracks: ../../../x.md"), "tasks.md"),
        (SCHEMA.replace("tracks: work/todo.md", "tracks: 'work/*.md'"), "work/todo.md"),
        (SCHEMA.replace("tracks: work/todo.md", "tracks: '**/t?do.md'"), "work/todo.md"),
        (SCHEMA.replace("tracks: work/todo.md", "tracks: absent.md"), "tasks.md"),
        ("artifacts:\n- id: tasks\n  generates: a.md\n", "a.md"),
        ("not: [a, schema", "tasks.md"),
    ],
)
def test_the_schema_names_the_tasks_file(top: Path, schema: str, expected: str) -> None:
    for name in ("work/todo.md", "steps.md", "a.md"):
        put(top, f"{CHANGE}/{name}")
    put(top, "openspec/schemas/rapid/schema.yaml", schema)
    put(top, f"{CHANGE}/.openspec.yaml", "# made by hand\nschema: rapid\ncreated: 2026-01-01\n")
    assert openspec.tasks_path(DiskFolder(top), CHANGE) == f"{CHANGE}/{expected}"


def test_schema_of_the_project_and_of_the_change(top: Path) -> None:
    put(top, "openspec/schemas/one/schema.yaml", "apply:\n  tracks: one.md\n")
    put(top, "openspec/schemas/two/schema.yaml", "apply:\n  tracks: two.md\n")
    put(top, f"{CHANGE}/one.md")
    put(top, f"{CHANGE}/two.md")
    put(top, "openspec/config.yaml", "schema: 'one'\ncontext: |\n  schema: two\n")
    assert openspec.tasks_path(DiskFolder(top), CHANGE) == f"{CHANGE}/one.md"
    put(top, f"{CHANGE}/.openspec.yaml", "schema: two.yaml\n")
    assert openspec.tasks_path(DiskFolder(top), CHANGE) == f"{CHANGE}/two.md"
    put(top, f"{CHANGE}/.openspec.yaml", "schema: ../two\n")
    assert openspec.tasks_path(DiskFolder(top), CHANGE) == f"{CHANGE}/tasks.md"


def test_project_in_a_subfolder_and_archived_change(top: Path) -> None:
    old = "apps/web/openspec/changes/archive/2026-01-01-a"
    put(top, "apps/web/openspec/schemas/one/schema.yaml", "apply:\n  tracks: one.md\n")
    put(top, "apps/web/openspec/config.yml", "schema: one\n")
    put(top, f"{old}/one.md")
    assert openspec.tasks_path(DiskFolder(top), old) == f"{old}/one.md"


def test_context_files(top: Path) -> None:
    assert openspec.context_files(DiskFolder(top), CHANGE) == [
        f"{CHANGE}/proposal.md",
        f"{CHANGE}/tasks.md",
        f"{CHANGE}/specs/auth/spec.md",
        f"{CHANGE}/specs/ui/deep/spec.md",
    ]


def test_disk_folder_on_odd_paths(top: Path) -> None:
    folder = DiskFolder(top)
    assert folder.read(CHANGE) is None
    assert folder.read(f"{CHANGE}/tasks.md/x") is None
    assert folder.list(f"{CHANGE}/tasks.md") == []


def test_nearest() -> None:
    assert openspec.nearest("add-logn", ["zeta", "add-login", "Add-Logo"])[0] == "add-login"
    assert openspec.nearest("xyz", ["add-login"]) == []
