"""The only room that speaks to git: libgit2 for objects and refs, the git program for the rest."""
