"""Commits are read as libgit2 reads them, ordinary ones or not."""

from __future__ import annotations

from datetime import timedelta
from itertools import product

import pytest
from pygit2 import Commit
from pygit2.enums import ObjectType

from gitbaton.git import objects, odb
from gitbaton.git.commit import read_commit
from gitbaton.git.repo import Repository

NAMES = ("A", "J. Doe Jr.", " x ", '"q"', "é", "\udcff", "o'Neil'", "a  b")
MAILS = ("a@example.com", " a@b ", "a@b.", "")
TIMES = ("0 +0000", "1700000000 +1400", "1700000000 -0330", "1700000000 +1500", "17 +0160")
MESSAGES = ("m\n", "\n\nm\n", "", "m", "é\n\nx", "m\n\n x\n\n")


@pytest.mark.parametrize("extra", ["", "encoding ISO-8859-1\n", "gpgsig x\n y\n"])
def test_as_libgit2_reads_them(repo: Repository, extra: str) -> None:
    tree = objects.edit_tree(repo, None, {"a": b"a"})
    for name, mail, time, message in product(NAMES, MAILS, TIMES, MESSAGES):
        who = f"{name} <{mail}> {time}"
        text = f"tree {tree}\nparent {tree}\nauthor {who}\ncommitter {who}\n{extra}\n{message}"
        oid = odb.write(repo, ObjectType.COMMIT, text.encode(errors="surrogateescape"))
        found, meant = read_commit(repo, oid), repo.handle[oid].peel(Commit)
        assert (found.oid, found.tree, found.parents) == (oid, tree, (tree,))
        encoding = meant.message_encoding or "utf-8"
        said = (meant.raw_message, meant.author.raw_name, meant.author.raw_email)
        decoded = tuple(raw.decode(encoding, "surrogateescape") for raw in said)
        assert (found.message, *found.author) == decoded, text
        assert found.committer_time.timestamp() == meant.commit_time
        offset = timedelta(minutes=meant.commit_time_offset)
        assert found.committer_time.utcoffset() == offset, text
