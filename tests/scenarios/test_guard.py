"""What may be pushed: real pushes, judged before they leave and by the server they reach."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from gitbaton.git import objects
from gitbaton.git.opening import open_repository
from gitbaton.model import codec, layout
from gitbaton.store import runs

from .conftest import CHANGE, TASKS_MD, TWO, FakeClock, NewProject, Project

pytestmark = pytest.mark.usefixtures("on_path")
STATE = f"refs/baton/runs/{CHANGE}"
NOTES = f"refs/notes/baton/{CHANGE}"
BRANCH = f"refs/heads/baton/{CHANGE}"


class Server:
    """A bare repository with the hook, that the project calls ``origin``; ``trunk`` is protected
    there, and holds what the project began with."""

    def __init__(self, project: Project, path: Path) -> None:
        self.project = project
        self.path = path
        subprocess.run(["git", "init", "-q", "--bare", str(path)], check=True)
        project.git("remote", "add", "origin", str(path))
        project.git("push", "-q", "origin", "trunk")
        self.set("protect", "refs/heads/trunk")
        project.baton("hook", "install", cwd=path)

    def set(self, key: str, value: str) -> None:
        self.project.git("config", "--add", f"baton.{key}", value, cwd=self.path)

    def refs(self) -> str:
        return self.project.git("for-each-ref", cwd=self.path)

    def files(self) -> dict[str, bytes]:
        """Every file; of objects the name, since git itself says of those it has that they are in
        use."""
        found = (file for file in self.path.rglob("*") if file.is_file())
        return {str(f): b"" if "objects" in f.parts else f.read_bytes() for f in found}

    def accepts(self, *args: str) -> None:
        self._push(*args, code=0)

    def refuses(self, *args: str) -> str:
        """What is said; nothing at all may have changed on the server."""
        before = self.refs(), self.files()
        said = self._push(*args, code=1)
        assert (self.refs(), self.files()) == before
        return said

    def _push(self, *args: str, code: int) -> str:
        words = ["git", "push", "origin", *args]
        done = subprocess.run(
            words, cwd=self.project.top, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, (args, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, done.stderr
        assert "bug in git-baton" not in done.stderr, done.stderr
        return done.stderr


@pytest.fixture
def server(project: Project, tmp_path: Path) -> Server:
    return Server(project, tmp_path / "server")


@pytest.fixture
def landed(project: Project, server: Server) -> Project:
    """The run is complete and lies on ``trunk``, which is not pushed."""
    project.finish(project.actions())
    project.baton("land")
    return project


def _guarded(project: Project) -> None:
    """Pushes are judged before they leave as well, and for the same branch."""
    project.set("protect", "refs/heads/trunk")
    project.baton("hook", "install")


# --- protected branches ------------------------------------------------------------------------


def test_covered_work_passes_when_its_receipts_come_along(landed: Project, server: Server) -> None:
    _guarded(landed)
    said = server.refuses("trunk")
    assert f"git push REMOTE ... {STATE} {NOTES}" in said
    server.accepts("trunk", STATE, NOTES)


def test_an_older_state_on_the_server_is_told_from_work_without_a_receipt(
    project: Project, server: Server
) -> None:
    first = project.actions(CHANGE, "--capacity", "1").dispatch("1.1")
    project.do(first)
    batch = project.reconcile(first)
    server.accepts(STATE, NOTES)
    project.finish(batch)
    project.baton("land")
    said = server.refuses("trunk")
    assert f"push it along: git push REMOTE ... {STATE} {NOTES}" in said
    assert "land it from a run" not in said
    assert "uncheck" not in said
    server.accepts("trunk", STATE, NOTES)


def test_receipts_may_come_first(landed: Project, server: Server) -> None:
    server.accepts(STATE, NOTES)
    server.accepts("trunk", BRANCH)


def test_one_commit_that_no_receipt_covers_is_refused(landed: Project, server: Server) -> None:
    _guarded(landed)
    stray = landed.commit({"stray": "x\n"})
    said = server.refuses("trunk", STATE)
    assert "remote:" not in said  # it never left
    assert f"{stray[:12]}  no receipt that is at hand covers it" in said
    said = server.refuses("--no-verify", "trunk", STATE)
    assert f"remote:   {stray[:12]}  no receipt that is at hand covers it" in said


def test_a_commit_below_covered_ones_is_found(project: Project, server: Server) -> None:
    stray = project.commit({"stray": "x\n"})
    project.finish(project.actions())
    project.baton("land")
    assert stray[:12] in server.refuses("trunk", STATE, NOTES)


def test_what_came_in_by_another_branch_is_judged_when_it_reaches_a_protected_one(
    project: Project, server: Server
) -> None:
    stray = project.commit({"stray": "x\n"})
    server.accepts("trunk:refs/heads/elsewhere")
    assert stray[:12] in server.refuses("trunk")


def test_a_protected_branch_is_not_made_anew_around_the_guard(
    project: Project, server: Server
) -> None:
    server.set("protect", "release/*")
    server.accepts("trunk:refs/heads/release/1")  # nothing in it is new to protected branches
    stray = project.commit({"stray": "x\n"})
    assert stray[:12] in server.refuses("trunk:refs/heads/release/2")
    assert stray[:12] in server.refuses("trunk:refs/heads/release/1")


def test_another_name_of_a_protected_branch_is_no_way_around(
    project: Project, server: Server
) -> None:
    project.git("symbolic-ref", "refs/heads/alias", "refs/heads/trunk", cwd=server.path)
    stray = project.commit({"stray": "x\n"})
    assert stray[:12] in server.refuses("trunk:refs/heads/alias")


def test_another_run_of_the_same_change_makes_nothing_ticked_by_hand(
    landed: Project, server: Server
) -> None:
    """Whoever can push a state could otherwise have everybody's landings refused."""
    repo = open_repository(landed.top)
    record = runs.load(repo, CHANGE).state.run
    tree = objects.edit_tree(
        repo,
        objects.tree_of(repo, landed.git("rev-parse", STATE)),
        {
            layout.RUN: codec.encode(msgspec.structs.replace(record, id="another")),
            layout.TICKETS: None,
        },
    )
    other = landed.git("commit-tree", "-m", "x", tree)
    server.accepts(f"{other}:refs/baton/runs/another")
    server.accepts("trunk", STATE, NOTES)


def test_who_is_an_allowed_signer_may_push(
    project: Project, server: Server, tmp_path: Path
) -> None:
    signers = tmp_path / "signers"
    keys = {}
    for name in ("ann", "eve"):
        keys[name] = tmp_path / name
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(keys[name])]
        subprocess.run(words, check=True)
    signers.write_text(f"ann@example.com {keys['ann'].with_suffix('.pub').read_text()}")
    server.set("allowedSigners", str(signers))

    def commit(key: Path) -> str:
        options = ["-c", "gpg.format=ssh", "-c", f"user.signingKey={key}"]
        project.git(*options, "commit", "-q", "--allow-empty", "-S", "-m", "by hand")
        return project.git("rev-parse", "HEAD")

    commit(keys["ann"])
    server.accepts("trunk")
    stray = commit(keys["eve"])
    assert stray[:12] in server.refuses("trunk")
    project.git("reset", "-q", "--hard", "HEAD~")
    project.commit({"a": "unsigned\n"})
    commit(keys["ann"])
    assert "1 commit not covered" in server.refuses("trunk")


def test_ticked_by_hand_is_refused(project: Project, server: Server) -> None:
    text = (project.top / TASKS_MD).read_text().replace("[ ] 1.2", "[x] 1.2")
    project.plan(text)
    project.finish(project.actions())
    project.git("add", "--all")
    project.git("commit", "-q", "-m", "ticked", "--allow-empty")
    project.baton("update")
    project.baton("land")
    said = server.refuses("trunk", STATE, NOTES)
    assert "what is ticked: 1.2" in said


def test_the_server_decides_what_must_have_been_checked(landed: Project, server: Server) -> None:
    server.set("require", "make test")
    assert "make test" in server.refuses("trunk", STATE, NOTES)


def test_the_server_decides_what_workers_may_not_change(landed: Project, server: Server) -> None:
    server.set("protectPaths", "file-1.1")
    assert "file-1.1" in server.refuses("trunk", STATE, NOTES)


def test_the_server_may_want_signatures(landed: Project, server: Server) -> None:
    server.set("requireSignature", "true")
    assert "signature" in server.refuses("trunk", STATE, NOTES)


def test_a_squash_by_a_forge_passes(project: Project, server: Server) -> None:
    project.finish(project.actions())
    project.git("merge", "-q", "--squash", project.branch())
    project.git("commit", "-q", "-m", "Add login (#7)")
    server.accepts("trunk", STATE, NOTES, BRANCH)
    project.commit({"README": "changed\n"})
    server.refuses("trunk")


def test_a_merge_by_a_forge_passes(project: Project, server: Server) -> None:
    project.finish(project.actions())
    project.git("merge", "-q", "--no-ff", "-m", "Merge pull request", project.branch())
    server.accepts("trunk", STATE, NOTES)


def test_patterns_name_refs_or_branches(project: Project, server: Server) -> None:
    project.commit({"stray": "x\n"})
    server.accepts("HEAD:refs/heads/not-main")
    server.set("protect", "main*")
    server.refuses("HEAD:refs/heads/main3")
    server.set("protect", "refs/tags/**")
    server.refuses("HEAD:refs/tags/v1/rc")
    server.accepts("HEAD:refs/heads/not-main2")


def test_what_is_no_commit_is_covered_by_nothing(project: Project, server: Server) -> None:
    project.git("tag", "-a", "-m", "t", "files", "HEAD^{tree}")
    server.accepts("files:refs/tags/early")
    server.set("protect", "refs/tags/**")
    assert "no commit" in server.refuses("files")


# --- the branch of a run -----------------------------------------------------------------------


def test_a_foreign_commit_on_the_branch_of_a_run_is_refused(
    project: Project, server: Server
) -> None:
    project.finish(project.actions())
    server.accepts(BRANCH, STATE, NOTES)
    project.git("switch", "-q", f"baton/{CHANGE}")
    stray = project.commit({"stray": "x\n"})
    said = server.refuses(BRANCH)
    assert stray[:12] in said
    assert "--accept" in said
    project.git("switch", "-q", "trunk")
    project.baton("update", "--accept")
    server.accepts(BRANCH, STATE, NOTES)


def test_the_branch_of_a_run_needs_its_state(project: Project, server: Server) -> None:
    project.finish(project.actions())
    assert STATE in server.refuses(BRANCH)
    project.git("branch", "baton/nobodys")
    assert "no state" in server.refuses("baton/nobodys")


def test_what_an_update_took_in_is_not_judged(project: Project, server: Server) -> None:
    project.set("verifyMerged", "always")
    batch = project.actions()
    project.commit({"from-trunk": "x\n"})
    project.finish(batch)
    project.baton("update")
    server.accepts(BRANCH, STATE, NOTES)


def test_a_branch_with_another_prefix_is_known_by_its_run(
    new_project: NewProject, tmp_path: Path
) -> None:
    project = new_project("other")
    project.set("branchPrefix", "work")
    project.finish(project.actions())
    server = Server(project, tmp_path / "server")
    server.accepts(f"work/{CHANGE}", STATE)
    project.git("switch", "-q", f"work/{CHANGE}")
    stray = project.commit({"stray": "x\n"})
    assert stray[:12] in server.refuses(f"work/{CHANGE}")
    project.git("reset", "-q", "--hard", "HEAD~")


# --- elsewhere ---------------------------------------------------------------------------------


def test_elsewhere_only_what_claims_to_be_ours_is_judged(project: Project, server: Server) -> None:
    _guarded(project)
    project.finish(project.actions())
    project.git("switch", "-q", "-c", "topic")
    project.commit({"a": "b\n"})
    server.accepts("topic")
    message = project.git("log", "-1", "--format=%B", project.tip())
    project.git("commit", "-q", "--allow-empty", "-m", message)
    for how in ((), ("--no-verify",)):
        said = server.refuses(*how, "topic", STATE, NOTES)
        assert project.git("rev-parse", "HEAD")[:12] in said
    project.git("reset", "-q", "--hard", "HEAD~")
    project.git("merge", "-q", "-m", "take it", project.tip())
    server.refuses("--no-verify", "topic")  # its receipts are not there
    server.accepts("topic", STATE, NOTES)


def test_an_attempts_branch_is_an_ordinary_one(project: Project, server: Server) -> None:
    batch = project.actions()
    first = batch.dispatch("1.1")
    project.do(first)
    project.reconcile(first)
    project.work(batch.dispatch("1.2"))
    server.accepts(f"refs/heads/{batch.dispatch('1.2')['branch']}")
    server.accepts(*[f"refs/heads/{d['branch']}" for d in batch.of("dispatch")])


def test_fetched_evidence_counts_before_a_push(
    landed: Project, server: Server, tmp_path: Path
) -> None:
    """Somebody else, who was never near the run, takes its branch in and pushes it."""
    server.accepts(STATE, NOTES, BRANCH)
    clone = tmp_path / "clone"
    landed.git("clone", "-q", "-b", "trunk", str(server.path), str(clone))
    for key in ("init", "hook install"):
        landed.baton(*key.split(), cwd=clone)
    landed.git("config", "baton.protect", "trunk", cwd=clone)
    landed.git("merge", "-q", "--ff-only", f"origin/baton/{CHANGE}", cwd=clone)
    push = ["git", "push", "-q", "origin", "trunk"]
    done = subprocess.run(push, cwd=clone, capture_output=True, text=True, check=False)
    assert "git fetch origin '+refs/baton/*:refs/baton-remote/origin/*'" in done.stderr
    landed.git("fetch", "-q", cwd=clone)
    landed.git("push", "-q", "origin", "trunk", cwd=clone)


def test_the_remotes_commit_may_be_unknown_here(
    project: Project, server: Server, tmp_path: Path
) -> None:
    _guarded(project)
    other = tmp_path / "other"
    project.git("clone", "-q", "-b", "trunk", str(server.path), str(other))
    project.commit({"theirs": "x\n"}, other)
    project.git("push", "-q", "origin", "HEAD:refs/heads/topic", cwd=other)
    project.commit({"ours": "x\n"})
    server.accepts("--force", "HEAD:refs/heads/topic")


# --- states and notes --------------------------------------------------------------------------


@pytest.fixture
def recorded(project: Project, server: Server) -> Project:
    """State, notes and branch of the complete run are on the server."""
    project.finish(project.actions())
    server.accepts(STATE, NOTES, BRANCH)
    return project


@pytest.mark.parametrize("ref", [STATE, NOTES])
def test_evidence_is_not_deleted(recorded: Project, server: Server, ref: str) -> None:
    assert "holds evidence" in server.refuses(f":{ref}")
    assert "holds evidence" in server.refuses("--prune", "refs/none/*:refs/baton/*", f":{ref}")


@pytest.mark.parametrize("ref", [STATE, NOTES])
def test_evidence_is_not_rewound(recorded: Project, server: Server, ref: str) -> None:
    assert "by first parents" in server.refuses(f"+{ref}~1:{ref}")


def test_a_rewritten_chain_that_names_the_old_tip_is_refused(
    recorded: Project, server: Server
) -> None:
    """git's own test of ancestry would let it pass."""
    old = recorded.git("rev-parse", STATE)
    tree = recorded.git("rev-parse", f"{STATE}^{{tree}}")
    made = recorded.git("commit-tree", tree, "-p", f"{old}~2", "-p", old, "-m", "rewritten")
    assert "by first parents" in server.refuses(f"{made}:{STATE}")


def test_the_state_of_another_run_is_refused(recorded: Project, server: Server) -> None:
    assert "holds the state of" in server.refuses(f"{STATE}:refs/baton/runs/another")
    junk = recorded.git("rev-parse", "HEAD")
    assert "is damaged" in server.refuses(f"{junk}:refs/baton/runs/junk")
    assert "no run" in server.refuses(f"{STATE}:refs/baton/runs/a/b")
    blob = recorded.git("rev-parse", "HEAD:README")
    assert "is damaged" in server.refuses(f"{blob}:refs/baton/runs/junk")


def test_a_state_that_goes_on_is_accepted(recorded: Project, server: Server) -> None:
    recorded.baton("reopen", "2.1", "--reason", "once more")
    server.accepts(STATE, NOTES, BRANCH)


def test_the_server_does_not_judge_what_only_was_fetched(recorded: Project, server: Server) -> None:
    """A mirror of a clone has states under another name: they are no claims of any work."""
    recorded.git("update-ref", "refs/baton-remote/x/runs/add-login", STATE)
    server.accepts("refs/baton-remote/x/runs/add-login")
    server.accepts(f"{STATE}:refs/heads/looks-odd")


def test_parallel_tickets_pass_as_they_were_merged(
    new_project: NewProject, clock: FakeClock, tmp_path: Path
) -> None:
    project = new_project("parallel", tasks=TWO)
    server = Server(project, tmp_path / "server")
    batch = project.actions()
    for dispatch in batch.of("dispatch"):
        project.do(dispatch)
    for dispatch in batch.of("dispatch"):
        project.reconcile(dispatch)
    project.baton("land", "--no-ff")
    server.accepts("trunk", BRANCH, STATE, NOTES)
