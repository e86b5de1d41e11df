"""Records and short runs that the tests of `tacit.train` share."""

import numpy as np

import tacit

PRIVATE = {"algorithm": "const-d2p", "noise_multiplier": 1.0}


def records(count=120, seed=0):
    """Two blobs of three features."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, count)
    return rng.normal(size=(count, 3)) + 3 * y[:, None], y


def quick(*args, **given):
    """A run of a few rounds: a private one, unless an algorithm is given."""
    short = {"rounds": 3, "batch": 8, **({} if "algorithm" in given or "epsilon" in given else PRIVATE)}
    if not isinstance(given.get("data"), list):
        short["nodes"] = 4
    return tacit.train(*args, **{**short, **given})
