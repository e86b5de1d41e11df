"""Settings that the tests of the command share."""


def setting(*pairs):
    """--set for each of key=value."""
    return [part for pair in pairs for part in ("--set", pair)]


QUICK = setting("rounds=6", "graph.nodes=4", "batch.size=16")
NO_TARGET = setting("privacy.epsilon=")
