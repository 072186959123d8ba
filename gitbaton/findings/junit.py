"""JUnit XML, as pytest and most other test runners write it: each test that fails is a finding.

Read as a stream by expat. A document type is refused outright: no report has one, and with it go
entities that expand to gigabytes or name files of this machine.
"""

from __future__ import annotations

import re
from pyexpat import ExpatError, ParserCreate

from gitbaton.findings.content import Document
from gitbaton.findings.finding import Finding, Found, Malformed, Place
from gitbaton.findings.places import Places
from gitbaton.model.ids import is_number

_ROOTS = ("testsuites", "testsuite")
_OUTCOMES = ("failure", "error")
_TRACE = re.compile(r"^(?P<path>[^\s:][^:\n]*\.\w{1,5}):(?P<line>\d{1,9}): ", re.MULTILINE)
_TEXT = 100_000


def is_junit(data: bytes) -> bool:
    """Whether ``data`` looks like JUnit XML."""
    head = data[:4096].replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")
    return head.startswith(b"<") and re.search(rb"<testsuites?[\s>/]", head) is not None


def read(document: Document, places: Places) -> Found:
    """Tests that failed or could not be set up. The source is ``pytest`` if all suites are named
    so, else ``junit``."""
    report = _Report(places)
    parser = ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = report.start
    parser.EndElementHandler = report.end
    parser.CharacterDataHandler = report.text
    parser.StartDoctypeDeclHandler = _refuse
    try:
        parser.Parse(document.data, True)
    except ExpatError as error:
        what = str(error).partition(": line")[0]
        where = f"line {error.lineno}, column {error.offset + 1}"
        raise Malformed(f"no XML: {what} ({where})") from None
    except (ValueError, LookupError) as error:  # encodings that expat or Python does not know
        raise Malformed(f"no XML: {error}") from None
    return {"pytest" if report.suites == {"pytest"} else "junit": report.found}


def _refuse(*_: object) -> None:
    raise Malformed("XML with a document type, which no test report has")


class _Report:
    """What the parser calls: one test at a time."""

    def __init__(self, places: Places) -> None:
        self.found: list[Finding] = []
        self.suites: set[str] = set()
        self._places = places
        self._depth = 0
        self._case: dict[str, str] | None = None
        self._outcome = ""
        self._message = ""
        self._trace = ""
        self._said: list[str] | None = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if not self._depth and tag not in _ROOTS:
            raise Malformed(f"XML with the root {tag[:40]!r}, not testsuites")
        self._depth += 1
        if tag == "testsuite":
            self.suites.add(attributes.get("name", ""))
        elif tag == "testcase":
            self._case, self._outcome = attributes, ""
        elif tag in _OUTCOMES and self._case is not None and not self._outcome:
            self._outcome = tag
            self._message = attributes.get("message") or attributes.get("type") or ""
            self._said = []

    def text(self, data: str) -> None:
        if self._said is not None:
            self._said.append(data)

    def end(self, tag: str) -> None:
        self._depth -= 1
        if tag == "testcase" and self._case is not None:
            if self._outcome:
                self.found.append(self._finding(self._case))
            self._case = None
        elif tag in _OUTCOMES and self._said is not None:
            self._trace = "".join(self._said)[:_TEXT]
            self._said = None

    def _finding(self, case: dict[str, str]) -> Finding:
        test = "::".join(filter(None, (case.get("classname"), case.get("name"))))
        said = self._message.strip() or self._trace.strip()
        first = said.split("\n", 1)[0]
        place = self._place(case)
        return Finding(
            title=f"{test}: {first}" if first else test,
            message=self._message if self._message.strip() != self._trace.strip() else "",
            places=(place,) if place else (),
            severity="high",
            labels=(self._outcome,),
            snippet=self._trace,
            known_by=(case.get("classname", ""), case.get("name", "")),
        )

    def _place(self, case: dict[str, str]) -> Place | None:
        """Where the test is: as the report says, else the first file of its trace."""
        if path := self._places.path(case.get("file", "")):
            line = case.get("line", "")
            return Place(path, int(line) if is_number(line) else None)
        found = _TRACE.search(self._trace)
        return Place(self._places.path(found["path"]), int(found["line"])) if found else None
