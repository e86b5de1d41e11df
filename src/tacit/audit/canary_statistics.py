"""Attacks on the statistics before round 0, with canaries that move each of them as far as possible."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from tacit.algorithms import Algorithm
from tacit.audit.bounds import Array
from tacit.audit.canary_task import with_orthogonal
from tacit.audit.paired_trials import ColluderNoise
from tacit.audit.recording import RecordingNetwork
from tacit.graphs import Graph
from tacit.privacy import Relation
from tacit.runs import release_statistic, stage_of
from tacit.tasks import ColumnHistogram, Dataset, Gram, Statistic, TableSchema, Task
from tacit.tasks.data import RANGE_BINS, PrivateColumns

_COLUMNS = ("a", "b")  # of the trials: their histograms together have sensitivity √2 or 2
_MIDDLE = RANGE_BINS // 2
_BINS = (0, 1, _MIDDLE, RANGE_BINS - 1)  # that are attacked; the others contain noise only


def with_private_columns(data: Dataset) -> Dataset:
    """Return the four canary records with two columns whose range is private.

    The numbers of the canary are in the first bin. Those of an absent record are missing, those of the opposite are in
    the last bin, and those of all others are in the middle.
    """
    column = {"range": "private", "within": [0, 1]}
    schema = TableSchema.parse({**dict.fromkeys(_COLUMNS, column), "y": {"label": ["0", "1"]}})
    numbers = np.repeat(np.array([[np.nan], [0.0], [1.0], [0.5]]), len(_COLUMNS), axis=1)
    return replace(data, private=PrivateColumns(schema, numbers, numbers))


def worst_records(data: Dataset, statistic: Statistic, relation: Relation) -> Dataset:
    """Return the canary records whose difference moves the statistic as far as its sensitivity allows.

    Opposite records have the same second moments, so an orthogonal record replaces the canary there. In a run, centring
    can turn opposite records into orthogonal ones, so one pair of records can be the worst case of both statistics.
    """
    if not isinstance(statistic, Gram) or relation == "add-remove":
        return data
    return replace(data, x=with_orthogonal(data.x))


def attack_statistics(algorithm: Algorithm[Any], task: Task, graph: Graph, trials: int, known: ColluderNoise) -> Array:
    """Release the planned statistics in all trials, and return what the adversary sees of them (trials, numbers).

    Records are not prepared with what is released: the gradient of a canary has the length of the clip however its
    record is prepared.
    """
    seen: list[Array] = [np.empty((trials, 0))]
    for planned in algorithm.preparation:
        worst, statistic = copy.copy(task), stage_of(planned.purpose).statistic(task)
        data = worst_records(task.data, statistic, task.sampling.relation)
        worst._records = task._records.with_data(data)
        network = _ColumnsNetwork(graph, trials, _attacked_columns(statistic, task.data))
        release_statistic(worst, planned, network)
        known.known[:] = [each[:, network.columns] for each in known.known]
        seen.append(known.beside(network.transcripts()))
        known.known.clear()
    return np.concatenate(seen, axis=1)


class _ColumnsNetwork(RecordingNetwork):
    """Records some columns of every message."""

    def __init__(self, graph: Graph, trials: int, columns: list[int]) -> None:
        super().__init__(graph, trials)
        self.columns = columns

    def _record(self, *values: Tensor) -> None:
        super()._record(*(value[:, self.columns] for value in values))


def _attacked_columns(statistic: Statistic, data: Dataset) -> list[int]:
    if not isinstance(statistic, ColumnHistogram):
        return list(range(statistic.length(data)))
    return [k * RANGE_BINS + place for k in range(statistic.columns) for place in _BINS]
