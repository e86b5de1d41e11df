"""The cells of an experiment: one run each, with its labels and its complete config."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tacit.errors import TacitError
from tacit.graphs import graphs
from tacit.reproduce.experiment import CALIBRATION_AXIS, Experiment
from tacit.reproduce.graph_study import GraphStudy
from tacit.reproduce.settings import AxisValues, Settings, merge_settings, nested_setting
from tacit.runs import Config, DropoutKeys, UserParts, build_algorithm, check_names

_RESULT_FORMAT = 4  # part of every key: increase it when the saved results or defaults change


@dataclass(frozen=True)
class ExperimentCell:
    """One run of an experiment. With `held_out`, that many training records are the test set.

    Attributes:
        seeded: Settings that are the cell's seed too.
        full_rounds: Number of rounds in the experiment's file; None if the cell trains no models.
        published_rounds: Number of rounds of the paper's run, if the experiment states it.
    """

    labels: Mapping[str, str]
    calibration: str | None
    seed: int
    config: Config | GraphStudy
    held_out: int | None = None
    seeded: tuple[str, ...] = ()
    full_rounds: int | None = None
    published_rounds: int | None = None

    @property
    def key(self) -> str:
        """Identifies the run: cells with the same config have the same key, whatever their labels.

        A new setting that has its default value does not change the key.
        """
        config = self.config.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
        run = {"format": _RESULT_FORMAT, "config": config, "held_out": self.held_out}
        return hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()[:20]

    @property
    def rounds(self) -> int | None:
        """Number of rounds that the cell runs; None if it trains no models."""
        return self.config.rounds if isinstance(self.config, Config) else None

    def with_seed(self, seed: int) -> ExperimentCell:
        """The same cell with another seed."""
        changes: Settings = {"seed": seed}
        for key in self.seeded:
            section, _, name = key.partition(".")
            changes[section] = getattr(self.config, section).model_copy(update={name: seed})
        return replace(self, seed=seed, config=self.config.model_copy(update=changes))

    def with_rounds(self, rounds: int) -> ExperimentCell:
        """The same cell with another length and as many evaluations."""
        config, full = self.config, self.full_rounds
        if not isinstance(config, Config) or full is None:
            raise TacitError(f"rounds do not apply to {self.title}: it trains no models")
        every = config.evaluate_every
        if every is not None and rounds != config.rounds:
            every = max(1, round(every * rounds / config.rounds))
        return replace(self, config=config.model_copy(update={"rounds": rounds, "evaluate_every": every}))

    @property
    def title(self) -> str:
        labels = [value if axis == "method" else f"{axis} {value}" for axis, value in self.labels.items()]
        return ", ".join([*labels, *([f"{self.calibration} ε"] if self.calibration else []), f"seed {self.seed}"])


def expand_cells(
    experiment: Experiment, held_out: int | None = None, rounds: int | None = None
) -> list[ExperimentCell]:
    """All cells of an experiment. Every config is checked before the first run.

    With `rounds`, the longest cells run that many rounds, and the others are shortened or extended in proportion.

    >>> axes = {"method": {"A": {"algorithm": "sgp", "without": ["calibration"]}, "B": {"algorithm": "dyn-d2p"}}}
    >>> cells = expand_cells(Experiment.model_validate({"title": "", "axes": axes, "chart": {"series": "method"}}))
    >>> [cell.title for cell in cells]
    ['A, seed 0', 'B, paper ε, seed 0', 'B, guaranteed ε, seed 0']
    """
    axes = experiment.axes
    if experiment.calibrations:
        calibrations: AxisValues = {name: {"privacy": {"calibration": name}} for name in experiment.calibrations}
        axes = {**axes, CALIBRATION_AXIS: calibrations}
    cells = []
    for labels, settings in _combinations(axes):
        where = ", ".join(labels.values())
        table = merge_settings(experiment.base, settings)
        for conditional in experiment.adjust:
            if conditional.applies_to(labels):
                table = merge_settings(table, conditional.set)
        calibration = labels.pop(CALIBRATION_AXIS, None)
        for seed in experiment.seeds:
            config = _parse(experiment, _with_seed(table, seed, experiment.seeded), where)
            full = config.rounds if isinstance(config, Config) else None
            published = experiment.rounds_of_paper(labels)
            seeded = tuple(experiment.seeded)
            cells.append(ExperimentCell(labels, calibration, seed, config, held_out, seeded, full, published))
    return cells if rounds is None else _at_length(experiment, cells, rounds)


def _at_length(experiment: Experiment, cells: list[ExperimentCell], rounds: int) -> list[ExperimentCell]:
    if experiment.study != "training":
        raise TacitError(f"rounds do not apply to “{experiment.title}”: it learns graphs and trains no models")
    if rounds < 1:
        raise TacitError(f"rounds must be at least 1, got {rounds}")
    longest = max(cell.full_rounds or 1 for cell in cells)
    return [cell.with_rounds(max(1, round((cell.full_rounds or 1) * rounds / longest))) for cell in cells]


def _combinations(axes: Mapping[str, AxisValues]) -> Iterator[tuple[dict[str, str], Settings]]:
    """Each combination of labels once, with its settings. Axes in a value's `without` are left out."""
    seen = set()
    for labels in itertools.product(*axes.values()):
        chosen = dict(zip(axes, labels, strict=True))
        values = {axis: axes[axis][label] for axis, label in chosen.items()}
        excluded = {axis for value in values.values() for axis in value.get("without", ())}
        chosen = {axis: label for axis, label in chosen.items() if axis not in excluded}
        if tuple(chosen.items()) in seen:
            continue
        seen.add(tuple(chosen.items()))
        settings: Settings = {}
        for axis in chosen:
            own = {key: value for key, value in values[axis].items() if key != "without"}
            settings = merge_settings(settings, own)
        yield chosen, settings


def _with_seed(table: Settings, seed: int, seeded: Iterable[str]) -> Settings:
    """
    >>> _with_seed({"data": {"name": "synthetic-logistic"}}, 3, ["data.seed"])
    {'data': {'name': 'synthetic-logistic', 'seed': 3}, 'seed': 3}
    """
    for key in ("seed", *seeded):
        table = merge_settings(table, nested_setting(key, seed))
    return table


def _parse(experiment: Experiment, table: Settings, where: str) -> Config | GraphStudy:
    if experiment.study == "graphs":
        return GraphStudy.parse(table, where)
    config = Config.parse(table, where)
    _check_names(config, where)
    return config


def _check_names(config: Config, where: str) -> None:
    """Check names and parameters now: otherwise a wrong one would stop the experiment after hours."""
    try:
        check_names(config, UserParts())
        build_algorithm(config.algorithm)
        graphs.check(config.graph.name, config.graph.parameters, also=DropoutKeys.model_fields)
    except TacitError as error:
        raise TacitError(f"{where}: {error}") from None
