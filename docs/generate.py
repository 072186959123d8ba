"""Make from the source: pages on error codes, settings and verbs, manual pages, JSON Schemas.

    python docs/generate.py            write the pages
    python docs/generate.py --check    exit 1 when one of them is out of date

What is written by hand about codes and options is wrong after the next change; so nobody writes it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
from jsonschemas import schemas
from manpages import man_pages

from gitbaton import errors
from gitbaton.cli.main import FAMILIES, cli
from gitbaton.config import SETTINGS, Setting

TOP = Path(__file__).resolve().parent.parent
PAGES = TOP / "docs" / "reference"
MANUAL = TOP / "docs" / "man"
SCHEMAS = TOP / "docs" / "schemas"
_MARKER = "<!-- made by docs/generate.py; do not edit -->"

# Structs that carry a code in the state or in an answer, beside the exceptions.
_CARRIERS = {
    "Failure": "an attempt's `failure`",
    "Halt": "integration stands still",
    "Blocked": "a `blocked` action",
    "Remark": "a line of the plan",
    "Refusal": "a push that is refused",
}


class Code(NamedTuple):
    """One place that names a code."""

    code: str
    kind: str
    message: str
    module: str


class Maker(NamedTuple):
    """A function that makes a refusal: what kind, and which arguments are code and message."""

    kind: str
    code: int
    message: int


def pages() -> dict[str, str]:
    """File name and text of every page."""
    return {"errors.md": _errors(), "settings.md": _settings(), "verbs.md": _verbs()}


# --- errors ------------------------------------------------------------------------------------


def _errors() -> str:
    statuses = _exits()
    refusals: dict[str, list[Code]] = {}
    carried: dict[str, list[Code]] = {}
    for found in _codes():
        into = carried if found.kind in _CARRIERS else refusals
        into.setdefault(found.code, []).append(found)
    lines = [
        "# Error codes",
        "",
        _MARKER,
        "",
        "With `--json` a refusal is `error.code`; codes are stable, messages are not. What stands",
        "in `{...}` is filled in.",
        "",
        "| code | exit | message |",
        "|---|---|---|",
    ]
    for code in sorted(refusals):
        exits = sorted({statuses[found.kind] for found in refusals[code]})
        lines.append(f"| `{code}` | {', '.join(map(str, exits))} | {_messages(refusals[code])} |")
    lines += [
        "",
        "## Codes of attempts and runs",
        "",
        "These are no refusals: they say why an attempt or a run is not what it should be.",
        "",
        "| code | where | message |",
        "|---|---|---|",
    ]
    for code in sorted(carried):
        where = ", ".join(sorted({_CARRIERS[found.kind] for found in carried[code]}))
        lines.append(f"| `{code}` | {where} | {_messages(carried[code])} |")
    return "\n".join(lines) + "\n"


def _codes() -> Iterator[Code]:
    kinds = {*_exits(), *_CARRIERS}
    trees = [
        (path.relative_to(TOP).as_posix(), ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted((TOP / "gitbaton").rglob("*.py"))
    ]
    makers = {name: Maker(name, 0, 1) for name in kinds}
    for _, tree in trees:
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                makers.update(_forwards(function, kinds))
    for module, tree in trees:
        for node in ast.walk(tree):
            name = _called(node)
            if isinstance(node, ast.Call) and name in makers:
                yield from _of_call(node, makers[name], module)


def _called(node: ast.AST) -> str:
    """The name of the function that is called; click's own exceptions carry no code."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        return "" if getattr(node.func.value, "id", "") == "click" else node.func.attr
    return getattr(node.func, "id", "")


def _forwards(function: ast.FunctionDef, kinds: set[str]) -> Iterator[tuple[str, Maker]]:
    """Whether a function makes one of ``kinds`` with a code that is one of its own parameters."""
    names = [argument.arg for argument in function.args.args if argument.arg != "self"]
    for node in ast.walk(function):
        kind = _called(node)
        if isinstance(node, ast.Call) and kind in kinds:
            code, message = (getattr(part, "id", None) for part in _parts(node, Maker(kind, 0, 1)))
            if code in names:
                at = names.index(message) if message in names else -1
                yield function.name, Maker(kind, names.index(code), at)


def _parts(node: ast.Call, maker: Maker) -> tuple[ast.expr | None, ast.expr | None]:
    """The expressions for code and message."""
    named = {keyword.arg: keyword.value for keyword in node.keywords}
    count = len(node.args)
    code = node.args[maker.code] if count > maker.code else named.get("code")
    if 0 <= maker.message < count:
        return code, node.args[maker.message]
    return code, named.get("message", named.get("reason"))


def _of_call(node: ast.Call, maker: Maker, module: str) -> Iterator[Code]:
    code, message = _parts(node, maker)
    for value in (code.body, code.orelse) if isinstance(code, ast.IfExp) else (code,):
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield Code(value.value, maker.kind, _template(message), module)


def _template(node: ast.expr | None) -> str:
    """A message with its expressions in braces; empty where it is made elsewhere."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{...}" for part in node.values
        )
    if isinstance(node, ast.BinOp):
        return _template(node.left) + _template(node.right)
    return ""


def _messages(found: list[Code]) -> str:
    different = list(dict.fromkeys(code.message for code in found if code.message))
    return "<br>".join(_cell(message) for message in different)


def _exits() -> dict[str, int]:
    """Exit status by name of the exception."""
    found: dict[str, int] = {}
    pending = [errors.BatonError]
    while pending:
        kind = pending.pop()
        found[kind.__name__] = kind.exit_status
        pending += kind.__subclasses__()
    return found


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


# --- settings ----------------------------------------------------------------------------------


def _settings() -> str:
    lines = [
        "# Settings",
        "",
        _MARKER,
        "",
        "All are `git config baton.KEY`, at any level, also by `git -c`; options of a verb win.",
        "Seconds may be written as `90s`, `15m`, `4h` or `1d`. `git baton config` shows what is in",
        "force and where it comes from.",
        "",
        "| key | kind | default | meaning |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{s.key}` | {_kind(s)} | {_default(s)} | {_cell(s.meaning)} |" for s in SETTINGS]
    lines.append("| `agent.<name>.command` | text | | command of `git baton run --agent <name>` |")
    return "\n".join(lines) + "\n"


def _kind(setting: Setting) -> str:
    if setting.kind == "choice":
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    return {"texts": "text, repeatable", "flag": "true or false"}.get(setting.kind, setting.kind)


def _default(setting: Setting) -> str:
    if setting.default in ("", ()):
        return ""
    value = str(setting.default).lower() if setting.kind == "flag" else setting.default
    return f"`{value}`"


# --- verbs -------------------------------------------------------------------------------------


def _verbs() -> str:
    lines = [
        "# Verbs",
        "",
        _MARKER,
        "",
        "Every verb takes `--json` (or `BATON_JSON=1`), `--color auto|always|never` and `-h`;",
        "these are left out below. `git baton -C DIR VERB` works in DIR. Exit status: 0 done;",
        "1 refused, failed, or the answer is no; 2 usage; 3 a person is needed; 130 interrupted.",
    ]
    root = _context(cli, "git-baton", None)
    for title, family in FAMILIES.items():
        lines += ["", f"## {title}"]
        for name in family:
            command = cli.get_command(root, name)
            if command is None:
                raise AssertionError(name)
            lines += _verb(command, _context(command, name, root))
    return "\n".join(lines) + "\n"


def _verb(command: click.Command, ctx: click.Context) -> Iterator[str]:
    path = ctx.command_path.removeprefix("git-baton ")
    if isinstance(command, click.Group):
        yield from ("", f"### {path}", "", _prose(command))
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            if child is not None:
                yield from _verb(child, _context(child, name, ctx))
        return
    pieces = [p for p in command.collect_usage_pieces(ctx) if p != "[OPTIONS]"]
    yield from ("", f"### {path}", "", f"    git baton {' '.join((path, *pieces))}", "")
    yield _prose(command)
    options = [p for p in command.params if isinstance(p, click.Option)]
    shown = [o for o in options if o.name not in ("json", "color", "help")]
    if shown:
        yield from ("", "| option | meaning |", "|---|---|")
        for option in shown:
            record = option.get_help_record(ctx)
            if record is not None:
                needed = " (required)" if option.required else ""
                yield f"| `{_cell(record[0])}` | {_cell(option.help or '')}{needed} |"


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    """As the command itself would make it; a bare one would leave its help option changed."""
    return click.Context(command, parent, name, **command.context_settings)


def _prose(command: click.Command) -> str:
    paragraphs = (command.help or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def files() -> dict[Path, str]:
    """Place and text of everything that is made here."""
    reference = {PAGES / name: text for name, text in pages().items()}
    manual = {MANUAL / name: text for name, text in man_pages().items()}
    return reference | manual | {SCHEMAS / name: text for name, text in schemas().items()}


def stale() -> list[Path]:
    """What is not as it would be made now, or should not be there."""
    made = files()
    wrong = [
        path
        for path, text in made.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    return wrong + [path for path in MANUAL.glob("*") if path not in made]


def main() -> int:
    if "--check" in sys.argv[1:]:
        found = stale()
        for path in found:
            print(f"out of date: {path.relative_to(TOP)}; run: python docs/generate.py")
        return 1 if found else 0
    made = files()
    for path in stale():
        path.unlink(missing_ok=True)
        if path in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
