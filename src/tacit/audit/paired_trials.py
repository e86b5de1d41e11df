"""Paired noise in audits: every trial is a small network with keys of its own, in which one node may collude."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from tacit.algorithms import Algorithm
from tacit.privacy import DerivedPairNoise, solve_pairs
from tacit.runs import DEFAULT_RATIO, PrivacyTarget, with_paired_preparation
from tacit.tasks import Task


@dataclass(frozen=True)
class ColluderNoise(DerivedPairNoise):
    """Noise of pairs that records what the last node of every trial knows: the noise that it shares with the others."""

    nodes: int = 3
    known: list[Tensor] = field(default_factory=list)

    def draw(
        self,
        pairs: npt.NDArray[np.int64],
        ids: npt.NDArray[np.int64],
        purpose: str,
        step: int,
        scale: float,
        grid_scale: float,
        out: Tensor,
    ) -> None:
        super().draw(pairs, ids, purpose, step, scale, grid_scale, out)
        self.known.append(out[pairs[:, 1] % self.nodes == self.nodes - 1].double())

    def beside(self, transcripts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return transcripts (trials, numbers) together with all recorded noise."""
        known = [each.reshape(len(transcripts), -1).numpy() for each in self.known]
        return np.concatenate([transcripts, *known], axis=1)


def with_paired_trials(
    algorithm: Algorithm[Any], task: Task, privacy: PrivacyTarget, nodes: int, trials: int
) -> tuple[Algorithm[Any], ColluderNoise]:
    """Return the algorithm with paired noise inside every trial, if asked for, and what a colluder in each learns.

    A trial is too small for the config's colluders: it has one, unless the config has none.
    """
    known = ColluderNoise(task.noise, nodes)
    if privacy.noise != "paired":
        return algorithm, known
    colluders = 0 if privacy.colluders == 0 else 1
    multipliers, sensitivity = algorithm.privacy.unit_noise(task)
    edges, ratio = np.array(list(combinations(range(nodes), 2))), privacy.ratio or DEFAULT_RATIO
    pairs = solve_pairs(multipliers[:nodes], sensitivity[:nodes], edges, colluders, ratio)
    if colluders:
        task.pair_noise = known
    algorithm = with_paired_preparation(algorithm, nodes, edges, colluders, ratio)
    before = [replace(each, pairs=each.pairs and each.pairs.replicated(trials)) for each in algorithm.preparation]
    return replace(algorithm, pairs=pairs.replicated(trials), preparation=tuple(before)), known
