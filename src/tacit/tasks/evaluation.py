"""Evaluation of a model on the test set."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from tacit.tasks.model import Model

_RECORDS_AT_ONCE = 2048


class Metrics(NamedTuple):
    """Loss and accuracy on the test set. It belongs to no node and contains no training record."""

    loss: float
    accuracy: float


@torch.no_grad()
def evaluate(model: Model, params: Tensor, x: Tensor, y: Tensor, dtype: torch.dtype) -> Metrics:
    """Return mean loss and accuracy of one parameter vector (d,) on records x (M, …) and labels y (M,).

    Both are NaN without records: whether a share of the records leaves any for testing is not an error.
    """
    if not len(y):
        return Metrics(math.nan, math.nan)
    loss = correct = 0.0
    for start in range(0, len(y), _RECORDS_AT_ONCE):
        part = slice(start, start + _RECORDS_AT_ONCE)
        losses, is_correct = model.scores(params, x[part].to(dtype), y[part])
        loss, correct = loss + float(losses.sum()), correct + float(is_correct.sum())
    return Metrics(loss / len(y), correct / len(y))
