"""A graph of d vertices as the upper triangle of its weight matrix: a vector of p = d (d − 1) / 2 weights.

Pairs are ordered row by row, (0, 1), (0, 2), …, as in `numpy.triu_indices(d, 1)`. Leading axes are free: each row of
a tensor (…, p) is one graph.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from tacit.errors import TacitError


def pair_count(d: int) -> int:
    """Return p, the number of pairs of d vertices."""
    return d * (d - 1) // 2


def vertex_count(p: int) -> int:
    """Return d, the number of vertices whose upper triangle has p entries.

    >>> vertex_count(190)
    20
    """
    d = (1 + math.isqrt(1 + 8 * p)) // 2
    if d < 2 or pair_count(d) != p:
        raise TacitError(f"{p} weights are not an upper triangle: a graph of d vertices has d (d − 1) / 2 of them")
    return d


@lru_cache(maxsize=8)
def pair_vertices(d: int) -> tuple[Tensor, Tensor]:
    """Return the first and the second vertex of every pair, (p,) each."""
    first, second = torch.triu_indices(d, d, 1).unbind()
    return first.contiguous(), second.contiguous()


def degrees(w: Tensor, d: int) -> Tensor:
    """Return S w, the sum of the weights at every vertex, (…, d)."""
    first, second = pair_vertices(d)
    return w.new_zeros(*w.shape[:-1], d).index_add_(-1, first, w).index_add_(-1, second, w)


def pair_sums(v: Tensor) -> Tensor:
    """Return Sᵀ v, the sum of the two vertices' values of every pair, (…, p)."""
    first, second = pair_vertices(v.shape[-1])
    return v.index_select(-1, first).add_(v.index_select(-1, second))


def to_matrix(w: Tensor, d: int, diagonal: float = 0.0) -> Tensor:
    """Return the symmetric matrices (…, d, d) of upper triangles (…, p).

    >>> to_matrix(torch.tensor([1.0, 2.0, 3.0]), 3).tolist()
    [[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]]
    """
    first, second = pair_vertices(d)
    flat = w.new_full((*w.shape[:-1], d * d), diagonal)
    flat.index_copy_(-1, first * d + second, w).index_copy_(-1, second * d + first, w)
    return flat.view(*w.shape[:-1], d, d)


def to_triangle(square: Tensor) -> Tensor:
    """Return the upper triangles (…, p) of matrices (…, d, d). The inverse of `to_matrix`."""
    d = square.shape[-1]
    first, second = pair_vertices(d)
    return square.reshape(*square.shape[:-2], d * d).index_select(-1, first * d + second)
