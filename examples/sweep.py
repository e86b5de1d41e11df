"""Tune hyperparameters, and state what the tuning costs.

    python examples/sweep.py                                       # about 20 s

Every run of a sweep uses the same records, and their results decide which run is published. The example makes the same
sweep twice. First it states ε of the chosen run alone, which is right only if the tuning used other records. Then it
charges all runs to the target ε: each run gets more noise, and the chosen one is less accurate.
"""

from __future__ import annotations

import tacit
from tacit.sweeps import SweepResult

GRID = {"lr": [0.3, 1.0], "clip": [0.5, 2.0]}


def main(rounds: int = 100, epsilon: float = 3.0) -> dict[str, SweepResult]:
    settings = {"rounds": rounds, "privacy.epsilon": epsilon, "graph.nodes": 5}
    results = {}
    for name, charge in (("not charged", False), ("charged", True)):
        found = results[name] = tacit.sweep(None, GRID, settings=settings, charge=charge)  # None: the embedded example
        print(f"{name}: {found.reported_sentence}")
        print(found.privacy.sentence())
    print(results["charged"].table.to_string(index=False))
    return results


if __name__ == "__main__":
    main()
