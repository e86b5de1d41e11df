"""The privacy of DP-Norm: how far one record moves what a node sends, and what the paper's Theorem 1 claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.algorithms.algorithm import at_nodes
from tacit.algorithms.privacy_plan import Nodes, PrivacyPlan
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.privacy.bounded import Sampling
from tacit.privacy.claims import dp_norm_claim, dp_norm_j
from tacit.privacy.ledger import Array
from tacit.privacy.mechanism import Exact, Gaussian, Mechanism, Unproven
from tacit.privacy.release import Release
from tacit.tasks import Task

if TYPE_CHECKING:
    from tacit.algorithms.dpnorm import DPNorm


@dataclass(frozen=True)
class DPNormPrivacy(PrivacyPlan):
    """One noised model per round and node."""

    algorithm: DPNorm

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (f"the loss of every record is L-smooth with L = {self.algorithm.smoothness or 0.0:g}",)

    @property
    def notes(self) -> tuple[str, ...]:
        return (
            "A node's own model has no noise on it: what is guaranteed is what its messages tell, not the model, nor "
            "accuracies, losses and norms measured on models.",
        )

    def sampling(self, task: Task) -> Sampling:
        return Sampling("none", np.ones(task.n), "replace-one")

    def mechanism(self, nodes: Nodes) -> Mechanism:
        if self.algorithm.sigma == 0:
            return Exact()
        if self.algorithm.scale is None:
            raise TacitError(f"{self.algorithm.title}: no noise level: set privacy.epsilon or algorithm.sigma")
        law = Gaussian(at_nodes(self.algorithm.scale, nodes))
        return Unproven(law) if self.reuses_noise else law

    @property
    def reuses_noise(self) -> bool:
        """Whether the round's noise covers more than one value."""
        return self.algorithm.asynchronous or self.algorithm.inner_noise == "same"

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> list[Release]:
        return [Release(t, "model", self.mechanism(nodes), sampling)]

    def paper_noise(self, sampling: Sampling, epsilon: float, delta: float) -> Array:
        """J of Theorem 1."""
        return np.full(len(sampling.rate), dp_norm_j(epsilon, delta, self.algorithm.rounds))

    def claim(self, sampling: Sampling, nodes: Nodes, delta: float, rounds: int) -> float | None:
        if self.algorithm.sigma == 0:
            return None
        return dp_norm_claim(float(self.mechanism(nodes).multipliers(len(nodes)).min()), delta, rounds)

    def sensitivity(self, task: Task, graph: Graph) -> Array:
        """Δ₂ (n,): how far one record can move a node's w, if all messages that the node receives stay the same.

        One step shrinks the distance between two runs by ϱ = γ (|1 − μω| + μL)/(γ + ημE), where ω is the weight decay
        (clipped gradients are L-Lipschitz too). A record in the step's batch adds at most γ/(γ + ημE) · 2μG/B.

        - `bound = "contraction"`: a record drawn once in b steps adds up to 1/(1 − ϱᵇ) times that if every round ends
          with an epoch, and 1 + ϱ/(1 − ϱᵇ) times otherwise.
        - `bound = "lemma"`: Lemma 1 counts K B/d_i + 1 steps per round times c. The larger of both bounds is used.

        A Poisson batch may contain all d_i records and is still divided by B, so L is multiplied by d_i/B there.
        """
        method, smoothness, poisson = self.algorithm, self._smoothness(task), task.sampler.kind == "poisson"
        degree = graph.out_degrees(0)[task.nodes].astype(np.float64)
        eta = method.eta(degree)
        gamma = 1 + method.alpha * eta
        shrink = gamma / (gamma + eta * method.lr * degree)
        load = task.sizes / task.sampler.batch if poisson else 1.0
        growth = shrink * (abs(1 - method.lr * task.model.weight_decay) + method.lr * smoothness * load)
        if not (growth < 1).all():
            raise TacitError(
                f"{method.title}: with lr = {method.lr:g} and L = {smoothness:g} the steps are not contractions, so no "
                f"sensitivity is known: set a smaller lr{', or use batches of a fixed size' if poisson else ''}"
            )
        once = 2 * method.lr * method.clip / task.sampler.batch
        fading = 1 / (1 - growth**task.sampler.period)
        whole_epochs = method.local_steps % task.sampler.period == 0
        lasting: Array = shrink * np.where(whole_epochs, fading, 1 + growth * fading)
        if method.bound == "contraction":
            return once * lasting
        c = 1 + 2 * (gamma + 1)
        limit = float((1 / np.maximum(c * method.local_steps * smoothness, 1e-300)).min())
        if method.lr > limit:
            raise TacitError(f"{method.title}: Lemma 1 needs lr at most 1/(cKL) = {limit:.4g}, got {method.lr:g}")
        times = method.local_steps * task.sampler.batch / task.sizes + 1
        lemma: Array = once * np.maximum(c * times, lasting)
        return lemma

    def _smoothness(self, task: Task) -> float:
        """L as the user states it; refused if it is below a known bound of the model."""
        method = self.algorithm
        if method.smoothness is None:
            raise TacitError(
                f"{method.title}: the sensitivity depends on the smoothness of the loss: set smoothness to L "
                "(0.5 for logistic regression without biases on records of unit norm)"
            )
        known = task.smoothness
        if known is not None and known > method.smoothness * (1 + 1e-6):
            raise TacitError(
                f"{method.title}: smoothness must be at least {known:.4g} on these records, got {method.smoothness:g}"
            )
        return method.smoothness
