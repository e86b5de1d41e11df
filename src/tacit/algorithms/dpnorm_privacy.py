"""The privacy of DP-Norm: how far one record moves what a node sends, and what the paper's Theorem 1 claims."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.algorithms.algorithm import no_noise_level, select_nodes
from tacit.algorithms.privacy_plan import EDGE_VARIABLES_REFUSE_PAIRS, Nodes, PrivacyPlan
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.privacy import Array, Exact, Gaussian, Mechanism, Release, Sampling, Unproven
from tacit.tasks import Task

if TYPE_CHECKING:
    from tacit.algorithms.dpnorm import DPNorm


_ROUNDING = 1 + 4e-6  # of the squared lengths of records, to which the smoothness is proportional


@dataclass(frozen=True)
class DPNormPrivacy(PrivacyPlan):
    """One noised model per round and node.

    Claim: Theorem 1.

    Formal guarantee:

    - A round releases w + n. One record moves w by at most Δ₂ (`sensitivity`), so R rounds are √R Δ₂/σ-GDP, exactly.
    - Clipping bounds the gradient of every record by G. L-smoothness of every record's loss is enforced for logistic
      regression (longer records are scaled down) and an assumption otherwise.
    - There is no guarantee if the round's noise covers more than one value (`reuses_noise`).
    """

    algorithm: DPNorm

    @property
    def refuses_pairs(self) -> str | None:
        return EDGE_VARIABLES_REFUSE_PAIRS

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (
            f"the loss of every record is L-smooth with L = {self.algorithm.smoothness or 0.0:g} (enforced for "
            "logistic regression, where longer records are scaled down)",
        )

    @property
    def notes(self) -> tuple[str, ...]:
        return ("The guarantee covers a node's messages.",)

    def sampling(self, task: Task) -> Sampling:
        return Sampling("none", np.ones(task.n), "replace-one")

    def mechanism(self, nodes: Nodes) -> Mechanism:
        """Return the mechanism of every round."""
        if self.algorithm.sigma == 0:
            return Exact()
        if self.algorithm.scale is None:
            raise no_noise_level(self.algorithm.title, *self.algorithm.noise_parameters)
        gaussian = Gaussian(select_nodes(self.algorithm.scale, nodes))
        return Unproven(gaussian) if self.reuses_noise else gaussian

    @property
    def reuses_noise(self) -> bool:
        """Whether the round's noise covers more than one value."""
        return self.algorithm.asynchronous or self.algorithm.inner_noise == "same"

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> list[Release]:
        return [Release(t, "model", self.mechanism(nodes), sampling)]

    def paper_noise(self, sampling: Sampling, epsilon: float, delta: float) -> Array:
        """Return J of Theorem 1, times the claim's Δ₂ over that of the guarantee."""
        ratio = 1.0 if self.algorithm.claimed_ratio is None else self.algorithm.claimed_ratio
        return ratio * np.full(len(sampling.rate), dp_norm_j(epsilon, delta, self.algorithm.rounds))

    def claim(self, sampling: Sampling, nodes: Nodes, delta: float, rounds: int) -> float | None:
        if self.algorithm.sigma == 0:
            return None
        multipliers = self.mechanism(nodes).multipliers(len(nodes))
        if self.algorithm.claimed_ratio is not None:
            multipliers = multipliers / select_nodes(self.algorithm.claimed_ratio, nodes)
        return dp_norm_claim(float(multipliers.min()), delta, rounds)

    def claimed_ratio(self, task: Task, graph: Graph) -> Array:
        """Lemma 1 without its factor c, 2μG(K/d_i + 1/B), divided by `sensitivity` (n,)."""
        return self._once(task) * self._draws(task) / self.sensitivity(task, graph)

    def sensitivity(self, task: Task, graph: Graph) -> Array:
        """Δ₂ (n,): how far one record can move a node's w, if all messages that the node receives stay the same.

        One step shrinks the distance between two runs by ϱ = γ (|1 − μω| + μL)/(γ + ημE), where ω is the weight decay
        (clipping is a projection, so clipped gradients are L-Lipschitz too; normalised ones are not, so automatic
        clipping is refused). A record in the step's batch adds at most γ/(γ + ημE) · 2μG/B.

        - `bound = "contraction"`: a record drawn once in b steps adds up to 1/(1 − ϱᵇ) times that if every round ends
          with an epoch, and 1 + ϱ/(1 − ϱᵇ) times otherwise.
        - `bound = "lemma"`: Lemma 1 counts K B/d_i + 1 steps per round times c. The larger of both bounds is used.
        - `bound = "formula"`: the same where Lemma 1's condition on μ does not hold. It is proven all the same, since
          it is not below the contraction bound.
        - `bound = "without-c"`: the contraction bound. Only the paper's claim uses Lemma 1, without its c.

        A Poisson batch may contain all d_i records and is still divided by B, so L is multiplied by d_i/B there.
        """
        algorithm, smoothness = self.algorithm, self._smoothness(task)
        degree = graph.out_degrees(0)[task.nodes].astype(np.float64)
        eta = algorithm.eta(degree, graph)
        gamma = 1 + algorithm.alpha * eta
        shrink = gamma / (gamma + eta * algorithm.lr * degree)
        load = task.sampler.max_batch / task.sampler.batch
        growth = shrink * (abs(1 - algorithm.lr * task.model.weight_decay) + algorithm.lr * smoothness * load)
        if not (growth < 1).all():
            remedy = ", or use batches of a fixed size" if (load > 1).any() else ""
            raise TacitError(
                f"{algorithm.title}: with lr = {algorithm.lr:g} and L = {algorithm.smoothness:g} the steps are not "
                f"contractions, so no sensitivity is known: set a smaller lr{remedy}"
            )
        once = self._once(task)
        fading = 1 / (1 - growth**task.sampler.period)
        whole_epochs = algorithm.local_steps % task.sampler.period == 0
        lasting: Array = shrink * np.where(whole_epochs, fading, 1 + growth * fading)
        if algorithm.bound in ("contraction", "without-c"):
            return once * lasting
        c = 1 + 2 * (gamma + 1)
        limit = float((1 / np.maximum(c * algorithm.local_steps * (algorithm.smoothness or 0.0), 1e-300)).min())
        if algorithm.bound == "lemma" and algorithm.lr > limit:
            raise TacitError(
                f"{algorithm.title}: Lemma 1 needs lr at most 1/(cKL) = {limit:.4g}, got {algorithm.lr:g}: "
                'set a smaller lr or alpha, or algorithm.bound = "contraction"'
            )
        lemma: Array = once * np.maximum(c * self._draws(task), lasting)
        return lemma

    def _once(self, task: Task) -> Array:
        """2μG/B (n,): how far one step moves w if one record of its batch is replaced."""
        once: Array = 2 * self.algorithm.lr * self.algorithm.clip / task.sampler.batch
        return once

    def _draws(self, task: Task) -> Array:
        """K B/d_i + 1 (n,): how often Lemma 1 counts a record in a round."""
        draws: Array = self.algorithm.local_steps * task.sampler.batch / task.sizes + 1
        return draws

    def _smoothness(self, task: Task) -> float:
        """Return L as the user states it. Where the model's smoothness is known, the task enforces it.

        Gradients in bfloat16 are L-Lipschitz for no L: they jump where a parameter is rounded to another number.
        Normalised gradients change much faster than clipped ones where they are short.
        """
        algorithm = self.algorithm
        if task.clipping == "automatic":
            raise TacitError(
                f"{algorithm.title}: normalised gradients can move two runs apart much faster than clipped ones, so no "
                'sensitivity is known: remove batch.clipping = "automatic"'
            )
        if task.precision != "float32":
            raise TacitError(
                f"{algorithm.title}: the sensitivity depends on the smoothness of the loss, and with precision = "
                f'"{task.precision}" gradients are not smooth: set precision = "float32"'
            )
        if algorithm.smoothness is None:
            raise TacitError(
                f"{algorithm.title}: the sensitivity depends on the smoothness of the loss: set smoothness to L "
                "(0.5 for logistic regression without biases on records of unit norm)"
            )
        return algorithm.smoothness * _ROUNDING


def dp_norm_j(epsilon: float, delta: float, rounds: int) -> float:
    """Return J of Theorem 1 with Eq. 8: the noise multiplier σ/Δ₂ that the paper claims gives (ε, δ) after R rounds.

    >>> round(dp_norm_j(1.0, 1e-3, 2000), 1), round(dp_norm_j(0.5, 1e-3, 2000))
    (167.7, 312)
    """
    if not (epsilon > 0 and 0 < delta < 1):
        raise TacitError(f"DP-Norm's Theorem 1 needs ε > 0 and 0 < δ < 1, got {epsilon} and {delta}")
    length = math.log(math.e + math.sqrt(2 * epsilon) / ((1 + math.sqrt(1 + epsilon)) * delta))
    h = (1 + math.sqrt(1 + epsilon / length)) ** 2 / 4
    first = 2 * h * rounds / epsilon**2 * math.log(math.e + epsilon / (math.sqrt(2 * h) * delta))
    return math.sqrt(max(first, rounds / (2 * epsilon)))


def dp_norm_claim(multiplier: float, delta: float, rounds: int) -> float:
    """Return the ε that Theorem 1 claims for a noise multiplier, the inverse of J(ε). Not a guarantee.

    >>> round(dp_norm_claim(167.7, 1e-3, 2000), 3)
    1.0
    """

    from scipy import optimize  # slow to import

    def excess(log_epsilon: float) -> float:
        return math.log(dp_norm_j(math.exp(log_epsilon), delta, rounds) / multiplier)

    if excess(40.0) > 0:
        return math.inf  # almost no noise
    if excess(-40.0) < 0:
        return 0.0
    return math.exp(float(optimize.brentq(excess, -40.0, 40.0, xtol=1e-12)))
