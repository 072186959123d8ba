"""The message of a state commit: one human line, then trailers; written and read in one place.

Keys, sessions and messages come from plans, workers and command lines, so whatever could begin a
new line or hide text is taken out before it gets here into the object.
"""

from __future__ import annotations

from gitbaton.model.ids import is_number
from gitbaton.model.run import Event

_PREFIX = "Baton-"


def compose(run: str, event: Event, nonce: str) -> str:
    """The message for a transition; empty fields leave no trailer."""
    subject = one_line(event.message) or one_line(event.event)
    fields = {
        "Event": event.event,
        "Run": run,
        "Ticket": event.ticket,
        "Attempt": str(event.attempt) if event.attempt else "",
        "Session": event.session,
        "Nonce": nonce,
    }
    lines = [
        f"{_PREFIX}{name}: {line}" for name, text in fields.items() if (line := one_line(text))
    ]
    return "\n".join((subject, "", *lines)) + "\n"


def parse(message: str) -> tuple[Event, str]:
    """Event and nonce of a message; what it does not say is empty."""
    subject = message.partition("\n")[0]
    said = fields(message)
    number = said.get("Attempt", "")
    event = Event(
        event=said.get("Event", ""),
        message=subject,
        ticket=said.get("Ticket", ""),
        attempt=int(number) if is_number(number) else 0,
        session=said.get("Session", ""),
    )
    return event, said.get("Nonce", "")


def fields(message: str) -> dict[str, str]:
    """The trailers of git-baton in the last paragraph of a message, without their prefix."""
    found = {}
    rest = message.partition("\n")[2]
    for line in rest.strip("\n").rpartition("\n\n")[2].split("\n"):
        name, colon, value = line.partition(": ")
        if colon and name.startswith(_PREFIX):
            found[name.removeprefix(_PREFIX)] = value
    return found


def one_line(text: str) -> str:
    """``text`` with every control, separator and unpaired surrogate made a space."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() else " " for char in text)
    return text.strip()
