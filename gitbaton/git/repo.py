"""The repository: where its parts lie, its settings, and what of it cannot be served.

One `Repository` stands for the place a verb was called in. libgit2 handles are not safe for
writing from several threads, so each thread gets its own, opened at first use.
"""

from __future__ import annotations

import functools
import os
import re
import threading
from pathlib import Path

import pygit2
from pygit2.enums import ConfigLevel, RepositoryOpenFlag

from gitbaton.errors import RepositoryError
from gitbaton.git import command_config, process

_LEVELS = {
    ConfigLevel.PROGRAMDATA: "system",
    ConfigLevel.SYSTEM: "system",
    ConfigLevel.XDG: "global",
    ConfigLevel.GLOBAL: "global",
    ConfigLevel.LOCAL: "local",
    ConfigLevel.WORKTREE: "worktree",
    ConfigLevel.APP: "command",
}
_CHANGING_ATTRIBUTE = re.compile(
    r"^[ \t]*[^#\s].*[ \t][-!]?(filter|merge|text|crlf|eol|ident|binary|working-tree-encoding)\b",
    re.MULTILINE,
)
_CRUD = " \t\n.,:;<>\"\\'"


class Repository:
    """A git repository seen from one of its worktrees; threads may share it."""

    def __init__(
        self, git_dir: Path, worktree: Path | None, common_dir: Path | None = None
    ) -> None:
        self.git_dir = git_dir
        """Of the current worktree: ``.git``, or ``.git/worktrees/<name>``."""
        self.worktree = worktree
        """Top of the current worktree; None in a bare repository."""
        self.common_dir = common_dir or common_dir_of(git_dir)
        """What all worktrees share."""
        self.baton_dir = self.common_dir / "baton"
        self.local = threading.local()
        """What belongs to one thread: its libgit2 handle, and the objects it has staged."""

    @property
    def handle(self) -> pygit2.Repository:
        """This thread's libgit2 handle."""
        handle: pygit2.Repository | None = getattr(self.local, "handle", None)
        return self.reopen() if handle is None else handle

    def reopen(self) -> pygit2.Repository:
        """Give this thread a new handle, for when packs vanished under the old one."""
        flags = RepositoryOpenFlag.FROM_ENV | RepositoryOpenFlag.NO_SEARCH
        handle = self.local.handle = pygit2.Repository(str(self.git_dir), flags)
        return handle

    @property
    def objects_dir(self) -> str:
        """Where new objects are written."""
        return os.environ.get("GIT_OBJECT_DIRECTORY") or f"{self.common_dir}/objects"

    @property
    def object_environment(self) -> dict[str, str]:
        """What a git process must be told to read and write the same objects."""
        return {}

    @functools.cached_property
    def main_worktree(self) -> Path | None:
        """Top of the main worktree; None if the repository is bare."""
        workdir = pygit2.Repository(str(self.common_dir)).workdir
        return Path(workdir) if workdir else None

    @property
    def is_shallow(self) -> bool:
        return self.handle.is_shallow

    @property
    def is_partial(self) -> bool:
        """Whether objects may be missing here and can be fetched by git when they are needed."""
        return any(key.endswith(".promisor") for key in self.config_all("remote."))

    def belongs_to(self, other: Repository) -> bool:
        """Whether both are worktrees of one repository."""
        try:
            return os.path.samefile(self.common_dir, other.common_dir)
        except OSError:
            return False

    def require_history(self) -> None:
        """Refuse a shallow clone, or one with grafts: its ancestry cannot be trusted."""
        if self.is_shallow:
            raise RepositoryError(
                "shallow-clone",
                "this clone is shallow, and its history is needed",
                "run: git fetch --unshallow",
            )
        grafts = self.common_dir / "info" / "grafts"
        if _content(grafts).strip():
            raise RepositoryError(
                "grafts",
                f"{grafts} gives commits other parents than they have",
                "remove it; git-baton reads history as it was written",
            )

    def require_attributes(self) -> None:
        """Refuse attributes that no commit holds and that change what commits check out or merge
        to: any worker can write them."""
        attributes = self.common_dir / "info" / "attributes"
        if _CHANGING_ATTRIBUTE.search(_content(attributes)):
            raise RepositoryError(
                "untracked-attributes",
                f"{attributes} changes what is checked out and merged, but is in no commit",
                "move its lines into a committed .gitattributes",
            )

    def writable_or_refuse(self) -> None:
        """Refuse a repository that this user or file system cannot write."""
        for directory in (self.common_dir, self.common_dir / "refs", self.common_dir / "objects"):
            if not os.access(directory, os.W_OK | os.X_OK):
                raise RepositoryError(
                    "repository-read-only",
                    f"the repository cannot be written: {directory}",
                    "check the permissions of the git directory",
                )

    def head_branch(self) -> str | None:
        """The branch of the current worktree, as a full ref; None when HEAD is detached."""
        text = (self.git_dir / "HEAD").read_text(errors="surrogateescape").strip()
        return text.removeprefix("ref:").strip() if text.startswith("ref:") else None

    def has_commits(self) -> bool:
        """Whether there is anything to start from: a HEAD that exists, or any branch."""
        return not self.handle.head_is_unborn or bool(self.handle.raw_listall_branches())

    def config_all(self, prefix: str = "baton.") -> dict[str, list[tuple[str, str]]]:
        """Every value of the settings below ``prefix``, with the level it came from.

        Values go from the weakest level to the strongest (system, global, local, worktree,
        command); keys have section and variable in lower case. A key without ``=`` is ``true``.
        """
        found: dict[str, list[tuple[str, str]]] = {}
        for name, value, level in self._config:
            if name.startswith(prefix):
                found.setdefault(name, []).append((value, level))
        return found

    @functools.cached_property
    def _config(self) -> list[tuple[str, str, str]]:
        """(key, value, level) of all settings, as they were when first asked for: every step of a
        ticket asks."""
        found: list[tuple[str, str, str]] = []
        try:
            for entry in self.handle.config:
                if entry.name is not None:
                    raw = entry.raw_value
                    value = "true" if raw is None else raw.decode(errors="surrogateescape")
                    found.append((entry.name, value, _LEVELS[ConfigLevel(entry.level)]))
        except (pygit2.GitError, UnicodeDecodeError) as error:
            raise RepositoryError("bad-config", str(error), "correct the configuration") from error
        return found + [(name, value, "command") for name, value in command_config.settings()]

    def forget_config(self) -> None:
        """Read the settings anew when they are asked for: some were written."""
        for name in ("_config", "is_shared", "signs_commits"):
            self.__dict__.pop(name, None)

    def config_get(self, key: str) -> str | None:
        """The value of ``key`` that wins, or None."""
        key = command_config.canonical(key)
        values = self.config_all(key).get(key)
        return values[-1][0] if values else None

    @functools.cached_property
    def is_shared(self) -> bool:
        """Whether files must get other permissions than the umask's (``core.sharedRepository``)."""
        value = self.config_get("core.sharedRepository") or "umask"
        return value.lower() not in ("umask", "false", "0", "no", "off")

    @functools.cached_property
    def signs_commits(self) -> bool:
        """Whether the user wants every commit signed (``commit.gpgSign``)."""
        value = self.config_get("commit.gpgSign") or "false"
        return value.lower() not in ("false", "0", "no", "off", "")

    def identity(self) -> tuple[str, str] | None:
        """(name, email) for commits made for the user; None if git has none to offer.

        From the environment, else from the configuration; only if both are silent git is asked,
        which may derive one from the system's accounts unless user.useConfigOnly forbids it.
        """
        settings = {
            key: values[-1][0]
            for section in ("user.", "author.", "committer.")
            for key, values in self.config_all(section).items()
        }

        def pick(field: str) -> str | None:
            upper = field.upper()
            candidates = (
                os.environ.get(f"GIT_AUTHOR_{upper}"),
                os.environ.get(f"GIT_COMMITTER_{upper}"),
                settings.get(f"author.{field}"),
                settings.get(f"committer.{field}"),
                settings.get(f"user.{field}"),
                os.environ.get("EMAIL") if field == "email" else None,
            )
            return next((text for text in candidates if text and text.strip(_CRUD)), None)

        name, email = pick("name"), pick("email")
        if name is None or email is None:
            asked = process.git(["var", "GIT_AUTHOR_IDENT"], self.git_dir, check=False)
            if asked.code:
                return None
            said = asked.out.decode(errors="surrogateescape")
            name, _, rest = said.partition(" <")
            email = rest.partition(">")[0]
        return clean_name(name), clean_name(email)


def common_dir_of(git_dir: Path) -> Path:
    """The directory that all worktrees share, given that of one of them."""
    try:
        with open(f"{git_dir}/commondir", errors="surrogateescape") as file:
            named = file.read().strip()
    except FileNotFoundError:
        return git_dir
    return Path(os.path.normpath(os.path.join(git_dir, named)))


def _content(path: Path) -> str:
    try:
        return path.read_text(errors="surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return ""


def clean_name(text: str) -> str:
    """A name or an address without what git does not allow in one."""
    return "".join(char for char in text if char not in "<>\n\0").strip(_CRUD)
