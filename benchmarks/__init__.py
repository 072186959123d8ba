"""Measurements of git-baton, each beside a yardstick from the same run: `python -m benchmarks`.

A number alone says more about the machine than about the program. So every figure is measured in
turns with the least that anybody would have to do for the same effect, and what counts is the
ratio. Nothing here is collected by pytest.
"""
