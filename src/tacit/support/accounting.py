"""What the accountant itself supports: every mechanism with every sampling kind and relation."""

from __future__ import annotations

import math

import numpy as np

from tacit.errors import TacitError
from tacit.privacy import (
    BandedGaussian,
    Exact,
    Gaussian,
    Laplace,
    Mechanism,
    Paired,
    Release,
    Sampling,
    Unproven,
    guarantee,
    mechanisms,
    solve_pairs,
)
from tacit.support.cells import AMPLIFIED, NOT_AMPLIFIED, Answer
from tacit.support.training import samplings

_RATE, _DELTA, _STEPS = 0.1, 1e-5, 3


def accounting_support() -> dict[tuple[str, str, str], Answer]:
    """Return whether three releases have a proven ε, by (mechanism, sampling, relation)."""
    return {
        (name, kind, relation): _answer(name, kind, relation) for name in mechanisms for kind, relation in samplings()
    }


def _answer(name: str, kind: str, relation: str) -> Answer:
    examples: dict[str, Mechanism] = {
        "gaussian": Gaussian(2.0),
        "laplace": Laplace(2.0),
        "unproven": Unproven(Gaussian(2.0)),
        "exact": Exact(),
        "paired": Paired(solve_pairs(np.full(2, 2.0), np.ones(2), np.array([[0, 1]]), 0, 3.0), np.array([0])),
        "banded-gaussian": BandedGaussian(2.0, steps=_STEPS),
    }
    mechanism = examples.get(name)
    if mechanism is None:
        return Answer("no bound known", "not part of Tacit: its author proves its privacy loss")
    rate = np.array([1.0 if kind == "none" else _RATE])
    try:
        sampling = Sampling(kind, rate, relation)  # type: ignore[arg-type]
    except TacitError as error:
        return Answer("not applicable", f"refused: {error}")
    epsilon = guarantee([Release(t, "gradient", mechanism, sampling) for t in range(_STEPS)], _DELTA)[0]
    if math.isfinite(epsilon):
        amplified = sampling.scheme.accounted_rate(_RATE) < 1
        return Answer("proven", AMPLIFIED if amplified else NOT_AMPLIFIED)
    return Answer("not applicable" if name == "exact" else "no bound known", mechanism.no_guarantee_because)
