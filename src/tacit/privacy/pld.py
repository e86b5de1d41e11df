"""The privacy loss of one step, as a discrete law on multiples of h that is never better than the truth.

A step compares two laws of its outcome: Q without the record, and P = (1 − q) Q + q P₀ with it, where P₀ is
Q moved by the sensitivity and q the sampling rate. With y = log dP₀/dQ the privacy loss is L = log(1 − q +
q e^y); P₀ and Q mirror each other, so that P₀(y) = Q(−y). In one dimension nothing is lost: for log-concave
noise p the overlap ∫ min(p(x − v), e^ε p(x)) dx is log-concave in the shift v (Prékopa), so that among all
shifts of a given L1 (Laplace) or L2 (Gaussian) norm δ(ε) is greatest at one along an axis.

Each cell [a, a + h] of losses holds some mass of P and of Q. All of it is moved to the two ends such that
both masses stay what they were ("connect the dots", Doroshenko et al. 2022): mass (P − e^a Q) / (1 − e^−h)
goes to the right end. The hockey-stick profile δ(ε) then is exact at multiples of h, too large in between
by O(h²), and never too small.
"""

import math
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from tacit.privacy.steps import Step

Array = npt.NDArray[np.float64]

Direction = Literal["remove", "add", "replace"]
"""Which law is the upper one: P (the record was there), Q (it was not), or both at once, for replace-one."""

_ROUNDING = 4 * np.finfo(np.float64).eps
_LARGEST = 700.0  # e^x is finite up to here; beyond, mass is sent to the worse end of its cell


class Pmf(NamedTuple):
    """Probability `mass[i]` of the loss (first + i) h, and `infinite` of a loss beyond them all."""

    first: int
    mass: Array
    infinite: float


class _Cells(NamedTuple):
    """Masses of P and Q in the cells between edges (first + i) h; below them all, above them all."""

    first: int
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


@lru_cache(maxsize=32)  # each serves both directions
def _cells(step: Step, h: float, tail: float) -> _Cells:
    """Cells that hold all but `tail` of either law."""
    law, rate, mu = step
    reach = mu if law == "laplace" else mu * (mu / 2 - float(special.ndtri(tail)))
    # log(1 − q + q e^±reach)
    highest = reach + math.log1p((1 - rate) * math.expm1(-reach)) if reach > 0 else 0.0
    lowest = math.log1p(rate * math.expm1(-reach)) if rate < 1 else -reach
    first = min(math.floor(lowest / h), -1)
    edges = np.arange(first, max(math.ceil(highest / h), 1) + 1) * h
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
        first,
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


def _connect(upper: tuple[Array, Array], lower: tuple[Array, Array], first: int, h: float) -> Array:
    """Masses of the upper law on the edges of its cells; each law comes with its doubt, taken for the worst."""
    mass, doubt = upper
    ratio = np.exp(np.minimum(np.arange(first, first + len(mass)) * h, _LARGEST))
    right = np.clip((mass + doubt - ratio * (lower[0] - lower[1])) / -math.expm1(-h), 0.0, mass)
    edges = np.zeros(len(mass) + 1)
    edges[:-1] += mass - right
    edges[1:] += right
    return edges


def privacy_loss(step: Step, direction: Direction, h: float, tail: float) -> Pmf:
    """The loss of `step`, at most `tail` of it called infinite.

    Under replace-one a sample differs in the record with probability q, and the profile is H(P‖Q) for ε ≥ 0
    and its mirror image for ε < 0 (Balle, Barthe and Gaboardi 2018; Zhu, Dong and Wang 2022, Theorem 11):
    the gains of `remove`, the losses of `add`, and what mass is left at zero.

    >>> pmf = privacy_loss(Step("laplace", 1.0, 0.5), "remove", 0.25, 1e-9)
    >>> pmf.first, pmf.mass.round(4).tolist(), pmf.infinite
    (-2, [0.3222, 0.0429, 0.0486, 0.0551, 0.5312], 0.0)
    """
    cells = _cells(step, h, tail)
    p, q = (cells.p, cells.p_doubt), (cells.q, cells.q_doubt)
    mirrored = -(cells.first + len(cells.q))  # the first edge of the losses of `add`
    if direction == "remove":
        mass = _connect(p, q, cells.first, h)
        mass[0] += cells.p_out[0]
        return Pmf(cells.first, mass, cells.p_out[1])
    if direction == "add":
        mass = _connect(_reversed(q), _reversed(p), mirrored, h)
        mass[0] += cells.q_out[1]
        return Pmf(mirrored, mass, cells.q_out[0])
    gain = slice(-cells.first, None)
    p, q = (p[0][gain], p[1][gain]), (q[0][gain], q[1][gain])
    losses, gains = _connect(_reversed(q), _reversed(p), mirrored, h), _connect(p, q, 0, h)
    middle = 1 - p[0].sum() - q[0].sum() - cells.p_out[1] - cells.q_out[1]
    gains[0] += losses[-1] + max(float(middle), 0.0)
    losses[0] += cells.q_out[1]
    return Pmf(mirrored, np.concatenate([losses[:-1], gains]), cells.p_out[1])


def _reversed(law: tuple[Array, Array]) -> tuple[Array, Array]:
    return law[0][::-1], law[1][::-1]
