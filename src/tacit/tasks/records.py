"""The training records of the hosted nodes, and the sums of gradients over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.device import has_double
from tacit.errors import TacitError
from tacit.privacy import Draw, Noise
from tacit.tasks.augmentation import Augmentation
from tacit.tasks.batch_loader import BatchLoader
from tacit.tasks.clip import Clip
from tacit.tasks.data import Dataset, Ranges, with_ranges
from tacit.tasks.model import Model
from tacit.tasks.preparation import RecordPreparation, prepared_data

CPU = torch.device("cpu")


class Records:
    """The only object of a task from which records can be read. Algorithms do not get it.

    Attributes:
        data: The training and test records.
        shards: The indices of each hosted node's training records.
        preparation: Centres and whitens records; None: they are as given.
        augmentation: How the copies of each record are made; None: every record is used as it is.
    """

    preparation: RecordPreparation | None

    def __init__(
        self,
        model: Model,
        data: Dataset,
        shards: Sequence[npt.NDArray[np.int64]],
        augmentation: Augmentation | None = None,
        device: torch.device = CPU,
    ) -> None:
        self._model, self.data, self.shards, self.augmentation = model, data, shards, augmentation
        self._device = device
        self._unprepared, self.preparation = data, None
        if augmentation is not None:
            augmentation.check(data.inputs)
        self._loader = BatchLoader(data, shards, device)
        self._longest: float | None = None

    def copy_keys(self, noise: Noise, nodes: npt.NDArray[np.int64], step: int, records: Tensor) -> Tensor | None:
        """Return the keys (n, B) of the copies of drawn records; None without copies."""
        return None if self.augmentation is None else self.augmentation.keys(noise, nodes, step, records)

    def of_nodes(self, rows: Sequence[int]) -> tuple[Dataset, list[npt.NDArray[np.int64]]]:
        """Return copies of some nodes' records, and their shards in it."""
        parts = [self.shards[row] for row in rows]
        records, positions = np.unique(np.concatenate(parts), return_inverse=True)
        return self.data.subset(records), np.split(positions, np.cumsum([len(part) for part in parts])[:-1])

    def with_data(self, data: Dataset) -> Records:
        """Return the records of other data in the same shards, for audits."""
        return Records(self._model, data, self.shards, self.augmentation, self._device)

    def gradient_sum(
        self,
        params: Tensor,
        drawn: Draw,
        clip: Clip | None,
        before: Tensor | None = None,
        distinct: int | None = None,
        keys: Tensor | None = None,
        copy_keys: Tensor | None = None,
    ) -> Tensor:
        """Return Σ_b weight_b ∇ℓ_b over each node's drawn records, clipped, plus the gradient of the weight decay.

        `keys` (n, B) determine the records' dropout masks, `copy_keys` (n, B) their augmented copies (None: no copies).

        A record whose clipped gradient is not finite, or for which the model raises an error, counts as 0, which is
        within the bound: it must not stop the run, because the stop would reveal the record.
        """
        value, model = torch.empty_like(params), self._model
        weights, keys, copy_keys = (None if k is None else k.to(params.device) for k in (drawn.weight, keys, copy_keys))
        assert weights is not None
        for rows, x, y in self._loader.batches(drawn, distinct):
            weight, earlier = weights[rows, : y.shape[1]], None if before is None else before[rows]
            bound = None if clip is None else clip.for_nodes(rows)
            masks = None if keys is None else keys[rows, : y.shape[1]]
            x, copies = self._copied(x, copy_keys, rows)
            try:
                part = model.gradient_sum(params[rows], x, y, weight, bound, value[rows], earlier, masks, copies)
                redo = [] if bool(part.sum().isfinite()) else (~part.isfinite().all(1)).nonzero()[:, 0].tolist()
            except Exception:  # a user's module may raise anything
                if bound is None or not self._accepts_zeros(params[rows], x, y, bound, earlier, copies):
                    raise
                redo = list(range(len(x)))
            if bound is None:
                continue
            for node in redo:
                one = slice(node, node + 1)
                before_one = None if earlier is None else earlier[one]
                masks_one = None if masks is None else masks[one]
                batch = params[rows][one], x[one], y[one], weight[one], bound.for_nodes(one), before_one, masks_one
                value[rows][one] = self._sum_of_finite(*batch, copies)
        if model.weight_decay:  # depends on no record, so it is not clipped
            value.add_(params if before is None else params - before, alpha=model.weight_decay)
        return value

    def _copied(self, x: Tensor, keys: Tensor | None, rows: slice) -> tuple[Tensor, int]:
        """Return the records of some nodes with their copies, and the number of copies."""
        if self.augmentation is None or keys is None:
            return x, 1
        x = self.augmentation.expand(x, keys[rows, : x.shape[1]])
        return (x, x.shape[2]) if x.shape[2] > 1 else (x.squeeze(2), 1)

    def _sum_of_finite(
        self,
        params: Tensor,
        x: Tensor,
        y: Tensor,
        weight: Tensor,
        clip: Clip,
        before: Tensor | None,
        keys: Tensor | None,
        copies: int,
    ) -> Tensor:
        """Return one node's sum, one record at a time, without records whose own clipped gradient is not finite.

        What a record contributes depends on this record and on the parameters only. A batch that is clipped as a
        whole counts as 0, which is within its bound.
        """
        total, one = torch.zeros_like(params), torch.ones_like(weight[:, :1])
        for k in range(y.shape[1]) if clip.per == "record" else ():
            record, masks = slice(k, k + 1), None if keys is None else keys[:, k : k + 1]
            try:
                parts = x[:, record], y[:, record], one
                alone = self._model.gradient_sum(params, *parts, clip, None, before, masks, copies)
            except Exception:
                continue
            if bool(alone.isfinite().all()):
                total.add_(alone, alpha=float(weight[0, k]))
        return total

    def _accepts_zeros(
        self, params: Tensor, x: Tensor, y: Tensor, clip: Clip, before: Tensor | None, copies: int
    ) -> bool:
        """Whether the model has a gradient for a record of zeros. If not, an error has nothing to do with records."""
        zeros, labels = torch.zeros_like(x[:, :1]), torch.zeros_like(y[:, :1])
        one = params.new_ones(labels.shape[:2])
        try:
            self._model.gradient_sum(params, zeros, labels, one, clip, None, before, copies=copies)
        except Exception:
            return False
        return True

    def all_of_each_node(self, dtype: torch.dtype) -> Draw:
        """Return the draw of all records, weighted for the mean over each node."""
        sizes = torch.tensor([[len(shard)] for shard in self.shards])
        positions = torch.arange(self._loader.records.shape[1])
        return Draw(positions.repeat(len(sizes), 1), (positions < sizes).to(dtype) / sizes)

    def limit_lengths(self, longest: float) -> None:
        """Scale training records that are longer than `longest` (L2 norm) down to it, for gradients only.

        Norms up to 1e-6 above it count as rounding errors: such records stay as they are, bit for bit.
        """
        self._longest, x = longest, self.data.x
        norms = torch.linalg.vector_norm(x.flatten(1), dim=1, dtype=torch.float64)
        factors = torch.where(norms > longest * (1 + 1e-6), longest / norms, 1.0).to(x.dtype)
        shortened = replace(self.data, x=x * factors.view(-1, *[1] * (x.dim() - 1)))
        self._loader = BatchLoader(shortened, self.shards, self._device)

    def use_ranges(self, ranges: Ranges | None) -> None:
        """Scale the private columns of all records by released ranges; None: as before the release."""
        self._unprepared = with_ranges(self._unprepared, ranges)
        self.prepare(self.preparation)

    def prepare(self, preparation: RecordPreparation | None) -> None:
        """Centre and whiten all records, as they were without any preparation; None: leave them so."""
        self.preparation, self.data = preparation, prepared_data(self._unprepared, preparation)
        self._loader = BatchLoader(self.data, self.shards, self._device)
        if self._longest is not None:
            self.limit_lengths(self._longest)


def refuse_gradient(*args: object, **kwargs: object) -> NoReturn:
    """Stand in for `Task.gradient` and `Task.statistic` before a run begins."""
    raise TacitError(
        "Gradients and statistics can be computed in start and round only: bind must not depend on the records"
    )


def checked_dtype(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """Return the dtype, or raise if its floats are too coarse for the grid of released values."""
    if dtype not in (torch.float32, torch.float64):
        raise TacitError(f"dtype must be torch.float32 or torch.float64, got {dtype}")
    if dtype == torch.float64 and not has_double(device):
        raise TacitError(f"dtype must be torch.float32 on {device.type}, which has no double precision")
    return dtype
