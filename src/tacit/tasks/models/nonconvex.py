"""Logistic regression with a non-convex penalty, the task of the LT-ADMM-DP paper."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from tacit.errors import TacitError
from tacit.tasks.models.per_record import per_record
from tacit.tasks.models.registry import models


@per_record
class NonconvexLogistic(nn.Module):
    """log(1 + exp(−b aᵀx)) + reg · Σ x² / (1 + x²) for labels b = ±1, here the classes 0 and 1, and weights x."""

    def __init__(self, features: int, reg: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(features))
        self.reg = reg

    def forward(self, a: Tensor) -> Tensor:
        """Return two outputs per record, 0 and aᵀx, whose softmax is the logistic function."""
        score = a.flatten(1) @ self.weight
        return torch.stack([torch.zeros_like(score), score], 1)

    def penalty(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """Return reg · Σ x² / (1 + x²), which is added to every record's loss."""
        squares = parameters["weight"].square()
        return self.reg * (squares / (1 + squares)).sum()


@models.register("nonconvex-logistic")
def nonconvex_logistic(inputs: tuple[int, ...], classes: int, reg: float = 0.01) -> nn.Module:
    """Binary logistic regression with the non-convex penalty reg · Σ x² / (1 + x²).

    Args:
        reg: Weight of the penalty.

    >>> nonconvex_logistic((5,), 2)(torch.zeros(3, 5)).shape
    torch.Size([3, 2])
    """
    if classes != 2:
        raise TacitError(f"model nonconvex-logistic needs data with 2 classes, got {classes}")
    return NonconvexLogistic(math.prod(inputs), reg)
