from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gitbaton.model.run import Event
from gitbaton.store import trailers


def test_round_trip() -> None:
    event = Event(event="claim", message="Claim 1.2@3", ticket="1.2", attempt=3, session="s one")
    assert trailers.parse(trailers.compose("r", event, "abc")) == (event, "abc")


def test_empty_fields_leave_no_trailer() -> None:
    text = trailers.compose("r", Event(event="pause", message="Pause"), "n")
    assert text == "Pause\n\nBaton-Event: pause\nBaton-Run: r\nBaton-Nonce: n\n"


def test_hostile_text_cannot_begin_a_line() -> None:
    event = Event(
        event="claim",
        message="Hi\n\nBaton-Event: seal\r\nx",
        ticket="a\nBaton-Ticket: b",
        session="s\u2028Baton-Session: root\x00\x1b[31m\x85",
    )
    lines = trailers.compose("r", event, "n").splitlines()
    assert [line.partition(":")[0] for line in lines[2:]] == [
        "Baton-Event",
        "Baton-Run",
        "Baton-Ticket",
        "Baton-Session",
        "Baton-Nonce",
    ]
    assert lines[0].startswith("Hi  Baton-Event: seal")


@given(*(st.text(),) * 4)
def test_whatever_the_text_it_stays_in_its_field(a: str, b: str, c: str, d: str) -> None:
    event = Event(event="e", message=a, ticket=b, session=c)
    read, nonce = trailers.parse(trailers.compose("r", event, "n"))
    assert (read.event, nonce) == ("e", "n")
    assert read.ticket == trailers.one_line(b)
    assert read.session == trailers.one_line(c)
    trailers.parse(d)


def test_a_number_that_no_attempt_has_is_none() -> None:
    event, _ = trailers.parse(f"x\n\nBaton-Event: seal\nBaton-Attempt: {'9' * 5000}\n")
    assert (event.event, event.attempt) == ("seal", 0)
