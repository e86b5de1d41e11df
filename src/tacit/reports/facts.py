"""What a run adds to its folder for the page: `nodes.csv`, a line a node, `graph.json`, who talks to whom, and
`threats.json`, what is guaranteed against whom."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.reports.drawing import drawing
from tacit.runs import storage
from tacit.threats import assess

if TYPE_CHECKING:
    from tacit.runs import Run

NODES, GRAPH, THREATS = "nodes.csv", "graph.json", "threats.json"
_AFFORDABLE = 2e9  # nodes × test records × parameters: a few seconds
_TESTED = 1000  # nodes, as each is a call of its own


def write_facts(run: Run, folder: Path) -> None:
    """Bring the files up to date with the run."""
    storage.write_history(folder / NODES, node_rows(run))
    storage.write_json(folder / GRAPH, drawing(run.network.graph))
    storage.write_json(folder / THREATS, assess(run).as_dict())


def node_rows(run: Run) -> list[dict[str, Any]]:
    """A row a hosted node; a cell is None where there is no such number, or where it would take too long."""
    task, spent = run.task, run.privacy.per_node
    messages, sent = np.broadcast_to(run.network.traffic.by_node, (2, task.n))
    accuracy = _accuracies(run)
    return [
        {
            "node": int(node),
            "records": int(task.sizes[row]),
            "rate": float(task.sampler.sampling.rate[row]),
            "guaranteed": _finite(float(spent[row])) if len(spent) else 0.0,
            "accuracy": accuracy[row],
            "messages": int(messages[row]),
            "bytes": int(sent[row]),
        }
        for row, node in enumerate(task.nodes)
    ]


def _accuracies(run: Run) -> list[float | None]:
    """Each node's own model on the test set."""
    task = run.task
    costly = task.n > _TESTED or task.n * len(task.data.test_y) * task.d > _AFFORDABLE
    if costly or not task.model.classifies:
        return [None] * task.n
    return [_finite(task.evaluate(model).accuracy) for model in run.models]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
