"""Time and memory of an experiment before it starts, from a few rounds of each kind of cell."""

from __future__ import annotations

import itertools
import json
import math
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tacit.reproduce.cell_runs import experiment_data
from tacit.reproduce.cells import ExperimentCell
from tacit.reproduce.graph_measurement import measure_study
from tacit.reproduce.graph_study import GraphStudy
from tacit.runs import Config, Observer, Run, UserParts, batch_relation, evaluation_interval, from_config
from tacit.version import __version__

_SECONDS, _ROUNDS = 2.0, 200  # a trial ends after so much time or so many rounds, but not before
_FEWEST = 5  # rounds
_NO_INFLUENCE = {"seed", "rounds", "evaluate_every", "privacy", "name"}  # on the time of a round


@dataclass(frozen=True)
class KindEstimate:
    """The measured trial of one kind of cell, scaled to all its cells.

    Attributes:
        title: The cell that was tried.
        cells: Number of cells of this kind that are not finished.
        start, round, evaluation: Seconds of each. The start includes data, calibration and round 1.
        seconds: Time of all these cells, one after the other.
    """

    title: str
    cells: int
    start: float
    round: float
    evaluation: float
    seconds: float


def estimate_cells(cells: Sequence[ExperimentCell], jobs: int = 1) -> dict[str, Any]:
    """Measure one cell of each kind, and scale the time to all cells. Data are downloaded and loaded if needed.

    Seconds are those of one core, or, for runs on another device, of a clock on the wall.
    """
    kinds: dict[str, list[ExperimentCell]] = {}
    for cell in cells:
        kinds.setdefault(cell_kind(cell), []).append(cell)
    tried = [_try_study(kind) if isinstance(kind[0].config, GraphStudy) else _try_runs(kind) for kind in kinds.values()]
    seconds = sum(each.seconds for each in tried)
    return {
        "cells": len(cells),
        "seconds": round(seconds, 1),
        "jobs": jobs,
        "bytes": _peak_memory(),
        "kinds": [asdict(each) for each in tried],
        "versions": {"tacit": __version__},
    }


def cell_kind(cell: ExperimentCell) -> str:
    """Cells of one kind take the same time per round. Seed, ε and real-valued hyperparameters have no influence."""
    if isinstance(cell.config, GraphStudy):
        return json.dumps([cell.config.source.name, cell.config.learner.name, cell.config.learner.release])
    table = cell.config.model_dump(mode="json", exclude=_NO_INFLUENCE)
    for key in cell.seeded:
        section, _, name = key.partition(".")
        table[section].pop(name, None)
    table["algorithm"] = {key: value for key, value in table["algorithm"].items() if not isinstance(value, float)}
    calibrated = cell.config.privacy.epsilon is not None and cell.config.privacy.calibration
    return json.dumps([table, calibrated, cell.held_out], sort_keys=True)


def estimate_sentence(estimate: Mapping[str, Any]) -> str:
    """An estimate in a sentence.

    >>> estimate_sentence({"cells": 12, "seconds": 7300.0, "bytes": 1.5e9})
    'Estimate: 12 cells, 2.0 hours of one core, 1.5 GB of memory per process.'
    >>> estimate_sentence({"cells": 1, "seconds": 90.0, "bytes": 1.5e9})
    'Estimate: 1 cell, 2 min of one core, 1.5 GB of memory per process.'
    """
    hours = estimate["seconds"] / 3600
    time_text = f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:.1f} days"
    if hours < 1:
        time_text = f"{math.ceil(estimate['seconds'] / 60)} min" if hours > 1 / 60 else f"{estimate['seconds']:.0f} s"
    cells = f"{estimate['cells']} cell{'s' if estimate['cells'] != 1 else ''}"
    return f"Estimate: {cells}, {time_text} of one core, {estimate['bytes'] / 1e9:.1f} GB of memory per process."


class _Trial(Observer):
    """Times the first rounds of a run, of which every second one is evaluated, and then ends it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.ends = [clock()]

    def on_round(self, run: Run) -> None:
        self.ends.append(self._clock())
        if run.t >= _ROUNDS or (run.t >= _FEWEST and self.ends[-1] > self.ends[1] + _SECONDS):
            raise KeyboardInterrupt

    @property
    def times(self) -> tuple[float, float, float]:
        """Seconds of the start with the first round, of a round, and of an evaluation."""
        first, *later = [end - begin for begin, end in itertools.pairwise(self.ends)] or [0.0]
        evaluated, plain = later[::2], later[1::2]  # rounds 2, 4, … and 3, 5, …
        if not plain:
            return first, statistics.median(evaluated or [first]), 0.0
        per_round = statistics.median(plain)
        return first, per_round, max(0.0, statistics.median(evaluated) - per_round)


def _try_runs(cells: Sequence[ExperimentCell]) -> KindEstimate:
    config = cells[0].config
    assert isinstance(config, Config)
    trial = _Trial(time.process_time if config.device == "cpu" else time.monotonic)  # other programs do not count
    data = experiment_data(config.data.model_dump_json(), batch_relation(config.batch), cells[0].held_out)
    # The run has its full length, so that its noise is calibrated as in the experiment.
    config = config.model_copy(update={"evaluate_every": 2})
    from_config(config, UserParts(data=data), observers=[trial]).go()
    start, per_round, evaluation = trial.times
    seconds = sum(start + per_round * (_rounds(cell) - 1) + evaluation * _evaluations(cell) for cell in cells)
    return KindEstimate(cells[0].title, len(cells), start, per_round, evaluation, seconds)


def _try_study(cells: Sequence[ExperimentCell]) -> KindEstimate:
    """A whole cell, and then one with another seed, which does not search the parameters again."""
    first = cells[0].config
    assert isinstance(first, GraphStudy)
    times = []
    for config in (first, first.model_copy(update={"seed": first.seed + 1})):
        began = time.process_time()
        measure_study(config)
        times.append(time.process_time() - began)
    search = max(0.0, times[0] - times[1])
    searches = len({json.dumps(cell.config.model_dump(mode="json", exclude={"seed"})) for cell in cells})
    return KindEstimate(cells[0].title, len(cells), search, 0.0, times[1], searches * search + len(cells) * times[1])


def _rounds(cell: ExperimentCell) -> int:
    return cell.rounds or 1


def _evaluations(cell: ExperimentCell) -> int:
    """Evaluations after the start, which has the first."""
    assert isinstance(cell.config, Config)
    every = cell.config.evaluate_every or evaluation_interval(cell.config.rounds)
    return math.ceil(_rounds(cell) / every)


def _peak_memory() -> int:
    """The largest memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
