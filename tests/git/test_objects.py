"""Trees and commits against what git says of them."""

from __future__ import annotations

import os
import zlib
from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha1
from pathlib import Path

import pytest

from gitbaton.errors import RepositoryError
from gitbaton.git import ancestry, durable, objects, odb
from gitbaton.git.odb import EXECUTABLE, FILE, SYMLINK
from gitbaton.git.opening import open_repository
from gitbaton.git.repo import Repository

from .shell import commit, git, write

ODD = ["sp ace", "quo'te\"", "$HOME", "new\nline", "tab\t", "ünï", os.fsdecode(b"by\xff\xfete")]
WHEN = datetime(2024, 5, 6, 7, 8, 9, tzinfo=timezone(timedelta(hours=5, minutes=30)))


def new_commit(repo: Repository, tree: str, *parents: str) -> str:
    return objects.create_commit(repo, tree, parents, "m", author=("A", "a@b"), when=WHEN)


def files(repo_dir: Path, tree: str) -> dict[str, str]:
    listing = git(repo_dir, "ls-tree", "-r", "-z", tree).split("\0")
    return {line.partition("\t")[2]: line.split(" ")[0] for line in listing if line}


def test_editing_a_tree(repo_dir: Path, repo: Repository) -> None:
    write(repo_dir, {"dir/run.sh": "1", "dir/sub/x": "1", "gone/only": "1"})
    (repo_dir / "dir" / "run.sh").chmod(0o755)
    (repo_dir / "link").symlink_to("README")
    base = commit(repo_dir, {})
    kept = objects.entry_at(repo, base, "dir/sub/x")
    tree = objects.edit_tree(
        repo,
        objects.tree_of(repo, base),
        {
            "dir/run.sh": b"2",
            "link": b"a file now",
            "gone/only": None,
            "never/was": None,
            "README/below": None,
            "deep/er/copy": kept,
            "dir.txt": b"sorts before dir/",
        },
    )
    assert files(repo_dir, tree) == {
        "README": "100644",
        "deep/er/copy": "100644",
        "dir.txt": "100644",
        "dir/run.sh": "100755",
        "dir/sub/x": "100644",
        "link": "100644",
    }
    git(repo_dir, "fsck", "--strict")
    assert objects.blob_at(repo, tree, "dir/run.sh") == b"2"
    assert objects.blob_at(repo, tree, "dir") is None
    assert objects.blob_at(repo, tree, "dir/run.sh/no") is None
    assert [name for name, _, _ in objects.list_tree(repo, tree, "dir")] == ["run.sh", "sub"]
    assert objects.list_tree(repo, tree, "nowhere") == []


def test_editing_from_nothing_and_to_nothing(repo_dir: Path, repo: Repository) -> None:
    tree = objects.edit_tree(repo, None, {"a/b": b"1"})
    assert files(repo_dir, tree) == {"a/b": "100644"}
    empty = objects.edit_tree(repo, tree, {"a/b": None})
    assert empty == git(repo_dir, "hash-object", "-t", "tree", "--stdin", stdin=b"")
    swapped = objects.edit_tree(repo, tree, {"a": b"file"})
    assert files(repo_dir, swapped) == {"a": "100644"}
    assert files(repo_dir, objects.edit_tree(repo, swapped, {"a/c": b"1"})) == {"a/c": "100644"}
    with pytest.raises(ValueError, match="edited path"):
        objects.edit_tree(repo, None, {"a": b"", "a/b": b""})


def test_odd_names_survive(repo_dir: Path, repo: Repository) -> None:
    tree = objects.edit_tree(repo, None, {f"d/{name}": os.fsencode(name) for name in ODD})
    assert set(files(repo_dir, tree)) == {f"d/{name}" for name in ODD}
    for name in ODD:
        assert objects.blob_at(repo, tree, f"d/{name}") == os.fsencode(name)
    assert {path for path, _ in objects.walk_blobs(repo, tree, "d")} == {f"d/{n}" for n in ODD}
    empty = objects.edit_tree(repo, None, {})
    assert sorted(objects.changed_paths(repo, empty, tree)) == sorted(f"d/{n}" for n in ODD)


def test_changed_paths_are_those_of_git(repo_dir: Path, repo: Repository) -> None:
    old = commit(
        repo_dir, {"a": "1\n", "dir/b": "2\n" * 9, "dir/c": "3\n", "swap": "4\n", "x/y": "5\n"}
    )
    git(repo_dir, "mv", "dir/b", "moved")
    git(repo_dir, "rm", "-q", "swap", "x/y")
    (repo_dir / "a").chmod(0o755)
    (repo_dir / "dir" / "c").unlink()
    (repo_dir / "dir" / "c").symlink_to("x")
    new = commit(repo_dir, {"swap/inner": "dir now", "x": "file now", "added": ""})
    said = git(repo_dir, "diff", "--no-renames", "--name-only", "-z", old, new).split("\0")[:-1]
    assert sorted(objects.changed_paths(repo, old, new)) == sorted(said)
    assert {"dir/b", "moved", "a", "dir/c", "swap", "swap/inner", "x", "x/y"} <= set(said)
    modes = {c.path: c.new[1] for c in objects.changes(repo, old, new) if c.new}
    assert (modes["a"], modes["dir/c"], modes["added"]) == (EXECUTABLE, SYMLINK, FILE)
    assert objects.changed_paths(repo, new, new) == []


def test_added_lines(repo_dir: Path, repo: Repository) -> None:
    old = commit(repo_dir, {"t": "a\nb\nc\n", "bin": b"\0x", "doc": "<<<<<<< in a text\n"})
    git(repo_dir, "mv", "doc", "doc2")
    files = {"t": "a\nB\nc\nd", "bin": b"\0y\n", "new": "one\ntwo\n", "raw": b"\xff\n"}
    new = commit(repo_dir, files)
    assert set(objects.added_lines(repo, old, new)) == {
        ("t", 2, b"B"),
        ("t", 4, b"d"),
        ("new", 1, b"one"),
        ("new", 2, b"two"),
        ("raw", 1, b"\xff"),
    }


def test_commits(repo_dir: Path, repo: Repository) -> None:
    root = git(repo_dir, "rev-parse", "HEAD")
    tree = objects.tree_of(repo, root)
    oid = objects.create_commit(
        repo, tree, [root], "Tïtle\n\nBaton-Run: x\n", author=("A <b>\n", "a@b"), when=WHEN
    )
    assert git(repo_dir, "log", "-1", "--format=%an|%ae|%ci|%P|%T", oid) == (
        f"A b|a@b|2024-05-06 07:08:09 +0530|{root}|{tree}"
    )
    info = objects.commit_info(repo, oid)
    assert info.message == "Tïtle\n\nBaton-Run: x\n"
    assert (info.parents, info.tree, info.committer_time) == ((root,), tree, WHEN)
    assert objects.exists(repo, oid)
    assert not objects.exists(repo, "1" * 40)
    with pytest.raises(RepositoryError):
        new_commit(repo, tree, "1" * 40)
    with pytest.raises(RepositoryError) as caught:
        objects.commit_info(repo, "1" * 40)
    assert caught.value.code == "missing-object"
    with pytest.raises(RepositoryError) as caught:
        objects.read_blob(repo, tree)
    assert caught.value.code == "wrong-object"


def test_ancestry(repo_dir: Path, repo: Repository) -> None:
    root = git(repo_dir, "rev-parse", "HEAD")
    tree = objects.tree_of(repo, root)
    left, right = (
        new_commit(repo, tree, root),
        objects.create_commit(repo, tree, [root], "right", author=("A", "a@b"), when=WHEN),
    )
    merged = new_commit(repo, tree, left, right)
    other = new_commit(repo, tree)
    assert ancestry.is_ancestor(repo, right, merged)
    assert ancestry.is_ancestor(repo, merged, merged)
    assert not ancestry.is_ancestor(repo, merged, right)
    assert ancestry.merge_base(repo, left, right) == root
    assert ancestry.merge_base(repo, left, other) is None
    chain = [info.oid for info in ancestry.first_parent_chain(repo, merged, root)]
    assert chain == [merged, left]
    assert [c.oid for c in ancestry.first_parent_chain(repo, left, None)] == [left, root]


def test_a_users_revision(repo_dir: Path, repo: Repository) -> None:
    head = git(repo_dir, "rev-parse", "HEAD")
    git(repo_dir, "tag", "-a", "v1", "-m", "x")
    for text in ("HEAD", "main", "v1", head, head[:10], "refs/heads/main", "HEAD^{commit}"):
        assert objects.resolve(repo, text) == head
    for text in ("--all", "-x", "", "nope", "HEAD~9", "HEAD:README", "a b^{", "HEAD^{tree}"):
        assert objects.resolve(repo, text) is None


def test_reading_goes_on_while_the_repository_is_repacked(repo_dir: Path, repo: Repository) -> None:
    oids = [commit(repo_dir, {"f": str(n)}) for n in range(5)]
    git(repo_dir, "repack", "-q", "-d")
    assert objects.blob_at(repo, oids[0], "f") == b"0"
    for n in range(3):
        commit(repo_dir, {"g": str(n)})
        git(repo_dir, "repack", "-q", "-a", "-d")
    assert [objects.blob_at(repo, oid, "f") for oid in oids] == [b"0", b"1", b"2", b"3", b"4"]
    assert ancestry.is_ancestor(repo, oids[0], oids[-1])


def test_a_partial_clone_fetches_what_is_missing(repo_dir: Path, tmp_path: Path) -> None:
    old = commit(repo_dir, {"f": "old\n", "g": "1"})
    new = commit(repo_dir, {"f": "new\n"})
    git(repo_dir, "config", "uploadpack.allowFilter", "true")
    git(repo_dir, "config", "uploadpack.allowAnySHA1InWant", "true")
    url = f"file://{repo_dir}"
    git(tmp_path, "clone", "-q", "--filter=blob:none", "--no-checkout", url, "part")
    repo = open_repository(tmp_path / "part")
    assert objects.blob_at(repo, old, "f") == b"old\n"
    assert list(objects.added_lines(repo, old, new)) == [("f", 1, b"new")]
    with pytest.raises(RepositoryError):
        objects.read_blob(repo, "1" * 40)


def test_syncing_touches_what_is_new(
    repo_dir: Path, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = git(repo_dir, "rev-parse", "HEAD")
    tip = commit(repo_dir, {"d/one": "1", "d/two": "2"})
    git(repo_dir, "repack", "-q", "-a", "-d")
    tip = commit(repo_dir, {"d/three": "3"})
    synced: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    durable.sync_objects(repo, tip, base)
    names = {Path(name).parent.name + Path(name).name for name in synced if "/pack/" not in name}
    loose = git(repo_dir, "rev-list", "--objects", "--no-object-names", f"{tip}^..{tip}").split()
    assert set(loose) == names
    assert any(name.endswith(".pack") for name in synced)


def test_attribute_files_are_found_at_any_depth(repo_dir: Path, repo: Repository) -> None:
    tip = commit(repo_dir, {".gitattributes": "a", "x/y/.gitattributes": "b", "x/z": "c"})
    tree = objects.tree_of(repo, tip)
    found = objects.files_named(repo, tree, ".gitattributes")
    assert {path: objects.read_blob(repo, oid) for path, oid in found.items()} == {
        ".gitattributes": b"a",
        "x/y/.gitattributes": b"b",
    }
    assert objects.files_named(repo, tree, ".gitattributes") == found
    assert datetime.now(UTC) > objects.commit_info(repo, tip).committer_time


@pytest.mark.timeout(20)
@pytest.mark.parametrize("length", [0, 2, 20, -1])
@pytest.mark.parametrize("name", ["HEAD", "HEAD^{tree}", "HEAD:a"])
def test_an_object_that_was_cut_off(
    repo_dir: Path, repo: Repository, name: str, length: int
) -> None:
    """As by a crash; libgit2 would never return."""
    commit(repo_dir, {"a": "content\n" * 40})
    oid = git(repo_dir, "rev-parse", name)
    path = repo_dir / ".git" / "objects" / oid[:2] / oid[2:]
    path.chmod(0o644)
    os.truncate(path, length if length >= 0 else path.stat().st_size + length)
    with pytest.raises(RepositoryError) as caught:
        odb.read_any(repo, oid)
    assert caught.value.code == "corrupt-repository"
    assert oid in caught.value.message
    with pytest.raises(RepositoryError):
        objects.blob_at(repo, "HEAD" if name == "HEAD:a" else oid, "a")
    with pytest.raises(RepositoryError):
        objects.exists(repo, oid)


def damage(folder: Path, oid: str) -> None:
    path = folder / "objects" / oid[:2] / oid[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")


def test_an_object_that_was_cut_off_and_is_in_a_pack_too(repo_dir: Path, repo: Repository) -> None:
    tip = commit(repo_dir, {"a": "content\n"})
    git(repo_dir, "repack", "-a", "-d", "-q")
    damage(repo_dir / ".git", tip)
    assert git(repo_dir, "cat-file", "commit", tip).encode() in odb.read_any(repo, tip)[1]
    assert objects.exists(repo, tip)


@pytest.mark.timeout(20)
def test_an_object_that_was_cut_off_elsewhere(repo_dir: Path, tmp_path: Path) -> None:
    """Where a clone borrows from; two that borrow from each other are no trap."""
    tip = commit(repo_dir, {"a": "content\n"})
    git(tmp_path, "clone", "-q", "--shared", str(repo_dir), "borrower")
    borrower = tmp_path / "borrower" / ".git"
    path = os.path.relpath(borrower / "objects", repo_dir / ".git" / "objects")
    (repo_dir / ".git" / "objects" / "info" / "alternates").write_text(f"{path}\n\n")
    damaged = repo_dir / ".git" / "objects" / tip[:2] / tip[2:]
    damaged.chmod(0o644)
    os.truncate(damaged, 20)
    with pytest.raises(RepositoryError) as caught:
        odb.read_any(open_repository(borrower), tip)
    assert caught.value.code == "corrupt-repository"


@pytest.mark.parametrize("head", [b"blob 3\0abcd", b"blob  3\0abc", b"blob 03\0abc", b"blob 3"])
def test_an_object_whose_header_is_odd(repo_dir: Path, repo: Repository, head: bytes) -> None:
    """Its id is right: somebody made it so."""
    oid = sha1(head).hexdigest()
    path = repo_dir / ".git" / "objects" / oid[:2] / oid[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(head))
    with pytest.raises(RepositoryError) as caught:
        odb.read_any(repo, oid)
    assert caught.value.code == "corrupt-repository"


@pytest.mark.parametrize(
    ("then", "year"),
    [("99999999999999 +0000", 9999), ("-99999999999999 +0000", 1), ("1700000000 +9959", 2023)],
)
def test_a_commit_of_any_time(repo: Repository, then: str, year: int) -> None:
    tree = objects.edit_tree(repo, None, {"x": b""})
    who = f"A <a@b> {then}"
    data = f"tree {tree}\nauthor {who}\ncommitter {who}\n\nm\n"
    oid = str(repo.handle.write(1, data.encode()))
    assert abs(objects.commit_info(repo, oid).committer_time.year - year) <= 1


def test_a_commit_that_git_would_not_have_written(repo: Repository) -> None:
    tree = objects.edit_tree(repo, None, {"x": b""})
    oid = str(repo.handle.write(1, f"tree {tree}\nauthor x\ncommitter x\n\nm\n".encode()))
    with pytest.raises(RepositoryError, match=oid):
        objects.commit_info(repo, oid)


@pytest.mark.parametrize("text", ["HEAD", "--all", ""])
def test_what_is_no_object_id(repo: Repository, text: str) -> None:
    assert not objects.exists(repo, text)
    with pytest.raises(RepositoryError):
        objects.commit_info(repo, text)
