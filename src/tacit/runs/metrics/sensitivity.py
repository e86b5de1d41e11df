"""The real sensitivity of what nodes send over DPPS, from the trace of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tacit.runs.metrics.metric import Metric, Result, metrics

Trace = Sequence[Mapping[str, Any]]
"""One row per round: `round`, `real`, and the sensitivity by each other mode; None where it is unknown."""


def violations(trace: Trace) -> list[Mapping[str, Any]]:
    """The rounds in which the real sensitivity exceeds the estimated one.

    >>> [row["round"] for row in violations([{"round": 1, "real": 3.0, "estimated": 2.0}, {"round": 2, "real": 3.0}])]
    [1]
    """
    known = [row for row in trace if row.get("real") is not None and row.get("estimated") is not None]
    return [row for row in known if row["real"] > row["estimated"]]


def mean_real_sensitivity(trace: Trace) -> float | None:
    """The mean of the rounds' real sensitivities, which the paper calls RAS.

    >>> mean_real_sensitivity([{"round": 1, "real": 3.0}, {"round": 2, "real": 5.0}])
    4.0
    """
    real = [row["real"] for row in trace if row.get("real") is not None]
    return sum(real) / len(real) if real else None


@metrics.register("ras")
class MeanSensitivity(Metric):
    """Mean real sensitivity of the rounds (RAS)."""

    title, short, format = "Mean real sensitivity of the rounds (RAS)", "RAS", ".4g"

    def summarise(self, result: Result) -> float | None:
        return mean_real_sensitivity(result["trace"])


@metrics.register("violations")
class SensitivityViolations(Metric):
    """Number of rounds in which the real sensitivity exceeds the estimated one."""

    title, short, format = "Rounds whose real sensitivity exceeds the estimate", "rounds real > estimated", ".0f"

    def summarise(self, result: Result) -> float | None:
        return float(len(violations(result["trace"])))


@metrics.register("peak")
class PeakSensitivity(Metric):
    """Largest real sensitivity of a round."""

    title, short, format = "Largest real sensitivity of a round", "peak", ".4g"

    def summarise(self, result: Result) -> float | None:
        return max((row["real"] for row in result["trace"] if row["real"] is not None), default=None)
