"""Batch normalisation with fixed statistics: an affine map of each record.

Privacy:
    The statistics are those that the module had when it was given to the model. They are never updated, whatever mode
    the layer is in, so no record influences another one through them. They must not be computed from the private
    records, as the other parameters of a pre-trained module must not.
"""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _NormBase

from tacit.tasks.models.per_record import per_record


def is_frozen(layer: _NormBase) -> bool:
    """Return whether a layer in its present mode uses its running statistics, and leaves them as they are."""
    return not layer.training and layer.running_mean is not None and layer.running_var is not None


class _Frozen:
    """Uses the running statistics in every mode."""

    def forward(self: Any, x: Tensor) -> Tensor:
        self._check_input_dim(x)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)


@per_record
class FrozenBatchNorm1d(_Frozen, nn.BatchNorm1d):
    """`nn.BatchNorm1d` with fixed statistics."""


@per_record
class FrozenBatchNorm2d(_Frozen, nn.BatchNorm2d):
    """`nn.BatchNorm2d` with fixed statistics."""


@per_record
class FrozenBatchNorm3d(_Frozen, nn.BatchNorm3d):
    """`nn.BatchNorm3d` with fixed statistics."""
