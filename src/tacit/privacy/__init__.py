"""Releases, their noise, the ledger that records them, and the accountant that bounds their privacy loss."""

import importlib
from typing import TYPE_CHECKING, Any

from tacit.privacy.accounting import (
    calibrate,
    epsilon,
    epsilon_lower_bound,
    epsilon_per_run,
    guarantee,
    joint_epsilon,
)
from tacit.privacy.adversary import Adversary, Coalition, Eavesdropper, MetricReader, ModelHolder
from tacit.privacy.attack_bounds import FALSE_ALARMS, detection_bound, guess_bound, trade_off_bound, trade_off_corners
from tacit.privacy.bounded import Bounded, ReleaseContext
from tacit.privacy.budget import Budget
from tacit.privacy.colluders import against_colluders, epsilons_against
from tacit.privacy.declarations import declares
from tacit.privacy.gdp import epsilon_to_mu, mu_to_epsilon
from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger_facts import LedgerFacts, Mark, read_ledger
from tacit.privacy.mechanisms import (
    NO_PRIVACY,
    AdditiveNoise,
    BandedGaussian,
    Exact,
    Gaussian,
    Laplace,
    Mechanism,
    Paired,
    PrivacyLoss,
    Unproven,
    mechanisms,
)
from tacit.privacy.pair_plan import PairPlan, solve_pairs
from tacit.privacy.planning import PlansReleases, calibrate_noise, plan, plan_of_round
from tacit.privacy.private_files import create_private_file, erase_file, read_bytes, write_private_file
from tacit.privacy.recorded_runs import RecordedRun, RecordsTotal, total_of_runs
from tacit.privacy.records_ledger import RecordsLedger
from tacit.privacy.release import Array, Release, Unit
from tacit.privacy.reservation import Reservation
from tacit.privacy.sampling import Population, Relation, Sampling, SamplingKind, sampling_kinds
from tacit.privacy.statement import (
    Privacy,
    correlation_notes,
    ledger_guarantee,
    no_guarantee_reason,
    outside_parts,
    rounded_down,
    rounded_up,
    weak_protection,
)

if TYPE_CHECKING:
    from tacit.privacy.device_noise import CPU_GENERATOR, generator_of
    from tacit.privacy.draws import Draw
    from tacit.privacy.noise import Noise
    from tacit.privacy.noise_key import (
        NOISE_KEY_FILE,
        erase_noise,
        first_step_of_key,
        is_erased,
        is_single_key,
        open_noise,
    )
    from tacit.privacy.pair_noise import DerivedPairNoise, KeyedPairNoise, PairNoise
    from tacit.privacy.ratcheted_keys import PairSecrets, RatchetedKeys
    from tacit.privacy.release_journal import ReleaseJournal

__all__ = [
    "CPU_GENERATOR",
    "FALSE_ALARMS",
    "NOISE_KEY_FILE",
    "NO_PRIVACY",
    "AdditiveNoise",
    "Adversary",
    "Array",
    "BandedGaussian",
    "Bounded",
    "Budget",
    "Coalition",
    "DerivedPairNoise",
    "Draw",
    "Eavesdropper",
    "Exact",
    "Gaussian",
    "KeyedPairNoise",
    "Laplace",
    "Ledger",
    "LedgerFacts",
    "Mark",
    "Mechanism",
    "MetricReader",
    "ModelHolder",
    "Noise",
    "PairNoise",
    "PairPlan",
    "PairSecrets",
    "Paired",
    "PlansReleases",
    "Population",
    "Privacy",
    "PrivacyLoss",
    "RatchetedKeys",
    "RecordedRun",
    "RecordsLedger",
    "RecordsTotal",
    "Relation",
    "Release",
    "ReleaseContext",
    "ReleaseJournal",
    "Reservation",
    "Sampling",
    "SamplingKind",
    "Unit",
    "Unproven",
    "against_colluders",
    "calibrate",
    "calibrate_noise",
    "correlation_notes",
    "create_private_file",
    "declares",
    "detection_bound",
    "epsilon",
    "epsilon_lower_bound",
    "epsilon_per_run",
    "epsilon_to_mu",
    "epsilons_against",
    "erase_file",
    "erase_noise",
    "first_step_of_key",
    "generator_of",
    "guarantee",
    "guess_bound",
    "is_erased",
    "is_single_key",
    "joint_epsilon",
    "ledger_guarantee",
    "mechanisms",
    "mu_to_epsilon",
    "no_guarantee_reason",
    "open_noise",
    "outside_parts",
    "plan",
    "plan_of_round",
    "read_bytes",
    "read_ledger",
    "rounded_down",
    "rounded_up",
    "sampling_kinds",
    "solve_pairs",
    "total_of_runs",
    "trade_off_bound",
    "trade_off_corners",
    "weak_protection",
    "write_private_file",
]


_NEEDS_TORCH = {
    "Draw": "draws",
    "Noise": "noise",
    "CPU_GENERATOR": "device_noise",
    "generator_of": "device_noise",
    "ReleaseJournal": "release_journal",
    **dict.fromkeys(["PairSecrets", "RatchetedKeys"], "ratcheted_keys"),
    **dict.fromkeys(["DerivedPairNoise", "KeyedPairNoise", "PairNoise"], "pair_noise"),
    **dict.fromkeys(["NOISE_KEY_FILE", "erase_noise", "first_step_of_key"], "noise_key"),
    **dict.fromkeys(["is_erased", "is_single_key", "open_noise"], "noise_key"),
}


def __getattr__(name: str) -> Any:
    """Load what needs torch on first use: accounting works without torch."""
    if name in _NEEDS_TORCH:
        return getattr(importlib.import_module(f"{__name__}.{_NEEDS_TORCH[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
