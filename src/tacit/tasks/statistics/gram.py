"""The second moments of records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from tacit.privacy import Relation
from tacit.tasks.statistics.base import RecordSum, check_numbers, in_units, statistics

if TYPE_CHECKING:
    from tacit.tasks.data import Dataset


@statistics.register("gram")
@dataclass(frozen=True)
class Gram(RecordSum):
    """Upper triangle of Σ z zᵀ over a node's records z of norm at most 1, with off-diagonal entries times √2.

    The factor √2 makes the L2 norm of the triangle the Frobenius norm of the matrix. `gram_matrix` turns a triangle
    into the matrix.

    Privacy:
        The triangle of z zᵀ has norm ‖z zᵀ‖_F = ‖z‖² ≤ 1, so adding or removing a record changes the sum by at most 1.
        Replacing z by z′ changes it by ‖z zᵀ − z′ z′ᵀ‖_F. Its square is ‖z‖⁴ + ‖z′‖⁴ − 2 (z·z′)² ≤ 2, so it changes by
        at most √2.
    """

    name: ClassVar[str] = "gram"

    def length(self, data: Dataset) -> int:
        check_numbers(data)
        d = math.prod(data.inputs)
        return d * (d + 1) // 2

    def sensitivity(self, relation: Relation) -> float:
        return 1.0 if relation == "add-remove" else math.sqrt(2)

    def add(self, total: Tensor, records: Tensor, y: Tensor, node: Tensor) -> None:
        upper = torch.triu_indices(records.shape[1], records.shape[1])
        places = upper[0] * records.shape[1] + upper[1]
        rows, sizes = torch.unique_consecutive(node, return_counts=True)
        for row, part in zip(rows.tolist(), torch.split(records, sizes.tolist()), strict=True):
            total[row] += (part.T @ part).view(-1)[places]

    def finish(self, total: Tensor) -> Tensor:
        d = triangle_side(total.shape[1])
        return in_units(total, 2) * _factors(d)


def gram_matrix(triangle: Tensor) -> Tensor:
    """Return the symmetric matrix (…, d, d) of a triangle (…, length) as `Gram` arranges it.

    >>> gram_matrix(torch.tensor([1.0, 2**0.5, 4.0]))
    tensor([[1., 1.],
            [1., 4.]])
    """
    d = triangle_side(triangle.shape[-1])
    upper = torch.triu_indices(d, d).to(triangle.device)
    matrix = triangle.new_zeros(*triangle.shape[:-1], d, d)
    matrix[..., upper[0], upper[1]] = triangle / _factors(d).to(triangle.dtype).to(triangle.device)
    return matrix + matrix.triu(1).mT


def triangle_side(length: int) -> int:
    """Return d of a triangle with d (d + 1) / 2 entries."""
    return (math.isqrt(8 * length + 1) - 1) // 2


def _factors(d: int) -> Tensor:
    """1 on the diagonal, √2 beside it."""
    upper = torch.triu_indices(d, d)
    return torch.where(upper[0] == upper[1], 1.0, torch.tensor(2.0, dtype=torch.float64).sqrt())
