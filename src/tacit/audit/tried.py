"""Claims of papers tried on the code that runs, where so few trials as one can make decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.algorithms import DPNorm, const_d2p
from tacit.algorithms.partpsp import SGPDP
from tacit.audit.audit import Audit, attacked
from tacit.privacy.bounded import Sampling
from tacit.privacy.statement import rounded_down
from tacit.runs import Batch, PrivacyTarget


@dataclass(frozen=True)
class Tried:
    """What the audit of a paper's method found, in a setting small enough to be repeated thousands of times."""

    setting: str
    found: Audit

    def sentence(self) -> str:
        scope = " a round" if self.found.claimed_for == "round" else ""
        verdict = "refuted" if self.found.refuted else "not refuted"
        claimed = "nothing" if self.found.claimed is None else f"{self.found.claimed:.4g}{scope}"
        return f"≥ {rounded_down(self.found.lower)} where it claims {claimed} ({self.setting}): {verdict}"

    def as_dict(self) -> dict[str, Any]:
        return {"setting": self.setting, **self.found.as_dict()}


def dyn_d2p(trials: int = 200_000) -> Tried:
    """Eq. 9's noise for ε = 1, in two rounds of one record in 20: the limit theorem is as far from its limit."""
    rounds, records, delta = 2, 20, 1e-4
    sampling = Sampling("poisson", np.array([1 / records]), "add-remove")
    method = const_d2p().with_rounds(rounds)
    noised = method.with_noise(method.privacy.paper_noise(sampling, 1.0, delta)[0])
    draws = Batch(size=1, sampling="poisson")
    found = attacked(noised, draws, records, trials=trials, privacy=PrivacyTarget(delta=delta))
    return Tried(f"{rounds} rounds of 1 in {records} records", found)


def dpps(trials: int = 20_000) -> Tried:
    """Noise for a sensitivity that is estimated from the data: how much there is tells them."""
    method = SGPDP(sensitivity="estimated", noise_rate=1.0, b=1.0).with_rounds(1)
    found = attacked(method, Batch(), 2, trials=trials, privacy=PrivacyTarget(delta=1e-5))
    return Tried("one round, b = 1, γ_n = 1, the data of a node against next to none", found)


def dp_norm(trials: int = 20_000, rounds: int = 100, inner: Any = "same") -> Tried:
    """Theorem 1's noise for ε = 1, and the round's noise in the local steps too: sums of messages shed it."""
    sampling, delta = Sampling("none", np.ones(1), "replace-one"), 1e-3
    method = DPNorm(inner_noise=inner, smoothness=0.5).with_rounds(rounds)
    noised = method.with_noise(method.privacy.paper_noise(sampling, 1.0, delta)[0])
    found = attacked(noised, Batch(), 1, trials=trials, privacy=PrivacyTarget(delta=delta))
    return Tried(f"{rounds} rounds, μ, α and K as published, one record a node", found)


TRIED: dict[str, Callable[[], Tried]] = {"Dyn-D²P": dyn_d2p, "DP-Norm, n in the steps": dp_norm, "DPPS / PartPSP": dpps}
