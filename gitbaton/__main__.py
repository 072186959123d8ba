"""The entry point of ``git-baton``; everything else is imported by the verb that needs it."""

from __future__ import annotations

from gitbaton.cli.main import cli


def main() -> None:
    """Run the command line of this process and exit with its status."""
    cli(prog_name="git-baton")


if __name__ == "__main__":
    main()
