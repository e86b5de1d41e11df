"""Base class of the algorithms whose only private quantity is a clipped gradient with Gaussian noise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self, TypeVar

from torch import Tensor

from tacit.algorithms.algorithm import (
    Algorithm,
    check_non_negative,
    check_positive,
    no_noise_level,
    scatter_nodes,
    select_nodes,
)
from tacit.algorithms.privacy_plan import Nodes, PrivacyPlan
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.privacy import Array, Exact, Mechanism, Release, Sampling
from tacit.tasks import Clip, Task

S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class NoisyGradientAlgorithm(Algorithm[S]):
    """An algorithm that uses the records only through clipped gradients with Gaussian noise.

    The noise level is either `sigma`, the standard deviation of the noise on the mean gradient, or a noise multiplier
    `scale` that a target ε determines. The multiplier is sigma divided by the sensitivity, which depends on the task;
    `bind` computes it.

    Args:
        lr: Step size.
        clip: Clipping bound; None with `sigma = 0` uses exact gradients.
        clip_per: Whether each record's gradient is clipped ("record") or the mean of the batch ("batch").
        sigma: Standard deviation of the noise on the mean gradient. None: a target ε sets the noise. 0: no noise.
        scale: Noise multiplier, one for all nodes or one per node; set by `bind` or `with_noise`.
        sensitivity: How far one record moves the released value, one number per node; set by `bind`.
    """

    noise_parameters: ClassVar[tuple[str, ...]] = ("sigma",)
    name: ClassVar[str]
    norm: ClassVar[Literal["smooth", "l2"]] = "smooth"

    lr: float = 0.1
    clip: float | None = 1.0
    clip_per: Literal["record", "batch"] = "record"
    sigma: float | None = None
    scale: float | Array | None = field(default=None, compare=False)
    sensitivity: Array | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_positive(self.name, lr=self.lr, clip=self.clip)
        check_non_negative(self.name, sigma=self.sigma)
        if self.gradients_per_round < 1:
            raise TacitError(
                f"{self.name}: the number of local steps must be at least 1, got {self.gradients_per_round}"
            )
        if self.clip is None and self.sigma != 0:
            raise TacitError(f"{self.name}: noise needs a clipping bound: set clip, or sigma = 0")

    @property
    def title(self) -> str:
        return self.name

    @property
    def privacy(self) -> NoisyGradientPrivacy:
        return NoisyGradientPrivacy(self)

    @property
    def gradient_clip(self) -> Clip | None:
        """How gradients are clipped; None if they are not."""
        return None if self.clip is None else Clip(self.clip, self.norm, self.clip_per)

    @property
    def sensitivity_factor(self) -> float:
        """Sensitivity of the released value divided by that of one clipped gradient."""
        return 1.0

    @property
    def gradients_per_round(self) -> int:
        """Number of noised gradients per round."""
        return 1

    def steps(self, t: int) -> range:
        """Return the numbers of the gradients of round t, counted from the start of the run."""
        return range(t * self.gradients_per_round, (t + 1) * self.gradients_per_round)

    def bind(self, task: Task, graph: Graph | None = None) -> Self:
        if self.gradient_clip is None:
            return self
        sensitivity = scatter_nodes(self.sensitivity_factor * task.sensitivity(self.gradient_clip), task.nodes)
        weights = scatter_nodes(task.weights, task.nodes)  # sigma is that of the gradient before it is weighted
        scale = self.sigma * weights / sensitivity if self.sigma and self.scale is None else self.scale
        return replace(self, sensitivity=sensitivity, scale=scale)

    def bound_to(self, task: Task) -> Self:
        """Return the algorithm itself if it is already bound to a task, else bound to this one."""
        return self if self.sensitivity is not None or self.gradient_clip is None else self.bind(task)

    def private_gradient(self, params: Tensor, step: int, task: Task) -> Tensor:
        """Return ĝ (n, d): the clipped mean gradient of the batch of `step`, with noise."""
        mechanism = self.bound_to(task).privacy.mechanism(step, task.nodes)
        return mechanism.release(task.gradient(params, step, self.gradient_clip))

    def with_noise(self, scale: Array) -> Self:
        return super().with_noise(scale) if self.sigma == 0 else replace(self, scale=scale)


@dataclass(frozen=True)
class NoisyGradientPrivacy(PrivacyPlan):
    """Plan with one release per noised gradient.

    Formal guarantee:

    - One release with noise multiplier z from all records of a node is (1/z)-GDP.
    - The guarantee of a run is the numeric composition of all releases, with amplification by the batch sampling.
    """

    algorithm: NoisyGradientAlgorithm[Any]

    def mechanism(self, step: int, nodes: Nodes) -> Mechanism:
        """Return the mechanism of gradient number `step`."""
        if self.algorithm.sigma == 0:
            return Exact()
        return self.gaussian(self._multipliers(nodes), nodes, self._steps)

    @property
    def _steps(self) -> int:
        """The number of noised gradients of the run."""
        return self.algorithm.rounds * self.algorithm.gradients_per_round

    def unit_noise(self, task: Task) -> tuple[Array, Array]:
        if self.refuses_pairs or self.algorithm.sensitivity is None:
            return super().unit_noise(task)
        return self._multipliers(task.nodes), self.algorithm.sensitivity

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> list[Release]:
        return [Release(step, "gradient", self.mechanism(step, nodes), sampling) for step in self.algorithm.steps(t)]

    def noise_std(self, nodes: Nodes) -> Array:
        """Return σ, the standard deviation of the noise, per node."""
        if self.algorithm.sensitivity is None:
            raise no_noise_level(self.algorithm.title, *self.algorithm.noise_parameters)
        return self._multipliers(nodes) * select_nodes(self.algorithm.sensitivity, nodes)

    def sum_sensitivity(self, sampling: Sampling) -> float:
        """Return how far one record moves the sum of a batch's clipped gradients, in multiples of the bound."""
        return 2.0 if self.algorithm.clip_per == "batch" or sampling.relation == "replace-one" else 1.0

    def _multipliers(self, nodes: Nodes) -> Array:
        if self.algorithm.scale is None:
            raise no_noise_level(self.algorithm.title, *self.algorithm.noise_parameters)
        return select_nodes(self.algorithm.scale, nodes)
