"""Releases grouped into elementary steps, the form that the accountant composes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError
from tacit.privacy.release import Release

Law = Literal["gaussian", "laplace"]


class Step(NamedTuple):
    """One release of additive noise: `mu` is sensitivity ÷ noise scale, `rate` the share of records used."""

    law: Law
    rate: float
    mu: float


Steps = Counter[Step]


class _Draw(NamedTuple):
    """Everything released from one draw of records; a multiplier of 0 means no privacy."""

    law: Law
    multiplier: float
    rate: float
    epoch: int | None


def read_steps(releases: Iterable[Release], members: npt.NDArray[np.intp]) -> Steps:
    """Count the steps that dominate what each of the rows `members` released. Releases are in order of step.

    A step without noise has `mu` infinite.
    """
    draws = [_draw(list(same), members) for _, same in groupby(releases, key=lambda release: release.step)]
    composed: list[_Draw] = []
    for epoch, group in groupby(draws, key=lambda draw: draw.epoch):
        # In a permutation a record is drawn once per epoch, so an epoch counts as its worst draw.
        same = list(group)
        composed += same if epoch is None else [_worst(same)]
    steps: Steps = Counter()
    for draw in reversed(composed):
        if not draw.multiplier >= 0:
            raise TacitError(f"a noise multiplier is a number of at least 0, not {draw.multiplier}")
        mu = 1 / draw.multiplier if draw.multiplier > 1e-100 else math.inf
        if draw.rate > 0 and mu > 0:
            steps[Step(draw.law, draw.rate, mu)] += 1
    return steps


def _draw(lines: Sequence[Release], members: npt.NDArray[np.intp]) -> _Draw:
    """Combine the releases of one draw of records.

    They come from the same records, so they are composed first and amplified together. Members take the least noise
    and the highest rate among them, which dominates each.
    """
    first = lines[0]
    kind, relation = first.sampling.kind, first.sampling.relation
    if relation not in ("add-remove", "replace-one"):
        raise TacitError(f'the neighbouring relation is "add-remove" or "replace-one", not "{relation}"')
    if kind in ("without-replacement", "permutation") and relation != "replace-one":
        # One record more shifts every later batch of such a draw: no bound on a single batch would hold.
        raise TacitError(f'{kind} sampling is accounted for relation = "replace-one" only')
    rate = float(first.rates[members].max())
    if not 0 <= rate <= 1:
        raise TacitError(f"a sampling rate lies between 0 and 1, and {rate} does not")
    law, multiplier = _together([(line.mechanism.name, float(line.multipliers[members].min())) for line in lines])
    epoch = first.step // max(1, math.floor(1 / rate + 1e-9)) if kind == "permutation" else None
    return _Draw(law, multiplier, 1.0 if kind in ("none", "permutation") or multiplier == 0 else rate, epoch)


def _together(parts: list[tuple[str, float]]) -> tuple[Law, float]:
    if any(name in ("exact", "unproven") or multiplier == 0 for name, multiplier in parts):
        return "gaussian", 0.0
    if len(parts) == 1:
        return cast(Law, parts[0][0]), parts[0][1]
    if all(name == "gaussian" for name, _ in parts):
        return "gaussian", sum(multiplier**-2 for _, multiplier in parts) ** -0.5
    raise TacitError("two releases of one batch can be accounted only if both are Gaussian")


def _worst(draws: Sequence[_Draw]) -> _Draw:
    if any(draw.multiplier == 0 for draw in draws):
        return draws[0]._replace(multiplier=0.0)
    if len({draw.law for draw in draws}) > 1:
        raise TacitError(
            "one epoch of a permutation mixes Gaussian and Laplace noise, which cannot be accounted together"
        )
    return min(draws, key=lambda draw: draw.multiplier)
