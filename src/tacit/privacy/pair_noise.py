"""The noise of pairs: both ends of a pair draw the same numbers from a key that only they have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.device import as_double, has_double
from tacit.errors import TacitError
from tacit.privacy.noise import Noise
from tacit.privacy.pair_plan import PairPlan

_CHUNK_SAMPLES = 1 << 22  # of all pairs that are drawn at once

Ints = npt.NDArray[np.int64]


class PairNoise(ABC):
    """The source of the noise that pairs of nodes share."""

    @abstractmethod
    def draw(
        self, pairs: Ints, ids: Ints, purpose: str, step: int, scale: float, grid_scale: float, out: Tensor
    ) -> None:
        """Add N(0, scale²), rounded to the grid, to the row of `out` (E, d) of each of the pairs (E, 2)."""

    @abstractmethod
    def check(self, plan: PairPlan) -> None:
        """Raise unless every key is here that the plan counts on."""

    def sum(
        self, plan: PairPlan, nodes: Ints, purpose: str, step: int, scale: float, grid_scale: float, *, like: Tensor
    ) -> Tensor:
        """Return the sum of every node's pair noise (n, d) in double precision, in which it is exact.

        The node with the smaller id adds the noise of a pair, and the other one subtracts it.

        Args:
            plan: Which nodes share keys.
            nodes: (n,) ids of the hosted nodes.
            purpose: Distinguishes the releases of one step.
            step: The step of the release.
            scale: Standard deviation of the noise of a pair.
            grid_scale: The least noise of any node, which sets the grid.
            like: A tensor (n, d) of the released value, for its shape and type.
        """
        where = like.device if has_double(like.device) else torch.device("cpu")
        total = torch.zeros(like.shape, dtype=torch.float64, device=where)
        self.check(plan)
        row = np.full(plan.nodes, -1)
        row[nodes] = np.arange(len(nodes))
        mine = np.flatnonzero((row[plan.edges] >= 0).any(axis=1))  # the number of a pair is its place in the plan
        at_once = max(1, _CHUNK_SAMPLES // max(1, like.shape[1]))
        for start in range(0, len(mine), at_once):
            ids = mine[start : start + at_once]
            pairs = plan.edges[ids]
            drawn = like.new_zeros(len(pairs), like.shape[1])
            self.draw(pairs, ids, f"pair/{purpose}", step, scale, grid_scale, drawn)
            exact = as_double(drawn)
            for end, sign in ((0, 1.0), (1, -1.0)):
                hosted = row[pairs[:, end]] >= 0
                rows = torch.from_numpy(row[pairs[hosted, end]]).to(where)
                own = exact if hosted.all() else exact[torch.from_numpy(np.flatnonzero(hosted)).to(where)]
                total.index_add_(0, rows, own, alpha=sign)
        return total


@dataclass(frozen=True)
class DerivedPairNoise(PairNoise):
    """Pairs of nodes in one trust domain: their keys are derived from the key of the noise, as in a simulation."""

    noise: Noise

    def check(self, plan: PairPlan) -> None:
        """Return: every key can be derived."""

    def draw(
        self, pairs: Ints, ids: Ints, purpose: str, step: int, scale: float, grid_scale: float, out: Tensor
    ) -> None:
        self.noise.gaussian_(out, np.full(len(pairs), scale), purpose, ids, step, grid_scale=grid_scale)


@dataclass(frozen=True)
class KeyedPairNoise(PairNoise):
    """Pairs of one node with nodes elsewhere: one noise source per partner, whose key both ends agreed on.

    The two ends may compute on different devices, whose generators differ. So both draw in main memory.

    Attributes:
        node: The id of the hosted node.
        partners: The noise source that the node shares with each of its partners.
    """

    node: int
    partners: Mapping[int, Noise]

    def check(self, plan: PairPlan) -> None:
        """Refuse to release with fewer keys, or others, than planned.

        Privacy:
            Each key that is missing leaves out noise that the guarantee counts on.
        """
        planned = plan.partners(self.node)
        if planned != set(self.partners):
            missing, extra = sorted(planned - set(self.partners)), sorted(set(self.partners) - planned)
            difference = f"It lacks those of nodes {missing}" if missing else f"It also has those of nodes {extra}"
            raise TacitError(
                f"Node {self.node} has {len(planned) - len(missing)} of the {len(planned)} keys for which its noise "
                f"was planned, against {plan.colluders} colluders. {difference}. Nothing is released: all sites must "
                "agree on a new roster and a new epoch"
            )

    def draw(
        self, pairs: Ints, ids: Ints, purpose: str, step: int, scale: float, grid_scale: float, out: Tensor
    ) -> None:
        for at, (first, second) in enumerate(pairs.tolist()):
            noise = self.partners[second if first == self.node else first]
            drawn = torch.zeros(1, out.shape[1], dtype=out.dtype)
            noise.gaussian_(drawn, np.full(1, scale), purpose, ids[at : at + 1], step, grid_scale=grid_scale)
            out[at : at + 1] += drawn.to(out.device)
