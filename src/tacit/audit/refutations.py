"""Attacks on papers' claims, in settings small enough for trials to decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tacit.algorithms import SGPDP, DPNorm, const_d2p
from tacit.audit.audit import audit_algorithm
from tacit.audit.results import TrialsAudit
from tacit.privacy import Sampling, rounded_down
from tacit.runs import Batch, PrivacyTarget


@dataclass(frozen=True)
class Refutation:
    """An attempt to refute a paper's claim: the audit of its algorithm in a small setting."""

    setting: str
    result: TrialsAudit

    def summary(self) -> str:
        """The lower bound, the claim and the verdict in one line."""
        scope = " per round" if self.result.claimed_for == "round" else ""
        verdict = "refuted" if self.result.refuted else "not refuted"
        claimed = "nothing" if self.result.claimed is None else f"ε = {self.result.claimed:.4g}{scope}"
        return f"ε ≥ {rounded_down(self.result.lower)}, claimed {claimed} ({self.setting}): {verdict}"

    def as_dict(self) -> dict[str, Any]:
        """A JSON object for `--json`."""
        return {"setting": self.setting, **self.result.as_dict()}


def refute_dyn_d2p(trials: int = 200_000) -> Refutation:
    """Noise of Eq. 9 for ε = 1 in two rounds with one of 20 records: the limit theorem is far from its limit, too."""
    rounds, records, delta = 2, 20, 1e-4
    sampling = Sampling("poisson", np.array([1 / records]), "add-remove")
    algorithm = const_d2p().with_rounds(rounds)
    noised = algorithm.with_noise(algorithm.privacy.paper_noise(sampling, 1.0, delta)[0])
    batch = Batch(size=1, sampling="poisson")
    result = audit_algorithm(noised, batch, records, trials=trials, privacy=PrivacyTarget(delta=delta))
    return Refutation(f"{rounds} rounds with 1 of {records} records", result)


def refute_dpps(trials: int = 20_000) -> Refutation:
    """Noise scaled to a sensitivity that is estimated from the data: the amount of noise reveals the data."""
    algorithm = SGPDP(sensitivity="estimated", noise_rate=1.0, b=1.0).with_rounds(1)
    result = audit_algorithm(algorithm, Batch(size=None), 2, trials=trials, privacy=PrivacyTarget(delta=1e-5))
    return Refutation("one round, b = 1, γ_n = 1, the data of a node against nearly zero data", result)


def refute_dp_norm(
    trials: int = 20_000, rounds: int = 100, inner: Literal["none", "fresh", "same"] = "same"
) -> Refutation:
    """Noise of Theorem 1 for ε = 1, also in the local steps: it cancels in sums of messages."""
    sampling, delta = Sampling("none", np.ones(1), "replace-one"), 1e-3
    algorithm = DPNorm(inner_noise=inner, smoothness=0.5).with_rounds(rounds)
    noised = algorithm.with_noise(algorithm.privacy.paper_noise(sampling, 1.0, delta)[0])
    result = audit_algorithm(noised, Batch(size=None), 1, trials=trials, privacy=PrivacyTarget(delta=delta))
    return Refutation(f"{rounds} rounds, μ, α and K as published, one record per node", result)


REFUTATIONS: dict[str, Callable[[], Refutation]] = {
    "Dyn-D²P": refute_dyn_d2p,
    "DP-Norm, n in the steps": refute_dp_norm,
    "DPPS / PartPSP": refute_dpps,
}
