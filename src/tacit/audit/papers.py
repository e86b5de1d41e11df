"""The ε that five papers print for their settings, beside their own formulas and the exact accountant."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from tacit.algorithms import LTADMM, Algorithm, DPNorm, PartPSP, const_d2p
from tacit.graph_learning import classical_noise_multiplier
from tacit.privacy import Sampling, guarantee, mu_to_epsilon, plan

_NODE = np.zeros(1, np.int64)  # all computations are for one node


@dataclass(frozen=True)
class PaperClaim:
    """A published setting with its ε as printed, by the paper's formula, and as guaranteed (None: no guarantee)."""

    paper: str
    setting: str
    printed: float
    formula: float
    guaranteed: float | None
    delta: float
    unit: str = "record"
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """A JSON object for `--json`."""
        return asdict(self)


def paper_claims() -> list[PaperClaim]:
    """Compute all rows of the table from their settings.

    >>> [(row.paper, row.printed, round(row.formula, 2), round(row.guaranteed, 2)) for row in paper_claims()[3:5]]
    [('DP-Norm', 1.0, 1.0, 0.64), ('DP-Norm', 0.5, 0.5, 0.3)]
    """
    dp_norm = _dp_norm(1.0), _dp_norm(0.5), _dp_norm(1.0, "same")
    return [_dyn_d2p(), _lt_admm_dp("batch"), _lt_admm_dp("record"), *dp_norm, *_ppgl(), _dpps()]


def _epsilons(algorithm: Algorithm[Any], sampling: Sampling, delta: float) -> tuple[float, float | None]:
    """The claimed and the guaranteed ε of a whole run."""
    claimed = algorithm.privacy.claim(sampling, _NODE, delta, algorithm.rounds)
    spent = float(guarantee(plan(algorithm.privacy, algorithm.rounds, sampling, _NODE), delta).max())
    assert claimed is not None
    return claimed, spent if math.isfinite(spent) else None


def _dyn_d2p() -> PaperClaim:
    sampling, delta = Sampling("poisson", np.array([1 / 2500]), "add-remove"), 1e-4
    algorithm = const_d2p().with_rounds(3500)
    noised = algorithm.with_noise(algorithm.privacy.paper_noise(sampling, 1.0, delta))
    setting = "2,500 records per node, one sampled per round, 3,500 rounds, constant noise by Eq. 9"
    note = "a central limit theorem far from its limit"
    return PaperClaim("Dyn-D²P", setting, 1.0, *_epsilons(noised, sampling, delta), delta, note=note)


def _lt_admm_dp(per: Literal["batch", "record"]) -> PaperClaim:
    sensitivity = 2.0 if per == "batch" else 2.0 / 8
    algorithm = LTADMM(clip_per=per, scale=0.5 / sensitivity, sensitivity=np.array([sensitivity])).with_rounds(4000)
    sampling = Sampling("without-replacement", np.array([8 / 1000]), "replace-one")
    setting = f"8 of 1,000 records, σ = 0.5, 4,000 rounds of 4 steps, gradient clipped to 1 per {per}"
    note = {
        "batch": "as published; printed with a decimal logarithm; one record can reverse the clipped mean",
        "record": "the same noise, but every record clipped",
    }[per]
    return PaperClaim("LT-ADMM-DP", setting, 19.6, *_epsilons(algorithm, sampling, 1e-4), 1e-4, note=note)


def _dp_norm(epsilon: float, inner: Literal["none", "same"] = "none") -> PaperClaim:
    sampling, delta = Sampling("none", np.ones(1), "replace-one"), 1e-3
    algorithm = DPNorm(inner_noise=inner).with_rounds(2000)
    noised = algorithm.with_noise(algorithm.privacy.paper_noise(sampling, epsilon, delta))
    note = {
        "none": "a composition theorem that is not tight; assumes L-smoothness",
        "same": "the same noise also in the local steps, which the paper does not state: they cancel it",
    }[inner]
    setting = "2,000 rounds, σ = J Δ₂ by Theorem 1, synchronous exchange"
    paper = "DP-Norm" if inner == "none" else "DP-Norm, n in the steps"
    return PaperClaim(paper, setting, epsilon, *_epsilons(noised, sampling, delta), delta, note=note)


def _ppgl() -> list[PaperClaim]:
    rounds, delta = 50, 1e-5
    mu = math.sqrt(rounds) / classical_noise_multiplier(delta)
    note = "adds ε and δ of all rounds, to ε = 50 at δ = 5e-4"
    settings = {
        f"{rounds} rounds, each (1, 1e-5) by Corollary 1": mu,
        "the same noise with the proven sensitivity √2 C/N instead of 2C/N": mu / math.sqrt(2),
    }
    return [
        PaperClaim("PPGL", setting, 50.0, 50.0, mu_to_epsilon(total, delta), delta, note=note)
        for setting, total in settings.items()
    ]


def _dpps() -> PaperClaim:
    algorithm = PartPSP(share=("0.*",), b=5.0, noise_rate=0.001, sensitivity="estimated").with_rounds(660)
    sampling = Sampling("none", np.ones(1), "replace-one")
    note = "claimed per round; the sensitivity is estimated from the data and sent without noise"
    claimed, spent = _epsilons(algorithm, sampling, 1e-5)
    return PaperClaim("DPPS / PartPSP", "b = 5, γ_n = 0.001, 660 rounds", 5000.0, claimed, spent, 1e-5, "node", note)
