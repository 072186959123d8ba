"""What must hold for a tick in any file."""

from __future__ import annotations

import re

from gitbaton.plan.boxes import box_in
from gitbaton.plan.lines import cut
from gitbaton.plan.tasksmd import read
from gitbaton.plan.write import marks_only_difference, set_marks


def round_trip(data: bytes) -> None:
    """Tick each ticket alone: only markers change, it reads as done, unticking restores the
    file."""
    found = read(data)
    for ticket in found.tickets:
        out = set_marks(data, [ticket.key], True)
        assert marks_only_difference(data, out)
        assert re.sub(rb"\[[ xX~/-]?\]", b"", out) == re.sub(rb"\[[ xX~/-]?\]", b"", data)
        again = read(out).ticket(ticket.key)
        if again is None:  # it stood below a done box, and is a criterion of that now
            criteria = (c for t in read(out).tickets for c in t.criteria)
            assert any(c.key == ticket.key and c.done for c in criteria)
        else:
            assert again.mark == ("canceled" if ticket.mark == "canceled" else "done")
        around = [u.line for u in found.umbrellas if u.key in ticket.umbrellas]
        touched = [box_in(cut(data).lines[n - 1]) for n in (*ticket.boxes, *around)]
        if ticket.mark == "open" and all(box and box.marker == " " for box in touched):
            assert set_marks(out, [ticket.key], False) == data
