"""Mechanisms: how a value is noised, what that costs, and how the ledger stores it. One file per mechanism."""

from tacit.privacy.mechanisms.banded import BandedGaussian
from tacit.privacy.mechanisms.base import (
    AdditiveNoise,
    LedgerFields,
    Mechanism,
    check_registered,
    mechanism_from_ledger,
    mechanisms,
)
from tacit.privacy.mechanisms.exact import Exact
from tacit.privacy.mechanisms.gaussian import Gaussian
from tacit.privacy.mechanisms.laplace import Laplace
from tacit.privacy.mechanisms.loss import NO_PRIVACY, PrivacyLoss
from tacit.privacy.mechanisms.paired import Paired
from tacit.privacy.mechanisms.unproven import Unproven
from tacit.registry import discover

discover(__name__)

__all__ = [
    "NO_PRIVACY",
    "AdditiveNoise",
    "BandedGaussian",
    "Exact",
    "Gaussian",
    "Laplace",
    "LedgerFields",
    "Mechanism",
    "Paired",
    "PrivacyLoss",
    "Unproven",
    "check_registered",
    "mechanism_from_ledger",
    "mechanisms",
]
