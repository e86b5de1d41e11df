"""The files that a report needs beside those of the run: nodes.csv, graph.json and threats.json."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tacit.reports.graph_layout import graph_layout
from tacit.runs import Run, record_files, storage
from tacit.runs.metrics import PredictionMetric, evaluated_metrics, scores_of
from tacit.threats import analyse_threats

_MAX_TEST_WORK = 2e9  # nodes × test records × parameters, a few seconds
_MAX_TESTED_NODES = 1000


def write_run_data(run: Run, folder: Path) -> None:
    """Write one row per node, the graph, and ε against each adversary. All processes of a run call this together."""
    rows = node_rows(run)
    if not run.coordinator.is_leader:
        return
    storage.write_history(folder / storage.NODES_FILE, rows)
    storage.write_json(folder / storage.GRAPH_FILE, graph_layout(run.network.graph))
    storage.write_json(folder / storage.THREATS_FILE, analyse_threats(run).as_dict())
    record_files(run.task.ledger, run.task.noise, folder, storage.REPORT_FILES)


def node_rows(run: Run) -> list[dict[str, Any]]:
    """One row per node of the run; None where a number does not exist or would take too long to measure."""
    task, spent = run.task, run.privacy.per_node
    main = evaluated_metrics(task.head)[0]
    own = np.stack([task.nodes, task.sizes, task.sampler.sampling.rate, _own_models(run, main)], axis=1)
    gathered = run.coordinator.all_gather(torch.from_numpy(own)).tolist()
    messages, sent = np.broadcast_to(run.coordinator.total_traffic(run.network).by_node, (2, len(gathered)))
    return [
        {
            "node": int(node),
            "records": int(size),
            "rate": rate,
            "guaranteed": _finite(float(spent[row])) if len(spent) else 0.0,
            main.name: _finite(value),
            "messages": int(messages[row]),
            "bytes": int(sent[row]),
        }
        for row, (node, size, rate, value) in enumerate(gathered)
    ]


def _own_models(run: Run, main: PredictionMetric) -> list[float]:
    """The main metric of each hosted node's own model on the test records; NaN where it is not measured."""
    task = run.task
    if task.n > _MAX_TESTED_NODES or task.n * len(task.data.test_y) * task.d > _MAX_TEST_WORK:
        return [math.nan] * task.n
    return [scores_of(task.predict_tests(model), [main])[0] for model in run.models]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
