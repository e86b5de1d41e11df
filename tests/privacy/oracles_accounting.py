"""Slow, independent answers for the accountant's tests: no code and no method in common with `tacit.privacy`.

A mechanism is a pair of laws on the line with a monotone privacy loss. The line of *outcomes* (not of
losses) is cut finely; the mass of each piece goes to the smallest loss in it (a lower bound of ε) and to
the largest (an upper bound), and the two discrete laws are convolved as they are.
"""

from dataclasses import dataclass

import mpmath
import numpy as np
import numpy.typing as npt
from scipy import fft, optimize, stats

Array = npt.NDArray[np.float64]
CIRCLE = 2**19


def gaussian_delta(epsilon: float, mu: float) -> mpmath.mpf:
    """δ(ε) of N(μ, 1) against N(0, 1), to 60 digits."""
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)


def laplace_delta(epsilon: float, scale: float) -> float:
    """δ(ε) of Laplace(1, scale) against Laplace(0, scale), by integrating the positive part of p − e^ε q."""
    p, q = stats.laplace(1, scale), stats.laplace(0, scale)
    with mpmath.workdps(20):
        cuts = sorted({-mpmath.inf, mpmath.mpf(0), (mpmath.mpf(epsilon) * scale + 1) / 2, mpmath.mpf(1), mpmath.inf})

        def density(x: mpmath.mpf) -> float:
            return max(0.0, p.pdf(float(x)) - np.exp(epsilon) * q.pdf(float(x)))

        return float(mpmath.quad(density, cuts))


@dataclass(frozen=True)
class Pair:
    """Base laws P and Q on `line`, and `loss` = log dP/dQ, not decreasing along it."""

    p: Array  # mass of each piece of the line
    q: Array
    low: Array  # loss at the left end of each piece
    high: Array


def pair(law: str, multiplier: float, pieces: int) -> Pair:
    if law == "gaussian":
        line = np.linspace(-13 * multiplier, 1 + 13 * multiplier, pieces)
        p, q = stats.norm(1, multiplier), stats.norm(0, multiplier)
        loss = (line - 0.5) / multiplier**2
    else:
        line = np.linspace(0, 1, pieces)
        p, q = stats.laplace(1, multiplier), stats.laplace(0, multiplier)
        loss = (2 * line - 1) / multiplier
    line = np.concatenate([[-np.inf], line, [np.inf]])
    ends = (-1 / multiplier, 1 / multiplier) if law == "laplace" else (-np.inf, np.inf)
    loss = np.concatenate([[ends[0]], loss, [ends[1]]])
    return Pair(mass(p, line), mass(q, line), loss[:-1], loss[1:])


def mass(law: "stats.rv_frozen", line: Array) -> Array:
    return np.where(law.mean() > line[:-1], np.diff(law.cdf(line)), -np.diff(law.sf(line)))


def sampled(base: Pair, rate: float, direction: str) -> tuple[Array, Array, Array]:
    """Masses under the upper law, with the least and greatest loss of each piece, sampled at `rate`."""
    mix = (1 - rate) * base.q + rate * base.p
    with np.errstate(over="ignore", divide="ignore"):
        low, high = (np.log(1 - rate + rate * np.exp(np.minimum(x, 700))) for x in (base.low, base.high))
    high[np.isinf(base.high)] = np.inf
    if direction == "remove":
        return mix, low, high
    if direction == "add":
        return base.q, -high, -low
    positive = low >= 0  # replace-one: the gains of `remove`, the losses of `add`, the rest of the mass at zero
    rest = 1 - mix[positive].sum() - base.q[positive].sum()
    masses = np.concatenate([mix[positive], base.q[positive], [rest]])
    return (
        masses,
        np.concatenate([low[positive], -high[positive], [-np.abs(low[~positive]).min(initial=0)]]),
        np.concatenate([high[positive], -low[positive], [high[~positive].max(initial=0)]]),
    )


def compose(masses: Array, losses: Array, upper: bool, count: int, delta: float, step: float) -> float:
    """ε at δ of `count` draws of a loss, rounded up or down to multiples of `step`."""
    span = CIRCLE * step / 4
    finite = np.isfinite(losses) & (np.abs(losses) < span)
    infinite = masses[~finite & (losses > 0)].sum() if upper else 0.0
    index = (np.ceil if upper else np.floor)(losses[finite] / step - (1e-9 if upper else -1e-9)).astype(np.int64)
    kept = masses[finite]
    if not upper:  # what is too large to be kept counts as a smaller loss; what is too small is let go
        index = np.append(index, int(span / step) - 1)
        kept = np.append(kept, masses[~finite & (losses > 0)].sum())
    # The convolution is circular; what falls off a circle this long is far too rare to matter.
    law = np.bincount(index % CIRCLE, weights=kept, minlength=CIRCLE)
    total = np.maximum(fft.irfft(fft.rfft(law) ** count), 0)[: CIRCLE * 3 // 4]
    where = np.arange(len(total)) * step
    infinite = 1 - (1 - infinite) ** count

    def at(epsilon: float) -> float:
        above = slice(int(epsilon / step) + 1, None)
        return float(infinite - np.dot(np.expm1(epsilon - where[above]), total[above]))

    lo, hi = 0.0, float(where[-1])
    if at(0.0) <= delta:
        return 0.0
    for _ in range(40):
        middle = (lo + hi) / 2
        lo, hi = (middle, hi) if at(middle) > delta else (lo, middle)
    return hi if upper else lo


def bracket(
    law: str,
    multiplier: float,
    rate: float,
    count: int,
    delta: float,
    relation: str = "add-remove",
    step: float = 1e-4,
) -> tuple[float, float]:
    """[lower, upper] around the exact ε of `count` sampled releases."""
    base = pair(law, multiplier, 400_001)
    directions = ["remove", "add"] if relation == "add-remove" else ["both"]
    found = []
    for direction in directions:
        masses, low, high = sampled(base, rate, direction)
        found.append(
            (
                compose(masses, low, False, count, delta, step / count),
                compose(masses, high, True, count, delta, step / count),
            )
        )
    return max(f[0] for f in found), max(f[1] for f in found)


def randomised_response_epsilon(epsilon: float, count: int, delta: float) -> float:
    """ε at δ of `count` randomised responses: a sum of losses ±ε with k truthful answers out of `count`."""
    k = np.arange(count + 1)
    losses = (2 * k - count) * epsilon
    mass = stats.binom(count, 1 / (1 + np.exp(-epsilon))).pmf(k)
    return float(
        optimize.brentq(lambda e: np.maximum(-np.expm1(e - losses), 0) @ mass - delta, -1e-9, losses[-1])
        if np.maximum(-np.expm1(-losses), 0) @ mass > delta
        else 0.0
    )
