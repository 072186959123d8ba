"""Reports that leave the terminal: tables in markdown for a review, and one HTML page by itself.

The page loads nothing, and nothing that it shows is more than text: what workers and tools wrote
is escaped here, in one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from gitbaton.report.lines import clean

_STYLE = """\
:root { color-scheme: light dark; --bad: #b3261e; --good: #1b6e3c; --line: #8884; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { border-top: 1px solid var(--line); padding-top: 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; min-width: calc(var(--columns) * 7rem); }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0; }
td { border-top: 1px solid var(--line); overflow-wrap: anywhere; }
pre { overflow-x: auto; border: 1px solid var(--line); padding: .5rem; }
.ok { color: var(--good); } .bad { color: var(--bad); }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --good: #7bd88f; } }
"""

Row = Iterable[str]


def markdown_table(head: Sequence[str], rows: Iterable[Row], align: str = "") -> list[str]:
    """The lines of a table; ``align`` is a letter for each column, ``r`` for right."""
    marks = ("---:" if align[at : at + 1] == "r" else "---" for at in range(len(head)))
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join(marks)}|"]
    return lines + [f"| {' | '.join(map(markdown_text, row))} |" for row in rows]


def markdown_text(content: str) -> str:
    """Text that markdown shows as it is."""
    escaped = clean(content)
    for char in "\\`*_[]<>|&":
        escaped = escaped.replace(char, f"\\{char}")
    return escaped


def html_table(head: Sequence[str], rows: Iterable[Row]) -> str:
    """A table that scrolls by itself where the page is too narrow for its columns."""
    heads = "".join(f'<th scope="col">{escape(word)}</th>' for word in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{html_text(cell)}</td>' for cell in row)}</tr>\n" for row in rows
    )
    return (
        f'<div class="wide" style="--columns: {len(head)}"><table>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>"
    )


def html_text(content: str) -> str:
    """Text that a browser shows as it is."""
    return escape(clean(content))


def html_page(title: str, verdict: str, good: bool, parts: Iterable[str]) -> str:
    """A whole page: a heading that tells the verdict, then ``parts``, which are HTML."""
    kind = "ok" if good else "bad"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html_text(title)}: {html_text(verdict)}</title>\n<style>\n{_STYLE}</style>\n"
        f'</head>\n<body>\n<h1>{html_text(title)}: <span class="{kind}">{html_text(verdict)}'
        "</span></h1>\n" + "\n".join(parts) + "\n</body>\n</html>"
    )
