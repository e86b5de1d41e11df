"""Privacy mistakes of one line, each of which the tests must catch. `make mutants` applies them one by one.

The TOML files of this folder list the mistakes, one file per part of the package:

    ["the mistake in words"]
    file = "src/tacit/…"    # where it is made
    old = "…"               # the correct text; it occurs exactly once in the file
    new = "…"               # the wrong text
    tests = ["tests/…::…"]  # files or tests; at least one must fail
"""
