"""The results of an experiment beside the published numbers: one row per combination of labels."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tacit.reproduce.cells import ExperimentCell
from tacit.reproduce.experiment import Experiment
from tacit.runs.metrics import Result, has_failed, metric

HistoryRow = dict[str, float | None]


@dataclass(frozen=True)
class SeedSummary:
    """The runs of one cell with all seeds.

    Attributes:
        mean: Mean over the seeds of each metric; None if a run lacks it.
        deviation: Standard deviation over the seeds; None with one seed.
        runs: Number of seeds.
        guaranteed, claimed: Largest ε over the seeds; None if a run has none.
        curve: The mean history.
        errors: Messages of runs that failed or stopped early.
        sensitivity: The sensitivity mode, if the experiment charts sensitivities.
        trace: The trace of the first seed, if the experiment charts sensitivities.
        reason: Why nothing is guaranteed, if so.
    """

    mean: dict[str, float | None]
    deviation: dict[str, float | None]
    runs: int
    guaranteed: float | None
    claimed: float | None
    claimed_for: str
    delta: float
    curve: list[HistoryRow]
    errors: list[str]
    sensitivity: str | None = None
    trace: list[HistoryRow] = field(default_factory=list)
    reason: str | None = None

    def text(self, name: str) -> str:
        """A metric as it is shown in tables.

        >>> SeedSummary({"accuracy": 84.123}, {"accuracy": 0.456}, 3, 1.0, 0.9, "run", 1e-4, [], []).text("accuracy")
        '84.12 ± 0.46'
        """
        mean = self.mean[name]
        if mean is None:
            return "failed" if self.errors else "–"
        return metric(name).table_text(mean, self.deviation[name])


@dataclass(frozen=True)
class ResultRow:
    """One row of the table.

    Attributes:
        published: The published number of the first metric.
        paper, guaranteed: The runs with the noise of each calibration.
        plain: The runs whose noise is not calibrated.
        more_published: Published numbers of the other metrics, by name.
    """

    labels: dict[str, str]
    published: float | None
    paper: SeedSummary | None
    guaranteed: SeedSummary | None
    plain: SeedSummary | None
    more_published: dict[str, float] = field(default_factory=dict)


def result_rows(
    experiment: Experiment, cells: Sequence[ExperimentCell], results: Mapping[str, Result]
) -> list[ResultRow]:
    """The table, in the order of the axes."""
    groups: dict[tuple[tuple[str, str], ...], dict[str | None, list[Result]]] = {}
    for cell in cells:
        group = groups.setdefault(tuple(cell.labels.items()), {})
        group.setdefault(cell.calibration, []).append(results[cell.key])
    return [_row(experiment, dict(labels), group) for labels, group in groups.items()]


def summarise_seeds(experiment: Experiment, results: Sequence[Result]) -> SeedSummary:
    """Summarise the results of one cell with several seeds."""
    charted: Result = results[0] if experiment.chart.kind == "sensitivity" else {}
    values = {name: [metric_value(name, result) for result in results] for name in experiment.metrics}
    return SeedSummary(
        mean={name: _mean(of) for name, of in values.items()},
        deviation={name: _deviation(of) for name, of in values.items()},
        runs=len(results),
        guaranteed=_largest([result["privacy"]["guaranteed"] for result in results]),
        claimed=_largest([result["privacy"]["claimed"] for result in results]),
        claimed_for=results[0]["privacy"]["claimed_for"],
        delta=results[0]["privacy"]["delta"],
        curve=_mean_history([result["history"] for result in results]),
        errors=[result["error"] for result in results if result["error"]],
        sensitivity=charted["config"]["algorithm"].get("sensitivity") if charted else None,
        trace=charted.get("trace", []),
        reason=next((why for result in results if (why := result["privacy"].get("reason"))), None),
    )


def _row(experiment: Experiment, labels: dict[str, str], group: Mapping[str | None, Sequence[Result]]) -> ResultRow:
    published = dict(zip(experiment.metrics, _published(experiment.published, list(labels.values())), strict=False))
    first = published.pop(experiment.metrics[0], None)
    paper, guaranteed, plain = (
        summarise_seeds(experiment, group[calibration]) if calibration in group else None
        for calibration in ("paper", "guaranteed", None)
    )
    return ResultRow(labels, first, paper, guaranteed, plain, published)


def metric_value(name: str, result: Result) -> float | None:
    """Return a metric of a run, in the unit of tables; None if the run failed or did not measure it."""
    return None if has_failed(result) else metric(name).summarise(result)


def _published(numbers: Mapping[str, Any], labels: Sequence[str]) -> list[float]:
    """The published numbers of the metrics in their order."""
    found: Any = numbers
    for label in labels:
        found = found.get(label) if isinstance(found, Mapping) else found
    return found if isinstance(found, list) else [found] if isinstance(found, float | int) else []


def _mean_history(histories: Sequence[Sequence[Mapping[str, Any]]]) -> list[HistoryRow]:
    """The mean of the histories, up to the end of the shortest."""
    return [{key: _mean([row.get(key) for row in rows]) for key in rows[0]} for rows in zip(*histories, strict=False)]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if len(known) == len(values) else None


def _largest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None


def _deviation(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.stdev(known) if 1 < len(known) == len(values) else None
