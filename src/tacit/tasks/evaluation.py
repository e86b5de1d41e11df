"""Evaluation of a model on test records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tacit.device import as_double
from tacit.errors import TacitError
from tacit.tasks.heads import Head
from tacit.tasks.model import Model

_RECORDS_AT_ONCE = 2048


class Metrics(NamedTuple):
    """Loss and accuracy on the test set. It belongs to no node and contains no training record."""

    loss: float
    accuracy: float


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model predicts for the test records. The test set belongs to no node and contains no training record.

    Attributes:
        head: Defines the meaning of predictions; None if outputs have no known meaning.
        loss: The mean loss; NaN without records.
        predictions: (M, C) probabilities of a classifier or (M,) values, in the unit of the records; None without head.
        y: The targets, as in `Dataset`.
    """

    head: Head | None
    loss: float
    predictions: Tensor | None
    y: Tensor

    @property
    def metrics(self) -> Metrics:
        """Loss and accuracy. The accuracy of anything but a classifier is NaN, and so are both without records."""
        if not len(self.y) or self.head is None or not self.head.classifies or self.predictions is None:
            return Metrics(self.loss, math.nan)
        correct = self.head.decide(self.predictions) == self.y
        return Metrics(self.loss, float((correct if correct.dim() == 1 else correct.all(1)).double().mean()))


def _losses_and_outputs(model: Model, params: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return losses and outputs, with an error in one sentence. Test records are not protected."""
    try:
        return model.losses_and_outputs(params, x, y)
    except (IndexError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        hint = ": tokens must be below the number of rows of the embedding" if isinstance(error, IndexError) else ""
        raise TacitError(f"the model fails on the test records ({reason}){hint}") from error


@torch.no_grad()
def predict_tests(model: Model, head: Head | None, params: Tensor, x: Tensor, y: Tensor) -> Predictions:
    """Return the predictions of one parameter vector (d,) for records x (M, …) with targets y (M, …).

    They are computed on the device of the parameters, and returned in main memory.
    """
    loss, parts, device = 0.0, [], params.device
    for start in range(0, len(y), _RECORDS_AT_ONCE):
        part = slice(start, start + _RECORDS_AT_ONCE)
        records = x[part].to(params.dtype).to(device) if x.is_floating_point() else x[part].to(device)
        losses, outputs = _losses_and_outputs(model, params, records, y[part].to(device))
        loss += float(losses.sum())
        if head is not None and outputs is not None:
            parts.append(head.predict(as_double(outputs)).cpu())  # in double precision fewer scores are equal
    predictions = torch.cat(parts) if parts else None
    return Predictions(head, loss / len(y) if len(y) else math.nan, predictions, y)
