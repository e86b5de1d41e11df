"""What the five papers state for their published settings, by their own formulas, and by the accountant."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tacit.algorithms import LTADMM, Algorithm, DPNorm, PartPSP, const_d2p
from tacit.graph_learning import classical_noise_multiplier
from tacit.privacy.accountant import guarantee
from tacit.privacy.bounded import Sampling
from tacit.privacy.gdp import mu_to_epsilon
from tacit.privacy.planning import plan

_ONE = np.zeros(1, np.int64)


@dataclass(frozen=True)
class Stated:
    """ε as printed, by the paper's formula, and as guaranteed (None: nothing is), at `delta` for a `unit`."""

    paper: str
    setting: str
    printed: float
    formula: float
    guaranteed: float | None
    delta: float
    unit: str = "record"
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def stated() -> list[Stated]:
    """Every row is computed here and now, from the settings in it.

    >>> [(row.paper, row.printed, round(row.formula, 2), round(row.guaranteed, 2)) for row in stated()[3:5]]
    [('DP-Norm', 1.0, 1.0, 0.64), ('DP-Norm', 0.5, 0.5, 0.3)]
    """
    dp_norm = _dp_norm(1.0), _dp_norm(0.5), _dp_norm(1.0, "same")
    return [_dyn_d2p(), _lt_admm_dp("batch"), _lt_admm_dp("record"), *dp_norm, *_ppgl(), _dpps()]


def _costs(algorithm: Algorithm[Any], sampling: Sampling, delta: float) -> tuple[float, float | None]:
    """Claimed and guaranteed ε of a whole run at one node."""
    claimed = algorithm.privacy.claim(sampling, _ONE, delta, algorithm.rounds)
    spent = float(guarantee(plan(algorithm.privacy, algorithm.rounds, sampling, _ONE), delta).max())
    assert claimed is not None
    return claimed, spent if math.isfinite(spent) else None


def _dyn_d2p() -> Stated:
    sampling, delta = Sampling("poisson", np.array([1 / 2500]), "add-remove"), 1e-4
    algorithm = const_d2p().with_rounds(3500)
    noised = algorithm.with_noise(algorithm.privacy.paper_noise(sampling, 1.0, delta))
    setting = "2,500 records a node, one drawn a round, 3,500 rounds, constant noise by Eq. 9"
    note = "a central limit theorem, far from its limit"
    return Stated("Dyn-D²P", setting, 1.0, *_costs(noised, sampling, delta), delta, note=note)


def _lt_admm_dp(per: Any) -> Stated:
    moved = 2.0 if per == "batch" else 2.0 / 8
    algorithm = LTADMM(clip_per=per, scale=0.5 / moved, sensitivity=np.array([moved])).with_rounds(4000)
    sampling = Sampling("without-replacement", np.array([8 / 1000]), "replace-one")
    setting = f"8 of 1,000 records, σ = 0.5, 4,000 rounds of 4 steps, the {per}'s gradient clipped to 1"
    note = {
        "batch": "as published; printed with a decimal logarithm; one record can turn the clipped mean round",
        "record": "the same noise, every record clipped instead",
    }[per]
    return Stated("LT-ADMM-DP", setting, 19.6, *_costs(algorithm, sampling, 1e-4), 1e-4, note=note)


def _dp_norm(epsilon: float, inner: Any = "none") -> Stated:
    sampling, delta = Sampling("none", np.ones(1), "replace-one"), 1e-3
    algorithm = DPNorm(inner_noise=inner).with_rounds(2000)
    noised = algorithm.with_noise(algorithm.privacy.paper_noise(sampling, epsilon, delta))
    note = {
        "none": "a composition theorem that is not tight; takes L-smoothness for granted",
        "same": "the same noise in the local steps too, which the paper nowhere writes: they take it back",
    }[inner]
    setting = "2,000 rounds, σ = J Δ₂ by Theorem 1, exchanged synchronously"
    paper = "DP-Norm" if inner == "none" else "DP-Norm, n in the steps"
    return Stated(paper, setting, epsilon, *_costs(noised, sampling, delta), delta, note=note)


def _ppgl() -> list[Stated]:
    rounds, delta = 50, 1e-5
    mu = math.sqrt(rounds) / classical_noise_multiplier(delta)
    added = "ε and δ of the rounds added up, to ε = 50 at δ = 5e-4"
    return [
        Stated(
            "PPGL",
            f"{rounds} rounds, each (1, 1e-5) by Corollary 1",
            50.0,
            50.0,
            mu_to_epsilon(mu, delta),
            delta,
            note=added,
        ),
        Stated(
            "PPGL",
            "the same noise, with the sensitivity √2 C/N that is proven instead of 2C/N",
            50.0,
            50.0,
            mu_to_epsilon(mu / math.sqrt(2), delta),
            delta,
            note=added,
        ),
    ]


def _dpps() -> Stated:
    algorithm = PartPSP(share=("0.*",), b=5.0, noise_rate=0.001, sensitivity="estimated").with_rounds(660)
    sampling = Sampling("none", np.ones(1), "replace-one")
    note = "claimed for each round; the sensitivity is estimated from the data and told without noise"
    claimed, spent = _costs(algorithm, sampling, 1e-5)
    return Stated("DPPS / PartPSP", "b = 5, γ_n = 0.001, 660 rounds", 5000.0, claimed, spent, 1e-5, "node", note)
