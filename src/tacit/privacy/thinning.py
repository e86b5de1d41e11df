"""Many different steps, dominated by mixtures of few.

δ(ε) of a step, for every ε and in every direction, is a convex function of s = δ(0) of its unsampled noise:
- Laplace: δ = max(0, 1 − e^{ε/2} (1 − s)) with s = 1 − e^{−μ/2};
- Gaussian: ∂δ/∂μ = φ(ε/μ − μ/2) and s = 2Φ(μ/2) − 1, so that ∂δ/∂s ∝ exp(−ε²/2μ² + ε/2), which grows with μ;
- sampling, and the mirror image, map δ(ε) to an affine function of δ at another ε.
So a step between two nodes a < b is dominated by taking b with probability p = (s − s_a)/(s_b − s_a) and a
otherwise, at an error of second order in b − a.

Of n steps between a and b a random number J then are b, and the composition is the worse the greater J.
Replacing two probabilities p₁, p₂ by the p with (1 − p)² = (1 − p₁)(1 − p₂) leaves Pr(J = 0) and raises
Pr(J = 2), as the geometric mean of the 1 − p is below the arithmetic one; so J only grows, and in the limit
all n steps may be given the p with (1 − p)ⁿ = Π(1 − p_k) (Pledger and Proschan 1971).
"""

import math
from collections import defaultdict
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from tacit.privacy.steps import Law, Step, Steps

Array = npt.NDArray[np.float64]

_FEW = 32  # different steps that are kept as they are
_PARTS = 4  # groups within a cell, so that steps far apart do not share their p


class Factor(NamedTuple):
    """`times` steps, each `strong` with probability `p` and `weak` otherwise; both are indices of nodes."""

    weak: int
    strong: int
    p: float
    times: int


def thin(steps: Steps, width: float) -> tuple[list[Step], list[Factor]]:
    """Nodes and factors that dominate `steps`; the strongest nodes are a factor 1 + `width` apart.

    >>> steps = Steps({Step("gaussian", 0.1, 1 + k / 1000): 1 for k in range(1000)})
    >>> nodes, factors = thin(steps, 0.1)
    >>> len(nodes), sum(factor.times for factor in factors)
    (7, 1000)
    """
    nodes: list[Step] = []
    factors: list[Factor] = []
    for (law, rate), members in _by_rate(steps, width / 4).items():
        mus = np.array(sorted(members))
        counts = np.array([members[mu] for mu in mus])
        cells = math.ceil(2 * (1 - math.sqrt(mus[0] / mus[-1])) / width)
        start = len(nodes)
        if len(steps) <= _FEW or len(mus) <= cells + 1:
            nodes += [Step(law, rate, float(mu)) for mu in mus]
            factors += [Factor(start + i, start + i, 0.0, int(n)) for i, n in enumerate(counts)]
            continue
        # Even in √μ: fine where the steps are strong, and never too coarse for many weak ones.
        ladder = np.linspace(math.sqrt(mus[0]), math.sqrt(mus[-1]), cells + 1) ** 2
        ladder[[0, -1]] = mus[[0, -1]]
        cell = np.clip(np.searchsorted(ladder, mus, side="right") - 1, 0, cells - 1)
        used, place = np.unique(np.concatenate([cell, cell + 1]), return_inverse=True)
        nodes += [Step(law, rate, float(mu)) for mu in ladder[used]]
        p = _share(law, ladder[cell], ladder[cell + 1], mus)
        group = cell * (_PARTS + 1) + np.floor(p * _PARTS).astype(np.int64)
        for g in np.unique(group):
            own = group == g
            n = int(counts[own].sum())
            with np.errstate(divide="ignore"):
                kept = float(np.exp(counts[own] @ np.log1p(-p[own]) / n))
            weak = start + int(place[: len(cell)][own][0])
            factors.append(Factor(weak, weak + 1, 1 - kept, n))
    return nodes, factors


def _by_rate(steps: Steps, width: float) -> dict[tuple[Law, float], dict[float, int]]:
    """Steps by law and rate; if rates are many, those within e^width of one another count as the highest."""
    groups: dict[tuple[Law, float], dict[float, int]] = defaultdict(lambda: defaultdict(int))
    for law in ("gaussian", "laplace"):
        own = [(step, count) for step, count in steps.items() if step.law == law]
        rates = np.array([step.rate for step, _ in own])
        if len(np.unique(rates)) > _FEW:
            rates = ladder_up(rates, width)
        for rate, (step, count) in zip(rates, own, strict=True):
            groups[step.law, float(rate)][step.mu] += count
    return groups


def ladder_up(values: Array, width: float) -> Array:
    """Positive values, each raised to the next rung max · e^(−width k); the greatest stays what it is."""
    top = values.max()
    rung = np.floor(np.log(top / values) / width * (1 - 1e-12))
    return np.asarray(np.maximum(values, top * np.exp(-width * rung)))


def _share(law: Law, low: Array, high: Array, mu: Array) -> Array:
    """(s(μ) − s(low)) / (s(high) − s(low)), from s or from 1 − s, whichever is the smaller; rounded up."""

    def s(m: Array) -> Array:
        return np.asarray(-np.expm1(-m / 2) if law == "laplace" else special.erf(m / math.sqrt(8)))

    def one_less(m: Array) -> Array:
        return np.asarray(-np.exp(-m / 2) if law == "laplace" else -special.erfc(m / math.sqrt(8)))

    with np.errstate(invalid="ignore"):
        shares = [(f(mu) - f(low)) / (f(high) - f(low)) for f in (s, one_less)]
    share = np.where(mu < 1, *shares)
    return np.asarray(np.clip(np.nan_to_num(share, nan=1.0) + 1e-11, 0.0, 1.0))
