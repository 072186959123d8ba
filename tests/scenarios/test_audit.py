"""A clone that was never near the run finds out whether to believe it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from gitbaton.engine import merging, planning
from gitbaton.git import objects
from gitbaton.git.repo import Repository

from .conftest import CHANGE, CHECK, TWO, Json, Project, Said

STATE = f"refs/baton/runs/{CHANGE}"
NOTES = f"refs/notes/baton/{CHANGE}"
TRACKED = f"refs/baton-remote/origin/runs/{CHANGE}"
TOP = Path(__file__).parents[2]
EVERYTHING = ("trunk", "refs/heads/baton/*", "refs/baton/*", "refs/notes/baton/*")


class Server:
    """A bare repository that the project pushes to, and clones of it."""

    def __init__(self, project: Project, path: Path) -> None:
        self.project = project
        self.path = path
        subprocess.run(["git", "init", "-q", "--bare", "-b", "trunk", str(path)], check=True)
        project.git("remote", "add", "origin", str(path))

    def push(self, *refspecs: str) -> None:
        self.project.git("push", "-q", "--force", "origin", *(refspecs or EVERYTHING))

    def git(self, *args: str) -> str:
        return self.project.git(*args, cwd=self.path)

    def clone(self, *options: str) -> Path:
        path = self.path.parent / f"clone-{len(list(self.path.parent.glob('clone-*')))}"
        self.project.git("clone", "-q", *options, f"file://{self.path}", str(path))
        return path

    def audit(self, *args: str, code: int = 0, where: Path | None = None) -> Said:
        """What a fresh clone says."""
        return self.project.baton("audit", *args, cwd=where or self.clone(), code=code)


@pytest.fixture
def server(project: Project, tmp_path: Path) -> Server:
    return Server(project, tmp_path / "server")


@pytest.fixture
def done(project: Project, server: Server) -> Server:
    """A complete run of two tickets, pushed with all that belongs to it."""
    project.approve(TWO)
    project.finish(project.actions(CHANGE))
    server.push()
    return server


def codes(said: Said) -> set[str]:
    return {p["code"] for p in problems(said)}


def problems(said: Said) -> list[Json]:
    return [*said["problems"], *(p for run in said["runs"] for p in run["problems"])]


def chain(project: Project) -> list[str]:
    return project.git("rev-list", "--first-parent", "--reverse", STATE).split()


def anchors(project: Project) -> list[str]:
    text = project.git("log", "--format=%B", "baton/add-login")
    return re.findall(r"^Baton-State: (\w+)$", text, re.MULTILINE)


def apart(where: Path) -> Said:
    """What an audit says that has not read anything of another repository before."""
    words = [sys.executable, "-m", "gitbaton", "audit", "--json"]
    env = {**os.environ, "PYTHONPATH": str(TOP)}
    done = subprocess.run(words, cwd=where, env=env, capture_output=True, check=False)
    return Said(json.loads(done.stdout))


# --- a run that can be believed ----------------------------------------------------------------


def test_fresh_clone_needs_nothing_but_itself(done: Server) -> None:
    clone = done.clone()
    said = done.audit(where=clone)
    (run,) = said["runs"]
    assert (run["run"], run["ok"], run["problems"]) == (CHANGE, True, [])
    assert run["transitions"] == len(chain(done.project))
    assert (run["receipts"], run["merges"]) == (3, 2)
    last = max(chain(done.project).index(oid) for oid in anchors(done.project))
    assert run["unanchored"] == run["transitions"] - 1 - last > 0
    found = done.project.git("for-each-ref", "--format=%(refname)", "refs/baton-remote", cwd=clone)
    assert found.split() == [TRACKED.replace("runs", "notes"), TRACKED]
    assert not (clone / ".git" / "FETCH_HEAD").exists()
    assert done.project.git("status", "--porcelain", cwd=clone) == ""
    again = done.audit(where=clone)
    assert again["runs"][0]["unanchored"] == 0


def test_where_the_run_took_place(done: Server) -> None:
    done.git("update-ref", "-d", STATE)  # what others have does not matter there
    assert done.project.baton("audit")["runs"][0]["ok"]
    assert done.project.baton("audit", CHANGE)["runs"][0]["ok"]


def test_bare_mirror(done: Server) -> None:
    mirror = done.clone("--mirror")
    assert done.audit(where=mirror)["runs"][0]["ok"]


def test_clone_of_one_branch(done: Server) -> None:
    assert done.audit(where=done.clone("--single-branch", "--no-tags"))["runs"][0]["merges"] == 2


def test_run_in_flight_and_landed(project: Project, server: Server) -> None:
    project.approve(TWO)
    first = project.actions(CHANGE).dispatch("1.1")
    server.push()
    assert server.audit()["runs"][0]["receipts"] == 0
    project.do(first)
    project.commit({"mine": "x"})
    project.baton("update")
    project.finish(project.reconcile(first))
    project.finish(project.actions(CHANGE, "--redeliver"))
    project.commit({"mine": "y"})
    project.baton("land")
    server.push()
    assert server.audit()["runs"][0]["ok"]


def test_tickets_done_by_hand_are_listed(project: Project, server: Server) -> None:
    project.approve(TWO.replace("[ ] 1.2", "[x] 1.2"))
    project.finish(project.actions(CHANGE))
    server.push()
    clone = server.clone()
    assert server.audit(where=clone)["runs"][0]["resolved_by_hand"] == ["1.2"]
    assert "resolved by hand: 1.2" in project.type("audit", cwd=clone).stdout


def test_names_of_runs(done: Server) -> None:
    clone = done.clone()
    assert done.audit(CHANGE, where=clone)["runs"][0]["run"] == CHANGE
    said = done.audit("add-logout", where=clone, code=1)
    assert said.code == "unknown-run"
    assert CHANGE in said["error"]["hint"]


def test_nothing_to_audit(project: Project) -> None:
    assert project.baton("audit", code=1).code == "no-run"


def test_shallow_clone_is_told_how_to_get_deeper(done: Server) -> None:
    clone = done.clone("--depth", "1")
    said = done.audit(where=clone, code=1)
    assert said.code == "shallow-clone"
    command = said["error"]["hint"].removeprefix("run: ")
    done.project.git(*command.split()[1:], cwd=clone)
    assert done.audit(where=clone)["runs"][0]["ok"]


# --- the remote --------------------------------------------------------------------------------


def test_clone_with_a_run_of_its_own(project: Project, server: Server) -> None:
    """The runs of others are fetched there too."""
    project.plan(TWO, change="another")
    project.approve(TWO)
    project.finish(project.actions(CHANGE))
    project.baton("land", CHANGE)
    server.push()
    clone = server.clone()
    project.baton("actions", "another", "--verify", CHECK, "--session", "s", cwd=clone)
    audit = server.audit(where=clone)
    assert {run["run"]: run["ok"] for run in audit["runs"]} == {CHANGE: True, "another": True}


def test_state_that_goes_on_is_fetched_again(project: Project, server: Server) -> None:
    project.approve(TWO)
    batch = project.actions(CHANGE)
    server.push()
    clone = server.clone()
    before = server.audit(where=clone)["runs"][0]["transitions"]
    project.finish(batch)
    server.push()
    assert server.audit(where=clone)["runs"][0]["transitions"] > before


def test_remote_out_of_reach(done: Server) -> None:
    fresh, old = done.clone(), done.clone()
    done.audit(where=old)
    done.path.rename(done.path.with_name("away"))
    assert done.audit(where=fresh, code=1).code == "git-failed"
    said = done.audit(where=old)
    assert "what was fetched before is judged" in said.stderr


def test_remote_that_hangs(done: Server, tmp_path: Path) -> None:
    clone = done.clone()
    hanging = tmp_path / "hang"
    hanging.write_text("#!/bin/sh\nexec sleep 60\n")
    hanging.chmod(0o755)
    done.project.git("config", "remote.origin.uploadpack", str(hanging), cwd=clone)
    done.project.git("config", "baton.remoteTimeout", "1", cwd=clone)
    began = time.monotonic()
    assert done.audit(where=clone, code=1).code == "git-timeout"
    assert time.monotonic() - began < 20


def test_which_remote(done: Server) -> None:
    clone = done.clone()
    done.project.git("remote", "rename", "origin", "upstream", cwd=clone)
    done.project.git("remote", "add", "fork", "/nowhere", cwd=clone)
    assert done.audit(where=clone)["runs"][0]["ok"]  # the branch comes from there
    done.project.git("checkout", "-q", "--detach", cwd=clone)
    done.project.git("update-ref", "-d", TRACKED.replace("origin", "upstream"), cwd=clone)
    assert done.audit(where=clone, code=1).code == "which-remote"
    done.project.git("config", "baton.remote", "upstream", cwd=clone)
    assert done.audit(where=clone)["runs"][0]["ok"]


# --- states and branches that were moved -------------------------------------------------------


def test_state_put_back_past_an_anchor(done: Server) -> None:
    before = chain(done.project)[chain(done.project).index(anchors(done.project)[0]) - 1]
    done.git("update-ref", STATE, before)
    said = apart(done.clone())
    assert codes(said) >= {"anchor-lost", "unrecorded-commit"}
    merge = done.project.git("rev-parse", "baton/add-login")
    assert f"{merge}#Baton-State" in {p["where"] for p in problems(said)}
    assert said.code == "audit-problems"


def test_state_put_back_behind_the_last_anchor(done: Server) -> None:
    """Only who has looked before can tell, or the branch, which holds more than the state says."""
    clone = done.clone()
    done.audit(where=clone)
    done.git("update-ref", STATE, chain(done.project)[-2])
    said = done.audit(where=clone, code=1)
    assert "state-rewound" in codes(said)
    assert "a newer one was not fetched" in str(said)
    assert "state-rewound" in codes(done.audit(where=clone, code=1))  # it is not forgotten


def test_state_deleted(done: Server) -> None:
    old = done.clone()
    done.audit(where=old)
    done.git("update-ref", "-d", STATE)
    said = done.audit(code=1)
    assert codes(said) == {"state-missing"}
    assert "Baton-State" in problems(said)[0]["message"]
    assert codes(done.audit(where=old, code=1)) == {"state-deleted"}


def test_state_and_branch_deleted_after_landing(done: Server) -> None:
    done.project.baton("land")
    done.push("trunk")
    for ref in (STATE, NOTES, "refs/heads/baton/add-login"):
        done.git("update-ref", "-d", ref)
    assert codes(done.audit(code=1)) == {"state-missing"}


def test_state_swapped_for_that_of_another_run(done: Server) -> None:
    project = done.project
    project.plan(TWO, "add-logout")
    project.finish(project.actions("add-logout"))
    done.push()
    assert [run["ok"] for run in done.audit()["runs"]] == [True, True]
    done.git("update-ref", STATE, project.git("rev-parse", "refs/baton/runs/add-logout"))
    said = done.audit(code=1)
    assert [run["ok"] for run in said["runs"]] == [False, True]
    assert "swapped-state" in codes(said)


def test_commit_that_nobody_recorded(done: Server) -> None:
    project = done.project
    project.git("worktree", "add", "-q", "../by-hand", "baton/add-login")
    project.commit({"mine": "x"}, project.top.parent / "by-hand")
    done.push()
    said = done.audit(code=1)
    assert codes(said) == {"unrecorded-commit"}
    assert problems(said)[0]["where"] == project.tip()
    project.baton("update", "--accept")
    project.git("worktree", "remove", "../by-hand")
    done.push()
    assert done.audit()["runs"][0]["ok"]


# --- what a git-baton that lies would record ---------------------------------------------------

Lie = Callable[[pytest.MonkeyPatch], None]


def merge_with_something_else(patch: pytest.MonkeyPatch) -> None:
    true = merging.ticks.with_text

    def with_more(repo: Repository, tree: str, tasks: str, text: bytes | None) -> str:
        return objects.edit_tree(repo, true(repo, tree, tasks, text), {"smuggled": b"x\n"})

    patch.setattr(merging.ticks, "with_text", with_more)


def box_without_a_receipt(patch: pytest.MonkeyPatch) -> None:
    true = merging.ticks.ticked_text

    def all_of_them(
        repo: Repository, tree: str, tasks: str, keys: Collection[str], *args: Any
    ) -> bytes | None:
        return true(repo, tree, tasks, [*keys, "1.2"], *args)

    patch.setattr(merging.ticks, "ticked_text", all_of_them)


def plan_commit_with_code(patch: pytest.MonkeyPatch) -> None:
    true = planning._tree_with

    def with_code(ctx: Any, *args: Any) -> str:
        return objects.edit_tree(ctx.repo, true(ctx, *args), {"smuggled": b"x\n"})

    patch.setattr(planning, "_tree_with", with_code)


@pytest.mark.parametrize(
    "lie", [merge_with_something_else, box_without_a_receipt, plan_commit_with_code]
)
def test_recorded_lie(
    project: Project, server: Server, monkeypatch: pytest.MonkeyPatch, lie: Lie
) -> None:
    project.plan(TWO)
    with monkeypatch.context() as patch:
        patch.setattr("gitbaton.engine.integrate.overstep", lambda *_: None)
        lie(patch)
        first = project.actions(CHANGE).dispatch("1.1")
        project.do(first)
        project.reconcile(first)
    server.push()
    said = server.audit(code=1)
    own = project.git("rev-list", "--first-parent", f"{project.base}..baton/add-login").split()
    guilty = own[-1] if lie is plan_commit_with_code else own[0]
    assert any(p["where"].startswith(guilty) for p in problems(said)), problems(said)
    project.git("update-ref", "-d", STATE)  # of no use to what is looked at afterwards


# --- the verifier's policy ---------------------------------------------------------------------


def test_required_check_that_did_not_run(done: Server) -> None:
    clone = done.clone()
    done.project.git("config", "baton.require", CHECK, cwd=clone)
    assert done.audit(where=clone)["runs"][0]["ok"]
    done.project.git("config", "baton.require", "make test", cwd=clone)
    said = done.audit(where=clone, code=1)
    assert codes(said) == {"required-check-missing"}
    assert "make test" in problems(said)[0]["message"]


def test_protected_path(done: Server) -> None:
    clone = done.clone()
    done.project.git("config", "baton.protectPaths", "file-1.1", cwd=clone)
    assert codes(done.audit(where=clone, code=1)) == {"protected-path"}


@pytest.mark.parametrize("after", ["nothing", "foreign", "expired"])
def test_signatures(project: Project, server: Server, tmp_path: Path, after: str) -> None:
    keys = [tmp_path / "own", tmp_path / "other"]
    for key in keys:
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
        subprocess.run(words, check=True)
    public = [key.with_suffix(".pub").read_text() for key in keys]
    project.set("signingKey", str(keys[0]))
    project.approve(TWO)
    project.finish(project.actions(CHANGE))
    server.push()
    clone = server.clone()
    allowed = tmp_path / "allowed"
    allowed.write_text(
        {
            "nothing": f"ann@example.com {public[0]}",
            "foreign": f"ann@example.com {public[1]}",
            "expired": f'ann@example.com valid-before="20300101" {public[0]}',
        }[after]
    )
    project.git("config", "baton.allowedSigners", str(allowed), cwd=clone)
    project.git("config", "baton.requireSignature", "true", cwd=clone)
    said = server.audit(where=clone, code=int(after != "nothing"))
    assert ("receipt-rejected" in codes(said)) is (after != "nothing")


def test_unsigned_receipts_where_signed_ones_are_wanted(done: Server) -> None:
    clone = done.clone()
    done.project.git("config", "baton.requireSignature", "true", cwd=clone)
    assert "receipt-rejected" in codes(done.audit(where=clone, code=1))


def test_a_run_that_was_only_fetched_is_not_begun_anew(done: Server) -> None:
    clone = done.clone()
    done.audit(where=clone)
    words = ("actions", CHANGE, "--session", "s", "--verify", "true")
    said = done.project.refused(*words, cwd=clone)
    assert said.code == "run-elsewhere"
    assert "git fetch origin 'refs/baton/*:refs/baton/*'" in said["error"]["hint"]
    assert done.project.git("for-each-ref", "refs/baton/runs", cwd=clone) == ""
    assert "only fetched from origin" in done.project.refused("log", cwd=clone)["error"]["hint"]
    assert "only fetched from origin" in done.project.baton("list", cwd=clone)["warnings"][0]


def test_push_past_the_hook_is_still_seen(done: Server) -> None:
    project = done.project
    project.baton("land")
    project.git("config", "baton.protect", "trunk")
    done.push("trunk")
    clone = done.clone()
    project.git("config", "baton.protect", "trunk", cwd=clone)
    assert done.audit(where=clone)["problems"] == []
    mine = project.commit({"mine": "x"})
    project.git("push", "-q", "--no-verify", "origin", "trunk")
    project.git("fetch", "-q", cwd=clone)
    said = done.audit(where=clone, code=1)
    assert [p["where"] for p in said["problems"]] == [mine]
    assert "refs/remotes/origin/trunk" in said["problems"][0]["message"]
    # A run that begins on top of it makes it no better.
    project.commit({"openspec/changes/later/tasks.md": "- [ ] 1.1 Later\n"})
    project.finish(project.actions("later"))
    done.push("trunk", "refs/baton/runs/later", "refs/notes/baton/later", "baton/later")
    project.git("fetch", "-q", cwd=clone)
    assert mine in {p["where"] for p in done.audit(where=clone, code=1)["problems"]}


# --- checks once more --------------------------------------------------------------------------


def test_checks_are_repeated_only_with_permission(done: Server) -> None:
    clone = done.clone()
    said = done.audit("--rerun", where=clone, code=1)
    assert said.code == "commands-not-allowed"
    assert said["commands"] == [CHECK]
    assert CHECK in said.message
    again = done.audit("--rerun", "--allow-commands", where=clone)
    assert again["runs"][0]["rerun"] == 3
    assert (
        f"running {done.project.git('rev-parse', '--short=12', 'baton/add-login')}" in again.stderr
    )
    assert done.audit("--rerun", "1", "--allow-commands", where=clone)["runs"][0]["rerun"] == 1
    assert done.audit("--rerun", CHANGE, "--allow-commands", where=clone)["runs"][0]["rerun"] == 3
    assert len(done.project.git("worktree", "list", cwd=clone).splitlines()) == 1


def test_check_that_is_red_elsewhere(project: Project, server: Server) -> None:
    project.git("config", "baton.verify", 'test -e "$FLAG"')
    flag = project.write("../flag", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLAG", str(flag))
        project.approve(TWO)
        project.finish(project.actions(CHANGE))
    server.push()
    said = server.audit("--rerun", "--allow-commands", code=1)
    assert codes(said) == {"rerun-failed"}
    assert all(p["where"].endswith("#predicate.checks[0].exit_code") for p in problems(said))


# --- how it is told ----------------------------------------------------------------------------


def test_text_says_what_was_looked_at(done: Server) -> None:
    clone = done.clone()
    lines = done.project.type("audit", cwd=clone).stdout.splitlines()
    assert lines[0] == "add-login  ok"
    assert re.search(r"transitions \(\d+ of them after the last anchor\), 3 receipts,", lines[1])
    done.git("update-ref", "-d", STATE)
    result = done.project.type("audit", cwd=done.clone())
    assert result.exit_code == 1
    assert "state-missing" in result.stdout
    assert "hint:" in result.stderr


def test_markdown_and_html_escape_what_they_show(done: Server, tmp_path: Path) -> None:
    clone = done.clone()
    nasty = "<script>alert('|')</script>"
    done.project.git("config", "baton.require", nasty, cwd=clone)
    markdown = done.project.type("audit", "--format", "md", cwd=clone)
    assert markdown.exit_code == 1
    assert "<script>" not in markdown.stdout
    rows = [line for line in markdown.stdout.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {9, 5}
    page = done.project.type("audit", "--format", "html", cwd=clone).stdout
    assert nasty in _text_of(page)
    assert "<script" not in page and "http" not in page
    as_json = done.project.type("audit", "--format", "json", cwd=clone).stdout
    assert json.loads(as_json)["ok"] is False


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def _text_of(page: str) -> str:
    parser = _Text()
    parser.feed(page)
    assert parser.open == []
    return "".join(parser.parts)


def test_clone_that_cannot_be_written_is_audited_all_the_same(done: Server) -> None:
    if os.geteuid() == 0:
        pytest.skip("nothing is read-only for root")
    clone = done.clone()
    done.audit(where=clone)
    (clone / ".git" / "baton").chmod(0o500)
    assert done.audit(where=clone)["runs"][0]["ok"]
