"""The accountant: from releases to a guaranteed ε, and from a target ε to noise."""

from tacit.privacy.accounting.accountant import epsilon, guarantee
from tacit.privacy.accounting.calibration import calibrate, epsilon_per_run
from tacit.privacy.accounting.joint import joint_epsilon
from tacit.privacy.accounting.lower_bound import epsilon_lower_bound

__all__ = ["calibrate", "epsilon", "epsilon_lower_bound", "epsilon_per_run", "guarantee", "joint_epsilon"]
