"""Runs with the same task and draws, together and one by one: time per run.

python -m benchmarks.cells [published] [sweep]
"""

from __future__ import annotations

import statistics
import sys
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
_METHOD = {"name": "dp-norm", "lr": 0.03, "local_steps": 10, "clip": 1.0, "smoothness": 0.5}


def published() -> list[Config]:
    """DP-Norm's convex experiment, figure 2: six settings with one random order per round, 20 rounds of 2,000."""
    batch = {"size": 2000, "sampling": "permutation", "epochs": 5}
    methods: list[dict[str, Any]] = [{"alpha": 0.2}, {"alpha": 0.0}, {"alpha": 0.2, "bound": "contraction"}]
    privacy = [{"epsilon": epsilon, "calibration": "paper", "delta": 1e-3} for epsilon in (1.0, 0.5)]
    return [
        _config(20, 20, algorithm=_METHOD | method, batch=batch, privacy=target, **_TASK)
        for method in methods
        for target in privacy
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


CASES = {"published": published, "sweep": sweep}


def seconds_per_run(configs: Sequence[Config], repeats: int = 3) -> dict[str, float]:
    """Return the median seconds per run, alone and together, without loading data and calibrating noise."""
    data = build_data(configs[0].data, batch_relation(configs[0].batch))
    alone, together = [], []
    for _ in range(repeats):  # in turns
        alone.append(_time(configs, data, grouped=False))
        together.append(_time(configs, data, grouped=True))
    return {"alone": statistics.median(alone), "together": statistics.median(together)}


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


def main(names: Sequence[str]) -> None:
    """Print one line per case."""
    for name in names or CASES:
        configs = CASES[name]()
        found = seconds_per_run(configs)
        ratio = found["alone"] / found["together"]
        times = f"alone {found['alone']:.2f} s, together {found['together']:.2f} s per run"
        print(f"{name}: {len(configs)} runs, {times}: {ratio:.1f} × faster", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
