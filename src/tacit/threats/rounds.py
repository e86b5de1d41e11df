"""The rounds of a run whose algorithm only mixes noised gradients, grouped by mixing matrix and noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tacit.graphs import Graph
from tacit.privacy import BandedGaussian, Paired, PairPlan, Release, declares
from tacit.runs import PREPARATION_TITLES

if TYPE_CHECKING:
    from tacit.algorithms import Algorithm
    from tacit.tasks import Task

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
MAX_WORK = 2e9  # singular value decompositions × nodes³: about ten seconds


@dataclass(frozen=True)
class RoundKind:
    """Rounds with the same mixing matrix W (n, n) and the same standard deviations of the noise (n,).

    `mean_weights` is set for the last round only (see `Adversary.view`).
    """

    weights: Array
    noise: Array
    mean_weights: Array | None


@dataclass(frozen=True)
class MixingRounds:
    """Rounds X ← W(t) (X − γ (G + S Z)): G clipped gradients at X, Z Gaussian, X the whole state of the nodes.

    `kind_of_round` has the index into `kinds` for every round, `releases` the release of every round. `pairs` is the
    plan of paired noise; the covariance of a round is a multiple of the plan's.
    """

    kinds: Sequence[RoundKind]
    kind_of_round: Ints
    releases: Sequence[Release]
    pairs: PairPlan | None = None


def mixing_rounds(
    algorithm: Algorithm[Any], task: Task, graph: Graph, releases: Sequence[Release]
) -> MixingRounds | str:
    """Group the rounds behind these releases, or return the reason why no mixing bound applies to them."""
    if any(release.unit != "record" for release in releases):
        return f"no mixing bound is known for whole nodes, the unit of {algorithm.title}"
    if found := [PREPARATION_TITLES[each.purpose] for each in releases if each.purpose in PREPARATION_TITLES]:
        return f"the {found[0]} are released as well, for which no mixing bound is known"
    if not algorithm.mixing.keeps_rounds:
        options = " and ".join(f"algorithm.{option}" for option in algorithm.mixing.used if option != "weights")
        return f"no mixing bound is known with {options}; the eavesdropper's bound applies"
    if any(isinstance(release.mechanism, BandedGaussian) for release in releases):
        return "no mixing bound is known for noise that is correlated in time; the eavesdropper's bound applies"
    if not declares(algorithm, "mixes_only") or any(
        algorithm.privacy.mixing_only_clip(t) is None for t in range(len(releases))
    ):
        return f"no mixing bound is known for {algorithm.title}; the eavesdropper's bound applies"
    if not np.array_equal(task.nodes, np.arange(graph.nodes)):
        return "the noise of nodes on other hosts is unknown here"
    if task.model.shared < task.d:
        return "nodes keep parameters that they do not share, for which no mixing bound is known"
    one_per_round = [release.step for release in releases] == list(range(len(releases)))
    if not one_per_round or any(release.mechanism.name not in ("gaussian", "paired") for release in releases):
        return "the mixing bound needs exactly one release with Gaussian noise per round"
    distinct = graph.period or len(releases)
    if min(distinct, len(releases)) * graph.nodes**3 > MAX_WORK:
        return "the network is too large, or its graph repeats too rarely, to analyse every round"
    return _grouped(algorithm, task, graph, releases)


def _grouped(algorithm: Algorithm[Any], task: Task, graph: Graph, releases: Sequence[Release]) -> MixingRounds:
    index: dict[tuple[int, bool, bytes], int] = {}
    kinds: list[RoundKind] = []
    kind_of_round = np.empty(len(releases), np.int64)
    for t, release in enumerate(releases):
        clip, last = algorithm.privacy.mixing_only_clip(t), t == len(releases) - 1
        assert clip is not None
        noise = release.multipliers * task.sensitivity(clip)
        noise = (noise / noise.max()).round(12)  # leverages depend on ratios only, and ratios seldom change
        key = t % graph.period if graph.period else t, last, noise.tobytes()
        if key not in index:
            index[key] = len(kinds)
            mean_weights = _mean_weights(graph, len(releases)) if last else None
            kinds.append(RoundKind(graph.at(t).toarray(), noise, mean_weights))
        kind_of_round[t] = index[key]
    return MixingRounds(kinds, kind_of_round, releases, pair_plan(releases))


def pair_plan(releases: Sequence[Release]) -> PairPlan | None:
    """The plan of paired noise behind these releases; None if their noise is independent."""
    return next((each.mechanism.plan for each in releases if isinstance(each.mechanism, Paired)), None)


def _mean_weights(graph: Graph, rounds: int) -> Array:
    """The weight of each state x in the mean of the models x / w: 1 / w, w the push-sum weights after all rounds."""
    weights = np.ones(graph.nodes)
    for t in range(rounds):
        weights = graph.at(t) @ weights
    return 1 / weights
