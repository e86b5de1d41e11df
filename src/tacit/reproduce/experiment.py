"""An experiment of a paper as data: a base config, axes to vary, seeds, and the published numbers beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from tacit.errors import unknown
from tacit.runs import ConfigSection
from tacit.runs.metrics import Metric, metric

Table = dict[str, Any]
Axis = dict[str, Table]
"""From a value's label to what it sets in the config; the key `without` lists axes that do not apply to it."""
Calibration = Literal["paper", "guaranteed"]
CALIBRATION = "calibration"


class Adjustment(ConfigSection):
    """Settings for the cells whose labels are as in `when`: tuned parameters, mostly."""

    when: dict[str, str | list[str]]
    set: Table


class Chart(ConfigSection):
    """`bars` and `lines` show the first metric of each cell against the axis `x`, `curves` the cell's history.

    Curves are of the history's `columns`, against its column `x`: by default `round`, or `cost_seconds`.
    `sensitivity` shows what the sensitivity of each of the first `rounds` was, and was said to be, a panel a row.
    """

    kind: Literal["bars", "lines", "curves", "sensitivity"] = "bars"
    x: str | None = None
    series: str
    columns: list[str] = Field(default=["accuracy", "loss"], min_length=1)
    log: bool = False
    rounds: int | None = None


class Quick(ConfigSection):
    """What is smaller in `--quick`; `axes` names the values that stay."""

    base: Table = Field(default_factory=dict)
    axes: dict[str, list[str]] = Field(default_factory=dict)
    adjust: list[Adjustment] = Field(default_factory=list)
    seeds: list[int] | None = None
    calibrations: list[Calibration] | None = None


class Tuning(ConfigSection):
    """A random search, the same number of tries for every value of the axis `over`, on records held out of training."""

    over: str
    tries: int = Field(ge=1)
    held_out: int = Field(ge=1)
    seed: int = 1000
    base: Table = Field(default_factory=dict)
    axes: dict[str, list[str]] = Field(default_factory=dict)
    calibration: Calibration = "guaranteed"
    grid: dict[str, dict[str, list[Any]]]


class Experiment(ConfigSection):
    """One table or figure of a paper.

    `published` holds numbers of the first of `metrics`, or of all in a list, nested by the labels of the axes in their
    order. With `calibrations`, every cell runs once with noise for each; without, the noise is what the config says. A
    cell is a run that trains models, or, in a `study` of graphs, a measurement by `graph_measurement`.

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
    calibrations: list[Calibration] = Field(default=["paper", "guaranteed"])
    metrics: list[str] = Field(default=["accuracy"], min_length=1)
    base: Table = Field(default_factory=dict)
    axes: dict[str, Axis] = Field(min_length=1)
    adjust: list[Adjustment] = Field(default_factory=list)
    published: Table = Field(default_factory=dict)
    chart: Chart
    quick: Quick = Quick()
    tune: Tuning | None = None

    @field_validator("axes", mode="before")
    @classmethod
    def _spelt_out(cls, axes: Any) -> Any:
        return {name: _values(axis) for name, axis in axes.items()} if isinstance(axes, Mapping) else axes

    @model_validator(mode="after")
    def _names_are_known(self) -> Experiment:
        for name, labels in {**self.quick.axes, **(self.tune.axes if self.tune else {})}.items():
            for label in labels:
                self._check(name, label)
        for adjustment in [*self.adjust, *self.quick.adjust]:
            for name, wanted in adjustment.when.items():
                for label in [wanted] if isinstance(wanted, str) else wanted:
                    self._check(name, label)
        curves = self.chart.kind == "curves"
        for axis in (self.chart.series, None if curves else self.chart.x, self.tune.over if self.tune else None):
            if axis is not None:
                self._check(axis)
        for column in (self.chart.x or "round", *self.chart.columns) if curves else ():
            if column != "round":
                metric(column)
        for name in self.metrics:
            metric(name)
        return self

    @property
    def metric(self) -> Metric:
        """The one that is published and charted."""
        return metric(self.metrics[0])

    @property
    def measures(self) -> str:
        """What the numbers of a cell of the table are, in their order."""
        return "; ".join(metric(name).table_title for name in self.metrics)

    def _check(self, axis: str, label: str | None = None) -> None:
        if axis not in self.axes:
            raise unknown("axis", axis, self.axes)
        if label is not None and label not in self.axes[axis]:
            raise unknown(f"value of axis {axis}", label, self.axes[axis])

    def quickly(self) -> Experiment:
        """The small version: the same code path, in minutes."""
        small = self.quick
        return self.model_copy(
            update={
                "base": merged(self.base, small.base),
                "axes": chosen(self.axes, small.axes),
                "adjust": [*self.adjust, *small.adjust],
                "seeds": small.seeds or self.seeds,
                "calibrations": small.calibrations or self.calibrations,
            }
        )


def _values(axis: Any) -> Any:
    """`set = "privacy.epsilon", values = […]` spelt out as label by label."""
    if not isinstance(axis, Mapping) or set(axis) != {"set", "values"}:
        return axis
    return {_label(value): nested(axis["set"], value) for value in axis["values"]}


def _label(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def nested(key: str, value: Any) -> Table:
    """
    >>> nested("privacy.epsilon", 1.0)
    {'privacy': {'epsilon': 1.0}}
    """
    for part in reversed(key.split(".")):
        value = {part: value}
    return dict(value)


def chosen(axes: Mapping[str, Axis], labels: Mapping[str, list[str]]) -> dict[str, Axis]:
    """The axes with only these labels, where some are given."""
    return {
        name: {label: axis[label] for label in labels[name]} if name in labels else axis for name, axis in axes.items()
    }


def merged(table: Mapping[str, Any], over: Mapping[str, Any]) -> Table:
    """`table` with `over` put in, section by section; another `name` starts a section afresh, but for its nodes.

    >>> merged({"graph": {"name": "ring", "directed": True, "nodes": 4}, "rounds": 9}, {"graph": {"name": "complete"}})
    {'graph': {'nodes': 4, 'name': 'complete'}, 'rounds': 9}
    """
    result = dict(table)
    for key, value in over.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            if "name" in value and value["name"] != old.get("name", value["name"]):
                old = {kept: old[kept] for kept in ("nodes",) if kept in old}
            value = merged(old, value)
        result[key] = value
    return result
