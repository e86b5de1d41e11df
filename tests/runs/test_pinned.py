"""The same seed gives the same run as in earlier versions, on one thread.

The numbers are those of the version before devices, stacked cells and closed-form gradients. A change of draws, of
noise or of an update changes all of them. Another processor rounds differently, which can move a noised value by one
step of its grid.
"""

import pytest
import torch

from tacit.runs import Config, from_config

PRIVATE = {"epsilon": 3.0, "delta": 1e-3}
CASES = {
    "dyn-d2p": {"algorithm": {"name": "dyn-d2p", "lr": 0.5}, "privacy": PRIVATE},
    "dyn-d2p fixed": {
        "algorithm": {"name": "dyn-d2p", "lr": 0.5},
        "privacy": PRIVATE,
        "batch": {"size": 16, "sampling": "without-replacement"},
    },
    "dp-sgd mlp": {
        "algorithm": {"name": "dp-sgd", "lr": 0.5, "local_steps": 2},
        "privacy": PRIVATE,
        "model": {"name": "mlp", "hidden": [8]},
    },
    "porter cnn": {
        "algorithm": {"name": "porter", "clip": 1.0},
        "privacy": PRIVATE,
        "model": {"name": "cnn", "width": 2, "hidden": 4},
    },
    "dp-admm all": {
        "algorithm": {"name": "dp-admm", "lr": 0.1, "local_steps": 2},
        "privacy": PRIVATE,
        "batch": {"size": "all"},
    },
    "lt-admm-dp": {"algorithm": {"name": "lt-admm-dp", "rho": 0.1, "clip": 0.5}, "privacy": PRIVATE},
    "partpsp": {
        "algorithm": {"name": "partpsp", "share": ["0.weight"], "clip": 0.1, "noise_rate": 0.01},
        "privacy": {"delta": 0.001},
    },
    "dp-norm": {
        "algorithm": {"name": "dp-norm", "smoothness": 0.5, "sigma": 0.01, "lr": 0.01},
        "data": {"name": "digits", "normalise": "unit"},
        "model": {"name": "logistic", "biases": False},
        "batch": {"size": 16, "sampling": "permutation"},
        "graph": {"name": "ring", "nodes": 4},
        "privacy": {"delta": 0.001},
    },
    "sgp": {"algorithm": {"name": "sgp", "lr": 0.5}, "privacy": {"delta": 0.001}},
    "paired": {"algorithm": {"name": "dyn-d2p", "lr": 0.5}, "privacy": {**PRIVATE, "noise": "paired"}},
    "in time": {
        "algorithm": {"name": "dp-sgd", "lr": 0.5},
        "privacy": {**PRIVATE, "correlation": "time"},
        "batch": {"size": 16, "sampling": "cyclic"},
    },
}
PINNED = {
    "dyn-d2p": (
        3.896142,
        2.994314,
        [
            -0.0797447,
            -0.132645,
            0.150111,
            0.0569173,
            -0.0675014,
            -0.024192,
            0.1118015,
            -0.0557269,
            -0.1137207,
            0.0133587,
        ],
    ),
    "dyn-d2p fixed": (
        4.233986,
        2.994276,
        [
            -0.0354331,
            -0.1613926,
            0.1827648,
            0.0335103,
            -0.0792507,
            -0.0210182,
            0.1157993,
            -0.0527361,
            -0.1164063,
            -0.0041889,
        ],
    ),
    "dp-sgd mlp": (
        5.535847,
        2.994404,
        [
            -0.1374839,
            0.0438822,
            -0.1021654,
            0.108986,
            0.1415835,
            -0.0085222,
            0.0594072,
            0.0278303,
            -0.1052437,
            -0.0080938,
        ],
    ),
    "porter cnn": (
        5.323392,
        2.993199,
        [-0.1033653, -0.0658721, 0.002535, -0.0848042, 0.0332948, 0.1739711, 0.1239289, -0.0494625, 0.02462, 0.0457954],
    ),
    "dp-admm all": (
        3.719441,
        2.99399,
        [
            -0.1182521,
            -0.1043616,
            0.1204964,
            0.0655284,
            -0.0641463,
            -0.0359618,
            0.1100688,
            -0.0579657,
            -0.1080895,
            0.0393038,
        ],
    ),
    "lt-admm-dp": (
        3.736186,
        2.994035,
        [
            -0.1104902,
            -0.113952,
            0.1098774,
            0.0625918,
            -0.0476311,
            -0.038925,
            0.1080884,
            -0.0607425,
            -0.1147489,
            0.0442227,
        ],
    ),
    "partpsp": (
        3.715003,
        500.0,
        [
            -0.1243725,
            -0.103384,
            0.1150937,
            0.0669956,
            -0.0714884,
            -0.0513868,
            0.1134024,
            -0.0578041,
            -0.1112456,
            0.0366268,
        ],
    ),
    "dp-norm": (
        2.280086,
        12.070466,
        [
            -0.0723172,
            -0.0600458,
            -0.0179701,
            -0.0439553,
            0.0744483,
            0.0722327,
            -0.0242178,
            -0.0761264,
            -0.0510242,
            0.0056619,
        ],
    ),
    "sgp": (
        4.461455,
        None,
        [
            -0.1239341,
            -0.1067755,
            0.1606602,
            0.0708843,
            -0.0359136,
            0.0788733,
            0.0934517,
            -0.0521321,
            -0.111291,
            0.037302,
        ],
    ),
    "paired": (
        3.819992,
        2.994305,
        [
            -0.0960258,
            -0.1221775,
            0.1388805,
            0.0602437,
            -0.0638088,
            -0.0231544,
            0.1104739,
            -0.0560168,
            -0.11279,
            0.0217511,
        ],
    ),
    "in time": (
        9.206595,
        2.992591,
        [
            -0.0414146,
            -0.1894687,
            0.2490489,
            0.0432149,
            -0.0209621,
            0.0988548,
            -0.0665128,
            -0.3137225,
            -0.1319703,
            0.0153424,
        ],
    ),
}
"""The norm of all models, ε, and ten parameters of the last node after five rounds."""


@pytest.mark.parametrize("case", CASES)
def test_the_same_seed_gives_the_same_run_as_before(case):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        settings = {"rounds": 5, "graph": {"name": "complete", "nodes": 4}, "batch": {"size": 16}, "seed": 3}
        run = from_config(Config.parse({**settings, **CASES[case]})).go()
    finally:
        torch.set_num_threads(threads)
    norm, epsilon, expected = PINNED[case]
    found = run.models[-1, :: max(1, run.models.shape[1] // 10)][:10].double()
    assert float(run.models.double().norm()) == pytest.approx(norm, rel=1e-4)
    assert run.privacy.guaranteed == (None if epsilon is None else pytest.approx(epsilon, rel=1e-5))
    differences = (found - torch.tensor(expected, dtype=torch.float64)).abs()
    assert float(differences.median()) <= 1e-6
    assert float(differences.max()) <= 1e-3
