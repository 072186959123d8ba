"""The data of git-baton: immutable structs, their codec, and the transition table; no I/O."""
