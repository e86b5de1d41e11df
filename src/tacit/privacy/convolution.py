"""ε of many independent privacy losses: their sum by one Fourier transform, exact also far out in the tail.

With M(t) = E[e^{tL}] and K = log M, the loss L is first tilted to the law e^{θL} Pr(L)/M(θ), whose bulk
lies nearer to ε. There the rounding errors of the transform are small *relative to δ*, however small δ is;
a bound on them is added to every mass. The transform is circular, of circumference W, and that can only
make δ larger: a loss below 0 reappears above it with less weight, where it is counted though it need not
be; a loss above W, which reappears below it and might be missed, is added as Pr(L ≥ W) ≤ min_t e^{K(t) −
tW} (Chernoff).
"""

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import fft

from tacit.privacy.pld import Pmf
from tacit.privacy.thinning import Factor

Array = npt.NDArray[np.float64]

_SHARE = 1e-4  # of δ: what each of the bounds on rare things may cost
_UNIT = float(np.finfo(np.float64).eps)
_TILTS = np.geomspace(1e-3, 1e3, 48)


def epsilon_of_sum(nodes: list[Pmf], factors: list[Factor], h: float, delta: float, guess: float) -> float:
    """The least ε with δ(ε) ≤ `delta`, never too small; `guess` need only be of its order of magnitude."""
    tilts = _TILTS * -math.log(delta) / guess
    cumulants = _cumulants(nodes, factors, h, tilts)
    widths = _widths(tilts, cumulants, delta)
    infinite = sum(f.times * max(nodes[f.weak].infinite, nodes[f.strong].infinite) for f in factors)
    count = sum(factor.times for factor in factors)
    found = math.inf
    # The shortest circle is the fastest; where its rounding noise matters, Chernoff's tilt has less of it.
    for choice in (widths.argmin(), ((cumulants - math.log(delta)) / tilts)[:-1].argmin()):
        theta = float(tilts[choice])
        length = fft.next_fast_len(max(math.ceil(widths[choice] / h), 16), real=True)
        transform, cumulant = _tilted(nodes, factors, h, theta, length)
        noise = _UNIT * math.log2(length) * (1 + count)
        untilt = np.exp(np.minimum(cumulant - theta * h * np.arange(length), 300.0))
        mass = untilt * (np.maximum(fft.irfft(transform, length), 0.0) + noise)
        beyond = math.exp(min(0.0, float((cumulants - tilts * length * h).min())))
        found = min(found, _solve(mass, h, (delta - beyond - infinite) * (1 - 1e-9 - _UNIT * 32 * count)))
        if found < length * h and noise * untilt[int(found / h) :].sum() <= 10 * _SHARE * delta:
            break
    return found


def _cumulants(nodes: list[Pmf], factors: list[Factor], h: float, tilts: Array) -> Array:
    """K(t) of the sum, for each t: Σ count · log((1 − p) M_weak + p M_strong)."""
    every = np.unique(np.concatenate([pmf.places for pmf in nodes]))
    stack = np.zeros((len(nodes), len(every)))
    for row, pmf in zip(stack, nodes, strict=True):
        row[np.searchsorted(every, pmf.places)] = pmf.mass
    top = every[-1] * h
    moments = stack @ np.exp(np.outer(every * h - top, tilts))
    logs = np.log(moments + 1e-290) + tilts * top  # 1e-290 is more than underflow can have taken away
    weak, strong, p, count = (np.array(column) for column in zip(*factors, strict=True))
    with np.errstate(divide="ignore"):
        mixed = np.logaddexp(np.log1p(-p)[:, None] + logs[weak], np.log(p)[:, None] + logs[strong])
    return np.asarray(count @ mixed)


def _widths(tilts: Array, cumulants: Array, delta: float) -> Array:
    """For each tilt θ a circumference W at which nothing that goes round the circle matters.

    That is e^{−θW} for what comes from below 0, and e^{θW} Pr(L > W) ≤ min_t e^{K(t) − (t − θ)W} from above
    W.
    """
    goal = math.log(delta * _SHARE)
    gap = tilts[None, :] - tilts[:, None]
    above = np.where(gap > 0, (cumulants - goal) / np.where(gap > 0, gap, 1.0), np.inf).min(axis=1)
    return np.asarray(np.maximum(-goal / tilts, above))


def _tilted(
    nodes: list[Pmf], factors: list[Factor], h: float, theta: float, length: int
) -> tuple[npt.NDArray[np.complex128], float]:
    """Transform of the tilted law of the sum, and the exact K(θ) that belongs to it."""

    @lru_cache(maxsize=4)  # factors come in the order of their nodes
    def node(index: int) -> tuple[npt.NDArray[np.complex128], float]:
        losses, mass, _ = nodes[index]
        exponents = theta * h * losses
        weights = mass * np.exp(exponents - exponents[-1])
        total = weights.sum()
        circle = np.bincount(losses % length, weights / total, length)
        return fft.rfft(circle), math.log(total) + exponents[-1]

    product = np.ones(length // 2 + 1, np.complex128)
    cumulant = 0.0
    for weak, strong, p, count in factors:
        transform, log_moment = node(weak)
        if p > 0:
            other, log_other = node(strong)
            share = 1 / (1 + (1 - p) / p * math.exp(log_moment - log_other))
            transform = (1 - share) * transform + share * other
            log_moment = float(
                np.logaddexp(math.log1p(-p) + log_moment if p < 1 else -math.inf, math.log(p) + log_other)
            )
        product *= _power(transform, count)
        cumulant += count * log_moment
    return product, cumulant


def _power(base: npt.NDArray[np.complex128], exponent: int) -> npt.NDArray[np.complex128]:
    """By repeated squaring; numpy's own takes logarithms and loses digits."""
    result = None
    while True:
        if exponent & 1:
            result = base if result is None else result * base
        exponent >>= 1
        if exponent == 0:
            assert result is not None
            return result
        base = base * base


def _solve(mass: Array, h: float, delta: float) -> float:
    """The least ε ≥ 0 with Σ_{x > ε} (1 − e^{ε − x}) mass(x) ≤ δ, where x runs over 0, h, 2h, …"""
    decay = np.exp(-h * np.arange(len(mass)))

    def parts(i: int) -> tuple[float, float]:
        """Mass above i h, and the same weighted with e^{ih − x}."""
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
