"""The distribution of one sampled privacy loss on multiples of h; its δ(ε) is never below the exact one.

With sampling rate q the outcome has the law Q without the record, and (1 − q) Q + q P₀ with it, where P₀ and Q are the
pair of the mechanism (`PrivacyLoss`). With y = log dP₀/dQ the privacy loss is L = log(1 − q + q e^y).

The losses are divided into cells whose edges are multiples of h. Cells are h wide around 0 and wider further out,
where losses are rare. All mass in a cell [a, b] is moved to its two edges such that both P and Q keep their mass
("connect the dots", Doroshenko et al. 2022): mass (P − e^a Q) / (1 − e^{a−b}) goes to b. The profile δ(ε) is then exact
at the edges, too large in between by O((b − a)²), and never too small.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tacit.privacy.accounting.losses import SampledLoss

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

Direction = Literal["remove", "add", "replace"]
"""Which law is the upper one: P (with the record), Q (without it), or both at once, for replace-one."""

_ROUNDING_ERROR = 4 * np.finfo(np.float64).eps
_NARROW_CELLS = 256  # on either side of 0, before cells begin to widen; beyond, a cell is at most 1/256 of its loss
_MAX_EXPONENT = 700.0  # e^x is finite up to here; beyond, mass is moved to the worse edge of its cell


class LossDistribution(NamedTuple):
    """Probability `mass[i]` of the loss multiples[i] · h, and probability `infinite` of a larger loss."""

    multiples: Indices
    mass: Array
    infinite: float


class LossCells(NamedTuple):
    """Masses of P and Q in the cells between the edges multiples[i] · h, and (below, above) all cells."""

    multiples: Indices
    p: Array
    q: Array
    p_error: Array  # bounds on the rounding errors of p and q
    q_error: Array
    p_outside: tuple[float, float]
    q_outside: tuple[float, float]


def _cell_masses(below: Array, above: Array) -> Array:
    """Return the mass between neighbouring edges, from whichever tail is smaller and so more accurate."""
    return np.asarray(np.where(below[1:] < 0.5, np.diff(below), -np.diff(above)))


def _mass_errors(below: Array, above: Array) -> Array:
    """Return a bound on the rounding errors of `_cell_masses`."""
    tails = np.minimum(below, above)
    return np.asarray(_ROUNDING_ERROR * (tails[1:] + tails[:-1]))


def _edges_up_to(reach: float) -> Indices:
    """Return 0, 1, 2, … in steps of 1, then 2, 4, 8, …, each at most 1/_NARROW_CELLS of its place, beyond `reach`."""
    blocks, start, stride = [np.arange(2 * _NARROW_CELLS)], 2 * _NARROW_CELLS, 2
    while start <= reach * (1 + 1e-9):
        blocks.append(np.arange(start, 2 * start, stride))
        start, stride = 2 * start, 2 * stride
    edges = np.append(np.concatenate(blocks), start)
    # Strictly beyond: an atom on the last edge would count as outside.
    return edges[: max(int(np.searchsorted(edges, reach * (1 + 1e-9), side="right")), 1) + 1]


@lru_cache(maxsize=128)  # every direction uses the same cells, for each of the losses
def loss_cells(loss: SampledLoss, h: float, tail: float) -> LossCells:
    """Return cells that contain all but `tail` of either law."""
    law, rate, mu = loss
    reach = law.reach(mu, tail)
    # log(1 − q + q e^±reach)
    highest = reach + math.log1p((1 - rate) * math.expm1(-reach)) if reach > 0 else 0.0
    lowest = math.log1p(rate * math.expm1(-reach)) if rate < 1 else -reach
    multiples = np.concatenate([-_edges_up_to(-lowest / h)[:0:-1], _edges_up_to(highest / h)])
    y = _unsampled_loss(multiples * h, rate)
    q_below, q_above = law.cdf(y, mu)
    p_below, p_above = law.shifted_cdf(y, mu)
    q, shifted = _cell_masses(q_below, q_above), _cell_masses(p_below, p_above)
    q_error, shifted_error = _mass_errors(q_below, q_above), _mass_errors(p_below, p_above)
    return LossCells(
        multiples,
        (1 - rate) * q + rate * shifted,
        q,
        (1 - rate) * q_error + rate * shifted_error,
        q_error,
        (
            float((1 - rate) * q_below[0] + rate * p_below[0]),
            float((1 - rate) * q_above[-1] + rate * p_above[-1]),
        ),
        (float(q_below[0]), float(q_above[-1])),
    )


def _unsampled_loss(loss: Array, rate: float) -> Array:
    """Return y with loss = log(1 − q + q e^y); −∞ where there is none."""
    with np.errstate(divide="ignore"):
        small = np.maximum(np.expm1(np.minimum(loss, 1.0)) / rate, -1.0)
        large = loss - math.log(rate) + np.log1p(-(1 - rate) * np.exp(-np.maximum(loss, 1.0)))
        return np.where(loss > 1, large, np.log1p(small))


def _connect_dots(upper: tuple[Array, Array], lower: tuple[Array, Array], multiples: Indices, h: float) -> Array:
    """Return the masses of the upper law on the edges. Each law comes with its error, which is taken for the worst."""
    mass, error = upper
    edges = multiples * np.float64(h)
    ratio = np.exp(np.minimum(edges[:-1], _MAX_EXPONENT))
    right = np.clip((mass + error - ratio * (lower[0] - lower[1])) / -np.expm1(-np.diff(edges)), 0.0, mass)
    ends = np.zeros(len(edges))
    ends[:-1] += mass - right
    ends[1:] += right
    return ends


def loss_distribution(loss: SampledLoss, direction: Direction, h: float, tail: float) -> LossDistribution:
    """Return the distribution of the loss; at most `tail` of it is counted as infinite.

    Under replace-one a sample differs in the record with probability q, and the profile is H(P‖Q) for ε ≥ 0
    and its mirror image for ε < 0 (Balle, Barthe and Gaboardi 2018; Zhu, Dong and Wang 2022, Theorem 11):
    the gains of `remove`, the losses of `add`, and the remaining mass at zero.

    >>> from tacit.privacy import Laplace
    >>> found = loss_distribution(SampledLoss(Laplace.loss, 1.0, 0.5), "remove", 0.25, 1e-9)
    >>> found.multiples.tolist(), found.mass.round(4).tolist(), found.infinite
    ([-3, -2, -1, 0, 1, 2, 3], [0.0, 0.3222, 0.0429, 0.0486, 0.0551, 0.5312, 0.0], 0.0)
    """
    cells = loss_cells(loss, h, tail)
    p, q = (cells.p, cells.p_error), (cells.q, cells.q_error)
    multiples, mirrored = cells.multiples, -cells.multiples[::-1]
    if direction == "remove":
        mass = _connect_dots(p, q, multiples, h)
        mass[0] += cells.p_outside[0]
        return LossDistribution(multiples, mass, cells.p_outside[1])
    if direction == "add":
        mass = _connect_dots(_reversed(q), _reversed(p), mirrored, h)
        mass[0] += cells.q_outside[1]
        return LossDistribution(mirrored, mass, cells.q_outside[0])
    zero = int(np.searchsorted(multiples, 0))
    gain, drop = multiples[zero:], -multiples[zero:][::-1]
    p, q = (p[0][zero:], p[1][zero:]), (q[0][zero:], q[1][zero:])
    gains, drops = _connect_dots(p, q, gain, h), _connect_dots(_reversed(q), _reversed(p), drop, h)
    middle = 1 - p[0].sum() - q[0].sum() - cells.p_outside[1] - cells.q_outside[1]
    gains[0] += drops[-1] + max(float(middle), 0.0)
    drops[0] += cells.q_outside[1]
    return LossDistribution(np.concatenate([drop[:-1], gain]), np.concatenate([drops[:-1], gains]), cells.p_outside[1])


def _reversed(law: tuple[Array, Array]) -> tuple[Array, Array]:
    return law[0][::-1], law[1][::-1]
