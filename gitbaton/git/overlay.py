"""Objects that are made only to be looked at, kept apart from the repository.

Who verifies writes nothing into what is verified: a server that is just receiving, a clone that
may not be written. New objects go to a temporary directory, with the store of the repository (and
the quarantine of a push that is being received) as its alternates.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pygit2

from gitbaton.git.repo import Repository


class Overlay(Repository):
    """A repository whose new objects go to ``directory``."""

    def __init__(self, beneath: Repository, directory: Path) -> None:
        super().__init__(beneath.git_dir, beneath.worktree, beneath.common_dir)
        self._directory = str(directory)
        self._alternates = _object_directories(beneath)

    @property
    def objects_dir(self) -> str:
        return self._directory

    @property
    def object_environment(self) -> dict[str, str]:
        return {
            "GIT_OBJECT_DIRECTORY": self._directory,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.pathsep.join(map(_quoted, self._alternates)),
        }

    def reopen(self) -> pygit2.Repository:
        handle = super().reopen()
        store = pygit2.Odb(self._directory)
        for directory in self._alternates:
            store.add_disk_alternate(directory)
        handle.set_odb(store)
        return handle


@contextmanager
def overlay(repo: Repository, folder: Path | None = None) -> Iterator[Overlay]:
    """An `Overlay` whose objects go away at the end; they lie in ``folder``, by default in the
    system's temporary directory."""
    with tempfile.TemporaryDirectory(prefix="baton-objects-", dir=folder) as directory:
        yield Overlay(repo, Path(directory))


def _object_directories(repo: Repository) -> list[str]:
    """Everywhere that ``repo`` finds objects, apart from what alternates name themselves."""
    named = os.environ.get("GIT_ALTERNATE_OBJECT_DIRECTORIES", "")
    found = [repo.objects_dir, *_split(named), f"{repo.common_dir}/objects"]
    return list(dict.fromkeys(os.path.abspath(directory) for directory in found))


def _split(paths: str) -> Iterator[str]:
    """The parts of a list of paths; git quotes those that hold the separator."""
    while paths:
        if paths.startswith('"'):
            end = 1
            while end < len(paths) and paths[end] != '"':
                end += 2 if paths[end] == "\\" else 1
            yield paths[1:end].replace('\\"', '"').replace("\\\\", "\\")
            paths = paths[end + 1 :].removeprefix(os.pathsep)
        else:
            path, _, paths = paths.partition(os.pathsep)
            if path:
                yield path


def _quoted(path: str) -> str:
    if os.pathsep not in path and not path.startswith('"'):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
