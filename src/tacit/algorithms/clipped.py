"""What methods with clipped, Gaussian-noised gradients have in common: the bound, the noise, and how both are set."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from torch import Tensor

from tacit.algorithms.algorithm import Algorithm, at_nodes, by_id
from tacit.algorithms.privacy_plan import Nodes, PrivacyPlan
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.privacy.bounded import Sampling
from tacit.privacy.ledger import Array
from tacit.privacy.mechanism import Exact, Gaussian, Mechanism
from tacit.privacy.release import Release
from tacit.tasks import Clip, Task

S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Clipped(Algorithm[S]):
    """Gradients clipped smoothly to `clip`, of each record or of the batch, with Gaussian noise of deviation `sigma`.

    A target ε sets the noise multiplier instead of sigma, which is the multiplier times the sensitivity: that is known
    to the task, and `on` brings it in. clip = None and sigma = 0 leave gradients as they are.
    """

    name: ClassVar[str]
    norm: ClassVar[Literal["smooth", "l2"]] = "smooth"

    lr: float = 0.1
    clip: float | None = 1.0
    clip_per: Literal["record", "batch"] = "record"
    sigma: float | None = None
    scale: float | Array | None = field(default=None, compare=False)
    sensitivity: Array | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for key, value in {"lr": self.lr, "clip": self.clip}.items():
            if value is not None and not 0 < value < np.inf:
                raise TacitError(f"{self.name}: {key} must be positive and finite, not {value}")
        if self.sigma is not None and not 0 <= self.sigma < np.inf:
            raise TacitError(f"{self.name}: sigma must be 0 or more, not {self.sigma}")
        if self.steps < 1:
            raise TacitError(f"{self.name}: a round needs at least 1 local step, not {self.steps}")
        if self.clip is None and self.sigma != 0:
            raise TacitError(f"{self.name}: noise protects only what is clipped: set clip, or sigma = 0")

    @property
    def title(self) -> str:
        return self.name

    @property
    def privacy(self) -> ClippedPrivacy:
        return ClippedPrivacy(self)

    @property
    def bound(self) -> Clip | None:
        return None if self.clip is None else Clip(self.clip, self.norm, self.clip_per)

    @property
    def weight(self) -> float:
        """How often the clipped gradient of a record enters what is released."""
        return 1.0

    @property
    def steps(self) -> int:
        """Private gradients a round."""
        return 1

    def draws(self, t: int) -> range:
        """The numbers of round t's draws."""
        return range(t * self.steps, (t + 1) * self.steps)

    def bind(self, task: Task, graph: Graph | None = None) -> Self:
        if self.bound is None:
            return self
        sensitivity = by_id(self.weight * task.sensitivity(self.bound), task.nodes)
        scale = self.sigma / sensitivity if self.sigma and self.scale is None else self.scale
        return replace(self, sensitivity=sensitivity, scale=scale)

    def private(self, params: Tensor, step: int, task: Task) -> Tensor:
        """ĝ: the clipped mean gradient of draw `step`, with noise on it."""
        return self.known(task).privacy.mechanism(step, task.nodes).release(task.gradient(params, step, self.bound))

    def known(self, task: Task) -> Self:
        """Itself, knowing its noise, which a run has asked for before."""
        return self if self.sensitivity is not None or self.bound is None else self.bind(task)

    def deviation(self, nodes: Nodes) -> Array:
        """σ of each node."""
        return at_nodes(self.known_noise(self.scale), nodes) * at_nodes(self.known_noise(self.sensitivity), nodes)

    def with_noise(self, scale: Array) -> Self:
        return super().with_noise(scale) if self.sigma == 0 else replace(self, scale=scale)

    def known_noise(self, value: float | Array | None) -> float | Array:
        if value is None:
            raise TacitError(
                f"{self.title} does not know how much noise to add: set privacy.epsilon, or algorithm.sigma"
            )
        return value


@dataclass(frozen=True)
class ClippedPrivacy(PrivacyPlan):
    """Every private gradient is one release with Gaussian noise."""

    algorithm: Clipped[Any]

    def mechanism(self, step: int, nodes: Nodes) -> Mechanism:
        """The mechanism of draw number `step`."""
        method = self.algorithm
        return Exact() if method.sigma == 0 else Gaussian(at_nodes(method.known_noise(method.scale), nodes))

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> list[Release]:
        return [Release(step, "gradient", self.mechanism(step, nodes), sampling) for step in self.algorithm.draws(t)]

    def moved(self, sampling: Sampling) -> float:
        """How far a record moves the sum of a batch, in clip bounds."""
        return 2.0 if self.algorithm.clip_per == "batch" or sampling.relation == "replace-one" else 1.0
