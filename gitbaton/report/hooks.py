"""What the hooks say to people: to who pushes, mostly through the server, a few plain lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gitbaton.report import style
from gitbaton.report.lines import clean, plural, table

if TYPE_CHECKING:
    from gitbaton.engine.hooks import Hooks
    from gitbaton.engine.push import Judged

_MOST = 10
"""Refusals of one ref that are told; there may be ten thousand."""


def judged(judged: Judged) -> str:
    """Each ref with what is wrong with it; nothing when nothing is. The error says what is to be
    done, if that is one thing for all of them."""
    lines: list[str] = []
    for ref in dict.fromkeys(refusal.ref for refusal in judged.refused):
        found = [refusal for refusal in judged.refused if refusal.ref == ref]
        lines.append(f"{style.bold(clean(ref))} is refused:")
        lines += table(
            [
                (style.short(refusal.commit) if refusal.commit else "", clean(refusal.reason))
                for refusal in found[:_MOST]
            ],
            indent=2,
        )
        if len(found) > _MOST:
            lines.append(f"  and {plural(len(found) - _MOST, 'commit')} more")
    hints = judged.hints
    lines += [f"  {clean(hint)}" for hint in hints] if len(hints) > 1 else []
    return style.joined(lines)


def changed(hooks: Hooks) -> str:
    """What was done, or that there was nothing to do."""
    return style.joined([clean(change) for change in hooks.changes] or ["nothing to do"])


def status(hooks: Hooks) -> str:
    """One line a hook."""
    rows = []
    for hook in hooks.hooks:
        word = "installed" if hook.installed else "not installed"
        with_others = ", with the hook that was there" if hook.chained else ""
        by = f" by {hook.by}" if hook.by != "git" else ""
        rows.append((style.bold(hook.name), f"{word}{by}{with_others}", clean(hook.path)))
    return style.joined(table(rows))
