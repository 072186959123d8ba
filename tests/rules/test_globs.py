"""Patterns of paths read as in a .gitignore."""

from __future__ import annotations

import pytest

from gitbaton.rules.globs import glob_match


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("src/**", ["src/a", "src/a/b.py"], ["src", "srcs/a", "x/src/a"]),
        ("src/", ["src/a", "src/a/b.py"], ["src", "x/src/a"]),
        ("./src/", ["src/a"], ["a"]),
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "a.py.txt"]),
        ("/*.py", ["a.py"], ["x/a.py"]),
        ("docs/*.md", ["docs/a.md"], ["docs/x/a.md", "a.md"]),
        ("tests/*", ["tests/a", "tests/x/a"], ["tests"]),
        ("**/conftest.py", ["conftest.py", "a/b/conftest.py"], ["a/xconftest.py"]),
        ("a/**/b", ["a/b", "a/x/y/b"], ["ab", "a/xb"]),
        ("README", ["README"], ["x/README", "README.md"]),
        ("src/app", ["src/app", "src/app/x"], ["src/application"]),
        ("f[0-9].c", ["f1.c", "x/f2.c"], ["fa.c"]),
        ("f[!0-9].c", ["fa.c"], ["f1.c"]),
        ("a?c", ["abc"], ["a/c", "ac"]),
        ("a+(b)", ["a+(b)"], ["aab"]),
        ("[z-a]", ["[z-a]"], ["z"]),
        ("**", ["a", "a/b"], []),
        (".", ["a", "a/b"], []),
        ("", [], ["a", ""]),
    ],
)
def test_patterns(pattern: str, matching: list[str], other: list[str]) -> None:
    assert [path for path in matching if not glob_match(path, [pattern])] == []
    assert [path for path in other if glob_match(path, [pattern])] == []


def test_one_of_several_is_enough() -> None:
    assert glob_match("b", ["a", "b"])
    assert not glob_match("c", ["a", "b"])
    assert not glob_match("c", [])
