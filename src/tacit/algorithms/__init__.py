"""The methods. Importing this package registers them all; a user's own needs only to be an `Algorithm`."""

from tacit.algorithms.algorithm import Algorithm, algorithms
from tacit.algorithms.pushsum import D2P, PushSum, const_d2p, dyn_c_d2p, dyn_d2p, dyn_mu_d2p, sgp
from tacit.algorithms.schedules import Geometric, Listed, Schedule

__all__ = [
    "D2P",
    "Algorithm",
    "Geometric",
    "Listed",
    "PushSum",
    "Schedule",
    "algorithms",
    "const_d2p",
    "dyn_c_d2p",
    "dyn_d2p",
    "dyn_mu_d2p",
    "sgp",
]
