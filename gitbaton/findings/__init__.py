"""What other tools found, read into one shape: a `Finding`. From it comes what a queue takes, or
shards for many fixers at once.

One module for each family of formats, `importers` in front of them; `shards` deals out, `aggregate`
adds up. Nothing here touches a file or a repository: bytes and values go in, values come out, and
the same ones always give the same ones.
"""
