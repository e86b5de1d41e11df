"""What a task asks of its records in one step, and the sums that answer it: alone, or for several tasks at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.privacy import Noise
from tacit.tasks.batch_sums import GradientPoint
from tacit.tasks.records import Records
from tacit.tasks.sampling import Sampler


@dataclass(frozen=True, eq=False)
class GradientRequest:
    """The mean gradients of one draw at one point.

    Attributes:
        records: The records of the hosted nodes.
        sampler: What draws a batch of them.
        noise: The source of dropout masks and augmented copies.
        nodes: The global ids of the hosted nodes.
        step: The number of the draw.
        point: The parameters and the bound.
    """

    records: Records
    sampler: Sampler
    noise: Noise
    nodes: npt.NDArray[np.int64]
    step: int
    point: GradientPoint

    def share_batches(self, other: GradientRequest) -> None:
        """Share draws and batches with another task of a simulation, as far as they are the same.

        Both tasks must have models that are made alike.
        """
        self.sampler.share_draws(other.sampler)
        self.records.share_batches(other.records)

    def has_same_batch(self, other: GradientRequest) -> bool:
        """Whether both are answered from the same draw, which is then made once."""
        same = self.sampler.has_same_draws(other.sampler) and self.records.has_same_batches(other.records)
        return same and self.step == other.step and self.point.params.dtype == other.point.params.dtype

    @property
    def stacks(self) -> bool:
        """Whether an answer for several tasks takes less time than one answer for each of them."""
        return self.records.stacks_cells()


def sum_alone(request: GradientRequest) -> Tensor:
    """Return each node's sum of gradients over its draw, divided by the expected batch size (n, d)."""
    return sum_together([request])[0]


def sum_together(requests: Sequence[GradientRequest]) -> list[Tensor]:
    """Return the sums of several requests with the same batch, which is drawn and loaded once."""
    first = requests[0]
    records, sampler, dtype = first.records, first.sampler, first.point.params.dtype
    drawn = sampler.draw(first.step)
    of_step = first.noise, first.nodes, first.step, drawn.records
    copies, masks = records.copy_keys(*of_step), records.mask_keys(*of_step)
    weight = drawn.weight.to(dtype) / torch.from_numpy(sampler.batch[:, None]).to(dtype)
    points = [request.point for request in requests]
    return records.gradient_sums(points, drawn._replace(weight=weight), sampler.distinct, masks, copies)
