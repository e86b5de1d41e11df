"""What a metric is, and the registry of all metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from tacit.registry import Registry

if TYPE_CHECKING:
    from tacit.runs.metrics.evaluation import Evaluation
    from tacit.tasks import Task

Result = dict[str, Any]
"""A finished run as saved in a results file: `accuracy`, `loss`, `metrics` (of the last model, by name), `privacy`,
`history` (one row per evaluation), `trace` (one row per round); for learned graphs `scores` in place of the first
three."""


class Metric:
    """A number that a run has at each evaluation, at its end, or both.

    The registered name is the name of the column in histories and of the key in results.
    """

    title: ClassVar[str]
    """Heading of charts and tables."""
    short: ClassVar[str]
    """Column heading and axis label."""
    unit: ClassVar[str] = ""
    scale: ClassVar[float] = 1.0
    """Factor from the measured number to the one shown in `unit`: 100 for shares shown in per cent."""
    format: ClassVar[str] = ".3g"
    """Format of a single number, in `unit`."""
    table_format: ClassVar[str] = ""
    """Format of means and deviations in tables; by default `format`."""
    limit: ClassVar[float] = math.inf
    """Largest possible value, in `unit`."""
    about: ClassVar[str] = ""
    """What is measured, in a few words, for the page of a run."""
    about_site: ClassVar[str] = ""
    """The same for the page of a single site; by default `about`."""
    summary: ClassVar[str] = ""
    """How the number of a finished run is computed, where it is not the last evaluation's."""
    position: ClassVar[int] = 50
    """Order in histories, tables and pages, smallest first."""
    headline: ClassVar[bool] = False
    """Whether progress bars, final output and comparisons show it."""
    higher_is_better: ClassVar[bool] = True
    """Whether a larger number of a headline metric is better."""
    charted: ClassVar[bool] = True
    """Whether the page of a run has a chart of it over rounds."""
    optional: ClassVar[bool] = False
    """Whether it is measured only on request, by `measure = ["NAME"]` in the config."""
    reads_models: ClassVar[bool] = False
    """Whether it is computed from the models. The guarantee covers it only if it covers the models."""
    reads_records: ClassVar[bool] = False
    """Whether it is computed from training records without noise. The guarantee does not cover such a metric."""
    needs_all_nodes: ClassVar[bool] = False
    """Whether nodes exchange models without noise for it. A network of sites does not measure such a metric."""

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self, task: Task) -> None:
        """Raise TacitError if the metric cannot be measured on `task`."""

    def measure(self, evaluation: Evaluation) -> float | None:
        """Return the number at an evaluation, or None. A metric that does not override this is not measured."""
        return None

    def summarise(self, result: Result) -> float | None:
        """The number of a finished run, in `unit`: by default that of its last evaluation, or of its end."""
        history = result.get("history") or [{}]
        tables: list[Mapping[str, Any]] = [history[-1], result.get("metrics") or {}, result.get("scores") or {}]
        value = next((table[self.name] for table in tables if self.name in table), None)
        return None if value is None else self.scale * value

    def is_covered(self, covers_models: bool) -> bool:
        """Whether a guarantee covers the number, if it covers the models or not."""
        return not self.reads_records and (covers_models or not self.reads_models)

    @property
    def measured(self) -> bool:
        return type(self).measure is not Metric.measure

    @property
    def label(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title

    @property
    def short_label(self) -> str:
        return f"{self.short} ({self.unit})" if self.unit else self.short

    @property
    def table_title(self) -> str:
        """What a table's numbers are."""
        return f"{self.label}, {self.summary}" if self.summary else self.label

    @property
    def number_format(self) -> str:
        """Format of the numbers of a table."""
        return self.table_format or self.format

    def text(self, value: float | None) -> str:
        """A measured number in words.

        >>> metric("accuracy").text(0.861), metric("loss").text(None)
        ('86.1 %', 'none')
        """
        if value is None:
            return "none"
        return f"{self.scale * value:{self.format}}" + (f" {self.unit}" if self.unit else "")

    def table_text(self, mean: float, deviation: float | None = None) -> str:
        """A number of a table, in `unit`, with its standard deviation if there is one.

        >>> metric("accuracy").table_text(86.123, 0.456)
        '86.12 ± 0.46'
        """
        style = self.number_format
        return f"{mean:{style}}" + ("" if deviation is None else f" ± {deviation:{style}}")


metrics: Registry[Metric] = Registry("metric", given=("name",))


@cache
def metric(name: str) -> Metric:
    """The metric called `name`. An unknown name raises TacitError with the closest valid one."""
    return metrics[name](name)


def all_metrics() -> list[Metric]:
    """All registered metrics in the order in which they are shown."""
    return sorted((metric(name) for name in metrics), key=lambda each: (each.position, each.name))


def optional_metrics() -> list[str]:
    """The names that `measure` of a config accepts."""
    return [each.name for each in all_metrics() if each.optional]


def headline_metrics(measured: Mapping[str, Any]) -> list[Metric]:
    """The most important metrics of a row of a history; the first is the main metric of the task."""
    return [each for each in all_metrics() if each.headline and each.name in measured]


def headline(measured: Mapping[str, Any], trivial: Mapping[str, Any] | None = None) -> str:
    """The most important numbers of a row of a history; the first beside that of the trivial predictor, if it is given.

    >>> headline({"accuracy": 0.861, "loss": 0.6284, "bytes": 10})
    'accuracy 86.1 %, loss 0.628'
    >>> headline({"rmse": 4.21, "mae": 3.1}, {"rmse": 9.5, "mae": 8.0})
    'RMSE 4.21 (trivial predictor 9.5), MAE 3.1'
    """
    shown = headline_metrics(measured)
    texts = [f"{each.short} {each.text(measured[each.name])}" for each in shown]
    if texts and trivial and trivial.get(shown[0].name) is not None:
        texts[0] += f" (trivial predictor {shown[0].text(trivial[shown[0].name])})"
    return ", ".join(texts)


def has_failed(result: Result) -> bool:
    """Whether the run ended without numbers: it diverged, for example."""
    return all(result.get(key) is None for key in ("accuracy", "loss", "scores"))
