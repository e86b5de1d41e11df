"""Runs with the same task and draws, together and one by one: time per run.

python -m benchmarks.cells [dp-norm] [dp-sgd] [sweep] [--quick] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from typing import Any

from tacit.runs import Cell, Config, UserParts, batch_relation, build_data, from_config, run_grouped, task_key
from tacit.tasks import Dataset

_TASK = {
    "data": {"name": "fashion-mnist", "normalise": "unit"},
    "sharding": {"name": "classes", "per_node": 6, "records": 4000},
    "model": {"name": "logistic", "biases": False, "weight_decay": 1e-3},
    "graph": {"name": "ring", "nodes": 6},
}
_DP_NORM = {"name": "dp-norm", "lr": 0.03, "local_steps": 10, "clip": 1.0, "smoothness": 0.5}


_DP_SGD = {"name": "dp-sgd", "local_steps": 10, "clip": 1.0}
ROUNDS = 20  # of 2,000 in the published experiments


def dp_norm() -> list[Config]:
    """DP-Norm's convex experiment, figure 2: six settings with one random order per round."""
    batch = {"size": 2000, "sampling": "permutation", "epochs": 5}
    methods: list[dict[str, Any]] = [{"alpha": 0.2}, {"alpha": 0.0}, {"alpha": 0.2, "bound": "contraction"}]
    privacy = [{"epsilon": epsilon, "calibration": "paper", "delta": 1e-3} for epsilon in (1.0, 0.5)]
    return [
        _config(ROUNDS, ROUNDS, algorithm=_DP_NORM | method, batch=batch, privacy=target, **_TASK)
        for method in methods
        for target in privacy
    ]


def dp_sgd() -> list[Config]:
    """The learning rates of DP-SGD in the same experiment, figure 5, at both ε: eight settings."""
    batch = {"size": 2000, "sampling": "without-replacement"}
    return [
        _config(
            ROUNDS,
            ROUNDS,
            algorithm=_DP_SGD | {"lr": lr},
            batch=batch,
            privacy={"epsilon": epsilon, "calibration": "paper", "delta": 1e-3},
            **_TASK,
        )
        for lr in (0.01, 0.03, 0.1, 0.3)
        for epsilon in (1.0, 0.5)
    ]


def sweep() -> list[Config]:
    """Logistic regression on Fashion-MNIST, eight learning rates of Dyn-D2P, ten nodes, batches of 64, 100 rounds."""
    return [
        _config(
            100,
            100,
            algorithm={"name": "dyn-d2p", "lr": lr, "clip": 1.0},
            data={"name": "fashion-mnist"},
            batch={"size": 64},
            privacy={"epsilon": 3.0, "delta": 1e-5},
        )
        for lr in (0.01, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
    ]


CASES = {"dp-norm": dp_norm, "dp-sgd": dp_sgd, "sweep": sweep}


def measured(name: str, repeats: int) -> dict[str, Any]:
    """Return the median seconds per run, alone and together, without loading data and calibrating noise."""
    configs = CASES[name]()
    data = build_data(configs[0].data, batch_relation(configs[0].batch))
    times: dict[str, list[float]] = {"alone": [], "together": []}
    for _ in range(repeats):  # in turns
        times["alone"].append(_time(configs, data, grouped=False))
        times["together"].append(_time(configs, data, grouped=True))
    rounds = configs[0].rounds
    found = {how: {"seconds": statistics.median(each) / rounds} for how, each in times.items()}
    return {"cells": len(configs), "rounds": rounds, "measured": found}


def _config(rounds: int, evaluate_every: int, **sections: Any) -> Config:
    return Config.parse({"rounds": rounds, "evaluate_every": evaluate_every, **sections})


def _time(configs: Sequence[Config], data: Dataset, *, grouped: bool) -> float:
    """Return the mean seconds of a run, from its first round to its last."""
    built = {id(config): from_config(config, UserParts(data=data)) for config in configs}

    def run(config: Config, cell: Cell) -> None:
        ready = built[id(config)]
        cell.join(ready)
        ready.go()

    began = time.perf_counter()
    for _ in run_grouped(run, configs, 1, group=task_key if grouped else lambda config: None):
        pass
    return (time.perf_counter() - began) / len(configs)


def main() -> None:
    """Print one line per case."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cells", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"default: {' '.join(CASES)}")
    parser.add_argument("--quick", action="store_true", help="measure once instead of three times")
    parser.add_argument("--json", action="store_true", help="print the measurements as JSON")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in CASES]:
        parser.error(f"unknown case {', '.join(unknown)}; the cases are {', '.join(CASES)}")
    for name in options.names or CASES:
        found = measured(name, 1 if options.quick else 3)
        alone, together = (found["measured"][how]["seconds"] for how in ("alone", "together"))
        times = f"alone {1e3 * alone:.1f} ms, together {1e3 * together:.1f} ms per round of one run"
        text = f"{name}: {found['cells']} runs, {times}: {alone / together:.1f} × faster"
        print(json.dumps(found) if options.json else text, flush=True)


if __name__ == "__main__":
    main()
