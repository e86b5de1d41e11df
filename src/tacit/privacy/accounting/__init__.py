"""The accountant: from releases to a guaranteed ε, and from a target ε to noise."""

from tacit.privacy.accounting.accountant import epsilon, guarantee
from tacit.privacy.accounting.calibration import calibrate
from tacit.privacy.accounting.joint import joint_epsilon

__all__ = ["calibrate", "epsilon", "guarantee", "joint_epsilon"]
