"""The result of a run in one JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.runs.observer import Row
from tacit.runs.preparation import released_ranges
from tacit.tasks import record_preparation

if TYPE_CHECKING:
    from tacit.runs.run import Run


def run_result(run: Run, now: Row) -> dict[str, Any]:
    """Return the result of a run as `--json` prints it; `now` is its last evaluation."""
    traffic, ranges = run.coordinator.total_traffic(run.network), released_ranges(run.task)
    features, preparation = run.task.data.features, record_preparation(run.task)
    return {
        "algorithm": run.algorithm.title,
        **({"recipe": run.config["recipe"]} if "recipe" in run.config else {}),
        "accuracy": now.get("accuracy"),
        "loss": now["loss"],
        **run.utility.as_dict(),
        "rounds": run.t,
        "nodes": run.network.graph.nodes,
        "processes": run.coordinator.processes,
        "messages": traffic.messages,
        "bytes": traffic.bytes,
        "seconds": now["wall_seconds"],
        "out": None if run.out is None else str(run.out),
        "stopped": run.stopped,
        **({"ranges": ranges} if ranges else {}),
        **({"prepared": sorted(dict(preparation.named_buffers()))} if preparation is not None else {}),
        **({"features": features.description.as_dict()} if features is not None else {}),
        "simulated": run.task.noise.simulated,
        "privacy": run.privacy.as_dict(),
    }
