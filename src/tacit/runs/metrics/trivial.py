"""The trivial predictor: what a result is worth without a model.

It predicts the same for every record: the shares of the classes or labels among the test records, and so the majority
class, or the middle of the public range of numbers and counts.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tacit.tasks import Head, Predictions


def trivial_predictions(head: Head | None, y: Tensor) -> Predictions:
    """Return what the trivial predictor predicts for test records with targets y, with the head's own loss."""
    if head is None or not len(y) or head.classifies != (head.target.range is None):
        return Predictions(head, math.nan, None, y)
    if not head.classifies:
        constant = torch.full((), head.target.middle, dtype=torch.float64)
    elif head.target.kind == "labels":
        constant = y.double().mean(0)
    else:
        constant = torch.bincount(y, minlength=head.target.classes).double() / len(y)
    predictions = constant.expand(len(y), *constant.shape)
    outputs = head.link(predictions)
    loss = math.nan if outputs is None else float(head.record_loss(outputs, y).mean())
    return Predictions(head, loss, predictions, y)
