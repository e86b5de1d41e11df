"""The mean loss over several copies of a record, for augmentation multiplicity."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tacit.tasks.gradients.objective import Objective, Parameters
from tacit.tasks.precision import Precision


class AveragedObjective:
    """The mean of an objective over the K copies of each record, so that its gradient is the mean gradient.

    A record is a tensor (K, …) of copies that share one label and one dropout mask. The objective gets one copy at a
    time, so that the copies cannot be mixed, either.
    """

    def __init__(self, objective: Objective) -> None:
        self.inner, self.layout = objective, objective.layout

    @property
    def precision(self) -> Precision:
        return self.inner.precision

    @property
    def per_record(self) -> bool:
        return self.inner.per_record

    def losses(self, p: Parameters, x: Tensor, y: Tensor, keys: Tensor | None = None) -> Tensor:
        """Return the mean losses (B,) of records x (B, K, …)."""
        copies = x.shape[1]
        repeated = None if keys is None else keys.repeat_interleave(copies)
        losses = self.inner.losses(p, x.flatten(0, 1), y.repeat_interleave(copies, 0), repeated)
        return losses.view(-1, copies).mean(1)

    def record(self, p: Parameters, x: Tensor, y: Tensor, key: Tensor | None = None) -> Tensor:
        """Return the mean loss of the copies x (K, …) of one record."""
        given = () if key is None else (key,)
        return torch.stack([self.inner.record(p, copy, y, *given) for copy in x]).mean()

    def repeat(self, what: str, function: Callable[..., Tensor], *values: Tensor) -> Tensor:
        return function(*values)
