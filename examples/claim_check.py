"""Check claims of privacy: does a stated ε follow from the noise that a method adds?

    python examples/claim_check.py                                 # about 2 s

A paper or a vendor states ε, δ, the noise multiplier, the sampling rate and the number of steps. Tacit computes an
upper bound (what is guaranteed) and a lower bound on the exact ε (what no analysis can improve). A claim below the
lower bound does not hold. For each such claim the example prints the noise that would justify it.
"""

from __future__ import annotations

import tacit
from tacit.claims import ClaimVerdict, account_for_noise, sampling_of_steps

DELTA = 1e-4
# The first row has the published settings of Dyn-D²P (docs/claims.md). The others are typical statements.
CLAIMS = {
    "Dyn-D²P, as published": {"noise_multiplier": 0.4395, "sample_rate": 0.0004, "steps": 3500, "claimed": 1.0},
    "DP-SGD, 60 epochs of batches of 1 %": {
        "noise_multiplier": 1.1,
        "sample_rate": 0.01,
        "steps": 6000,
        "claimed": 4.5,
    },
    "a count with Laplace noise": {"noise_multiplier": 2.0, "mechanism": "laplace", "claimed": 0.5},
    "the same count, released twice": {"noise_multiplier": 2.0, "mechanism": "laplace", "steps": 2, "claimed": 0.5},
}


def noise_for(claim: dict) -> float:
    """Return the noise multiplier for which the claim would hold."""
    kind = "poisson" if "sample_rate" in claim else "none"
    sampling = sampling_of_steps(kind, claim.get("sample_rate", 1.0))
    law, steps = claim.get("mechanism", "gaussian"), claim.get("steps", 1)
    return account_for_noise(law, sampling, steps, DELTA, epsilon=claim["claimed"]).noise_multiplier


def main(names: tuple[str, ...] = tuple(CLAIMS)) -> dict[str, ClaimVerdict]:
    verdicts = {name: tacit.claims.check(**CLAIMS[name], delta=DELTA) for name in names}
    for name, verdict in verdicts.items():
        print(f"{name}: {verdict}")
        if verdict.holds is False:
            print(f"  It would hold with a noise multiplier of {noise_for(CLAIMS[name]):.3f}.")
    return verdicts


if __name__ == "__main__":
    main()
