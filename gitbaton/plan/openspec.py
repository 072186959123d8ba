"""Where OpenSpec keeps changes: ``openspec/changes/<id>/``, archived ones apart, and which file
holds their tasks.

The folder is read through a two-method protocol, so that a working tree and a commit are alike
here. Of YAML only three keys are needed (``schema`` of a change or of the project, ``tracks`` and
``generates`` of a schema); they are read line by line, without a YAML library.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

DEFAULT_TASKS = "tasks.md"
_DEFAULT_SCHEMA = "spec-driven"
_CHANGES = "openspec/changes"
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}-(.+)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MOST_DEPTH = 16


class Folder(Protocol):
    """A folder to read from; paths are relative to it, with ``/``."""

    def read(self, path: str) -> bytes | None:
        """The content of a file; None if there is no file."""

    def list(self, path: str) -> list[str]:
        """Names of what is in a folder; empty if there is no folder."""


class DiskFolder:
    """A folder of the file system."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, path: str) -> bytes | None:
        try:
            return (self._root / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def list(self, path: str) -> list[str]:
        try:
            return sorted(entry.name for entry in (self._root / path).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []


def find_project(start: Path, top: Path) -> str | None:
    """The nearest folder from ``start`` upwards to ``top`` that holds ``openspec/``, relative to
    ``top`` ("" for itself); None if there is none."""
    start, top = start.absolute(), top.absolute()
    if not start.is_relative_to(top):
        return None
    for folder in (start, *start.parents):
        if (folder / "openspec").is_dir():
            where = folder.relative_to(top).as_posix()
            return "" if where == "." else where
        if folder == top:
            break
    return None


def changes(folder: Folder) -> list[str]:
    """Ids of the active changes of a project."""
    return [
        name
        for name in sorted(folder.list(_CHANGES))
        if name != "archive" and not name.startswith(".") and folder.list(f"{_CHANGES}/{name}")
    ]


def archived(folder: Folder) -> dict[str, str]:
    """Id and path of each archived change; of several with one id the latest."""
    found: dict[str, str] = {}
    for name in sorted(folder.list(f"{_CHANGES}/archive")):
        dated = _DATED.fullmatch(name)
        if not name.startswith(".") and folder.list(f"{_CHANGES}/archive/{name}"):
            found[dated[1] if dated else name] = f"{_CHANGES}/archive/{name}"
    return found


def tasks_path(folder: Folder, change_dir: str) -> str:
    """The tasks file of a change: the one that its schema tracks, else ``tasks.md``.

    The schema is named in the change's ``.openspec.yaml``, else in the project's
    ``openspec/config.yaml``; only schemas of the project itself (``openspec/schemas/``) can be
    looked up, those of OpenSpec all track ``tasks.md``.
    """
    default = f"{change_dir}/{DEFAULT_TASKS}"
    tracked = _tracked(folder, change_dir)
    if not tracked:
        return default
    if re.search(r"[*?\[]", tracked):
        pattern = _glob(tracked)
        below = (path for path in _walk(folder, change_dir) if pattern.fullmatch(path))
        first = next(below, None)
        return default if first is None else f"{change_dir}/{first}"
    path = f"{change_dir}/{tracked}"
    if folder.read(path) is None and folder.read(default) is not None:
        return default
    return path


def context_files(folder: Folder, change_dir: str) -> list[str]:
    """What a worker should read of a change: proposal, design, tasks and specs that exist."""
    tasks = tasks_path(folder, change_dir)
    single = [f"{change_dir}/proposal.md", f"{change_dir}/design.md", tasks]
    specs = [f"{change_dir}/specs/{path}" for path in _walk(folder, f"{change_dir}/specs")]
    wanted = [path for path in single if folder.read(path) is not None]
    wanted += [path for path in specs if path.endswith(".md")]
    return list(dict.fromkeys(wanted))


def nearest(name: str, candidates: Iterable[str]) -> list[str]:
    """Up to three of ``candidates`` that ``name`` may be a typo of, most similar first."""
    from difflib import get_close_matches

    folded: dict[str, str] = {}
    for candidate in candidates:
        folded.setdefault(candidate.casefold(), candidate)
    return [folded[match] for match in get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)]


def decides(change_dir: str, path: str) -> bool:
    """Whether a file that comes or goes, or one other than the tasks file that changes, may have a
    say in which is the tasks file of a change."""
    return path.startswith((f"{_root(change_dir)}/", f"{change_dir}/"))


def _root(change_dir: str) -> str:
    above, found, _ = change_dir.rpartition("openspec/changes/")
    return f"{above}openspec" if found else "openspec"


def _tracked(folder: Folder, change_dir: str) -> str:
    """What the schema of a change tracks, relative to the change; empty if that is not known."""
    root = _root(change_dir)
    name = _top_value(folder.read(f"{change_dir}/.openspec.yaml"), "schema")
    for config in ("config.yaml", "config.yml"):
        name = name or _top_value(folder.read(f"{root}/{config}"), "schema")
    name = re.sub(r"\.ya?ml$", "", name or _DEFAULT_SCHEMA)
    if not _NAME.fullmatch(name):
        return ""
    schema = folder.read(f"{root}/schemas/{name}/schema.yaml")
    tracked = _nested_value(schema, "apply", "tracks") or _generates(schema, "tasks")
    parts = tracked.removeprefix("./").split("/")
    if "" in parts or ".." in parts or "\\" in tracked:
        return ""  # outside the change folder
    return "/".join(parts)


# --- as much YAML as is needed -----------------------------------------------------------------


def _lines(data: bytes | None) -> list[tuple[int, str]]:
    """Indentation and text of the lines that are neither empty nor comments."""
    text = (data or b"").decode("utf-8-sig", "replace")
    pairs = ((len(line) - len(line.lstrip(" ")), line.strip()) for line in text.splitlines())
    return [(indent, line) for indent, line in pairs if line and not line.startswith("#")]


def _scalar(line: str, key: str) -> str | None:
    """The value of ``line`` if it sets ``key``; empty for null."""
    found = re.match(rf"(['\"]?){re.escape(key)}\1\s*:(?:\s+(.*))?$", line)
    if found is None:
        return None
    value = (found[2] or "").strip()
    if value[:1] in ("'", '"') and (end := value.find(value[0], 1)) > 0:
        return value[1:end]
    value = re.split(r"\s#", value, maxsplit=1)[0].strip()
    return "" if value in ("~", "null") or value[:1] in "#|>&" else value


def _top_value(data: bytes | None, key: str) -> str:
    for indent, line in _lines(data):
        if indent == 0 and (value := _scalar(line, key)) is not None:
            return value
    return ""


def _nested_value(data: bytes | None, outer: str, key: str) -> str:
    """The value of ``key`` directly below ``outer``, also in the form ``{key: value}``."""
    inside = -1
    for indent, line in _lines(data):
        if indent == 0:
            inside = 0 if _scalar(line, outer) is not None else -1
            flow = re.search(rf"[{{,]\s*{key}\s*:\s*([^,}}]+)", line) if inside == 0 else None
            if flow:
                return _scalar(f"{key}: {flow[1]}", key) or ""
        elif inside >= 0:
            inside = inside or indent
            if indent == inside and (value := _scalar(line, key)) is not None:
                return value
    return ""


def _generates(data: bytes | None, artifact: str) -> str:
    """What the artifact with that id generates."""
    found: dict[str, str] = {}
    inside, column = False, -1
    for indent, line in _lines(data):
        item = re.match(r"-\s+", line)
        if indent == 0 and item is None:
            inside = _scalar(line, "artifacts") is not None
            continue
        entry, at = (line[item.end() :], indent + item.end()) if item else (line, indent)
        if item and column in (-1, at):
            if found.get("id") == artifact:
                break
            found, column = {}, at
        if inside and at == column:
            for key in ("id", "generates"):
                if (value := _scalar(entry, key)) is not None:
                    found[key] = value
    return found.get("generates", "") if found.get("id") == artifact else ""


def _glob(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    known = {"**/": "(?:.+/)?", "**": ".+", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(known.get(part) or re.escape(part) for part in parts))


def _walk(folder: Folder, root: str, depth: int = 0) -> list[str]:
    """Paths of all files below ``root``, relative to it, in order."""
    out: list[str] = []
    for name in sorted(folder.list(root)):
        if name.startswith(".") or depth > _MOST_DEPTH:
            continue
        below = _walk(folder, f"{root}/{name}", depth + 1)
        out += [f"{name}/{path}" for path in below] or [name]
    return out
