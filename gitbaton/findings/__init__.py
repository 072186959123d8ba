"""What other tools found, read into one shape: a `Finding`, and from it what a queue takes.

One module for each family of formats, `importers` in front of them. Nothing here knows of a queue
or a repository: bytes go in, `Scan`s come out, and the same bytes always give the same ones.
"""
