"""The cells of an experiment summed up beside the published numbers: one row for each combination of labels."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tacit.reproduce.cells import Cell
from tacit.reproduce.experiment import Experiment
from tacit.runs.metrics import Result, has_failed, metric

Point = dict[str, float | None]


@dataclass(frozen=True)
class Measured:
    """Mean over seeds of each metric, and how they deviate; ε is the largest over seeds, None where there is none."""

    mean: dict[str, float | None]
    deviation: dict[str, float | None]
    runs: int
    guaranteed: float | None
    claimed: float | None
    claimed_for: str
    delta: float
    curve: list[Point]
    errors: list[str]
    sensitivity: str | None = None
    """The mode in use, where the rounds are charted, and"""
    trace: list[Point] = field(default_factory=list)
    """what the rounds of the first seed were."""

    def text(self, name: str) -> str:
        """
        >>> Measured({"accuracy": 84.123}, {"accuracy": 0.456}, 3, 1.0, 0.9, "run", 1e-4, [], []).text("accuracy")
        '84.12 ± 0.46'
        """
        mean = self.mean[name]
        if mean is None:
            return "failed" if self.errors else "–"
        return metric(name).table_text(mean, self.deviation[name])


@dataclass(frozen=True)
class Row:
    labels: dict[str, str]
    published: float | None
    paper: Measured | None
    guaranteed: Measured | None
    plain: Measured | None
    """Of what calibrates nothing: a method such as Non-Private, or a whole experiment with noise of its own."""
    also: dict[str, float] = field(default_factory=dict)
    """What is published of the other metrics."""


def rows(experiment: Experiment, cells: Sequence[Cell], results: Mapping[str, Result]) -> list[Row]:
    """The table, in the order of the axes."""
    groups: dict[tuple[tuple[str, str], ...], dict[str | None, list[Result]]] = {}
    for cell in cells:
        group = groups.setdefault(tuple(cell.labels.items()), {})
        group.setdefault(cell.calibration, []).append(results[cell.key])
    return [_row(experiment, dict(labels), group) for labels, group in groups.items()]


def _row(experiment: Experiment, labels: dict[str, str], group: Mapping[str | None, Sequence[Result]]) -> Row:
    published = dict(zip(experiment.metrics, _published(experiment.published, list(labels.values())), strict=False))
    first = published.pop(experiment.metrics[0], None)
    paper, guaranteed, plain = (
        summary(experiment, group[how]) if how in group else None for how in ("paper", "guaranteed", None)
    )
    return Row(labels, first, paper, guaranteed, plain, published)


def summary(experiment: Experiment, results: Sequence[Result]) -> Measured:
    """Several seeds in one."""
    charted: Result = results[0] if experiment.chart.kind == "sensitivity" else {}
    values = {name: [_value(name, result) for result in results] for name in experiment.metrics}
    return Measured(
        mean={name: _mean(of) for name, of in values.items()},
        deviation={name: _deviation(of) for name, of in values.items()},
        runs=len(results),
        guaranteed=_largest([result["privacy"]["guaranteed"] for result in results]),
        claimed=_largest([result["privacy"]["claimed"] for result in results]),
        claimed_for=results[0]["privacy"]["claimed_for"],
        delta=results[0]["privacy"]["delta"],
        curve=_curve([result["history"] for result in results]),
        errors=[result["error"] for result in results if result["error"]],
        sensitivity=charted["config"]["algorithm"].get("sensitivity") if charted else None,
        trace=charted.get("trace", []),
    )


def _value(name: str, result: Result) -> float | None:
    return None if has_failed(result) else metric(name).summarise(result)


def _published(numbers: Mapping[str, Any], labels: Sequence[str]) -> list[float]:
    """Of the metrics in their order; most tables publish one."""
    found: Any = numbers
    for label in labels:
        found = found.get(label) if isinstance(found, Mapping) else found
    return found if isinstance(found, list) else [found] if isinstance(found, float | int) else []


def _curve(histories: Sequence[Sequence[Mapping[str, Any]]]) -> list[Point]:
    """The mean history, up to where the shortest ends."""
    return [
        {key: _mean([point[key] for point in points]) for key in points[0]} for points in zip(*histories, strict=False)
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if len(known) == len(values) else None


def _largest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None


def _deviation(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.stdev(known) if 1 < len(known) == len(values) else None
