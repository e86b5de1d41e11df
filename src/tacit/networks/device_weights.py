"""Mixing on a device other than the CPU: weighted sums of rows, in the same order every time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn.functional import embedding_bag


@dataclass(frozen=True)
class DeviceWeights:
    """A sparse matrix on a device.

    PyTorch's product of sparse matrices may sum in another order in every call, and not every device has it. A bag of
    embeddings is the same sum, in the order of the columns, so that a run can be repeated.

    Attributes:
        starts: (R + 1,) where the entries of each row begin.
        columns: The columns of the entries, row by row.
        weights: The entries.
    """

    starts: Tensor
    columns: Tensor
    weights: Tensor

    @classmethod
    def of(cls, matrix: csr_array, like: Tensor) -> DeviceWeights:
        """Return a matrix in the dtype and on the device of `like`."""
        starts, columns, weights = map(torch.from_numpy, (matrix.indptr, matrix.indices, matrix.data))
        return cls(
            starts.long().to(like.device), columns.long().to(like.device), weights.to(like.dtype).to(like.device)
        )

    def product(self, x: Tensor) -> Tensor:
        """Return the product with x (n, d)."""
        found: Tensor = embedding_bag(
            self.columns, x, self.starts, mode="sum", per_sample_weights=self.weights, include_last_offset=True
        )
        return found
