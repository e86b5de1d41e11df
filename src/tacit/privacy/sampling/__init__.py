"""Sampling kinds: how the records of a batch are drawn, and how that is accounted. One file per kind."""

from tacit.privacy.sampling.base import Population, Relation, Sampling, SamplingKind, sampling_kinds
from tacit.registry import discover

discover(__name__)

__all__ = ["Population", "Relation", "Sampling", "SamplingKind", "sampling_kinds"]
