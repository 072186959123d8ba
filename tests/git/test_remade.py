"""Trees that are taken for what their ids say, and those that are not."""

from __future__ import annotations

import pytest
from pygit2.enums import ObjectType

from gitbaton.errors import RepositoryError
from gitbaton.git import odb
from gitbaton.git.objects import Change
from gitbaton.git.odb import FILE
from gitbaton.git.remade import Remade
from gitbaton.git.repo import Repository


def tree(repo: Repository, blob: str, *names: bytes) -> str:
    data = b"".join(b"100644 %s\0%s" % (name, bytes.fromhex(blob)) for name in names)
    return odb.write(repo, ObjectType.TREE, data)


@pytest.mark.parametrize("odd", [(b"a", b"a", b"b"), (b"b", b"a"), (b"a", b"a/b", b"b")])
def test_a_tree_that_git_would_not_write_before_one_that_is_known(
    repo: Repository, odd: tuple[bytes, ...]
) -> None:
    blob = odb.write(repo, ObjectType.BLOB, b"content")
    known, before = tree(repo, blob, b"a", b"c"), tree(repo, blob, *odd)
    changes = [Change("b", (blob, FILE), None), Change("c", None, (blob, FILE))]
    trees = Remade(repo)
    trees.require(tree(repo, blob, b"a", b"b"), known, changes, ())
    with pytest.raises(RepositoryError) as caught:
        trees.require(before, known, changes, ())
    assert caught.value.code == "corrupt-repository"
