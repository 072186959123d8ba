"""Settings that `git -c` passes on in the environment, which libgit2 does not read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

_QUOTED = r"'(?:[^']|'\\['!]')*'"
_PARAMETER = re.compile(rf"(?P<key>{_QUOTED})(?P<equals>=(?P<value>{_QUOTED})?)?")


def settings() -> Iterator[tuple[str, str]]:
    """(key, value) of ``git -c`` and of GIT_CONFIG_COUNT, the later ones the stronger."""
    count = os.environ.get("GIT_CONFIG_COUNT", "")
    for number in range(int(count) if count.isdigit() else 0):
        key = os.environ.get(f"GIT_CONFIG_KEY_{number}")
        if key:
            yield canonical(key), os.environ.get(f"GIT_CONFIG_VALUE_{number}", "")
    for found in _PARAMETER.finditer(os.environ.get("GIT_CONFIG_PARAMETERS", "")):
        key, value = _unquoted(found["key"]), found["value"]
        if found["equals"] is None:  # before git 2.31 the whole setting was one quoted word
            key, _, value = key.partition("=")
            yield canonical(key), value
        else:
            yield canonical(key), "true" if value is None else _unquoted(value)


def _unquoted(word: str) -> str:
    return word[1:-1].replace("'\\''", "'").replace("'\\!'", "!")


def canonical(key: str) -> str:
    """Section and variable in lower case, the subsection as it is."""
    section, dot, rest = key.partition(".")
    subsection, dot2, variable = rest.rpartition(".")
    return f"{section.lower()}{dot}{subsection}{dot2}{variable.lower()}"
