"""Hooks beside whatever else is there: real pushes, real installers, and everything put back."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gitbaton.engine import hooks
from gitbaton.git import process

from .conftest import Project

TOP = Path(__file__).parents[2]

EARLIER = """\
#!/bin/sh
# somebody's own
{ echo "args: $*"; cat; } >> "$LOG"
exit ${EARLIER_EXIT:-0}
"""


@pytest.fixture(autouse=True)
def log_of_others(on_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where hooks of others write what they were given; they and git find ``git baton``."""
    monkeypatch.setenv("LOG", str(tmp_path / "log"))


@pytest.fixture
def server(project: Project, tmp_path: Path) -> Path:
    """A bare repository that the project calls ``origin``."""
    bare = tmp_path / "server"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    project.git("remote", "add", "origin", str(bare))
    return bare


def _log(tmp_path: Path) -> str:
    log = tmp_path / "log"
    text = log.read_text() if log.exists() else ""
    log.unlink(missing_ok=True)
    return text


def _hook(project: Project, name: str = "pre-push") -> Path:
    return project.top / ".git" / "hooks" / name


def _earlier(project: Project, text: str = EARLIER) -> Path:
    file = _hook(project)
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return file


def _status(project: Project, name: str = "pre-push") -> dict[str, object]:
    found = project.baton("hook", "status")["hooks"]
    return dict(next(hook for hook in found if hook["name"] == name))


def _forge(project: Project) -> None:
    """A commit that says that git-baton made it, and no run knows it."""
    project.git("commit", "-q", "--allow-empty", "-m", "1.9 Nothing\n\nBaton-Run: nowhere")


def _refused(project: Project, *args: str) -> str:
    done = subprocess.run(
        ["git", "push", *args], cwd=project.top, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0, done.stderr
    return done.stderr + done.stdout


def test_a_hook_is_installed_called_and_removed(project: Project, server: Path) -> None:
    assert _status(project)["installed"] is False
    said = project.baton("hook", "install")
    assert len(said["changes"]) == 1
    assert _status(project) == {
        "name": "pre-push",
        "installed": True,
        "chained": False,
        "path": str(_hook(project)),
        "by": "git",
    }
    assert project.baton("hook", "install")["changes"] == []
    project.git("push", "-q", "origin", "trunk")
    project.git("push", "-q", "origin", "trunk")  # nothing to push: the input is empty
    _forge(project)
    said_by_git = _refused(project, "origin", "trunk")
    assert "no state of that run is here" in said_by_git
    project.git("push", "-q", "--no-verify", "origin", "trunk")
    project.baton("hook", "uninstall")
    assert not _hook(project).exists()
    assert project.baton("hook", "uninstall")["changes"] == []


def test_the_shipped_hooks_are_the_installed_ones() -> None:
    for name in hooks.NAMES:
        file = TOP / "hooks" / name
        assert file.read_text() == hooks.script(name)
        assert os.access(file, os.X_OK)


def test_an_earlier_hook_runs_first_with_the_same_input(
    project: Project, server: Path, tmp_path: Path
) -> None:
    file = _earlier(project)
    file.chmod(0o750)
    before = (file.read_bytes(), stat.S_IMODE(file.stat().st_mode), file.stat().st_mtime_ns)
    project.baton("hook", "install")
    assert _status(project)["chained"] is True
    project.git("push", "-q", "origin", "trunk")
    head = project.git("rev-parse", "HEAD")
    zero = "0" * 40
    expected = f"args: origin {server}\nrefs/heads/trunk {head} refs/heads/trunk {zero}\n"
    assert _log(tmp_path) == expected
    project.baton("hook", "install")  # again: nothing is chained twice
    project.baton("hook", "uninstall")
    after = (file.read_bytes(), stat.S_IMODE(file.stat().st_mode), file.stat().st_mtime_ns)
    assert after == before
    assert sorted(p.name for p in file.parent.iterdir() if p.name.startswith("pre-push")) == [
        "pre-push",
        "pre-push.sample",
    ]


def test_an_earlier_hook_that_refuses_keeps_its_exit_status(
    project: Project, server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _earlier(project)
    project.baton("hook", "install")
    monkeypatch.setenv("EARLIER_EXIT", "7")
    done = subprocess.run([file, "origin", "url"], input="", text=True, check=False)
    assert done.returncode == 7
    _refused(project, "origin", "trunk")
    monkeypatch.setenv("EARLIER_EXIT", "0")
    project.git("push", "-q", "origin", "trunk")


def test_an_earlier_hook_that_reads_nothing_does_no_harm(project: Project, server: Path) -> None:
    _earlier(project, "#!/bin/sh\nexit 0\n")
    project.baton("hook", "install")
    lines = "".join(f"HEAD:refs/heads/b{n} " for n in range(300)).split()
    project.git("push", "-q", "origin", *lines)


def test_a_hook_that_is_a_link_is_put_back_as_one(project: Project, server: Path) -> None:
    target = project.top / ".git" / "hooks" / "shared"
    target.write_text("#!/bin/sh\n")
    target.chmod(0o755)
    file = _hook(project)
    file.symlink_to("shared")
    project.baton("hook", "install")
    assert not file.is_symlink()
    assert target.read_text() == "#!/bin/sh\n"
    project.git("push", "-q", "origin", "trunk")
    project.baton("hook", "uninstall")
    assert os.readlink(file) == "shared"


def test_two_hooks_that_were_there_before_are_not_thrown_away(project: Project) -> None:
    file = _earlier(project)
    project.baton("hook", "install")
    file.write_text("#!/bin/sh\n# written anew by an installer\n")
    said = project.refused("hook", "install")
    assert said.code == "hook-in-the-way"


@pytest.mark.parametrize("place", [".hooks", "with space/hooks"])
def test_a_relative_hooks_path_is_honoured(project: Project, server: Path, place: str) -> None:
    project.git("config", "core.hooksPath", place)
    sub = project.top / "sub"
    sub.mkdir()
    project.baton("hook", "install", cwd=sub)
    assert (project.top / place / "pre-push").is_file()
    assert not (sub / place).exists()
    _forge(project)
    assert "push is refused" in _refused(project, "origin", "trunk")
    project.baton("hook", "uninstall", cwd=sub)
    assert not (project.top / place / "pre-push").exists()


def test_a_linked_worktree_has_the_hooks_of_all(
    project: Project, server: Path, tmp_path: Path
) -> None:
    linked = tmp_path / "linked"
    project.git("worktree", "add", "-q", str(linked))
    project.baton("hook", "install", cwd=linked)
    assert _hook(project).is_file()
    _forge(project)
    assert "push is refused" in _refused(project, "origin", "trunk")


def test_hooks_of_all_repositories_are_left_alone(project: Project, tmp_path: Path) -> None:
    shared = tmp_path / "shared hooks"
    project.git("config", "--global", "core.hooksPath", str(shared))
    try:
        said = project.refused("hook", "install")
        assert said.code == "hooks-shared"
        assert 'git baton hook pre-push "$@"' in said.message
    finally:
        project.git("config", "--global", "--unset", "core.hooksPath")


def test_under_husky_the_line_to_add_is_printed(project: Project, server: Path) -> None:
    folder = project.top / ".husky" / "_"
    folder.mkdir(parents=True)
    runner = folder / "pre-push"  # what husky writes: it runs the file of that name above
    runner.write_text('#!/usr/bin/env sh\nexec sh -e "$(dirname "$0")/../pre-push" "$@"\n')
    runner.chmod(0o755)
    project.git("config", "core.hooksPath", ".husky/_")
    said = project.refused("hook", "install")
    assert said.code == "hooks-managed"
    line = 'git baton hook pre-push "$@"'
    assert line in said.message
    subprocess.run(["sh", "-c", said["error"]["hint"]], check=True)
    assert (project.top / ".husky" / "pre-push").read_text() == f"{line}\n"
    assert _status(project)["installed"] is True
    assert project.baton("hook", "install")["changes"] == []
    _forge(project)
    assert "push is refused" in _refused(project, "origin", "trunk")


def test_init_installs_hooks_and_says_what_else_it_did(project: Project, server: Path) -> None:
    said = project.baton("init", "--hooks")
    assert any("pre-push" in change for change in said["changes"])
    assert project.baton("init", "--hooks")["changes"] == []
    project.git("config", "core.hooksPath", ".husky")
    project.git("config", "--unset-all", "notes.displayRef")
    refused = project.baton("init", "--hooks", code=1)
    assert refused.code == "hooks-managed"
    assert [change for change in refused["changes"] if "displayRef" in change]


def test_a_bare_repository_gets_the_other_hook(project: Project, server: Path) -> None:
    said = project.baton("hook", "install", cwd=server)
    assert "pre-receive" in said["changes"][0]
    _forge(project)
    said_by_server = _refused(project, "origin", "trunk")
    assert "no state of that run is here" in said_by_server
    assert project.git("for-each-ref", cwd=server) == ""


def test_without_git_baton_nothing_passes(
    project: Project, server: Path, on_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(TOP / "hooks" / "pre-push", _hook(project))
    plain = [p for p in os.environ["PATH"].split(":") if not Path(p, "git-baton").exists()]
    monkeypatch.setenv("PATH", ":".join(plain))
    assert "not on the PATH" in _refused(project, "origin", "trunk")


def test_newer_git_is_told_by_configuration(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No such git is at hand: what it is told is looked at, and that nothing is left of it."""
    config = project.top / ".git" / "config"
    before = project.git("config", "--local", "--list")
    file = _earlier(project)
    monkeypatch.setattr(process, "git_version", lambda: (2, 54, 0))
    project.baton("hook", "install")
    assert project.git("config", "hook.git-baton-pre-push.event") == "pre-push"
    command = project.git("config", "hook.git-baton-pre-push.command")
    assert command.endswith("baton hook pre-push")
    assert file.read_text() == EARLIER
    found = _status(project)
    assert (found["installed"], found["by"], found["path"]) == (True, "config", str(config))
    assert project.baton("hook", "install")["changes"] == []
    project.baton("hook", "uninstall")
    assert project.git("config", "--local", "--list") == before
    assert _status(project)["installed"] is False


# --- what calls it -----------------------------------------------------------------------------


def _call(cwd: Path, *args: str, stdin: bytes | None = b"") -> subprocess.CompletedProcess[bytes]:
    words = [sys.executable, "-m", "gitbaton", "hook", *args]
    return subprocess.run(words, cwd=cwd, input=stdin, capture_output=True, check=False)


@pytest.mark.parametrize("line", [b"nonsense", b"a b c d", b"\xff\n", b"x " * 200])
def test_input_that_is_none_of_gits_passes_nothing(project: Project, line: bytes) -> None:
    for name in hooks.NAMES:
        done = _call(project.top, name, stdin=line)
        assert done.returncode == 2, done
        assert b"not a line of what git tells" in done.stderr


def test_the_local_side_of_a_push_may_be_any_expression(project: Project, server: Path) -> None:
    project.baton("hook", "install")
    _forge(project)
    for source in ("HEAD@{0}", "trunk@{0 seconds ago}", ":/Nothing", "HEAD"):
        assert "push is refused" in _refused(project, "origin", f"{source}:refs/heads/x")
    assert "push is refused" in _refused(project, "--dry-run", "origin", "trunk")
    project.git("tag", "-a", "v1", "-m", "tagged")
    assert "push is refused" in _refused(project, "origin", "v1")


def test_what_is_no_commit_is_pushed(project: Project, server: Path) -> None:
    project.baton("hook", "install")
    project.git("tag", "tree", "HEAD^{tree}")
    project.git("tag", "-a", "blob", "-m", "a file", "HEAD:README")
    project.git("push", "-q", "origin", "tree", "blob")
    project.git("push", "-q", "origin", "--delete", "tree")


def test_an_input_that_never_ends_is_given_up(project: Project) -> None:
    project.set("remoteTimeout", "1")
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "gitbaton", "hook", "pre-push", "origin", "url"],
            cwd=project.top,
            stdin=reading,
            capture_output=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert done.returncode == 1
    assert b"nothing has happened for 1 seconds" in done.stderr


# --- other installers --------------------------------------------------------------------------


@pytest.fixture
def pre_commit(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PreCommit:
    """pre-commit with a hook of its own for pushes; it needs no network for a local one."""
    pytest.importorskip("pre_commit")
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "pre-commit"))
    config = """\
repos:
- repo: local
  hooks:
  - id: mine
    name: mine
    language: system
    entry: sh -c 'echo "ran for $PRE_COMMIT_REMOTE_BRANCH" >> "$LOG"; test ! -e red'
    stages: [pre-push]
    always_run: true
    pass_filenames: false
"""
    project.commit({".pre-commit-config.yaml": config})

    def run(*args: str) -> None:
        words = [sys.executable, "-m", "pre_commit", *args]
        subprocess.run(words, cwd=project.top, check=True, capture_output=True)

    return run


PreCommit = Callable[..., None]


@pytest.mark.parametrize("first", ["pre-commit", "git-baton"])
def test_pre_commit_in_either_order(
    project: Project, server: Path, tmp_path: Path, pre_commit: PreCommit, first: str
) -> None:
    _earlier(project)
    install = {
        "pre-commit": lambda: pre_commit("install", "-t", "pre-push"),
        "git-baton": lambda: project.baton("hook", "install"),
    }
    second = next(name for name in install if name != first)
    install[first]()
    for name in (second, first, second):  # what is installed again changes nothing
        install[name]()
        found = _status(project)
        assert (found["installed"], found["chained"], found["by"]) == (True, True, "pre-commit")
    project.git("push", "-q", "origin", "trunk")
    log = _log(tmp_path)
    assert log.count("ran for refs/heads/trunk") == 1, log
    assert log.count("refs/heads/trunk 0000") == 1, log  # somebody's own, with its input
    (project.top / "red").touch()
    project.commit({"a": "b\n"})
    _refused(project, "origin", "trunk")
    (project.top / "red").unlink()
    _forge(project)
    assert "no state of that run is here" in _refused(project, "origin", "trunk")


def test_uninstalling_beside_pre_commit_leaves_it_alone(
    project: Project, server: Path, tmp_path: Path, pre_commit: PreCommit
) -> None:
    file = _earlier(project)
    project.baton("hook", "install")
    pre_commit("install", "-t", "pre-push")
    project.baton("hook", "uninstall")
    assert _status(project)["installed"] is False
    assert "generated by pre-commit" in file.read_text()
    assert file.with_name("pre-push.legacy").read_text() == EARLIER
    pre_commit("uninstall", "-t", "pre-push")
    assert file.read_text() == EARLIER


def test_pre_commit_can_call_git_baton_itself(
    project: Project, server: Path, pre_commit: PreCommit
) -> None:
    config = (TOP / ".pre-commit-hooks.yaml").read_text().replace("language: python", "")
    indented = "".join(f"  {line}\n" for line in config.splitlines() if line[:1] != "#")
    text = f"repos:\n- repo: local\n  hooks:\n{indented}    language: system\n"
    project.commit({".pre-commit-config.yaml": text})
    pre_commit("install", "-t", "pre-push")
    assert _status(project)["by"] == "pre-commit"
    assert _status(project)["installed"] is True
    project.git("push", "-q", "origin", "trunk")
    _forge(project)
    assert "no state of that run is here" in _refused(project, "origin", "trunk")


def test_under_lefthook_the_lines_to_add_are_printed(
    project: Project, server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    lefthook = shutil.which("lefthook")
    if lefthook is None:
        pytest.skip("lefthook is not installed")
    config = project.write("lefthook.yml", "pre-push:\n  commands:\n    a:\n      run: 'true'\n")
    project.git("add", "lefthook.yml")
    subprocess.run([lefthook, "install"], cwd=project.top, check=True, capture_output=True)
    said = project.refused("hook", "install")
    assert said.code == "hooks-managed"
    lines = said.message.partition("lefthook.yml: ")[2]
    config.write_text(f"{lines}\n")
    project.git("commit", "-q", "-m", "lefthook", "lefthook.yml")
    assert _status(project)["installed"] is True
    project.git("push", "-q", "origin", "trunk")
    _forge(project)
    assert "push is refused" in _refused(project, "origin", "trunk")


def test_git_lfs_and_others_that_read_the_input(
    project: Project, server: Path, tmp_path: Path, on_path: Path
) -> None:
    """The hook that `git lfs install` writes, with a git-lfs that says what it was given."""
    stand_in = on_path / "git-lfs"
    stand_in.write_text('#!/bin/sh\n{ echo "lfs $*"; cat; } >> "$LOG"\n')
    stand_in.chmod(0o755)
    _earlier(project, '#!/bin/sh\ncommand -v git-lfs >/dev/null || exit 2\ngit lfs pre-push "$@"\n')
    project.baton("hook", "install")
    project.git("push", "-q", "origin", "trunk")
    log = _log(tmp_path)
    assert log.startswith(f"lfs pre-push origin {server}\n")
    assert "refs/heads/trunk" in log


# --- doctor ------------------------------------------------------------------------------------


def _check(project: Project, name: str) -> dict[str, object]:
    found = project.baton("doctor", code=None)["checks"]
    return dict(next(check for check in found if check["name"] == name))


def test_doctor_looks_after_hooks(project: Project) -> None:
    assert _check(project, "hooks")["ok"] is True
    project.set("protect", "trunk")
    assert _check(project, "hooks")["fix"] == "git baton hook install"
    project.baton("hook", "install")
    assert _check(project, "hooks")["ok"] is True
    _hook(project).chmod(0o644)
    assert _check(project, "hooks")["ok"] is False
    _hook(project).rename(_hook(project, "pre-push.old"))  # as other installers do
    assert "pre-push.old" in str(_check(project, "hooks")["message"])
    project.baton("hook", "install")
    assert _check(project, "hooks")["ok"] is True


def test_doctor_looks_after_keys(project: Project, tmp_path: Path) -> None:
    assert _check(project, "signing")["ok"] is True
    project.set("requireSignature", "true")
    assert _check(project, "signing")["ok"] is False
    assert _check(project, "signers")["ok"] is False
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    trusted = tmp_path / "trusted"
    trusted.write_text("")
    project.set("signingKey", str(key))
    project.set("allowedSigners", str(trusted))
    assert _check(project, "signers")["ok"] is True
    assert _check(project, "signing")["ok"] is False
    trusted.write_text(f"ann@example.com {key.with_suffix('.pub').read_text()}")
    signing = _check(project, "signing")
    assert signing["ok"] is True
    assert "ann@example.com" in str(signing["message"])
    key.unlink()
    assert _check(project, "signing")["ok"] is False


def test_doctor_finds_work_that_was_pushed_without_its_evidence(
    project: Project, server: Path
) -> None:
    project.finish(project.actions())
    assert "not known" in str(_check(project, "remote origin")["message"])
    project.baton("init")
    assert _check(project, "remote origin")["ok"] is True
    branch = project.branch()
    project.git("push", "-q", "origin", branch)
    found = _check(project, "remote origin")
    assert found["ok"] is False
    project.git(*str(found["fix"]).split()[1:])
    assert _check(project, "remote origin")["ok"] is True
    project.git("update-ref", "refs/baton-remote/origin/runs/add-login", f"{project.branch()}")
    assert _check(project, "remote origin")["ok"] is True  # unreadable: not of this check
    older = project.git("rev-parse", "refs/baton/runs/add-login~3")
    project.git("update-ref", "refs/baton-remote/origin/runs/add-login", older)
    assert "does not know" in str(_check(project, "remote origin")["message"])
