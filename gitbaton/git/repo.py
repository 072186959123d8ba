"""Finding and opening the repository, and refusing in one line what cannot be served.

One `Repository` stands for the place a verb was called in. libgit2 handles are not safe for
writing from several threads, so each thread gets its own, opened at first use.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import threading
from collections.abc import Iterator
from pathlib import Path

import pygit2
from pygit2.enums import ConfigLevel, RepositoryOpenFlag

from gitbaton.errors import RepositoryError
from gitbaton.git import process

_LEVELS = {
    ConfigLevel.PROGRAMDATA: "system",
    ConfigLevel.SYSTEM: "system",
    ConfigLevel.XDG: "global",
    ConfigLevel.GLOBAL: "global",
    ConfigLevel.LOCAL: "local",
    ConfigLevel.WORKTREE: "worktree",
    ConfigLevel.APP: "command",
}
_QUOTED = r"'(?:[^']|'\\['!]')*'"
_PARAMETER = re.compile(rf"(?P<key>{_QUOTED})(?P<equals>=(?P<value>{_QUOTED})?)?")
_CHANGING_ATTRIBUTE = re.compile(
    r"^[ \t]*[^#\s].*[ \t][-!]?(filter|merge|text|crlf|eol|ident|binary|working-tree-encoding)\b",
    re.MULTILINE,
)
_OID_DIGITS = frozenset("0123456789abcdef")
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
        return found + [(name, value, "command") for name, value in _command_config()]

    def forget_config(self) -> None:
        """Read the settings anew when they are asked for: some were written."""
        for name in ("_config", "is_shared", "signs_commits"):
            self.__dict__.pop(name, None)

    def config_get(self, key: str) -> str | None:
        """The value of ``key`` that wins, or None."""
        key = _canonical(key)
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


def open_repository(start: Path | None = None) -> Repository:
    """The repository that ``start`` lies in, or that git's own variables and the directory name.

    With ``start`` those variables are not looked at. Raises `RepositoryError` for whatever
    cannot be served, before anything was written.
    """
    pygit2.settings.enable_fsync_gitdir(process.fsync_enabled())
    flags = RepositoryOpenFlag.DEFAULT
    where = str(start) if start else "."
    if start is None:
        flags = RepositoryOpenFlag.FROM_ENV
        if os.environ.get("GIT_DIR"):
            where = os.environ["GIT_DIR"]
            flags |= RepositoryOpenFlag.NO_SEARCH
    try:
        located = _open(where, flags)
    except (pygit2.GitError, OSError) as error:
        raise _diagnosis(where, error) from error
    git_dir = Path(located.path)
    head = git_dir / "HEAD"
    try:
        text = head.read_text(errors="surrogateescape").strip()
    except OSError as error:
        raise _corrupt(str(error)) from error
    if not text.startswith("ref:") and not (len(text) == 40 and _OID_DIGITS.issuperset(text)):
        raise _corrupt(f"{head} does not name a commit or a branch")
    return Repository(git_dir, Path(located.workdir) if located.workdir else None)


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


def _open(where: str, flags: RepositoryOpenFlag) -> pygit2.Repository:
    """Open, also where ``git -c safe.directory=...`` permits it: libgit2 sees no such setting."""
    try:
        return pygit2.Repository(where, flags)
    except pygit2.GitError:
        found = _foreign_directory(where)
        if found is None or not _command_allows(found):
            raise
    pygit2.settings.owner_validation = False
    return pygit2.Repository(where, flags)


def _command_allows(directory: Path) -> bool:
    allowed = False
    for name, value in _command_config():
        if name == "safe.directory":
            allowed = bool(value) and (allowed or value in ("*", str(directory)))
    return allowed


def _foreign_directory(where: str) -> Path | None:
    """The directory of the repository at ``where`` that belongs to somebody else, if one does."""
    git_dir = pygit2.discover_repository(where)
    if git_dir is None:
        return None
    top = Path(git_dir)
    top = top.parent if top.name == ".git" else top
    owners = {os.geteuid()}
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdigit():
        owners.add(int(os.environ["SUDO_UID"]))
    foreign = any(Path(p).stat().st_uid not in owners for p in (top, git_dir))
    return top if foreign else None


def _diagnosis(where: str, error: Exception) -> RepositoryError:
    """Why libgit2 would not open: looked up in the repository, not in the message."""
    try:
        git_dir = pygit2.discover_repository(where)
    except (KeyError, pygit2.GitError, OSError):
        git_dir = None
    if git_dir is None:
        return RepositoryError(
            "no-repository",
            f"no git repository at or above {Path(where).absolute()}",
            "go to one, or name it: git -C DIR baton ...",
        )
    foreign = _foreign_directory(where)
    if foreign is not None:
        return RepositoryError(
            "unsafe-ownership",
            f"the repository at {foreign} belongs to another user",
            "if you trust it: git config --global --add safe.directory "
            + shlex.quote(str(foreign)),
        )
    try:
        config = pygit2.Config(str(common_dir_of(Path(git_dir)) / "config"))
        extensions = {
            str(e.name).removeprefix("extensions."): e.value
            for e in config
            if e.name and e.name.startswith("extensions.")
        }
    except (pygit2.GitError, OSError):
        return _corrupt(str(error))
    if str(extensions.get("objectformat", "sha1")).lower() != "sha1":
        return RepositoryError(
            "unsupported-object-format",
            f"repositories with {extensions['objectformat']} object ids are not supported",
        )
    if str(extensions.get("refstorage", "files")).lower() != "files":
        return RepositoryError(
            "unsupported-ref-format",
            f"repositories with {extensions['refstorage']} refs are not supported",
            "run: git refs migrate --ref-format=files",
        )
    if extensions:
        return RepositoryError(
            "unknown-extension",
            f"the repository uses an extension that is not supported: {', '.join(extensions)}",
        )
    return _corrupt(str(error))


def _corrupt(detail: str) -> RepositoryError:
    return RepositoryError("corrupt-repository", f"the repository is damaged: {detail}", "git fsck")


def _command_config() -> Iterator[tuple[str, str]]:
    """Settings of ``git -c`` and of GIT_CONFIG_COUNT: libgit2 does not read these."""
    count = os.environ.get("GIT_CONFIG_COUNT", "")
    for number in range(int(count) if count.isdigit() else 0):
        key = os.environ.get(f"GIT_CONFIG_KEY_{number}")
        if key:
            yield _canonical(key), os.environ.get(f"GIT_CONFIG_VALUE_{number}", "")
    for found in _PARAMETER.finditer(os.environ.get("GIT_CONFIG_PARAMETERS", "")):
        key, value = _unquoted(found["key"]), found["value"]
        if found["equals"] is None:  # before git 2.31 the whole setting was one quoted word
            key, _, value = key.partition("=")
            yield _canonical(key), value
        else:
            yield _canonical(key), "true" if value is None else _unquoted(value)


def _unquoted(word: str) -> str:
    return word[1:-1].replace("'\\''", "'").replace("'\\!'", "!")


def _canonical(key: str) -> str:
    """Section and variable in lower case, the subsection as it is."""
    section, dot, rest = key.partition(".")
    subsection, dot2, variable = rest.rpartition(".")
    return f"{section.lower()}{dot}{subsection}{dot2}{variable.lower()}"
