"""ε of a sum of independent privacy losses by one Fourier transform, accurate even far out in the tail.

With M(t) = E[e^{tL}] and K = log M, the loss L is first tilted to the law e^{θL} Pr(L)/M(θ), whose bulk lies closer to
ε. There the rounding errors of the transform are small relative to δ, however small δ is; a bound on them is added to
every mass. The transform is circular, of circumference W, and this can only increase δ: a loss below 0 reappears above
with less weight, where it is counted though it need not be; a loss above W, which reappears below and might be missed,
is added as Pr(L ≥ W) ≤ min_t e^{K(t) − tW} (Chernoff).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy

from tacit.privacy.accounting.coarsening import Factor
from tacit.privacy.accounting.pld import LossDistribution

Array = npt.NDArray[np.float64]

_SHARE_OF_DELTA = 1e-4  # that each bound on a rare event may use up
_MACHINE_EPSILON = float(np.finfo(np.float64).eps)
_COARSE_TILTS, FINE_TILTS = 47, 141  # steps from 10⁻³ to 10³ times the usual tilt


def epsilon_of_sum(
    losses: list[LossDistribution], factors: list[Factor], h: float, delta: float, guess: float
) -> float:
    """Return the least ε with δ(ε) ≤ `delta`, never too small. `guess` needs only the right order of magnitude."""
    infinite = sum(f.times * max(losses[f.weak].infinite, losses[f.strong].infinite) for f in factors)
    count = sum(factor.times for factor in factors)
    found = math.inf
    # The shortest circle is the fastest; where its rounding noise matters, Chernoff's tilt has less of it. A tilt is
    # useful only if a slightly larger one has a small cumulant too, so that Chernoff's is chosen among more of them.
    for shortest in (True, False):
        tilts = candidate_tilts(losses, h, delta, guess, _COARSE_TILTS if shortest else FINE_TILTS)
        cumulants = _cumulants(losses, factors, h, tilts)
        widths = circle_widths(tilts, cumulants, delta)
        choice = int(widths.argmin() if shortest else ((cumulants - math.log(delta)) / tilts)[:-1].argmin())
        theta = float(tilts[choice])
        length = scipy.fft.next_fast_len(max(math.ceil(widths[choice] / h), 16), real=True)
        transform, cumulant = tilted_transform(losses, factors, h, theta, length)
        noise = transform_error(length, count)
        untilt = np.exp(np.minimum(cumulant - theta * h * np.arange(length), 300.0))
        mass = untilt * (np.maximum(scipy.fft.irfft(transform, length), 0.0) + noise)
        beyond = math.exp(min(0.0, float((cumulants - tilts * length * h).min())))
        spare = (delta - beyond - infinite) * (1 - 1e-9 - _MACHINE_EPSILON * 32 * count)
        found = min(found, least_epsilon(mass, h, spare))
        if found < length * h and noise * untilt[int(found / h) :].sum() <= 10 * _SHARE_OF_DELTA * delta:
            break
    return found


def candidate_tilts(losses: list[LossDistribution], h: float, delta: float, guess: float, steps: int) -> Array:
    """Return tilts around −log(δ) / ε, and smaller ones down to −log(δ) / (10 · the largest loss).

    With few steps and a small sampling rate, a rare loss may be many times larger than ε.
    """
    usual, ratio = np.geomspace(1e-3, 1e3, steps + 1), 10 ** (6 / steps)
    largest = h * max(int(loss.multiples[-1]) for loss in losses)
    smaller = math.ceil(max(math.log(1e-3 * 10 * largest / guess, ratio), 0.0)) if largest > 0 else 0
    every = np.concatenate([1e-3 * ratio ** -np.arange(smaller, 0.0, -1.0), usual])
    return np.asarray(every * -math.log(delta) / guess)


def _cumulants(losses: list[LossDistribution], factors: list[Factor], h: float, tilts: Array) -> Array:
    """Return K(t) of the sum for each t: Σ count · log((1 − p) M_weak + p M_strong)."""
    every = np.unique(np.concatenate([loss.multiples for loss in losses]))
    stack = np.zeros((len(losses), len(every)))
    for row, loss in zip(stack, losses, strict=True):
        row[np.searchsorted(every, loss.multiples)] = loss.mass
    top = every[-1] * h
    moments = stack @ np.exp(np.outer(every * h - top, tilts))
    logs = np.log(moments + 1e-290) + tilts * top  # 1e-290 exceeds anything lost by underflow
    weak, strong, p, count = (np.array(column) for column in zip(*factors, strict=True))
    with np.errstate(divide="ignore"):
        mixed = np.logaddexp(np.log1p(-p)[:, None] + logs[weak], np.log(p)[:, None] + logs[strong])
    return np.asarray(count @ mixed)


def circle_widths(tilts: Array, cumulants: Array, delta: float) -> Array:
    """Return, for each tilt θ, a circumference W at which losses that wrap around do not matter.

    They contribute e^{−θW} from below 0, and e^{θW} Pr(L > W) ≤ min_t e^{K(t) − (t − θ)W} from above W.
    """
    goal = math.log(delta * _SHARE_OF_DELTA)
    gap = tilts[None, :] - tilts[:, None]
    above = np.where(gap > 0, (cumulants - goal) / np.where(gap > 0, gap, 1.0), np.inf).min(axis=1)
    return np.asarray(np.maximum(-goal / tilts, above))


def tilted_transform(
    losses: list[LossDistribution], factors: list[Factor], h: float, theta: float, length: int
) -> tuple[npt.NDArray[np.complex128], float]:
    """Return the transform of the tilted law of the sum, and its exact K(θ)."""

    @lru_cache(maxsize=4)  # factors come in the order of their losses
    def transformed(index: int) -> tuple[npt.NDArray[np.complex128], float]:
        multiples, mass, _ = losses[index]
        exponents = theta * h * multiples
        weights = mass * np.exp(exponents - exponents[-1])
        total = weights.sum()
        circle = np.bincount(multiples % length, weights / total, length)
        return scipy.fft.rfft(circle), math.log(total) + exponents[-1]

    product = np.ones(length // 2 + 1, np.complex128)
    cumulant = 0.0
    for weak, strong, p, count in factors:
        transform, log_moment = transformed(weak)
        if p > 0:
            other, log_other = transformed(strong)
            share = 1 / (1 + (1 - p) / p * math.exp(log_moment - log_other))
            transform = (1 - share) * transform + share * other
            log_moment = float(
                np.logaddexp(math.log1p(-p) + log_moment if p < 1 else -math.inf, math.log(p) + log_other)
            )
        product *= _power(transform, count)
        cumulant += count * log_moment
    return product, cumulant


def transform_error(length: int, count: int) -> float:
    """Return a bound on the rounding error of each mass that the inverse of `tilted_transform` gives."""
    return _MACHINE_EPSILON * math.log2(length) * (1 + count)


def _power(base: npt.NDArray[np.complex128], exponent: int) -> npt.NDArray[np.complex128]:
    """Return base ** exponent by repeated squaring; numpy uses logarithms, which lose digits."""
    result = None
    while True:
        if exponent & 1:
            result = base if result is None else result * base
        exponent >>= 1
        if exponent == 0:
            assert result is not None
            return result
        base = base * base


def least_epsilon(mass: Array, h: float, delta: float) -> float:
    """Return the least ε ≥ 0 with Σ_{x > ε} (1 − e^{ε − x}) mass(x) ≤ δ, where x runs over 0, h, 2h, …"""
    decay = np.exp(-h * np.arange(len(mass)))

    def parts(i: int) -> tuple[float, float]:
        """Return the mass above i h, and the same mass weighted with e^{ih − x}."""
        above = mass[i + 1 :]
        return float(above.sum()), float(above @ decay[1 : len(above) + 1])

    if delta <= 0:
        return math.inf
    low, high = -1, len(mass) - 1  # δ(low h) > δ ≥ δ(high h)
    while high - low > 1:
        middle = (low + high) // 2
        total, weighted = parts(middle)
        low, high = (middle, high) if total - weighted > delta else (low, middle)
    if high == 0:
        return 0.0
    total, weighted = parts(low)
    if weighted <= 0:  # the loss is so large that e^(ih − x) has vanished
        return (low + 1) * h
    return low * h + math.log((total - delta) / weighted)
