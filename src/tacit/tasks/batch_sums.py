"""Clipped sums of gradients over one batch, at one or several points: no record stops a run or exceeds its bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tacit.tasks.clip import Clip
from tacit.tasks.model import Model


@dataclass(frozen=True, eq=False)
class GradientPoint:
    """Where gradients are computed, and how they are bounded.

    Attributes:
        params: The nodes' parameters (n, d).
        clip: The bound; None: no bound.
        before: Earlier parameters (n, d). If given, differences of gradients are bounded and summed.
    """

    params: Tensor
    clip: Clip | None = None
    before: Tensor | None = None

    def of_nodes(self, rows: slice) -> GradientPoint:
        """Return the point of some of the nodes."""
        clip = None if self.clip is None else self.clip.for_nodes(rows)
        return GradientPoint(self.params[rows], clip, None if self.before is None else self.before[rows])

    def stacks_with(self, other: GradientPoint) -> bool:
        """Whether both can be computed in one call: they differ in parameters and bounds only."""
        plain = self.before is None and other.before is None
        return plain and self.params.shape == other.params.shape and _kind(self.clip) == _kind(other.clip)


class DrawnRecords(NamedTuple):
    """The drawn records of some nodes.

    Attributes:
        x, y: The records (n, B, …) and their targets (n, B, …).
        weight: Their weights (n, B) in main memory; 0 for padding.
        masks: The keys (n, B) of their dropout masks; None: no dropout.
        copies: K. With K > 1, x (n, B, K, …) has K copies of each record.
    """

    x: Tensor
    y: Tensor
    weight: Tensor
    masks: Tensor | None
    copies: int

    def of_record(self, node: int, record: int) -> DrawnRecords:
        """Return the batch of one record of one node, with weight 1."""
        i, k = slice(node, node + 1), slice(record, record + 1)
        masks = None if self.masks is None else self.masks[i, k]
        return DrawnRecords(self.x[i, k], self.y[i, k], torch.ones_like(self.weight[i, k]), masks, self.copies)


def write_sums(model: Model, points: Sequence[GradientPoint], batch: DrawnRecords, outs: Sequence[Tensor]) -> None:
    """Write Σ_b weight_b ∇ℓ_b, clipped, at each point into its tensor of `outs` (n, d).

    A record whose clipped gradient is not finite, or for which the model raises an error, counts as 0, which is
    within the bound: it must not stop the run, because the stop would reveal the record.
    """
    for group in _stacks(points):
        if len(group) > 1 and _write_together(model, [points[i] for i in group], batch, [outs[i] for i in group]):
            continue
        for i in group:
            _write_alone(model, points[i], batch, outs[i])


def _kind(clip: Clip | None) -> tuple[str, str] | None:
    return None if clip is None else (clip.norm, clip.per)


def _stacks(points: Sequence[GradientPoint]) -> Iterator[list[int]]:
    """Yield the indices of points that can be computed in one call."""
    rest = list(range(len(points)))
    while rest:
        stack = [rest[0], *(i for i in rest[1:] if points[rest[0]].stacks_with(points[i]))]
        rest = [i for i in rest if i not in stack]
        yield stack


def _write_together(model: Model, points: Sequence[GradientPoint], batch: DrawnRecords, outs: Sequence[Tensor]) -> bool:
    """Write the sums of all points with one call; return False if it does not support them."""
    if batch.copies > 1 or batch.masks is not None or not model.stacks_cells(batch.x):
        return False
    params, clips = torch.stack([point.params for point in points]), [point.clip for point in points]
    try:
        parts = model.gradient_sums(params, batch.x, batch.y, batch.weight, clips)
    except Exception:  # alone, each point handles what a record causes
        return False
    for point, out, part in zip(points, outs, parts, strict=True):
        out.copy_(part)
        _replace_infinite(model, point, batch, out)
    return True


def _write_alone(model: Model, point: GradientPoint, batch: DrawnRecords, out: Tensor) -> None:
    x, y, weight, masks, copies = batch
    try:
        model.gradient_sum(point.params, x, y, weight, point.clip, out, point.before, masks, copies)
    except Exception:  # a user's module may raise anything
        if point.clip is None or not _accepts_zeros(model, point, batch):
            raise
        for node in range(len(x)):
            out[node] = _sum_of_finite(model, point, batch, node)
    else:
        _replace_infinite(model, point, batch, out)


def _replace_infinite(model: Model, point: GradientPoint, batch: DrawnRecords, out: Tensor) -> None:
    """Compute the rows of a bounded sum that are not finite again, one record at a time."""
    if point.clip is None or bool(out.sum().isfinite()):
        return
    for node in (~out.isfinite().all(1)).nonzero()[:, 0].tolist():
        out[node] = _sum_of_finite(model, point, batch, node)


def _sum_of_finite(model: Model, point: GradientPoint, batch: DrawnRecords, node: int) -> Tensor:
    """Return one node's sum (d,), one record at a time, without records whose own clipped gradient is not finite.

    What a record contributes depends on this record and on the parameters only. A batch that is clipped as a whole
    counts as 0, which is within its bound.
    """
    at = point.of_nodes(slice(node, node + 1))
    total = torch.zeros_like(at.params)
    assert at.clip is not None
    for k in range(batch.y.shape[1]) if at.clip.per == "record" else ():
        x, y, one, masks, copies = batch.of_record(node, k)
        try:
            alone = model.gradient_sum(at.params, x, y, one, at.clip, None, at.before, masks, copies)
        except Exception:
            continue
        if bool(alone.isfinite().all()):
            total.add_(alone, alpha=float(batch.weight[node, k]))
    return total[0]


def _accepts_zeros(model: Model, point: GradientPoint, batch: DrawnRecords) -> bool:
    """Whether the model has a gradient for a record of zeros. If not, an error has nothing to do with records."""
    zeros, labels = torch.zeros_like(batch.x[:, :1]), torch.zeros_like(batch.y[:, :1])
    one = torch.ones_like(batch.weight[:, :1])
    try:
        model.gradient_sum(point.params, zeros, labels, one, point.clip, None, point.before, copies=batch.copies)
    except Exception:
        return False
    return True
