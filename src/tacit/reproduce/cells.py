"""An experiment spread out into cells: one run each, with its labels and its whole config."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tacit.algorithms import algorithms
from tacit.errors import TacitError
from tacit.graphs import graphs
from tacit.reproduce.experiment import CALIBRATION, Adjustment, Axis, Experiment, Table, merged
from tacit.reproduce.graph_study import GraphStudy
from tacit.runs import Config, DropoutKeys, RegularisationKeys
from tacit.tasks import datasets, models, shards

_FORMAT = 2  # part of every key: raise it when what a cell keeps changes


@dataclass(frozen=True)
class Cell:
    """One run of an experiment. `held_out` records of the training data take the place of the test set."""

    labels: Mapping[str, str]
    calibration: str | None
    seed: int
    config: Config | GraphStudy
    held_out: int | None = None

    @property
    def key(self) -> str:
        """The same for the same run, whatever its labels are."""
        whole = {"format": _FORMAT, "config": self.config.as_dict(), "held_out": self.held_out}
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:20]

    @property
    def title(self) -> str:
        labels = [value if axis == "method" else f"{axis} {value}" for axis, value in self.labels.items()]
        return ", ".join([*labels, *([f"{self.calibration} ε"] if self.calibration else []), f"seed {self.seed}"])


def expand(experiment: Experiment, held_out: int | None = None) -> list[Cell]:
    """Every cell, checked: each config is sound and names what exists.

    >>> axes = {"method": {"A": {"algorithm": "sgp", "without": ["calibration"]}, "B": {"algorithm": "dyn-d2p"}}}
    >>> cells = expand(Experiment.model_validate({"title": "", "axes": axes, "chart": {"series": "method"}}))
    >>> [cell.title for cell in cells]
    ['A, seed 0', 'B, paper ε, seed 0', 'B, guaranteed ε, seed 0']
    """
    axes = experiment.axes
    if experiment.calibrations:
        axes = {**axes, CALIBRATION: {name: {"privacy": {"calibration": name}} for name in experiment.calibrations}}
    cells = []
    for labels, settings in _grid(axes):
        where = ", ".join(labels.values())
        table = merged(experiment.base, settings)
        for adjustment in experiment.adjust:
            if _applies(adjustment, labels):
                table = merged(table, adjustment.set)
        calibration = labels.pop(CALIBRATION, None)
        for seed in experiment.seeds:
            config = _parsed(experiment, {**table, "seed": seed}, where)
            cells.append(Cell(labels, calibration, seed, config, held_out))
    return cells


def _grid(axes: Mapping[str, Axis]) -> Iterator[tuple[dict[str, str], Table]]:
    """Each combination of labels once, with all that it sets; an axis a value goes `without` is left out."""
    seen = set()
    for labels in itertools.product(*axes.values()):
        picked = dict(zip(axes, labels, strict=True))
        values = {axis: axes[axis][label] for axis, label in picked.items()}
        dropped = {axis for value in values.values() for axis in value.get("without", ())}
        picked = {axis: label for axis, label in picked.items() if axis not in dropped}
        if tuple(picked.items()) in seen:
            continue
        seen.add(tuple(picked.items()))
        settings: Table = {}
        for axis in picked:
            settings = merged(settings, {key: value for key, value in values[axis].items() if key != "without"})
        yield picked, settings


def _applies(adjustment: Adjustment, labels: Mapping[str, str]) -> bool:
    """Whether every label is (one of) what is wanted."""
    wanted = {axis: [want] if isinstance(want, str) else want for axis, want in adjustment.when.items()}
    return all(labels.get(axis) in want for axis, want in wanted.items())


def _parsed(experiment: Experiment, table: Table, where: str) -> Config | GraphStudy:
    if experiment.study == "graphs":
        return GraphStudy.parse(table, where)
    config = Config.parse(table, where)
    _check(config, where)
    return config


def _check(config: Config, where: str) -> None:
    """Names and parameters, before the first of many runs is made and not in the middle of the night."""
    try:
        algorithms.build(config.algorithm.name, config.algorithm.parameters)
        graphs.check(config.graph.name, config.graph.parameters, also=DropoutKeys.model_fields)
        datasets.check(config.data.name, config.data.parameters)
        models.check(config.model.name, config.model.parameters, also=RegularisationKeys.model_fields)
        shards.check(config.sharding.name, config.sharding.parameters)
    except TacitError as error:
        raise TacitError(f"{where}: {error}") from None
