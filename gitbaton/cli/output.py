"""All that leaves the program, in one place: a document or text, errors, and the exit status.

With ``--json`` stdout holds exactly one JSON document, whatever happens; its ``ok`` is false
exactly when the exit status is not 0. Without it, text goes to stdout and a refusal becomes one
or two lines on stderr. No exception gets past `Output.guard`: a refusal is data, the system's own
errors are put into words, and everything else is a bug, whose traceback is kept in a file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from gitbaton import __version__
from gitbaton.errors import BatonError, Interrupted, RepositoryError, UsageError
from gitbaton.report.lines import clean

if TYPE_CHECKING:
    from gitbaton.engine.context import Context

_FALSE = ("", "0", "false", "no", "off")
_LONGEST = 200  # characters of a path in a message


class Answer(NamedTuple):
    """What a verb found out: the keys of the JSON document, how to write them for people, and the
    error when the answer is no (the payload is printed all the same)."""

    result: Any
    text: Callable[[Any], str]
    error: BatonError | None = None


class Output:
    """Where one invocation writes. ``json`` and ``color`` follow the options as they are parsed."""

    def __init__(self, args: Sequence[str]) -> None:
        self.args = tuple(args)
        self.json = os.environ.get("BATON_JSON", "").lower() not in _FALSE
        self.color: bool | None = None
        self.context: Context | None = None

    def warn(self, message: str) -> None:
        """A line for people, beside the answer."""
        click.echo(f"git-baton: warning: {clean(message)}", err=True, color=self.color)

    def answer(self, answer: Answer) -> int:
        """Print what a verb returned; the exit status."""
        if self.json:
            _print_json(_document(answer.result, answer.error))
        elif text := answer.text(answer.result):
            click.echo(text, color=self.color)
        if answer.error is None:
            return 0
        if not self.json:
            self._complain(answer.error)
        return answer.error.exit_status

    def fail(self, error: BatonError) -> int:
        """Print a refusal; the exit status."""
        if self.json:
            _print_json(_document(error.payload, error))
        else:
            self._complain(error)
        if _tracing():
            _print_traceback()
        return error.exit_status

    def guard(self, run: Callable[[], int | None]) -> int:
        """The exit status of ``run``, whatever it raises."""
        try:
            return self._guarded(run)
        except BrokenPipeError:
            _silence()
            return 1
        except OSError as error:
            return self._unwritten(error)  # not even the refusal could be

    def _guarded(self, run: Callable[[], int | None]) -> int:
        try:
            return run() or 0
        except BatonError as error:
            return self.fail(error)
        except click.ClickException as error:
            return self._usage(error)
        except (click.Abort, KeyboardInterrupt):
            return self.fail(Interrupted("interrupted", "interrupted", "the same command goes on"))
        except BrokenPipeError:
            raise
        except OSError as error:
            if _in_echo(error):
                return self._unwritten(error)
            known = of_system(error)
            return self._bug(error) if known is None else self.fail(known)
        except Exception as error:
            return self._bug(error)

    def _unwritten(self, error: OSError) -> int:
        _silence()
        reason = error.strerror or str(error)
        lost = BatonError(
            "output-not-written",
            f"the output could not be written: {reason}",
            "what the verb does may be done: see `git baton status`",
        )
        self._complain(lost)
        return lost.exit_status

    def _usage(self, error: click.ClickException) -> int:
        # The line could not be parsed, so --json may stand where no parser came by.
        before = self.args[: self.args.index("--")] if "--" in self.args else self.args
        self.json = self.json or "--json" in before
        context = error.ctx if isinstance(error, click.UsageError) else None
        command = context.command_path if context else "git-baton"
        message = " ".join(error.format_message().split())
        return self.fail(UsageError("usage", message.rstrip("."), f"see `{command} -h`"))

    def _bug(self, error: Exception) -> int:
        path = _keep(self, error)
        message = f"this is a bug in git-baton: {type(error).__name__}: {error}"
        where = f" together with {path}" if path else ""
        return self.fail(
            BatonError("bug", message, f"please report it to git-baton's issue tracker{where}")
        )

    def _complain(self, error: BatonError) -> None:
        label = click.style("git-baton:", fg="red", bold=True)
        with contextlib.suppress(OSError):  # nobody is left to be told
            click.echo(f"{label} {clean(error.message)}", err=True, color=self.color)
            if error.hint:
                label = click.style("hint:", fg="yellow")
                click.echo(f"{label} {clean(error.hint)}", err=True, color=self.color)


def current() -> Output:
    """The output of the command that is being invoked."""
    found = click.get_current_context().find_object(Output)
    if found is None:
        raise AssertionError("no command is being invoked")
    return found


def context() -> Context:
    """The repository of the current directory, with warnings going to stderr."""
    from gitbaton.engine.context import open_context

    out = current()
    found = open_context(warn=out.warn)
    for path in (found.repo.common_dir, found.cwd):
        if not_text(str(path)):
            raise RepositoryError(
                "path-not-utf-8",
                f"the path of the repository is not UTF-8: {path}",
                "rename the folder: paths are recorded as text",
            )
    out.context = found
    return found


def not_text(word: str) -> bool:
    """Whether a word of the system holds bytes that are not UTF-8."""
    return not word.isascii() and any("\udc80" <= character <= "\udcff" for character in word)


def of_system(error: OSError) -> BatonError | None:
    """A failure of the system in one clear line; None for one that nobody foresaw."""
    place = _place(error)
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return RepositoryError(
            "disk-full", f"no space left for {place}", "free some space, then repeat"
        )
    if error.errno == errno.EROFS:
        return RepositoryError(
            "repository-read-only", f"{place} cannot be written: {reason}", "mount it writable"
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return RepositoryError(
            "permission-denied", f"no permission for {place}: {reason}", "check its permissions"
        )
    if error.errno in (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR):
        return UsageError("bad-path", f"{place}: {reason}", "name another file or folder")
    if error.errno in (errno.EIO, errno.ESTALE):
        return RepositoryError("io-error", f"{place}: {reason}", "check the disk, then repeat")
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN):
        return RepositoryError(
            "out-of-resources", f"the system has no more to give: {reason}", "repeat with less load"
        )
    return None


def _place(error: OSError) -> str:
    """What an error of the system is about, short enough to be read."""
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    if len(name) > _LONGEST:
        name = f"{name[: _LONGEST // 2]}...{name[-_LONGEST // 4 :]}"
    return name or "the repository"


def _document(result: Any, error: BatonError | None) -> dict[str, Any]:
    import msgspec

    document = {"ok": error is None, **msgspec.to_builtins(result)}
    if error is not None:
        document["ok"] = False
        document["error"] = {"code": error.code, "message": error.message, "hint": error.hint}
    return document


def _print_json(document: dict[str, Any]) -> None:
    # ASCII, so that no locale of the reader can break the document.
    import json

    click.echo(json.dumps(document, indent=2))


def _keep(out: Output, error: Exception) -> Path | None:
    """The file with the traceback of a bug; None when there is no place for it."""
    import tempfile
    import time
    import traceback

    name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}.txt"
    report = "\n".join(
        (
            f"git-baton {__version__}, Python {sys.version}, {sys.platform}",
            f"arguments: {_without_token(out.args)}",
            "".join(traceback.format_exception(error)),
        )
    )
    try:
        if out.context is not None and out.context.repo.baton_dir.is_dir():
            path = out.context.repo.baton_dir / "crash" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(report, errors="backslashreplace")
            return path
    except OSError:
        pass
    try:
        # A name that nobody can guess: the folder is everybody's.
        fd, made = tempfile.mkstemp(prefix="git-baton-", suffix=f"-{name}")
        with os.fdopen(fd, "w", errors="backslashreplace") as file:
            file.write(report)
        return Path(made)
    except OSError:
        return None


def _without_token(args: Sequence[str]) -> list[str]:
    """The arguments as they may be shown to others."""
    shown = ["--token=..." if arg.startswith("--token=") else arg for arg in args]
    for at, arg in enumerate(shown[:-1]):
        if arg == "--token":
            shown[at + 1] = "..."
    return shown


def _tracing() -> bool:
    return os.environ.get("BATON_TRACE", "").lower() not in _FALSE


def _print_traceback() -> None:
    import traceback

    click.echo(traceback.format_exc(), err=True, nl=False)


def _in_echo(error: OSError) -> bool:
    """Whether printing failed, and not what was to be printed about."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code is click.echo.__code__


def _silence() -> None:
    """Let the interpreter's last flush go nowhere: the reader has left."""
    with open(os.devnull, "w") as sink:
        os.dup2(sink.fileno(), 1)
