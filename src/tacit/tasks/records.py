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
from tacit.tasks.batch_sums import DrawnRecords, GradientPoint, write_sums
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

    def mask_keys(self, noise: Noise, nodes: npt.NDArray[np.int64], step: int, records: Tensor) -> Tensor | None:
        """Return the keys (n, B) of the dropout masks of drawn records; None without dropout."""
        return self._model.mask_keys(noise, nodes, step, records)

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
    ) -> Tensor:
        """Return Σ_b weight_b ∇ℓ_b over each node's drawn records, clipped, plus the gradient of the weight decay."""
        return self.gradient_sums([GradientPoint(params, clip, before)], drawn, distinct)[0]

    def gradient_sums(
        self,
        points: Sequence[GradientPoint],
        drawn: Draw,
        distinct: int | None = None,
        keys: Tensor | None = None,
        copy_keys: Tensor | None = None,
    ) -> list[Tensor]:
        """Return the sum of `gradient_sum` at several points. The records are read once.

        `keys` (n, B) determine the records' dropout masks, `copy_keys` (n, B) their augmented copies (None: no copies).
        """
        values = [torch.empty_like(point.params) for point in points]
        device = values[0].device
        keys, copy_keys = (None if k is None else k.to(device) for k in (keys, copy_keys))
        for rows, x, y in self._loader.batches(drawn, distinct):
            masks = None if keys is None else keys[rows, : y.shape[1]]
            x, copies = self._copied(x, copy_keys, rows)
            batch = DrawnRecords(x, y, drawn.weight[rows, : y.shape[1]], masks, copies)
            write_sums(self._model, [point.of_nodes(rows) for point in points], batch, [out[rows] for out in values])
        if self._model.weight_decay:  # depends on no record, so it is not clipped
            for point, value in zip(points, values, strict=True):
                moved = point.params if point.before is None else point.params - point.before
                value.add_(moved, alpha=self._model.weight_decay)
        return values

    def share_batches(self, other: Records) -> None:
        """Use the batches of another task of the same simulation if they are the same: it then copies them once.

        Both tasks must have models that are made alike. They may differ in the positions of their parameters.
        """
        mine, theirs = self._model, other._model
        same_form = (mine.layout, mine.weight_decay) == (theirs.layout, theirs.weight_decay)
        if same_form and self.augmentation == other.augmentation and self._loader.equals(other._loader):
            self._loader = other._loader

    def has_same_batches(self, other: Records) -> bool:
        """Whether the two tasks share their batches."""
        return self._loader is other._loader

    def stacks_cells(self) -> bool:
        """Whether gradients at several points take one call of the model's engine."""
        return self._model.stacks_cells(self.data.x[:1].unsqueeze(0))

    def _copied(self, x: Tensor, keys: Tensor | None, rows: slice) -> tuple[Tensor, int]:
        """Return the records of some nodes with their copies, and the number of copies."""
        if self.augmentation is None or keys is None:
            return x, 1
        x = self.augmentation.expand(x, keys[rows, : x.shape[1]])
        return (x, x.shape[2]) if x.shape[2] > 1 else (x.squeeze(2), 1)

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
