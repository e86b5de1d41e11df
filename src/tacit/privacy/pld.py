"""The privacy loss of one step, as a discrete law on multiples of h that is never better than the truth.

A step compares two laws of its outcome: Q without the record, and P = (1 − q) Q + q P₀ with it, where P₀ is
Q moved by the sensitivity and q the sampling rate. With y = log dP₀/dQ the privacy loss is L = log(1 − q +
q e^y); P₀ and Q mirror each other, so that P₀(y) = Q(−y). In one dimension nothing is lost: for log-concave
noise p the overlap ∫ min(p(x − v), e^ε p(x)) dx is log-concave in the shift v (Prékopa), so that among all
shifts of a given L1 (Laplace) or L2 (Gaussian) norm δ(ε) is greatest at one along an axis.

The losses are cut into cells whose ends are multiples of h, next to each other around 0 and sparser further out,
where losses are rare and a cell may grow with them. All mass in a cell [a, b] is moved to its two ends such that
both P and Q keep what they had ("connect the dots", Doroshenko et al. 2022): mass (P − e^a Q) / (1 − e^{a−b})
goes to b. The hockey-stick profile δ(ε) then is exact at the ends of cells, too large in between by O((b − a)²),
and never too small.
"""

import math
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from tacit.privacy.steps import Step

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

Direction = Literal["remove", "add", "replace"]
"""Which law is the upper one: P (the record was there), Q (it was not), or both at once, for replace-one."""

_ROUNDING = 4 * np.finfo(np.float64).eps
_DENSE = 256  # cells on either side of 0 before they begin to grow, and the least loss ÷ width from there on
_LARGEST = 700.0  # e^x is finite up to here; beyond, mass is sent to the worse end of its cell


class Pmf(NamedTuple):
    """Probability `mass[i]` of the loss places[i] · h, and `infinite` of a loss beyond them all."""

    places: Indices
    mass: Array
    infinite: float


class _Cells(NamedTuple):
    """Masses of P and Q in the cells between edges places[i] · h; below them all, above them all."""

    places: Indices
    p: Array
    q: Array
    p_doubt: Array  # how far rounding can be wrong about p, and about q
    q_doubt: Array
    p_out: tuple[float, float]
    q_out: tuple[float, float]


def _gaussian(y: Array, mu: float) -> tuple[Array, Array]:
    """Q(loss ≤ y) and Q(loss > y) of an unsampled Gaussian step: y = μ x − μ²/2 with x standard normal."""
    x = y / mu + mu / 2
    tail = special.ndtr(-np.abs(x))
    return np.where(x < 0, tail, 1 - tail), np.where(x < 0, 1 - tail, tail)


def _laplace(y: Array, mu: float) -> tuple[Array, Array]:
    """The same for a Laplace step, whose loss has atoms at ±μ."""
    above = np.where(y < -mu, 1.0, np.where(y < mu, np.exp(-(np.clip(y, -mu, mu) + mu) / 2) / 2, 0.0))
    return 1 - above, above


def _laplace_mirror(y: Array, mu: float) -> tuple[Array, Array]:
    below = np.where(y < -mu, 0.0, np.where(y < mu, np.exp((np.clip(y, -mu, mu) - mu) / 2) / 2, 1.0))
    return below, 1 - below


def _spread(below: Array, above: Array) -> Array:
    """Mass between neighbouring edges, from whichever tail is the smaller and so the more exact."""
    return np.asarray(np.where(below[1:] < 0.5, np.diff(below), -np.diff(above)))


def _ladder(reach: float) -> Indices:
    """0, 1, 2, … in steps of 1, then 2, 4, 8, …, each step at most 1/_DENSE of where it is, to `reach` or above."""
    blocks, start, stride = [np.arange(2 * _DENSE)], 2 * _DENSE, 2
    while start <= reach:
        blocks.append(np.arange(start, 2 * start, stride))
        start, stride = 2 * start, 2 * stride
    ladder = np.append(np.concatenate(blocks), start)
    return ladder[: max(int(np.searchsorted(ladder, reach)), 1) + 1]


@lru_cache(maxsize=32)  # each serves both directions
def _cells(step: Step, h: float, tail: float) -> _Cells:
    """Cells that hold all but `tail` of either law."""
    law, rate, mu = step
    reach = mu if law == "laplace" else mu * (mu / 2 - float(special.ndtri(tail)))
    # log(1 − q + q e^±reach)
    highest = reach + math.log1p((1 - rate) * math.expm1(-reach)) if reach > 0 else 0.0
    lowest = math.log1p(rate * math.expm1(-reach)) if rate < 1 else -reach
    places = np.concatenate([-_ladder(-lowest / h)[:0:-1], _ladder(highest / h)])
    edges = places * h
    with np.errstate(divide="ignore"):
        small = np.maximum(np.expm1(np.minimum(edges, 1.0)) / rate, -1.0)
        large = edges - math.log(rate) + np.log1p(-(1 - rate) * np.exp(-np.maximum(edges, 1.0)))
        y = np.where(edges > 1, large, np.log1p(small))
    if law == "gaussian":
        q_below, q_above = _gaussian(y, mu)
        p_above, p_below = _gaussian(-y, mu)
    else:
        q_below, q_above = _laplace(y, mu)
        p_below, p_above = _laplace_mirror(y, mu)
    q, moved = _spread(q_below, q_above), _spread(p_below, p_above)
    p = (1 - rate) * q + rate * moved
    q_doubt, moved_doubt = (
        _ROUNDING * (tail[1:] + tail[:-1]) for tail in (np.minimum(q_below, q_above), np.minimum(p_below, p_above))
    )
    return _Cells(
        places,
        p,
        q,
        (1 - rate) * q_doubt + rate * moved_doubt,
        q_doubt,
        (
            float((1 - rate) * q_below[0] + rate * p_below[0]),
            float((1 - rate) * q_above[-1] + rate * p_above[-1]),
        ),
        (float(q_below[0]), float(q_above[-1])),
    )


def _connect(upper: tuple[Array, Array], lower: tuple[Array, Array], places: Indices, h: float) -> Array:
    """Masses of the upper law on the edges of its cells; each law comes with its doubt, taken for the worst."""
    mass, doubt = upper
    edges = places * np.float64(h)
    ratio = np.exp(np.minimum(edges[:-1], _LARGEST))
    right = np.clip((mass + doubt - ratio * (lower[0] - lower[1])) / -np.expm1(-np.diff(edges)), 0.0, mass)
    ends = np.zeros(len(edges))
    ends[:-1] += mass - right
    ends[1:] += right
    return ends


def privacy_loss(step: Step, direction: Direction, h: float, tail: float) -> Pmf:
    """The loss of `step`, at most `tail` of it called infinite.

    Under replace-one a sample differs in the record with probability q, and the profile is H(P‖Q) for ε ≥ 0
    and its mirror image for ε < 0 (Balle, Barthe and Gaboardi 2018; Zhu, Dong and Wang 2022, Theorem 11):
    the gains of `remove`, the losses of `add`, and what mass is left at zero.

    >>> pmf = privacy_loss(Step("laplace", 1.0, 0.5), "remove", 0.25, 1e-9)
    >>> pmf.places.tolist(), pmf.mass.round(4).tolist(), pmf.infinite
    ([-2, -1, 0, 1, 2], [0.3222, 0.0429, 0.0486, 0.0551, 0.5312], 0.0)
    """
    cells = _cells(step, h, tail)
    p, q = (cells.p, cells.p_doubt), (cells.q, cells.q_doubt)
    places, mirrored = cells.places, -cells.places[::-1]
    if direction == "remove":
        mass = _connect(p, q, places, h)
        mass[0] += cells.p_out[0]
        return Pmf(places, mass, cells.p_out[1])
    if direction == "add":
        mass = _connect(_reversed(q), _reversed(p), mirrored, h)
        mass[0] += cells.q_out[1]
        return Pmf(mirrored, mass, cells.q_out[0])
    zero = int(np.searchsorted(places, 0))
    gain, loss = places[zero:], -places[zero:][::-1]
    p, q = (p[0][zero:], p[1][zero:]), (q[0][zero:], q[1][zero:])
    gains, losses = _connect(p, q, gain, h), _connect(_reversed(q), _reversed(p), loss, h)
    middle = 1 - p[0].sum() - q[0].sum() - cells.p_out[1] - cells.q_out[1]
    gains[0] += losses[-1] + max(float(middle), 0.0)
    losses[0] += cells.q_out[1]
    return Pmf(np.concatenate([loss[:-1], gain]), np.concatenate([losses[:-1], gains]), cells.p_out[1])


def _reversed(law: tuple[Array, Array]) -> tuple[Array, Array]:
    return law[0][::-1], law[1][::-1]
