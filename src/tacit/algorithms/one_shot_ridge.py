"""One-shot ridge regression: a linear classifier from one noised statistic per node."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from tacit.algorithms.algorithm import Algorithm, algorithms, check_positive, no_noise_level, select_nodes
from tacit.algorithms.dpsgd import ModelState
from tacit.algorithms.linear_model import check_linear_classifier, linear_parameters
from tacit.algorithms.mixing_options import NOT_DECLARED
from tacit.algorithms.privacy_plan import Nodes, PrivacyPlan
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy import Array, Mechanism, Release, Sampling
from tacit.tasks import ClassMoments, Gram, Stacked, Task, class_moments, gram_matrix

PURPOSE = "ridge moments"


@algorithms.register("one-shot-ridge")
@dataclass(frozen=True, kw_only=True)
class OneShotRidge(Algorithm[ModelState]):
    """One-shot ridge regression: one message per node, and the same linear classifier at every node.

        v_i = [svec(S_i), α T_i, α c_i],   S_i = Σ z zᵀ,   T_i = Σ z e_yᵀ,   c_i = Σ e_y,   ‖z‖ ≤ 1
        ṽ = Σ_i (v_i + noise),   m = Σ_y T̃_y / N,   C = PSD(S̃/N − m mᵀ)
        W = (T̃/N − c̃/N mᵀ) (C + λI)⁻¹,   b = c̃/N − W m,   λ = ridge · σ √(2d) / N

    z are the records of a node, scaled down to norm 1. Use records of unit norm (`normalise = "unit"`), because the
    model gets the records as they are. Everything happens in round 0; later rounds change nothing.

    Args:
        alpha: The weight α of the moments of classes. A larger one moves noise from them to the second moments.
        ridge: Factor of λ. 1 is the spectral norm of the noise in the second moments.
        sharpness: Factor of the outputs, which makes them useful as logits. It does not change the predicted class.
        noise_multiplier: Noise ÷ sensitivity; None: a target ε sets it.
        sensitivity: How far one record moves the released value; set by `bind`.

    References:
        Sufficient statistics perturbation: Vu, Slavkovic: Differential privacy for clinical trials, 2009; Wang:
        Revisiting differentially private linear regression, UAI 2018.
    """

    needs: ClassVar[tuple[str, ...]] = ("connected",)
    noise_parameters: ClassVar[tuple[str, ...]] = ("noise_multiplier",)
    models_are_released: ClassVar[bool] = True
    fits_linear_classifiers_only: ClassVar[bool] = True
    refused_options: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (*NOT_DECLARED, "averaging"), "all nodes compute the same model from sums over all records"
    )
    title = "one-shot ridge"

    alpha: float = 0.5
    ridge: float = 1.0
    sharpness: float = 10.0
    noise_multiplier: float | Array | None = None
    sensitivity: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_positive(self.title, alpha=self.alpha, ridge=self.ridge, sharpness=self.sharpness)

    @property
    def privacy(self) -> OneShotRidgePrivacy:
        return OneShotRidgePrivacy(self)

    @property
    def statistic(self) -> Stacked:
        """What every node releases."""
        return Stacked((Gram(), ClassMoments()), (1.0, self.alpha))

    def bind(self, task: Task, graph: Graph | None = None) -> Self:
        check_linear_classifier(task, self.title)
        return replace(self, sensitivity=self.statistic.sensitivity(task.sampling.relation))

    def with_noise(self, scale: Array) -> Self:
        return replace(self, noise_multiplier=scale)

    def start(self, task: Task, graph: Graph) -> ModelState:
        check_linear_classifier(task, self.title)
        return ModelState(torch.zeros_like(task.initial()))

    def round(self, t: int, state: ModelState, task: Task, network: Network) -> ModelState:
        if t > 0:
            return state
        bound = self if self.sensitivity is not None else self.bind(task)
        moments = task.statistic(self.statistic, t, PURPOSE)
        mean = network.mean(bound.privacy.mechanism(task.nodes).release(moments))
        per_record = len(task.network_sizes) / float(task.network_sizes.sum())
        deviation = bound.privacy.mean_deviation(network.graph.nodes) * per_record
        x = self.solve(mean.reshape(-1, mean.shape[-1]) * per_record, deviation, task)
        return ModelState(x.to(state.x.dtype).expand_as(state.x).clone())

    def solve(self, moments: Tensor, deviation: float, task: Task) -> Tensor:
        """Return the parameters (B, d) from means over records (B, length) whose noise has this deviation."""
        assert task.head is not None
        classes, length = task.head.target.classes, moments.shape[-1]
        d = next(shape[1] for shape in task.model.layout.shapes if len(shape) == 2)
        gram, by_class = self.statistic.split(moments, [d * (d + 1) // 2, length - d * (d + 1) // 2])
        sums, counts = class_moments(by_class, classes)
        has_bias = len(task.model.layout.names) == 2
        mean = sums.sum(-2, keepdim=True) if has_bias else torch.zeros_like(sums[..., :1, :])
        values, vectors = torch.linalg.eigh(gram_matrix(gram) - mean.mT @ mean)
        spectrum = values.clamp(min=0) + self.ridge * deviation * math.sqrt(2 * d)
        inverse = vectors / spectrum[..., None, :] @ vectors.mT
        weight = self.sharpness * (sums - counts[..., None] * mean) @ inverse
        bias = self.sharpness * counts - (weight @ mean.mT)[..., 0]
        if task.head.outputs == 1:  # the logit of the second of two classes
            weight, bias = weight[..., 1:, :] - weight[..., :1, :], bias[..., 1:] - bias[..., :1]
        return linear_parameters(task.model.layout, weight, bias)

    def models(self, state: ModelState) -> Tensor:
        return state.x


@dataclass(frozen=True)
class OneShotRidgePrivacy(PrivacyPlan):
    """One release per node, of sums over all its records.

    Formal guarantee: v_i has sensitivity √(1 + 2α²) if a record is added or removed and √(2 + 4α²) if it is replaced
    (`Stacked`, `Gram`, `ClassMoments`). The release is (1/z)-GDP for noise multiplier z. Everything else is
    post-processing of the noised sums.
    """

    algorithm: OneShotRidge

    @property
    def refuses_pairs(self) -> str | None:
        return None

    def unit_noise(self, task: Task) -> tuple[Array, Array]:
        sensitivity = self.algorithm.statistic.sensitivity(task.sampling.relation)
        return self._multipliers(task.nodes), np.full(len(task.nodes), sensitivity)

    def sampling(self, task: Task) -> Sampling:
        return Sampling("none", np.ones(task.n), task.sampling.relation)

    def mechanism(self, nodes: Nodes) -> Mechanism:
        """Return the mechanism of the release."""
        return self.gaussian(self._multipliers(nodes), nodes, 1)

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> list[Release]:
        return [Release(0, PURPOSE, self.mechanism(nodes), sampling)] if t == 0 else []

    def mean_deviation(self, nodes: int) -> float:
        """Return the standard deviation of the noise in the mean over all nodes, in which that of pairs cancels."""
        assert self.algorithm.sensitivity is not None
        if self.algorithm.pairs is not None:
            return float(np.linalg.norm(self.algorithm.pairs.own) / nodes)
        largest = np.nanmax(np.asarray(self.algorithm.noise_multiplier, np.float64))
        return float(self.algorithm.sensitivity * largest / math.sqrt(nodes))

    def _multipliers(self, nodes: Nodes) -> Array:
        if self.algorithm.noise_multiplier is None:
            raise no_noise_level(self.algorithm.title, *self.algorithm.noise_parameters)
        return select_nodes(self.algorithm.noise_multiplier, nodes)
