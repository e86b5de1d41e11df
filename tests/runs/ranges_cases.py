"""Small runs on a table with private ranges."""

import numpy as np
import pandas as pd

from tacit.runs import Config, from_config

COLUMNS = {
    "age": {"range": "private", "within": [0, 1000]},
    "crp": {"range": "private", "within": [0, 10_000], "scale": "log", "missing": "indicator"},
    "sex": {"categories": ["F", "M"]},
    "outcome": {"label": ["no", "yes"]},
}
CONFIG = {
    "rounds": 6,
    "evaluate_every": 4,
    "graph": {"name": "ring", "nodes": 3},
    "algorithm": {"name": "dp-sgd", "local_steps": 1},
    "batch": {"size": 16},
    "privacy": {"epsilon": 4.0, "delta": 1e-3},
}


def patients(count=1200, seed=0):
    """A table with a skewed column, missing cells and cells that are not numbers."""
    rng = np.random.default_rng(seed)
    crp, age = rng.lognormal(3, 1, count), rng.normal(60, 8, count)
    frame = pd.DataFrame({"age": age.round(1).astype(str), "crp": [f"{value:.2f}" for value in crp]})
    frame["sex"] = rng.choice(["F", "M"], count)
    frame["outcome"] = np.where(np.log(crp) + (age - 60) / 8 + rng.normal(size=count) > 3, "yes", "no")
    frame.loc[::9, "crp"] = "not measured"
    frame.loc[::50, "age"] = ""
    return frame


def table(folder, frame=None, **columns):
    """The section [data] of a config, with the table in a new file."""
    path = folder / "patients.csv"
    if not path.exists():
        (patients() if frame is None else frame).to_csv(path, index=False)
    return {"name": "csv", "path": str(path), "columns": COLUMNS | columns}


def built(folder, *, out=None, resume=False, observers=(), **changes):
    """The run on the table, with whole sections or keys replaced."""
    config = Config.parse({"data": table(folder)} | CONFIG | changes)
    return from_config(config, out=out, resume=resume, observers=observers, secret_noise=True)
