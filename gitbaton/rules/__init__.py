"""What is allowed and what follows: pure functions from state, event and time to new state.

A rule never touches git, files, processes or a clock; the moment is passed in. It returns a new
`RunState` or raises a refusal, and then nothing has changed.
"""
