"""ε of several runs together, for a record that belongs to one node in each of them.

A record belongs to one node of a run, and to another node of the next run. Which ones is not public, so the total must
hold for every choice of one node per run. Few choices are accounted one by one. Of many, the smaller of two bounds is
taken; both hold for every choice at once.

*Domination.* The losses of a node are independent draws. Sort those of each node by their strength. A run whose j-th
loss has the least noise and the highest rate among all nodes' j-th losses dominates every node: each loss of a node is
matched with one that dominates it, further losses only add to the total, and a composition is dominated if each of its
parts is. Which draw a loss came from does not matter, so this also holds where rates themselves are not comparable
(epochs of a permutation). It is tight if the nodes are alike, and loose if small nodes have both more noise and a
higher rate.

*Moments.* With K(t) = log E[e^{tL}], Chernoff's bound gives δ(ε) ≤ c(t) e^{K(t) − tε} for every t > 0, where
c(t) = max_x (1 − e^{−x}) e^{−tx} = t^t / (1 + t)^{1+t}. The K of independent runs add up. So the sum of the largest
K(t) of each run's nodes bounds δ(ε) for every choice. It is looser than a composition, by about a tenth, whatever the
nodes are like.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product, zip_longest

import numpy as np
import numpy.typing as npt

from tacit.privacy.accounting.accountant import _common_relation, group_nodes
from tacit.privacy.accounting.coarsening import coarsen_losses
from tacit.privacy.accounting.composition import _approximate_mu, epsilon_of_losses
from tacit.privacy.accounting.convolution import _cumulants
from tacit.privacy.accounting.losses import LossCounts, SampledLoss, count_losses
from tacit.privacy.accounting.pld import Direction, loss_distribution
from tacit.privacy.gdp import mu_to_epsilon
from tacit.privacy.mechanisms import PrivacyLoss
from tacit.privacy.release import Release
from tacit.privacy.sampling import Relation

Array = npt.NDArray[np.float64]
Key = frozenset[tuple[SampledLoss, int]]

_MAX_CHOICES = 16  # of one node per run, that are accounted one by one
_ORDERS = np.geomspace(0.02, 50.0, 96)  # t, relative to −log(δ)/ε
_WIDTH = 0.01  # of the levels to which different losses are raised
_TIGHT = 1.02  # domination this close to one of the choices is not improved by moments
_ROUND_UP = 1 + 1e-6


def joint_epsilon(runs: Sequence[Sequence[Release]], delta: float) -> float:
    """Return an ε for which all `runs` together are (ε, δ)-differentially private.

    Draws of different runs are independent, whatever their steps.

    Args:
        runs: The releases of each run, in order of step.
        delta: δ in [0, 1).

    Raises:
        TacitError: If the releases cannot be accounted, or the runs have different neighbouring relations.

    Example:
        >>> from tacit.privacy import Gaussian, Sampling
        >>> sampling = Sampling("none", np.ones(1), "add-remove")
        >>> run = [Release(0, "gradient", Gaussian(4.0), sampling)]
        >>> round(joint_epsilon([run], 1e-5), 3), round(joint_epsilon([run, run], 1e-5), 3)
        (0.926, 1.356)
    """
    runs = [releases for releases in runs if releases]
    if not runs:
        return 0.0
    relation = _common_relation([release for releases in runs for release in releases])
    nodes = [_different(count_losses(releases, rows) for rows in group_nodes(releases)) for releases in runs]
    if len(runs) == 1 or math.prod(map(len, nodes)) <= _MAX_CHOICES:
        return max(epsilon_of_losses(_sum(choice), delta, relation) for choice in product(*nodes))
    dominated = epsilon_of_losses(_sum(map(dominating_losses, nodes)), delta, relation)
    one_choice = epsilon_of_losses(_sum(each[0] for each in nodes), delta, relation)
    if math.isinf(dominated) or delta == 0 or dominated <= _TIGHT * one_choice:
        return dominated
    return min(dominated, moment_bound(nodes, delta, relation))


def dominating_losses(nodes: Sequence[LossCounts]) -> LossCounts:
    """Return losses that dominate those of every node: the j-th is the worst of the nodes' j-th losses.

    >>> from tacit.privacy import Gaussian
    >>> law = Gaussian.loss
    >>> one, other = LossCounts({SampledLoss(law, 0.1, 0.5): 3}), LossCounts({SampledLoss(law, 0.2, 0.4): 2})
    >>> {(loss.rate, loss.mu): count for loss, count in dominating_losses([one, other]).items()}
    {(0.2, 0.5): 2, (0.1, 0.5): 1}
    """
    found: LossCounts = Counter()
    for law in {loss.law for counts in nodes for loss in counts}:
        ranked = [_strongest_first(counts, law) for counts in nodes]
        for row in zip_longest(*ranked, fillvalue=(0.0, 0.0)):
            found[SampledLoss(law, max(rate for _, rate in row), max(mu for mu, _ in row))] += 1
    return found


def moment_bound(nodes: Sequence[Sequence[LossCounts]], delta: float, relation: Relation) -> float:
    """Return ε from the largest moments among the nodes of each run."""
    directions: tuple[Direction, ...] = ("replace",) if relation == "replace-one" else ("remove", "add")
    scale = math.hypot(*(max(map(_approximate_mu, each)) for each in nodes))
    guess = max(mu_to_epsilon(scale, delta), 0.1 * scale)
    total = sum(max(counts.total() for counts in each) for each in nodes)
    h = 0.1 * min(guess, math.sqrt(guess)) / math.sqrt(total)
    tail = max(1e-5 * delta / total, 1e-300)
    orders = _ORDERS * -math.log(delta) / guess

    def at(direction: Direction) -> float:
        moments, infinite = np.zeros(len(orders)), 0.0
        known: dict[Key, tuple[Array, float]] = {}
        for each in nodes:
            for counts in each:
                if _key(counts) not in known:
                    known[_key(counts)] = _moments(counts, direction, h, tail, orders)
            found = [known[_key(counts)] for counts in each]
            moments += np.max([logs for logs, _ in found], axis=0)
            infinite += max(mass for _, mass in found)
        if infinite >= delta:
            return math.inf
        log_c = orders * np.log(orders) - (1 + orders) * np.log1p(orders)
        return float(((moments + log_c - math.log(delta - infinite)) / orders).min())

    return max(0.0, *map(at, directions)) * _ROUND_UP


def _moments(counts: LossCounts, direction: Direction, h: float, tail: float, orders: Array) -> tuple[Array, float]:
    """Return K(t) for each t, and a bound on the probability of an infinite loss, which K leaves out."""
    losses, factors = coarsen_losses(counts, _WIDTH)
    distributions = [loss_distribution(loss, direction, h, tail) for loss in losses]
    infinite = (max(distributions[f.weak].infinite, distributions[f.strong].infinite) * f.times for f in factors)
    return _cumulants(distributions, factors, h, orders), math.fsum(infinite)


def _strongest_first(counts: LossCounts, law: PrivacyLoss) -> list[tuple[float, float]]:
    return sorted(((loss.mu, loss.rate) for loss in counts.elements() if loss.law is law), reverse=True)


def _different(nodes: Iterable[LossCounts]) -> list[LossCounts]:
    """Return the losses of the nodes without repetitions."""
    return list({_key(counts): counts for counts in nodes}.values())


def _key(counts: LossCounts) -> Key:
    return frozenset(counts.items())


def _sum(choice: Iterable[LossCounts]) -> LossCounts:
    total: LossCounts = Counter()
    for counts in choice:
        total.update(counts)
    return total
