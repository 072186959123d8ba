"""Reading a plan of ten thousand boxes.

The plan is read at every `actions`, so it must not be felt. A general Markdown parser on the same
file says what is usual; it knows nothing of tickets, edges and ticks.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec

from benchmarks.report import Bench, Left, Line, Row, take_turns, timed
from gitbaton.plan import tasksmd


def tasks_file(bench: Bench) -> Iterator[Line]:
    """The whole file to a `Plan`, against the whole file to tokens."""
    boxes = bench.pick(10_000, 2_000)
    name = f"tasks.md, {boxes:,} boxes, to a plan"
    text = tasks_of(boxes)
    if tasksmd.read(text.encode()).boxes.total != boxes:
        raise RuntimeError("the reader does not find the boxes that were written")
    if find_spec("markdown_it") is None:
        yield Left(name, "markdown-it-py is not installed: pip install 'git-baton[bench]'")
        return
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark")
    found = take_turns(
        {
            name: partial(timed, partial(tasksmd.read, text.encode())),
            "markdown-it-py, same file": partial(timed, partial(parser.parse, text)),
        },
        bench.pick(9, 3),
    )
    yield Row(found[name], found["markdown-it-py, same file"])


def tasks_of(boxes: int) -> str:
    """A plan as people write it: sections, tickets with criteria, dependencies."""
    lines: list[str] = ["# Tasks\n"]
    for at in range(boxes):
        section, place = divmod(at, 40)
        if place == 0:
            lines.append(f"\n## {section + 1}. Section {section + 1}\n\nWhat it is about.\n\n")
        number = place // 4 + 1
        if place % 4:
            lines.append(f"  - [ ] criterion {place % 4} holds, with `code` and *stress*\n")
        else:
            later = f" (depends on {section + 1}.{number - 1})" if number > 1 else ""
            lines.append(f"- [ ] {section + 1}.{number} Make part {number} work{later}\n")
    return "".join(lines)
