"""A small experiment on embedded data."""

import pytest

TINY = """
title = "Tiny"
seeds = [0, 1]

[base]
rounds = 6
graph = { name = "ring", nodes = 3 }
batch = { size = 16 }
privacy = { delta = 1e-3 }

[axes.method]
"Free" = { algorithm = { name = "sgp", lr = 0.5 }, without = ["epsilon", "calibration"] }
"Const" = { algorithm = { name = "const-d2p", lr = 0.5 } }
"Dyn" = { algorithm = { name = "dyn-d2p", lr = 0.5 } }

[axes.epsilon]
set = "privacy.epsilon"
values = [1, 3]

[[adjust]]
when = { method = "Dyn", epsilon = ["3"] }
set = { algorithm = { clip = 0.25 } }

[published]
"Free" = 90.0
"Const" = { "1" = 50.5, "3" = 60.5 }

[chart]
x = "epsilon"
series = "method"

[quick]
seeds = [0]
axes = { epsilon = ["3"] }
base = { rounds = 2 }

[tune]
over = "method"
tries = 2
held_out = 200
axes = { epsilon = ["3"] }
base = { rounds = 2 }
[tune.grid]
"Const" = { "algorithm.lr" = [0.01, 0.5, 1.0] }
"Dyn" = { "algorithm.lr" = [0.01, 0.5, 1.0], "algorithm.rho_c" = [2, 4] }
"""


@pytest.fixture
def tiny(tacit, tmp_path):
    """The file of the experiment tiny/one in the working directory."""
    path = tmp_path / "experiments/tiny/one.toml"
    path.parent.mkdir(parents=True)
    path.write_text(TINY)
    return path
