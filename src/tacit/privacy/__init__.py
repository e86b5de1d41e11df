"""Releases, their noise, the ledger that records them, and the accountant that bounds their privacy loss."""

from typing import TYPE_CHECKING, Any

from tacit.privacy.accountant import epsilon, guarantee
from tacit.privacy.adversary import Adversary, Coalition, Eavesdropper, ModelHolder
from tacit.privacy.bounded import Bounded, Relation, ReleaseContext, Sampling, SamplingKind
from tacit.privacy.budget import Budget
from tacit.privacy.calibration import calibrate
from tacit.privacy.gdp import epsilon_to_mu, mu_to_epsilon
from tacit.privacy.ledger import Ledger
from tacit.privacy.mechanism import Exact, Gaussian, Laplace, Mechanism, Unproven
from tacit.privacy.planning import PlansReleases, calibrated, plan
from tacit.privacy.release import Array, Release
from tacit.privacy.statement import Privacy, assess, rounded_down, rounded_up

if TYPE_CHECKING:
    from tacit.privacy.noise import Noise

__all__ = [
    "Adversary",
    "Array",
    "Bounded",
    "Budget",
    "Coalition",
    "Eavesdropper",
    "Exact",
    "Gaussian",
    "Laplace",
    "Ledger",
    "Mechanism",
    "ModelHolder",
    "Noise",
    "PlansReleases",
    "Privacy",
    "Relation",
    "Release",
    "ReleaseContext",
    "Sampling",
    "SamplingKind",
    "Unproven",
    "assess",
    "calibrate",
    "calibrated",
    "epsilon",
    "epsilon_to_mu",
    "guarantee",
    "mu_to_epsilon",
    "plan",
    "rounded_down",
    "rounded_up",
]


def __getattr__(name: str) -> Any:
    """Load `Noise`, which needs torch, on first use: accounting works without torch."""
    if name == "Noise":
        from tacit.privacy.noise import Noise

        return Noise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
