"""The command line of the benchmarks: pick groups, seal the environment, print one table.

Everything happens in one temporary folder (see TMPDIR) with a home of its own, so that neither the
settings of whoever runs it nor what an earlier run left behind is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import audit, cli, findings, guard, merge, plan, queue, report, run, store
from benchmarks.report import Bench, Left, Line
from gitbaton.errors import BatonError

GROUPS: dict[str, Callable[[Bench], Iterator[Line]]] = {
    "transition": store.transition,
    "claims": store.claims,
    "size": store.size,
    "status": cli.status,
    "integrate": merge.integrate,
    "run": run.run,
    "plan": plan.tasks_file,
    "queue": queue.queue,
    "findings": findings.findings,
    "audit": audit.audit,
    "guard": guard.push,
}


def main() -> int:
    """Measure what was asked for; exit 1 if a group failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(GROUPS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there as well")
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds")
    asked = parser.parse_args()
    unknown = [name for name in asked.names if name not in GROUPS]
    if unknown:
        parser.error(f"no group {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    with tempfile.TemporaryDirectory(prefix="baton-bench-", ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        _seal(scratch)
        about = report.machine(scratch)
        print(", ".join(f"{key} {value}" for key, value in about.items()), file=sys.stderr)
        found = {
            name: _measure(name, scratch, asked.quick) for name in GROUPS if _wanted(asked, name)
        }
    lines = [line for group in found.values() for line in group]
    print(report.table(lines))
    if asked.json:
        groups = {name: [line.as_json() for line in group] for name, group in found.items()}
        document = {"machine": about, "quick": asked.quick, "groups": groups}
        asked.json.write_text(json.dumps(document, indent=1) + "\n")
    return int(any(isinstance(line, Left) and line.failed for line in lines))


_FOREIGN = ("GIT_", "BATON_", "EMAIL", "PYTHONDONTWRITEBYTECODE")


def _wanted(asked: argparse.Namespace, name: str) -> bool:
    return not asked.names or name in asked.names


def _measure(name: str, scratch: Path, quick: bool) -> list[Line]:
    """The lines of one group; what it put on disk is gone before the next begins."""
    print(f"{name} ...", file=sys.stderr, flush=True)
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as folder:
        try:
            lines.extend(GROUPS[name](Bench(Path(folder), quick)))
        except subprocess.CalledProcessError as error:
            lines.append(Left(name, f"{error}\n{_text(error.stderr)}", failed=True))
        except (BatonError, OSError, RuntimeError, subprocess.TimeoutExpired) as error:
            lines.append(Left(name, f"{type(error).__name__}: {error}", failed=True))
    return lines


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def _seal(scratch: Path) -> None:
    """Keep the settings of whoever runs this out, also of every process that is started. Modules
    are compiled once, as they are by an installation."""
    home = scratch / "home"
    home.mkdir()
    settings = home / ".gitconfig"
    settings.write_text(
        "[user]\n\tname = Bench\n\temail = bench@example.com\n"
        "[init]\n\tdefaultBranch = main\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
    )
    for name in [name for name in os.environ if name.startswith(_FOREIGN)]:
        del os.environ[name]
    root = str(Path(__file__).resolve().parent.parent)
    os.environ.update(
        HOME=str(home),
        XDG_CONFIG_HOME=str(home / "xdg"),
        GIT_CONFIG_GLOBAL=str(settings),
        GIT_CONFIG_NOSYSTEM="1",
        PYTHONPATH=root,
    )


if __name__ == "__main__":
    sys.exit(main())
