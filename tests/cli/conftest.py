"""Settings shared by the tests of the command line."""


def setting(*pairs):
    """Return `--set key=value` for each pair."""
    return [part for pair in pairs for part in ("--set", pair)]


QUICK = setting("rounds=6", "graph.nodes=4", "batch.size=16")
NO_TARGET = setting("privacy.epsilon=")
