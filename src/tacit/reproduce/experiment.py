"""An experiment as data: the runs that reproduce one table or figure of a paper, and the published numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from tacit.errors import TacitError, unknown
from tacit.reproduce.settings import AxisValues, Settings, expand_axis, merge_settings, nested_value, select_values
from tacit.runs import ConfigSection
from tacit.runs.metrics import Metric, metric

Calibration = Literal["paper", "guaranteed"]
CALIBRATION_AXIS = "calibration"


class ConditionalSettings(ConfigSection):
    """Settings for the cells whose labels match `when`, such as tuned hyperparameters."""

    when: dict[str, str | list[str]]
    set: Settings

    def applies_to(self, labels: Mapping[str, str]) -> bool:
        """Whether each label in `when` is equal to, or one of, the given ones."""
        accepted = {axis: [want] if isinstance(want, str) else want for axis, want in self.when.items()}
        return all(labels.get(axis) in want for axis, want in accepted.items())


class ExperimentChart(ConfigSection):
    """The charts of an experiment's page.

    Attributes:
        kind: `bars` and `lines` show the first metric against the axis `x`. `curves` show `columns` of the histories
            against the column `x`, by default `round`. `sensitivity` shows the sensitivity of each round.
        series: The axis whose values have different colours.
        log: Whether the y axis is logarithmic.
        rounds: Number of rounds that `sensitivity` shows; by default all.
    """

    kind: Literal["bars", "lines", "curves", "sensitivity"] = "bars"
    x: str | None = None
    series: str
    columns: list[str] = Field(default=["accuracy", "loss"], min_length=1)
    log: bool = False
    rounds: int | None = None


class QuickVersion(ConfigSection):
    """What `--quick` changes; `axes` lists the values that remain."""

    base: Settings = Field(default_factory=dict)
    axes: dict[str, list[str]] = Field(default_factory=dict)
    adjust: list[ConditionalSettings] = Field(default_factory=list)
    seeds: list[int] | None = None
    calibrations: list[Calibration] | None = None


class TuningPlan(ConfigSection):
    """A random search with the same number of tries for every value of the axis `over`.

    `held_out` training records serve as test set. `grid` has the values of each setting, by value of `over`.
    """

    over: str
    tries: int = Field(ge=1)
    held_out: int = Field(ge=1)
    seed: int = 1000
    base: Settings = Field(default_factory=dict)
    axes: dict[str, list[str]] = Field(default_factory=dict)
    calibration: Calibration = "guaranteed"
    grid: dict[str, dict[str, list[Any]]]


class Experiment(ConfigSection):
    """One table or figure of a paper.

    Attributes:
        study: `training` if cells are runs that train models, `graphs` if they learn graphs (`GraphStudy`).
        seeded: Settings that are the cell's seed too, such as data.seed: every seed is then another data set.
        calibrations: Each cell runs once with the noise of each calibration. Empty: the config sets the noise.
        metrics: What the table shows; charts of kind `bars` and `lines` show the first.
        base: Settings of all cells.
        axes: Settings of each value of each axis. There is one cell per combination of values and seed.
        adjust: Further settings for some of the cells.
        published: Published numbers of the first metric, or of all metrics in a list, nested by the labels of the
            axes in their order.
        published_rounds: Number of rounds of the paper's runs, or such numbers nested like `published`. Tables mark
            runs that are shorter.
        baseline: A label of one axis, such as method = "Const-D²P". Tables show the difference of every other row to
            the row with this label, paired by seed.

    >>> Experiment.model_validate({
    ...     "title": "One", "chart": {"series": "epsilon"},
    ...     "axes": {"epsilon": {"set": "privacy.epsilon", "values": [0.5, 1]}},
    ... }).axes
    {'epsilon': {'0.5': {'privacy': {'epsilon': 0.5}}, '1': {'privacy': {'epsilon': 1}}}}
    """

    title: str
    about: str = ""
    study: Literal["training", "graphs"] = "training"
    seeds: list[int] = Field(default=[0], min_length=1)
    seeded: list[str] = Field(default_factory=list)
    calibrations: list[Calibration] = Field(default=["paper", "guaranteed"])
    metrics: list[str] = Field(default=["accuracy"], min_length=1)
    base: Settings = Field(default_factory=dict)
    axes: dict[str, AxisValues] = Field(min_length=1)
    adjust: list[ConditionalSettings] = Field(default_factory=list)
    published: Settings = Field(default_factory=dict)
    published_rounds: int | Settings | None = None
    baseline: dict[str, str] = Field(default_factory=dict, max_length=1)
    chart: ExperimentChart
    quick: QuickVersion = QuickVersion()
    tune: TuningPlan | None = None

    @field_validator("axes", mode="before")
    @classmethod
    def _expand_axes(cls, axes: Any) -> Any:
        return {name: expand_axis(axis) for name, axis in axes.items()} if isinstance(axes, Mapping) else axes

    @model_validator(mode="after")
    def _check_names(self) -> Experiment:
        for name, labels in {**self.quick.axes, **(self.tune.axes if self.tune else {})}.items():
            for label in labels:
                self._check_axis(name, label)
        for conditional in [*self.adjust, *self.quick.adjust]:
            for name, wanted in conditional.when.items():
                for label in [wanted] if isinstance(wanted, str) else wanted:
                    self._check_axis(name, label)
        for name, label in self.baseline.items():
            self._check_axis(name, label)
        curves = self.chart.kind == "curves"
        for axis in (self.chart.series, None if curves else self.chart.x, self.tune.over if self.tune else None):
            if axis is not None:
                self._check_axis(axis)
        columns = [self.chart.x or "round", *self.chart.columns] if curves else []
        for name in [*self.metrics, *(column for column in columns if column != "round")]:
            metric(name)
        return self

    @property
    def first_metric(self) -> Metric:
        """The metric that is published and charted."""
        return metric(self.metrics[0])

    @property
    def table_title(self) -> str:
        """What the numbers of a table cell are, in their order."""
        return "; ".join(metric(name).table_title for name in self.metrics)

    def rounds_of_paper(self, labels: Mapping[str, str]) -> int | None:
        """The number of rounds of the paper's run with these labels; None if the experiment does not state it."""
        found: Any = nested_value(self.published_rounds, labels.values())
        return found if isinstance(found, int) else None

    def with_seeds(self, count: int) -> Experiment:
        """The experiment with `count` seeds: its own, and then the next integers.

        >>> Experiment.model_validate({
        ...     "title": "One", "chart": {"series": "b"}, "axes": {"b": {"1": {}}}, "seeds": [5],
        ... }).with_seeds(3).seeds
        [5, 6, 7]
        """
        if count < 1:
            raise TacitError(f"the number of seeds must be at least 1, got {count}")
        first = max(self.seeds) + 1
        return self.model_copy(update={"seeds": [*self.seeds, *range(first, first + count)][:count]})

    def quick_version(self) -> Experiment:
        """The small version that `--quick` runs."""
        quick = self.quick
        return self.model_copy(
            update={
                "base": merge_settings(self.base, quick.base),
                "axes": select_values(self.axes, quick.axes),
                "adjust": [*self.adjust, *quick.adjust],
                "seeds": quick.seeds or self.seeds,
                "calibrations": quick.calibrations or self.calibrations,
            }
        )

    def _check_axis(self, axis: str, label: str | None = None) -> None:
        if axis not in self.axes:
            raise unknown("axis", axis, self.axes)
        if label is not None and label not in self.axes[axis]:
            raise unknown(f"value of axis {axis}", label, self.axes[axis])
