"""The clipped mean of squared differences of signals, computed so that no finite signal overflows.

A signal x enters as z = ((x_i − x_j)²) over all pairs of vertices, scaled down to norm C if it is longer. Squares of
large floats overflow, and so do differences of the largest ones. Each signal is therefore written as

    x_i − mean x = v_i 2^g,   ½ ≤ max |v_i| < 1

Scaling by a power of two is exact. Then z = 4^g ((v_i − v_j)²), and the clipped z is s ((v_i − v_j)²) with
s = min(4^g, C/n(v)) and n(v) = ‖((v_i − v_j)²)‖. If 4^g overflows, C/n(v) is the smaller one.

**Rounding.** Whatever v is after rounding, s n(v) ≤ C must hold. `_norm_bounds` is an upper bound on n(v): all of its
terms are positive, so its relative error is at most (d + 8) u with u = 2⁻⁵³, and s has a margin of more than that.
The mean over N signals is computed from a Gram matrix, in blocks of about √N signals. A sum of m products has an error
of at most m u times the sum of their absolute values, in whatever order they are added. With
a_i = |v_i|, the entry of a pair has an error of at most (rows + blocks + 4) u times the mean of s (a_i + a_j)², and
‖((a_i + a_j)²)‖ ≤ √5 n(v) by its fourth moment. So the computed mean differs from the exact one by at most
`mean_rounding_error` · C in L2.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from tacit.graph_learning.triangle import to_triangle
from tacit.privacy import Array

_EPS = float(np.finfo(np.float64).eps)


def mean_differences(x: Array, clip: float | None = None) -> Array:
    """Return z̄ (p,), the mean of the clipped squared differences of signals (N, d), without an N-by-p array.

    With a clip it is finite for all finite signals. Without one it is infinite or NaN if squares overflow.
    """
    v, exponent = centred_signals(x)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        scale = np.ldexp(1.0, 2 * exponent)
        if clip is not None:
            margin = 1 - (x.shape[1] + 16) * _EPS
            scale = np.minimum(scale, margin * clip / _norm_bounds(v))
        gram = torch.from_numpy(_blockwise_product(v * (scale / len(x))[:, None], v))
    own = gram.diagonal()
    mean: Array = to_triangle(own[:, None] + own[None, :] - 2 * gram).clamp_(min=0).numpy()
    return mean


def mean_rounding_error(n: int) -> float:
    """Return a bound on the L2 rounding error of `mean_differences` of n signals, divided by the clip.

    >>> mean_rounding_error(1_000_000) < 1e-12
    True
    """
    rows = _block_rows(n)
    return 3 * (rows + math.ceil(n / rows) + 16) * _EPS / 2


def exceeds_clip(x: Array, clip: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return for each signal whether its squared differences are longer than `clip`, (N,)."""
    v, exponent = centred_signals(x)
    with np.errstate(over="ignore", divide="ignore"):
        return np.asarray(np.ldexp(1.0, 2 * exponent) > clip / _norm_bounds(v))


def is_constant(x: Array) -> bool:
    """Return whether every signal is constant over the vertices, up to rounding."""
    return bool((np.ptp(_scaled(x)[0], axis=1) <= 1e-12).all())


def centred_signals(x: Array) -> tuple[Array, np.ndarray[tuple[int], np.dtype[np.int32]]]:
    """Return v (N, d) and g (N,) with x_i − mean x = v_i 2^g and max |v_i| in [½, 1), or v = 0 and g = 0.

    One subtraction of the mean leaves a rounded remainder if values are far from 0. Therefore it is subtracted twice.
    """
    v, exponent = _scaled(x)
    for _ in range(2):
        v = v - v.mean(1, keepdims=True)
    v, further = _scaled(v)
    return v, np.where(v.any(1), exponent + further, 0)


def _scaled(x: Array) -> tuple[Array, np.ndarray[tuple[int], np.dtype[np.int32]]]:
    exponent = np.frexp(np.abs(x).max(1))[1]
    return np.ldexp(x, -exponent[:, None]), exponent


def _norm_bounds(v: Array) -> Array:
    """Return upper bounds on n(v) = √Σ_{i<j} (v_i − v_j)⁴, (N,); tight for signals with mean 0.

    The sum is d m₄ − 4 m₁ m₃ + 3 m₂² with m_k = Σ v_i^k. Here m₁ is replaced by a bound on |m₁| including its rounding
    error, and m₃ by Σ |v_i|³.
    """
    d, size = v.shape[1], np.abs(v)
    squares = size**2
    offset = np.abs(v.sum(1)) + d * _EPS * size.sum(1)
    fourth = d * (squares**2).sum(1) + 4 * offset * (size * squares).sum(1) + 3 * squares.sum(1) ** 2
    return np.asarray(np.sqrt(fourth))


def _blockwise_product(a: Array, b: Array) -> Array:
    """Return aᵀ b (d, d) of a and b (N, d), summed in blocks of rows."""
    product, rows = np.zeros((a.shape[1], b.shape[1])), _block_rows(len(a))
    for first in range(0, len(a), rows):
        product += a[first : first + rows].T @ b[first : first + rows]
    return product


def _block_rows(n: int) -> int:
    """The number of signals per block: about √n, which minimises the rounding error."""
    return math.isqrt(n) + 1
