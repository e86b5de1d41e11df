"""The statistics with which a run prepares its records: what each is released for, and how it is used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from tacit.privacy import Array, LedgerFacts
from tacit.tasks import (
    ColumnHistogram,
    Gram,
    Mean,
    RecordPreparation,
    Statistic,
    Task,
    estimate_ranges,
    gram_matrix,
    prepare_records,
    record_preparation,
    use_ranges,
    whitening_matrix,
)

RANGES_FACT = "ranges"  # the key of the released ranges among the facts in the ledger
PREPARED_FACT = "prepared"  # the key of the ids of the vectors that centre and whiten records


class Stage(ABC):
    """One release before round 0. Stages are made in the order of `STAGES`.

    Attributes:
        share: The name in `privacy.shares`.
        title: What is released, in reports.
        purpose: The purpose of the release in the ledger. Purposes are in the order of the stages, too.
    """

    share: ClassVar[str]
    title: ClassVar[str]
    purpose: ClassVar[str]

    @abstractmethod
    def statistic(self, task: Task) -> Statistic:
        """Return what is released, from public facts."""

    @abstractmethod
    def use(self, task: Task, mean: Tensor, deviation: float) -> None:
        """Prepare the records with the mean (length,) of all nodes' noised statistics, and write it to the ledger.

        `deviation` is the standard deviation of the noise in `mean`.

        Privacy:
            What is written and used is computed from released values and public numbers.
        """


class PrivateRanges(Stage):
    """The ranges of private columns."""

    share = "ranges"
    title = "ranges of columns"
    purpose = "column histogram"

    def statistic(self, task: Task) -> Statistic:
        private = task.data.private
        return ColumnHistogram(0 if private is None else len(private.names))

    def use(self, task: Task, mean: Tensor, deviation: float) -> None:
        private = task.data.private
        assert private is not None
        ranges = estimate_ranges(private.schema, mean.numpy(), deviation)
        task.ledger.facts.write(**{RANGES_FACT: ranges})
        use_ranges(task, ranges)


class PrivateCentring(Stage):
    """The mean of all records, which is subtracted from each."""

    share = "mean"
    title = "means of records"
    purpose = "data mean"

    def statistic(self, task: Task) -> Statistic:
        return Mean()

    def use(self, task: Task, mean: Tensor, deviation: float) -> None:
        _prepare(task, RecordPreparation(mean * _nodes_per_record(task)))


class PrivateWhitening(Stage):
    """The second moments of all (centred) records, by whose inverse root each is multiplied."""

    share = "gram"
    title = "second moments of records"
    purpose = "data second moments"

    def statistic(self, task: Task) -> Statistic:
        return Gram()

    def use(self, task: Task, mean: Tensor, deviation: float) -> None:
        factor, centred = _nodes_per_record(task), record_preparation(task)
        whitening = whitening_matrix(gram_matrix(mean) * factor, deviation * factor)
        _prepare(task, RecordPreparation(None if centred is None else centred.mean, whitening))


STAGES: tuple[Stage, ...] = (PrivateRanges(), PrivateCentring(), PrivateWhitening())
RANGES_PURPOSE = PrivateRanges.purpose
PREPARATION_TITLES = {stage.purpose: stage.title for stage in STAGES}
"""What is released before round 0, by the purposes in the ledger."""


def stage_of(purpose: str) -> Stage:
    """Return the stage with this purpose."""
    return next(stage for stage in STAGES if stage.purpose == purpose)


def read_preparation(facts: LedgerFacts, shape: tuple[int, ...]) -> RecordPreparation | None:
    """Return what centres and whitens records of this shape, from the facts in a ledger; None if there is nothing.

    Raises:
        TacitError: A vector is missing or damaged.
        KeyError, TypeError, ValueError: The fact has another form.
    """
    ids = facts.read().get(PREPARED_FACT)
    if ids is None:
        return None
    d = int(np.prod(shape))
    vectors: dict[str, Array] = {key: facts.read_vector(ids[key]) for key in ids}
    mean, whitening = vectors.get("mean"), vectors.get("whitening")
    return RecordPreparation(
        None if mean is None else torch.from_numpy(mean.copy()).view(d),
        None if whitening is None else torch.from_numpy(whitening.copy()).view(d, d),
    )


def _prepare(task: Task, preparation: RecordPreparation) -> None:
    """Prepare the records, and write what prepares them to the ledger, bit for bit."""
    facts = task.ledger.facts
    buffers = {key: value.double().flatten().numpy() for key, value in preparation.named_buffers()}
    facts.write(**{PREPARED_FACT: {key: facts.write_vector(value) for key, value in buffers.items()}})
    prepare_records(task, preparation)


def _nodes_per_record(task: Task) -> float:
    """The factor from a mean over nodes to a mean over records. The numbers of records are public."""
    return float(len(task.network_sizes) / task.network_sizes.sum())
