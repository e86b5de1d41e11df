"""What leaves a node, with what noise, and what that costs. (`noise`, which needs torch, stands apart.)"""

from tacit.privacy.accountant import epsilon
from tacit.privacy.bounded import Bounded, Relation, Sampling, Source
from tacit.privacy.budget import Budget
from tacit.privacy.calibration import calibrate
from tacit.privacy.ledger import Ledger, Release
from tacit.privacy.mechanism import Exact, Gaussian, Laplace, Mechanism, Unproven
from tacit.privacy.planning import Planned, calibrated, guarantee, plan
from tacit.privacy.statement import Privacy

__all__ = [
    "Bounded",
    "Budget",
    "Exact",
    "Gaussian",
    "Laplace",
    "Ledger",
    "Mechanism",
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
    "guarantee",
    "plan",
]
