"""What an experiment measures of a cell: a number read from the cell's kept result."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tacit.reports.sensitivity import average, violations

Result = dict[str, Any]
"""What is kept of a cell; see `running.measure` and `graph_measurement.measure_study`."""
CURVE = {
    "round": "Round",
    "accuracy": "Test accuracy",
    "node_accuracy": "Test accuracy of the nodes’ own models",
    "loss": "Test loss",
    "stationarity": "Error ‖∇F(x̄)‖",
    "primal_norm": "Norm of the models",
    "dual_norm": "Norm of the dual variables",
    "local_error": "Relative error of the clients’ graphs",
    "consensus_error": "Relative error of the consensus",
    "guaranteed": "Guaranteed ε",
    "claimed": "Claimed ε",
    "cost_seconds": "Cost, seconds",
    "wall_seconds": "Seconds here",
}
"""The columns of a run's history that are kept, where it has them, with their titles."""
_STEADY = 5  # evaluations over which noise is averaged out


@dataclass(frozen=True)
class Metric:
    """`of` gives None where a result has no such number; `most` is the largest value there can be."""

    title: str
    short: str
    of: Callable[[Result], float | None]
    style: str = ".2f"
    most: float = float("inf")

    def value(self, result: Result) -> float | None:
        """The number, of a run that came to its end."""
        return None if failed(result) else self.of(result)


def failed(result: Result) -> bool:
    """Whether the run did not come to its end; one that learns graphs has scores in place of an accuracy."""
    return bool(result.get("accuracy") is None and result.get("scores") is None)


def _clock(result: Result) -> float | None:
    """From the first evaluation, before round 0, to the last: without the time it took to read the data."""
    first, last = result["history"][0], result["history"][-1]
    return float(last["wall_seconds"] - first["wall_seconds"])


def _steady(result: Result) -> float | None:
    """‖∇F(x̄)‖ as it is in the end: one evaluation under noise says little."""
    values = [row.get("stationarity") for row in result["history"][-_STEADY:]]
    return None if None in values else float(statistics.fmean(values))


def _own(result: Result) -> float | None:
    accuracy = result["history"][-1].get("node_accuracy")
    return None if accuracy is None else float(100 * accuracy)


def _score(title: str, short: str, key: str, style: str = ".3f") -> Metric:
    """Of learned graphs; a trained model has none."""
    return Metric(title, short, lambda result: (result.get("scores") or {}).get(key), style)


METRICS = {
    "accuracy": Metric("Test accuracy in %", "accuracy, %", lambda result: 100 * result["accuracy"], most=100.0),
    "node_accuracy": Metric("Test accuracy in %, mean of the nodes’ own models", "own models, %", _own, most=100.0),
    "stationarity": Metric("Error ‖∇F(x̄)‖, mean of the last five evaluations", "‖∇F(x̄)‖", _steady, ".4f"),
    "primal_norm": Metric(
        "Norm of the models in the end", "‖w‖", lambda result: result["history"][-1].get("primal_norm"), ".3g"
    ),
    "dual_norm": Metric(
        "Norm of the dual variables in the end", "‖λ‖", lambda result: result["history"][-1].get("dual_norm"), ".3g"
    ),
    "ras": Metric("Mean real sensitivity of the rounds (RAS)", "RAS", lambda result: average(result["trace"]), ".4g"),
    "violations": Metric(
        "Rounds in which the real sensitivity is above the estimated one",
        "rounds real > estimated",
        lambda result: float(len(violations(result["trace"]))),
        ".0f",
    ),
    "peak": Metric(
        "Largest real sensitivity of a round",
        "peak",
        lambda result: max((row["real"] for row in result["trace"] if row["real"] is not None), default=None),
        ".4g",
    ),
    "cost_seconds": Metric(
        "Seconds by the cost clock", "cost clock, s", lambda result: result["history"][-1]["cost_seconds"], ".1f"
    ),
    "wall_seconds": Metric("Seconds it took here", "here, s", _clock, ".1f"),
    "f1": _score("F1 of the edges", "F1", "f1"),
    "precision": _score("Precision of the edges", "precision", "precision"),
    "recall": _score("Recall of the edges", "recall", "recall"),
    "relative_error": _score("Relative error of the weights", "RE", "relative_error"),
    "gamma": _score("Weight γ of the client", "γ", "gamma"),
    "nmi": _score("Normalised mutual information of the communities", "NMI", "nmi"),
    "ri": _score("Rand index of the communities", "RI", "ri"),
    "fmi": _score("Fowlkes–Mallows index of the communities", "FMI", "fmi"),
    "reconstruction_error": _score("Relative error of reconstructed signals", "RE", "reconstruction_error"),
}
