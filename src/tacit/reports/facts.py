"""What a run adds to its folder for the page: `nodes.csv`, a line a node, `graph.json`, who talks to whom, and
`threats.json`, what is guaranteed against whom."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tacit.reports.drawing import drawing
from tacit.runs import storage
from tacit.threats import analyse_threats

if TYPE_CHECKING:
    from tacit.runs import Run

NODES, GRAPH, THREATS = "nodes.csv", "graph.json", "threats.json"
_AFFORDABLE = 2e9  # nodes × test records × parameters: a few seconds
_TESTED = 1000  # nodes, as each is a call of its own


def write_facts(run: Run, folder: Path) -> None:
    """Bring the files up to date with the run, by the one of its processes that leads."""
    rows = node_rows(run)
    if not run.coordinator.is_leader:
        return
    storage.write_history(folder / NODES, rows)
    storage.write_json(folder / GRAPH, drawing(run.network.graph))
    storage.write_json(folder / THREATS, analyse_threats(run).as_dict())


def node_rows(run: Run) -> list[dict[str, Any]]:
    """A row a node of the run; a cell is None where there is no such number, or where it would take too long."""
    task, spent = run.task, run.privacy.per_node
    own = np.stack([task.nodes, task.sizes, task.sampler.sampling.rate, _accuracies(run)], axis=1)
    facts = run.coordinator.all_gather(torch.from_numpy(own)).tolist()
    messages, sent = np.broadcast_to(run.coordinator.total_traffic(run.network).by_node, (2, len(facts)))
    return [
        {
            "node": int(node),
            "records": int(size),
            "rate": rate,
            "guaranteed": _finite(float(spent[row])) if len(spent) else 0.0,
            "accuracy": _finite(accuracy),
            "messages": int(messages[row]),
            "bytes": int(sent[row]),
        }
        for row, (node, size, rate, accuracy) in enumerate(facts)
    ]


def _accuracies(run: Run) -> list[float]:
    """Each hosted node's own model on the test set; NaN where nobody looked."""
    task = run.task
    costly = task.n > _TESTED or task.n * len(task.data.test_y) * task.d > _AFFORDABLE
    if costly or not task.model.classifies:
        return [math.nan] * task.n
    return [task.evaluate(model).accuracy for model in run.models]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
