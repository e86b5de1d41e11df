"""What leaves a node, with what noise, and what that costs. (`noise`, which needs torch, stands apart.)"""

from tacit.privacy.accountant import epsilon
from tacit.privacy.adversary import Adversary, Coalition, Eavesdropper, ModelHolder
from tacit.privacy.bounded import Bounded, Relation, Sampling, Source
from tacit.privacy.budget import Budget
from tacit.privacy.calibration import calibrate
from tacit.privacy.gdp import epsilon_to_mu, mu_to_epsilon
from tacit.privacy.ledger import Ledger, Release
from tacit.privacy.mechanism import Exact, Gaussian, Laplace, Mechanism, Unproven
from tacit.privacy.planning import Planned, calibrated, guarantee, plan
from tacit.privacy.statement import Privacy, rounded_down, rounded_up

__all__ = [
    "Adversary",
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
    "Planned",
    "Privacy",
    "Relation",
    "Release",
    "Sampling",
    "Source",
    "Unproven",
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
