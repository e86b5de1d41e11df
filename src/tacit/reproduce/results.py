"""The results of an experiment beside the published numbers: one row per combination of labels."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tacit.reproduce.cells import ExperimentCell
from tacit.reproduce.experiment import Experiment
from tacit.reproduce.settings import nested_value
from tacit.runs.metrics import Result, has_failed, metric

HistoryRow = dict[str, float | None]
_Finished = tuple[ExperimentCell, Result]


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
        seeds: The seeds, in the order of the runs.
        values: Each metric by seed, of the runs that have it.
        rounds, full_rounds, published_rounds: Length of the runs, of the runs that the experiment's file describes,
            and of the paper's runs; None if unknown.
        fewest_rounds: Rounds that were complete at the end, the smallest over the seeds.
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
    seeds: list[int] = field(default_factory=list)
    values: dict[str, dict[int, float]] = field(default_factory=dict)
    rounds: int | None = None
    full_rounds: int | None = None
    published_rounds: int | None = None
    fewest_rounds: int | None = None

    @property
    def share(self) -> float:
        """Length of the runs relative to the experiment's file."""
        return 1.0 if self.rounds is None or self.full_rounds is None else self.rounds / self.full_rounds

    @property
    def is_short(self) -> bool:
        """Whether the runs have fewer rounds than the paper's, or ended before their last round."""
        planned = max(self.rounds or 0, self.published_rounds or 0)
        return self.fewest_rounds is not None and self.fewest_rounds < planned

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
    """The table, in the order of the axes. Cells without a result are left out of the means."""
    groups: dict[tuple[tuple[str, str], ...], dict[str | None, list[_Finished]]] = {}
    for cell in cells:
        group = groups.setdefault(tuple(cell.labels.items()), {})
        if cell.key in results:
            group.setdefault(cell.calibration, []).append((cell, results[cell.key]))
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


def _summarise_cells(experiment: Experiment, finished: Sequence[_Finished]) -> SeedSummary:
    """The summary of the runs of one row, with their seeds and lengths."""
    first = finished[0][0]
    found = [(name, cell.seed, metric_value(name, result)) for name in experiment.metrics for cell, result in finished]
    done = [rounds for cell, result in finished if cell.rounds and (rounds := rounds_run(result)) is not None]
    return replace(
        summarise_seeds(experiment, [result for _, result in finished]),
        seeds=[cell.seed for cell, _ in finished],
        values={
            name: {seed: value for each, seed, value in found if each == name and value is not None}
            for name in experiment.metrics
        },
        rounds=first.rounds,
        full_rounds=first.full_rounds,
        published_rounds=first.published_rounds,
        fewest_rounds=min(done, default=None),
    )


def _row(experiment: Experiment, labels: dict[str, str], group: Mapping[str | None, Sequence[_Finished]]) -> ResultRow:
    published = dict(zip(experiment.metrics, _published(experiment.published, list(labels.values())), strict=False))
    first = published.pop(experiment.metrics[0], None)
    paper, guaranteed, plain = (
        _summarise_cells(experiment, group[calibration]) if calibration in group else None
        for calibration in ("paper", "guaranteed", None)
    )
    return ResultRow(labels, first, paper, guaranteed, plain, published)


def metric_value(name: str, result: Result) -> float | None:
    """Return a metric of a run, in the unit of tables; None if the run failed or did not measure it.

    A kept result has the metrics of its trace computed, because it does not have the whole trace.
    """
    if has_failed(result):
        return None
    summary: Mapping[str, float | None] = result.get("summary", {})
    return summary[name] if name in summary else metric(name).summarise(result)


def rounds_run(result: Result) -> int | None:
    """The number of complete rounds of a run; None if it is not known."""
    history = result.get("history") or [{}]
    found = result.get("rounds", history[-1].get("round"))
    return None if found is None else int(found)


def _published(numbers: Mapping[str, Any], labels: Sequence[str]) -> list[float]:
    """The published numbers of the metrics in their order."""
    found: Any = nested_value(numbers, labels)
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
