"""Differences to a baseline, paired by seed: a seed is the same data, deal and initial model for every method."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tacit.reproduce.results import ResultRow, SeedSummary
from tacit.runs.metrics import Metric

_SAME_LENGTH = 0.01  # relative: lengths of equal cost are rounded to rounds


@dataclass(frozen=True)
class PairedDifference:
    """A metric of a row minus that of another row, over the seeds that both have.

    >>> PairedDifference([1.0, 2.0, 3.0]).mean, PairedDifference([1.0, 2.0, 3.0]).deviation
    (2.0, 1.0)
    """

    values: Sequence[float]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """Standard deviation over the seeds; None with one seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def standard_error(self) -> float | None:
        """Standard error of the mean; None with one seed."""
        return None if self.deviation is None else self.deviation / len(self.values) ** 0.5

    def text(self, shown: Metric) -> str:
        """The difference as tables show it, with the number of pairs."""
        style = shown.number_format
        spread = "" if self.deviation is None else f" ± {self.deviation:{style}}"
        return f"{self.mean:+{style}}{spread} ({len(self.values)})".replace("-", "−")


def paired_difference(name: str, row: SeedSummary | None, other: SeedSummary | None) -> PairedDifference | None:
    """The difference of two rows in a metric; None if they have no seed in common, or differ in length."""
    if row is None or other is None or abs(row.share / other.share - 1) > _SAME_LENGTH:
        return None
    ours, theirs = row.values.get(name, {}), other.values.get(name, {})
    values = [value - theirs[seed] for seed, value in ours.items() if seed in theirs]
    return PairedDifference(values) if values else None


def matching_row(labels: Mapping[str, str], wanted: Mapping[str, str], rows: Sequence[ResultRow]) -> ResultRow | None:
    """The row with the `wanted` labels and otherwise these labels, as far as it has their axes."""
    target = {**labels, **wanted}
    for row in rows:
        if wanted.items() <= row.labels.items() and row.labels.items() <= target.items():
            return row
    return None


def summary_of(row: ResultRow | None, calibration: str) -> SeedSummary | None:
    """The runs with the noise of a calibration. Runs whose noise is not calibrated belong to every calibration."""
    if row is None:
        return None
    found: SeedSummary | None = getattr(row, calibration)
    return found or row.plain
