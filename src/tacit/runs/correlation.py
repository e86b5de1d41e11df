"""Noise that is correlated in time: which runs can have it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tacit.algorithms import Algorithm
from tacit.errors import TacitError
from tacit.privacy import BandedGaussian, Release, Sampling, declares
from tacit.runs.config_sections import PrivacyTarget

_WHAT = 'privacy.correlation = "time"'


def correlate_noise(algorithm: Algorithm[Any], sampling: Sampling, target: PrivacyTarget) -> Algorithm[Any]:
    """Return the algorithm with noise that is correlated in time, if the target asks for it.

    Raises:
        TacitError: The method or its batches cannot have such noise.
    """
    if target.correlation == "none":
        if target.bandwidth is not None:
            raise TacitError(f"privacy.bandwidth has an effect only with {_WHAT}: remove it")
        return algorithm
    if target.noise == "paired":
        raise TacitError(
            f'{_WHAT} and privacy.noise = "paired" cannot be combined: no bound is known. Remove one of them'
        )
    if not declares(algorithm, "sums_gradients"):
        raise TacitError(
            f"{_WHAT} is for methods that subtract each released gradient from the model once (the D²P family and "
            f"dp-sgd), because only then does later noise cancel earlier noise. {algorithm.title} is not one of them"
        )
    if target.calibration == "paper":
        raise TacitError(f'{_WHAT} has no formula of a paper: remove privacy.calibration = "paper"')
    if sampling.scheme.spacing(0.5) == 1:
        raise TacitError(f"{_WHAT} {_needs(sampling)}")
    return replace(algorithm, bandwidth=math.inf if target.bandwidth is None else float(target.bandwidth))


def check_correlation(algorithm: Algorithm[Any], planned: Iterable[Release]) -> None:
    """Refuse an algorithm that is to have noise that is correlated in time, and plans none."""
    if algorithm.bandwidth is not None and not any(isinstance(each.mechanism, BandedGaussian) for each in planned):
        raise TacitError(f"{algorithm.title} adds no Gaussian noise: remove {_WHAT}")


def _needs(sampling: Sampling) -> str:
    """Return what is wrong with the batches, and what to do."""
    if sampling.kind == "none":
        return "has no effect if a record can change every step, as without batches or with exact local parameters"
    if sampling.kind == "permutation":
        return (
            'needs batch.sampling = "cyclic". A permutation is drawn anew, so that a record can be in two batches that '
            "follow each other, whose noise is correlated"
        )
    return (
        'needs batch.sampling = "cyclic", in which a record comes again only after a whole epoch, got '
        f'"{sampling.kind}"'
    )
