"""The algorithms. Every module of this package is imported, and every algorithm in it is registered.

A user's own algorithm derives from `Algorithm`; it needs no registration if a config names its file.
"""

from tacit.algorithms.algorithm import AddsNoNoise, Algorithm, NoNoiseLevel, algorithms, scatter_nodes, select_nodes
from tacit.algorithms.compressors import Compressor, compressors
from tacit.algorithms.d2p import D2P, PushSumState, const_d2p, dyn_c_d2p, dyn_d2p, dyn_mu_d2p, sgp
from tacit.algorithms.dpadmm import DPADMM
from tacit.algorithms.dpnorm import DPNorm, ecl
from tacit.algorithms.dpps import DPPS, DPPSState
from tacit.algorithms.dpps_algorithm import DPPSAlgorithm
from tacit.algorithms.dpsgd import DPSGD, ModelState, SingleNode, single_node
from tacit.algorithms.ltadmm import LTADMM, lt_admm
from tacit.algorithms.mixing_options import MixingOptions
from tacit.algorithms.noisy_gradient import NoisyGradientAlgorithm
from tacit.algorithms.partpsp import SGPDP, PartPSP
from tacit.algorithms.pedfl import PEDFL
from tacit.algorithms.porter import Porter
from tacit.algorithms.preparation_plan import PlannedStatistic
from tacit.algorithms.prisma import Prisma
from tacit.algorithms.privacy_plan import Nodes, PrivacyPlan
from tacit.algorithms.schedules import Geometric, Listed, Schedule, StepDecay
from tacit.algorithms.sensitivity import (
    CertifiedSensitivity,
    EstimatedSensitivity,
    RealSensitivity,
    ReplacementSensitivity,
    SensitivityMode,
)
from tacit.algorithms.stepper import OptionState, Stepper, inner_state
from tacit.registry import discover

discover("tacit.algorithms")

__all__ = [
    "D2P",
    "DPADMM",
    "DPPS",
    "DPSGD",
    "LTADMM",
    "PEDFL",
    "SGPDP",
    "AddsNoNoise",
    "Algorithm",
    "CertifiedSensitivity",
    "Compressor",
    "DPNorm",
    "DPPSAlgorithm",
    "DPPSState",
    "EstimatedSensitivity",
    "Geometric",
    "Listed",
    "MixingOptions",
    "ModelState",
    "NoNoiseLevel",
    "Nodes",
    "NoisyGradientAlgorithm",
    "OptionState",
    "PartPSP",
    "PlannedStatistic",
    "Porter",
    "Prisma",
    "PrivacyPlan",
    "PushSumState",
    "RealSensitivity",
    "ReplacementSensitivity",
    "Schedule",
    "SensitivityMode",
    "SingleNode",
    "StepDecay",
    "Stepper",
    "algorithms",
    "compressors",
    "const_d2p",
    "dyn_c_d2p",
    "dyn_d2p",
    "dyn_mu_d2p",
    "ecl",
    "inner_state",
    "lt_admm",
    "scatter_nodes",
    "select_nodes",
    "sgp",
    "single_node",
]
