"""Centring and whitening of records with released statistics: each record is prepared by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from tacit.tasks.data import Dataset, Ranges

if TYPE_CHECKING:
    from tacit.tasks.task import Task

_RECORDS_AT_ONCE = 8192


class RecordPreparation(nn.Module):
    """Maps records (B, …) to records of the same shape with unit norm.

        z = x / max(1, ‖x‖),   z ← unit(z − mean),   z ← unit(W z)

    A step without its buffer is left out. Statistics are computed from z as well, so that mean and W describe the
    records to which they are applied.

    Privacy:
        The buffers are computed from released statistics. Given them, a record is prepared by itself, so that one
        record of the prepared data belongs to one record of the data.

    Args:
        mean: (d,) the released mean of the records; None: no centring.
        whitening: (d, d) the symmetric matrix W of the released second moments; None: no whitening.
    """

    mean: Tensor | None
    whitening: Tensor | None

    def __init__(self, mean: Tensor | None = None, whitening: Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("mean", None if mean is None else mean.float())
        self.register_buffer("whitening", None if whitening is None else whitening.float())

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(1)
        if self.mean is not None:
            rows = normalize(_shortened(rows) - self.mean)
        if self.whitening is not None:
            rows = normalize(_shortened(rows) @ self.whitening)
        return rows.view_as(x)


def _shortened(rows: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / norms.clamp(min=1.0)


def prepared_data(data: Dataset, preparation: RecordPreparation | None) -> Dataset:
    """Return the data with all training and test records prepared; None: as they are."""
    if preparation is None:
        return data
    with torch.no_grad():
        x, test_x = (
            torch.cat([preparation(part) for part in torch.split(each, _RECORDS_AT_ONCE)]) if len(each) else each
            for each in (data.x, data.test_x)
        )
    return replace(data, x=x, test_x=test_x)


def whitening_matrix(second_moments: Tensor, deviation: float) -> Tensor:
    """Return W = U (max(w, 0) + level / 2)^(−½) Uᵀ for noised second moments U w Uᵀ (d, d), in double precision.

    Noise of this standard deviation in the triangle of a symmetric matrix (see `Gram`) has a spectrum of about
    ± level = deviation · √(2d). Directions with less than that are not amplified further.

    Privacy:
        This is post-processing of a released value.
    """
    level = deviation * (2 * len(second_moments)) ** 0.5
    values, vectors = torch.linalg.eigh(second_moments.double())
    whitening: Tensor = vectors * (values.clamp(min=0) + level / 2).rsqrt() @ vectors.T
    return whitening


def use_ranges(task: Task, ranges: Ranges | None) -> None:
    """Scale the private columns of all records by released ranges; None: by `within`, as before the release."""
    if task.data.private is not None:
        task._records.use_ranges(ranges)


def prepare_records(task: Task, preparation: RecordPreparation | None) -> None:
    """Centre and whiten all records of a task; None: leave them as they were given."""
    task._records.prepare(preparation)


def record_preparation(task: Task) -> RecordPreparation | None:
    """Return how the records of a task were centred and whitened; None: not at all."""
    return task._records.preparation
