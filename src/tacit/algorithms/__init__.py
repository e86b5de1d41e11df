"""The methods. Importing this package registers them all; a user's own needs only to be an `Algorithm`."""

from tacit.algorithms.algorithm import Algorithm, algorithms, at_nodes
from tacit.algorithms.dpadmm import DPADMM
from tacit.algorithms.dpnorm import DPNorm, ecl
from tacit.algorithms.dpps import DPPS, Consensus
from tacit.algorithms.dpsgd import DPSGD, SingleNode, single_node
from tacit.algorithms.ltadmm import LTADMM, lt_admm
from tacit.algorithms.partpsp import SGPDP, PartPSP
from tacit.algorithms.pedfl import PEDFL
from tacit.algorithms.porter import Porter
from tacit.algorithms.prisma import Prisma
from tacit.algorithms.privacy_plan import Nodes, PrivacyPlan
from tacit.algorithms.pushsum import D2P, PushSum, const_d2p, dyn_c_d2p, dyn_d2p, dyn_mu_d2p, sgp
from tacit.algorithms.schedules import Geometric, Listed, Schedule, Steps
from tacit.algorithms.sensitivity import Certified, Estimated, Real, Replacement, Sensitivity

__all__ = [
    "D2P",
    "DPADMM",
    "DPPS",
    "DPSGD",
    "LTADMM",
    "PEDFL",
    "SGPDP",
    "Algorithm",
    "Certified",
    "Consensus",
    "DPNorm",
    "Estimated",
    "Geometric",
    "Listed",
    "Nodes",
    "PartPSP",
    "Porter",
    "Prisma",
    "PrivacyPlan",
    "PushSum",
    "Real",
    "Replacement",
    "Schedule",
    "Sensitivity",
    "SingleNode",
    "Steps",
    "algorithms",
    "at_nodes",
    "const_d2p",
    "dyn_c_d2p",
    "dyn_d2p",
    "dyn_mu_d2p",
    "ecl",
    "lt_admm",
    "sgp",
    "single_node",
]
