"""The repository as database: how a state lies in it and how it moves, not what it means."""
