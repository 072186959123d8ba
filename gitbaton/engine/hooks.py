"""Putting git-baton's hooks where git finds them, beside whatever is there, and taking them away.

A hook that exists goes on: it is kept under another name and runs first, with a copy of the input
and the same arguments. Where a program owns the hooks and writes them anew as it likes (husky,
lefthook), or where they serve every repository of a user, nothing is touched; there somebody has to
add a line. pre-commit keeps its hook on top, and runs below it what it found: there we lie, since
it would overwrite one or the other if it came again. Installed or not is always found out by
looking, never remembered.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from gitbaton.engine.context import Context
from gitbaton.errors import Refused
from gitbaton.git import hooks as git_hooks

NAMES = ("pre-push", "pre-receive")
MARK = "# git-baton hook"
_KEPT = ".before-baton"
_LEGACY = ".legacy"  # as pre-commit calls the hook that it found
_PRE_COMMIT_ID = "id: git-baton"
_LEFTHOOK_FILES = ("lefthook*.y*ml", ".lefthook*.y*ml", "*lefthook*.toml", "*lefthook*.json")

_SCRIPT = """\
#!/bin/sh
{mark}: judges what is pushed. `git baton hook install` puts it here and
# `git baton hook uninstall` removes it; do not edit.
# The hook that was here before is kept beside it, as {name}.before-baton. It runs first, with the
# same arguments and input, and what it refuses stays refused.
name={name}
python={python}

input=$(cat && echo .) || exit 1
input=${{input%.}}

before=$(dirname "$0")/$name.before-baton
if [ -x "$before" ]; then
    printf %s "$input" 2>/dev/null | "$before" "$@" || exit
fi

if command -v git-baton >/dev/null 2>&1; then
    set -- git-baton hook "$name" "$@"
elif [ -x "$python" ]; then
    set -- "$python" -m gitbaton hook "$name" "$@"
else
    echo "git-baton: it is not on the PATH, so nothing judged this push" >&2
    exit 1
fi
printf %s "$input" | "$@" >&2
"""


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """One hook as git would run it.

    ``path`` is the file that calls git-baton, or would; ``chained``: another hook runs as well, one
    after the other; ``by`` who has git-baton called (``git`` itself, ``config``, ``pre-commit``,
    ``husky``, ``lefthook``).
    """

    name: str
    installed: bool
    chained: bool
    path: str
    by: str = "git"


class Hooks(msgspec.Struct, frozen=True, kw_only=True):
    """The hooks, and what was changed about them, one line each."""

    hooks: tuple[Hook, ...]
    changes: tuple[str, ...] = ()


def script(name: str, python: str = "") -> str:
    """The text of a hook; ``python`` is used where git-baton is not on the PATH."""
    quoted = shlex.quote(python) if python else ""
    return _SCRIPT.format(mark=MARK, name=name, python=quoted)


def status(ctx: Context) -> Hooks:
    """Which hooks are installed, and where."""
    return Hooks(hooks=tuple(_look(ctx, name) for name in NAMES))


def install(ctx: Context, names: Sequence[str] = ()) -> Hooks:
    """Have git call git-baton; by default before a push or, in a bare repository, before it accepts
    one. Idempotent. Raises `Refused` where somebody else owns the hooks, with the line to add."""
    chosen = names or (("pre-receive",) if ctx.repo.main_worktree is None else ("pre-push",))
    changes = [change for name in chosen for change in _install(ctx, name)]
    return Hooks(hooks=status(ctx).hooks, changes=tuple(changes))


def uninstall(ctx: Context, names: Sequence[str] = ()) -> Hooks:
    """Undo `install`: a hook that was there before is back as it was. Idempotent."""
    changes = [change for name in names or NAMES for change in _uninstall(ctx, name)]
    return Hooks(hooks=status(ctx).hooks, changes=tuple(changes))


# --- looking -----------------------------------------------------------------------------------


def _look(ctx: Context, name: str) -> Hook:
    if git_hooks.runs(ctx.repo, _configured(name)):
        path = ctx.repo.common_dir / "config"
        return Hook(name=name, installed=True, chained=False, path=str(path), by="config")
    folder = git_hooks.folder(ctx.repo)
    file = folder / name
    if husky := _husky_file(folder, name):
        installed = _calls(husky, name)
        return Hook(name=name, installed=installed, chained=False, path=str(husky), by="husky")
    if is_ours(file):
        chained = _is_hook(_kept(file))
        return Hook(name=name, installed=_runs(file), chained=chained, path=str(file))
    manager = _manager(file)
    if manager == "pre-commit":
        file = _legacy(file)
        if is_ours(file):
            return Hook(name=name, installed=_runs(file), chained=True, path=str(file), by=manager)
    if manager and (config := _config_of(ctx, manager, name)):
        return Hook(name=name, installed=True, chained=False, path=str(config), by=manager)
    return Hook(name=name, installed=False, chained=False, path=str(file), by=manager or "git")


def _configured(name: str) -> str:
    return f"git-baton-{name}"


def _kept(file: Path) -> Path:
    """Where the hook that was there before is kept."""
    return file.with_name(file.name.removesuffix(_LEGACY) + _KEPT)


def _legacy(file: Path) -> Path:
    return file.with_name(file.name + _LEGACY)


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode(errors="replace")
    except OSError:
        return ""


def is_ours(file: Path) -> bool:
    """Whether a file is one of our hooks."""
    return any(line.startswith(MARK) for line in _text(file).splitlines()[:5])


def _is_hook(file: Path) -> bool:
    return os.path.lexists(file)


def _runs(file: Path) -> bool:
    """git silently passes over a hook that is not executable."""
    return os.access(file, os.X_OK)


def _manager(file: Path) -> str:
    """The program that wrote a hook and may write it again; "" if none that is known."""
    text = _text(file)
    if "generated by pre-commit" in text:
        return "pre-commit"
    return "lefthook" if "call_lefthook" in text else ""


def _husky_file(folder: Path, name: str) -> Path | None:
    """The file in which a user of husky writes what a hook is to do."""
    if folder.name == "_" and folder.parent.name == ".husky":
        return folder.parent / name
    return folder / name if folder.name == ".husky" else None


def _calls(file: Path, name: str) -> bool:
    return f"baton hook {name}" in _text(file)


def _config_of(ctx: Context, manager: str, name: str) -> Path | None:
    """The file in which a manager is told to call git-baton, if it is."""
    top = ctx.repo.worktree
    if top is None:
        return None
    if manager == "pre-commit":
        file = top / ".pre-commit-config.yaml"
        return file if _PRE_COMMIT_ID in _text(file) else None
    found = (file for pattern in _LEFTHOOK_FILES for file in sorted(top.glob(pattern)))
    return next((file for file in found if _calls(file, name)), None)


# --- installing --------------------------------------------------------------------------------


def _install(ctx: Context, name: str) -> Iterable[str]:
    found = _look(ctx, name)
    file = Path(found.path)
    if found.installed and (found.by != "git" or _text(file) == script(name, sys.executable)):
        return
    if git_hooks.by_configuration() and not is_ours(file):
        git_hooks.configure(ctx.repo, _configured(name), name, _command(name))
        yield f"git config hook.{_configured(name)}.command '{_command(name)}'"
        return
    _require_own(ctx, found)
    file.parent.mkdir(parents=True, exist_ok=True)
    chained = _keep(file)
    _write(file, script(name, sys.executable))
    if chained:
        yield f"{file} now runs git-baton after {_kept(file).name}, which was there before"
    else:
        yield f"{file} now runs git-baton"


def _command(name: str) -> str:
    program = (
        "git baton" if shutil.which("git-baton") else f"{shlex.quote(sys.executable)} -m gitbaton"
    )
    return f"{program} hook {name}"


def _require_own(ctx: Context, found: Hook) -> None:
    """Refuse to write where the next run of somebody else's installer would undo it, or where it
    would reach other repositories."""
    line = f'git baton hook {found.name} "$@"'
    if found.by == "husky":
        raise Refused(
            "hooks-managed",
            f"the hooks of this repository are husky's; add to {found.path} the line: {line}",
            f"echo '{line}' >> {shlex.quote(found.path)}",
        )
    if found.by == "lefthook":
        raise Refused(
            "hooks-managed",
            f"{found.path} is lefthook's, which may write it anew; add to lefthook.yml: "
            f"{found.name}: {{commands: {{git-baton: "
            f"{{run: 'git baton hook {found.name} {{0}}', use_stdin: true}}}}}}",
            "then: lefthook install",
        )
    level = git_hooks.set_by(ctx.repo)
    if level in ("system", "global"):
        raise Refused(
            "hooks-shared",
            f"core.hooksPath ({level}) has {Path(found.path).parent} serve all repositories; add "
            f"to {found.path} the line: {line}",
            "or give this one its own: git config core.hooksPath "
            + shlex.quote(str(ctx.repo.common_dir / "hooks")),
        )


def _keep(file: Path) -> bool:
    """Keep the hook that is there under its other name, without a moment in which there is none;
    whether one is kept."""
    kept = _kept(file)
    if not _is_hook(file) or is_ours(file):
        return _is_hook(kept)
    if _is_hook(kept) and _text(kept) != _text(file):
        raise Refused(
            "hook-in-the-way",
            f"both {file} and {kept} were there before git-baton, and only one can be kept",
            f"make one hook of them, and remove {kept.name}",
        )
    if not _is_hook(kept):
        try:
            os.link(file, kept, follow_symlinks=False)
        except (OSError, NotImplementedError):  # not on every file system
            file.rename(kept)
    return True


def _write(file: Path, text: str) -> None:
    temporary = file.with_name(f"{file.name}.tmp-{os.getpid()}")
    temporary.write_text(text, errors="surrogateescape")
    temporary.chmod(0o755)
    temporary.replace(file)


def _uninstall(ctx: Context, name: str) -> Iterable[str]:
    if git_hooks.is_configured(ctx.repo, _configured(name)):
        git_hooks.forget(ctx.repo, _configured(name))
        yield f"git config --remove-section hook.{_configured(name)}"
    file = git_hooks.folder(ctx.repo) / name
    for ours in (file, _legacy(file)):
        if not is_ours(ours):
            continue
        kept = _kept(ours)
        if _is_hook(kept):
            kept.replace(ours)
            yield f"{ours} is again what it was"
        else:
            ours.unlink()
            yield f"{ours} is gone"
