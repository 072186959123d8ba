"""The loop as a program: one worker process an attempt, until the run is complete or blocked."""
