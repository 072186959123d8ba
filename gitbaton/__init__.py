"""git-baton: run an approved plan with several workers, and count nothing done without evidence."""

__version__ = "0.1.0"
