"""The rounds of a run whose method only mixes: their kinds, each with its weights and its noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tacit.graphs import Graph
from tacit.privacy.ledger import Array, Release

if TYPE_CHECKING:
    from tacit.algorithms import Algorithm
    from tacit.tasks import Task

Ints = npt.NDArray[np.int64]
WORK = 2e9  # singular value decompositions × nodes³: some ten seconds


@dataclass(frozen=True)
class Kind:
    """Rounds with these weights W (n, n) and deviations of the noise (n,); `ends` is there in the last round only."""

    weights: Array
    noise: Array
    ends: Array | None


@dataclass(frozen=True)
class Mixing:
    """Rounds X ← W(t) (X − γ (G + S Z)), G the clipped gradients at X, Z Gaussian, X all that a node remembers.

    `which` is the kind of each round, `lines` what the ledger says of it.
    """

    kinds: Sequence[Kind]
    which: Ints
    lines: Sequence[Release]


def mixing(algorithm: Algorithm[Any], task: Task, graph: Graph, lines: Sequence[Release]) -> Mixing | str:
    """The rounds behind the lines of a ledger, or, where mixing is not known to hide anything, why."""
    if algorithm.privacy.unit != "record":
        return f"{algorithm.title} protects all the data of a node, for which no more is proven"
    # A class answers for itself, not for its subclasses, which may have another update.
    own = "privacy" in vars(type(algorithm)) and "mixing_only_clip" in vars(type(algorithm.privacy))
    if not own or any(algorithm.privacy.mixing_only_clip(t) is None for t in range(len(lines))):
        return f"that mixing hides anything is not proven for {algorithm.title}"
    if not np.array_equal(task.nodes, np.arange(graph.nodes)):
        return "the noise of nodes that are hosted elsewhere is not known here"
    if task.model.shared < task.d:
        return "nodes remember parameters that they do not share"
    if [line.step for line in lines] != list(range(len(lines))) or any(line.mechanism != "gaussian" for line in lines):
        return "what was released is not one value with Gaussian noise a round"
    repeats = graph.period or len(lines)
    if min(repeats, len(lines)) * graph.nodes**3 > WORK:
        return "the network is too large, or repeats too rarely, to look at every round"
    return _kinds(algorithm, task, graph, lines)


def _kinds(algorithm: Algorithm[Any], task: Task, graph: Graph, lines: Sequence[Release]) -> Mixing:
    found: dict[tuple[int, bool, bytes], int] = {}
    kinds: list[Kind] = []
    which = np.empty(len(lines), np.int64)
    for t, line in enumerate(lines):
        clip, last = algorithm.privacy.mixing_only_clip(t), t == len(lines) - 1
        assert clip is not None
        noise = line.multipliers * task.sensitivity(clip)
        noise = (noise / noise.max()).round(12)  # only ratios count, and they seldom change
        key = t % graph.period if graph.period else t, last, noise.tobytes()
        if key not in found:
            found[key] = len(kinds)
            kinds.append(Kind(graph.at(t).toarray(), noise, _ends(graph, len(lines)) if last else None))
        which[t] = found[key]
    return Mixing(kinds, which, lines)


def _ends(graph: Graph, rounds: int) -> Array:
    """How the mean of the models x / w weighs the states x: by 1 / w, the push-sum weights after all rounds."""
    weights = np.ones(graph.nodes)
    for t in range(rounds):
        weights = graph.at(t) @ weights
    return 1 / weights
