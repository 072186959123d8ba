"""The whole loop on a small project, to watch and then to look around in.

Nothing is staged but the workers: a shell script stands in for a coding agent, makes a mistake that
its checks find, and meets a merge conflict. Everything else is what `git baton run` and `git baton
land` do in any repository. No network, no key, no setting of the user is needed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from gitbaton.engine import cleanup, land
from gitbaton.engine.context import open_context
from gitbaton.errors import BatonError, NeedsPerson, Refused
from gitbaton.git import process
from gitbaton.runner import live
from gitbaton.runner.driver import run_loop

CHANGE = "add-brewing"
_FOLDER = f"openspec/changes/{CHANGE}"

_FILES = {
    "README.md": """\
# tea

A shell script that knows tea.
""",
    "tea": """\
#!/bin/sh
# tea: how hot, and how long?
case ${1:-help} in
help) echo "usage: tea COMMAND" ;;
*) echo "tea: there is no command $1" >&2; exit 2 ;;
esac
""",
    "check.sh": """\
#!/bin/sh
# Every test has to pass; what a test prints is why it does not.
for test in tests/*.sh; do
    sh "$test" || { echo "$test FAILED"; exit 1; }
done
echo "all tests pass"
""",
    "tests/help.sh": """\
sh tea help | grep -q usage || { echo "tea help says nothing"; exit 1; }
""",
    f"{_FOLDER}/proposal.md": """\
# Brewing

## Why

`tea` can only print its usage. It should say how to brew a tea.

## What changes

A list of teas, and the commands `tea list` and `tea brew NAME`.
""",
    f"{_FOLDER}/tasks.md": """\
## 1. What is known

- [ ] 1.1 List the teas in teas.txt: name, degrees, seconds
- [ ] 1.2 Say seconds as minutes, 185 as 3:05, in minutes.sh

## 2. Commands

- [ ] 2.1 `tea list` shows every tea
- [ ] 2.2 `tea brew NAME` says how hot and how long
- [ ] 2.3 An unknown tea is an error that names the known ones (depends on 2.2)

## 3. For people

- [ ] 3.1 Describe the commands in README.md
""",
}

_WORKER = r"""#!/bin/sh
# Stands in for a coding agent: reads its prompt, edits, tests, commits.
prompt=$(cat)

say() { echo "$*"; sleep 0.25; }

commit() { git add -A && git commit -q -m "$*"; }

# A branch of the `case` in ./tea, put before the last.
command_in_tea() {
    awk -v new="$1" '/^\*\)/ { print new } { print }' tea >tea.new
    cat tea.new >tea
    rm tea.new
}

if git rev-parse -q --verify MERGE_HEAD >/dev/null; then
    say "both sides add a command: keep both"
    sed -e '/^|||||||/,/^=======$/d' -e '/^<<<<<<< /d' -e '/^=======$/d' -e '/^>>>>>>> /d' \
        tea >tea.new
    cat tea.new >tea
    rm tea.new
    say "commit the merge"
    git add -A && git commit -q -m "Merge, keeping both commands"
    exit
fi

say "read the ticket"
case $BATON_TICKET in
1.1)
    printf '%s\n' 'green 75 120' 'black 95 185' 'mint 100 420' >teas.txt
    say "test that every tea has three columns"
    cat >tests/teas.sh <<'END'
while read -r name degrees seconds; do
    [ "$degrees" -gt 0 ] && [ "$seconds" -gt 0 ] || { echo "bad line: $name"; exit 1; }
done <teas.txt
END
    commit "List the teas"
    ;;
1.2)
    format='%d:%d'
    done="Say seconds as minutes"
    case $prompt in
    *"3:5 instead of 3:05"*)
        say "the check says 3:5 instead of 3:05: pad the seconds"
        format='%d:%02d'
        done="Pad the seconds"
        ;;
    esac
    cat >minutes.sh <<END
minutes() { printf '$format\n' \$((\$1 / 60)) \$((\$1 % 60)); }
END
    cat >tests/minutes.sh <<'END'
. ./minutes.sh
said=$(minutes 185)
[ "$said" = 3:05 ] || { echo "minutes 185 says $said instead of 3:05"; exit 1; }
END
    say "looks right"
    commit "$done"
    ;;
2.1)
    say "add the command"
    command_in_tea 'list) cat teas.txt ;;'
    echo 'sh tea list | grep -q "^mint " || { echo "tea list lacks mint"; exit 1; }' \
        >tests/list.sh
    commit "Add tea list"
    ;;
2.2)
    cat >brew.sh <<'END'
# brew NAME: how hot and how long
. ./minutes.sh
brew() {
    grep "^$1 " teas.txt | while read -r name degrees seconds; do
        echo "$name: $degrees degrees, $(minutes "$seconds") minutes"
    done
}
END
    say "how hot, how long"
    say "add the command"
    command_in_tea 'brew) . ./brew.sh; brew "$2" ;;'
    cat >tests/brew.sh <<'END'
said=$(sh tea brew black)
[ "$said" = "black: 95 degrees, 3:05 minutes" ] || { echo "tea brew black says: $said"; exit 1; }
END
    commit "Add tea brew"
    ;;
2.3)
    cat >>brew.sh <<'END'
known() {
    grep -q "^$1 " teas.txt && return
    echo "no such tea; try: $(cut -d' ' -f1 teas.txt | tr '\n' ' ')" >&2
    exit 1
}
END
    awk '{ print } /^brew\(\)/ { print "    known \"$1\"" }' brew.sh >brew.new
    mv brew.new brew.sh
    say "test it with coffee"
    cat >tests/unknown.sh <<'END'
sh tea brew coffee 2>&1 | grep -q mint || { echo "coffee was accepted"; exit 1; }
END
    commit "Refuse what is no tea"
    ;;
3.1)
    say "write, and leave the commit to git-baton"
    printf '%s\n' '' '    tea list          every tea' '    tea brew NAME     how hot, how long' \
        >>README.md
    ;;
esac
echo "done"
"""


def demo(directory: Path | None, plain: bool) -> Path:
    """Make the repository, run the change, land it, say where to look; returns its path.

    ``directory`` must be absent or empty; None takes a new temporary folder, which stays. Raises
    `Refused` ``directory-not-empty``, `NeedsPerson` if the run did not complete.
    """
    path = _place(directory)
    for name in process.LOCAL_VARIABLES:
        os.environ.pop(name, None)
    worker = _make_repository(path)
    ctx = open_context(path)
    command = f"sh {shlex.quote(str(worker))}"
    view = live.View()  # nothing moves yet: no bar
    view.say("A small project and an approved plan, in")
    view.say(f"  {path}")
    view.say("")
    for line in _FILES[f"{_FOLDER}/tasks.md"].splitlines():
        if line:
            view.say(f"  {line}")
    view.say("")
    view.say(f"$ git baton run {CHANGE} --command 'sh worker.sh' -j 3")
    batch = run_loop(ctx, CHANGE, agent=None, command=command, jobs=3, plain=plain)
    if batch.state != "complete":
        raise NeedsPerson(
            "demo-incomplete",
            f"the demo's run is {batch.state}, not complete",
            f"cd {shlex.quote(str(path))} && git baton status {CHANGE}",
        )
    view.say("")
    view.say(f"$ git baton land {CHANGE}")
    moved = land.land(ctx, CHANGE)
    cleanup.cleanup(ctx, CHANGE, include_integration=True)
    view.say(f"main is at {moved.commit[:12]}: every ticket merged, checked, with a receipt")
    for line in _look_around(path):
        view.say(line)
    return path


def _place(directory: Path | None) -> Path:
    """The absolute path of a folder that is empty or does not exist."""
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="git-baton-demo-")).resolve() / "tea"
    path = Path(os.path.realpath(directory))
    if os.path.lexists(path) and (not path.is_dir() or any(path.iterdir())):
        raise Refused(
            "directory-not-empty",
            f"{directory} is not empty",
            "name a folder that is empty or does not exist",
        )
    return path


def _make_repository(path: Path) -> Path:
    """A repository with one commit on main; returns the script of the workers, kept outside of
    what git tracks."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        for name, text in _FILES.items():
            file = path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    except OSError as error:
        raise BatonError(
            "cannot-write", f"{path} cannot be written: {error.strerror}", "name another folder"
        ) from error

    def git(*args: str) -> None:
        process.git(args, path)

    git("init", "-q", "--template=", "-b", "main")
    for key, value in (
        ("user.name", "Tea Drinker"),
        ("user.email", "tea@example.com"),
        # Whatever is set for the user at large shall not interfere.
        ("commit.gpgSign", "false"),
        ("core.autocrlf", "false"),
        ("core.hooksPath", str(path / ".git" / "hooks")),
        ("baton.verify", ""),
        ("baton.verify", "sh check.sh"),
        ("baton.protectPaths", "check.sh"),
    ):
        git("config", "--add", key, value)
    git("add", "-A")
    git("commit", "-q", "-m", "A shell script that knows tea")
    worker = path / ".git" / "demo" / "worker.sh"
    worker.parent.mkdir()
    worker.write_text(_WORKER)
    return worker


def _look_around(path: Path) -> list[str]:
    return [
        "",
        "On the way one ticket failed its check, was told why, and was mended; two",
        "commands were added at the same place, and the conflict was resolved as a",
        "ticket of its own.",
        "",
        "Look around:",
        *_on_path(),
        f"  cd {shlex.quote(str(path))}",
        "  git log --graph --oneline main               # one merge a ticket",
        "  git log --first-parent --notes='baton/*' main   # ... with its receipt",
        f"  git show refs/baton/runs/{CHANGE}:run.json   # the run, from git alone",
        f"  git baton status {CHANGE} --all",
        "  git baton show 1.2                           # one ticket and its proof",
        "  sh tea brew black",
    ]


def _on_path() -> list[str]:
    """How to make git find this program, if it does not."""
    if shutil.which("git-baton"):
        return []
    folder = shlex.quote(str(Path(sys.executable).parent))
    return [f"  PATH={folder}:$PATH   # so that git finds git-baton"]


if __name__ == "__main__":
    demo(Path(sys.argv[1]) if len(sys.argv) > 1 else None, plain=False)
