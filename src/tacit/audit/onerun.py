"""A whole run attacked once: many canaries, each a coin that the messages may tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.special import gammaln

from tacit.audit.attack import innovations
from tacit.audit.audit import Finding
from tacit.audit.bounds import Array, Counts, Flags
from tacit.audit.canaries import Planted, Wiretap, planted
from tacit.audit.scores import linear
from tacit.errors import TacitError
from tacit.privacy.gdp import epsilon_to_mu
from tacit.privacy.noise import Noise
from tacit.runs import Config, PrivacyMeter, from_config

_LEAST = 100  # canaries from which a quarter can be learned from
_ORDERS = 4  # running totals of orders 0 to 3 of what is heard
_SHARES = 16  # how many shares of the canaries are tried as those to guess, on each side
_USUAL = 8.0  # ε beyond which, or without which, as many are guessed as at this one
_BEYOND = 50.0  # more than any ε that guesses can show, or any logarithm that matters


@dataclass(frozen=True, kw_only=True)
class OneRun(Finding):
    """What one run told of its `canaries`: so many `guesses` of their coins were made, and so many were `correct`.

    `guaranteed` is the ε of the `node` that they were at, from the ledger of that run.
    """

    node: int
    canaries: int
    guesses: int
    correct: int


def one_run(
    config: Config,
    *,
    canaries: int = 1000,
    node: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
    watch: Callable[[int], None] = lambda done: None,
) -> OneRun:
    """Attack the run of a config as a whole: its model, data, graph, batches and rounds, with canaries at one node.

    Each canary is among the node's records or not (or its opposite is), by a coin of its own, drawn by `seed`; the
    noise is the config's. An adversary listens on the links of that node, learns from a quarter of the coins how
    canaries show, and guesses the surest of the others (Steinke, Nasr, Jagielski: Privacy auditing with one (1)
    training run, 2023). The canaries take the place of as many of the node's records, so that sampling rate and noise
    are the config's; where they are more, the node holds more and its rate is less, and the noise is set for that.

    >>> config = Config.parse({"algorithm": "const-d2p", "rounds": 3, "batch": {}, "privacy": {"epsilon": 8.0}})
    >>> found = one_run(config, canaries=400)
    >>> found.holds, 0.0 < found.lower <= found.guaranteed <= 8.0
    (True, True)
    """
    plain = from_config(config)
    method, task = plain.algorithm, plain.task
    if method.privacy.unit != "record":
        raise TacitError(f"{method.title} protects whole nodes, and an audit in one run needs records as canaries")
    if canaries < _LEAST:
        raise TacitError(f"an audit in one run needs at least {_LEAST} canaries to say anything, not {canaries}")
    if not 0 <= node < task.n:
        raise TacitError(f"canaries go to one of the nodes 0 to {task.n - 1}, and {node} is none of them")
    coins: Flags = Noise.from_seed(seed).words("coins", np.array([node]), 0, canaries)[0].numpy() < 0
    run = from_config(config, planted(task, coins, node, method.privacy.sampling(task).relation))
    method, task, delta = run.algorithm, run.task, config.privacy.delta
    assert isinstance(task.model, Planted)
    network = Wiretap(run.network.graph, node, task.model.own)
    state = method.start(task, network.graph)
    for t in range(method.rounds):
        state = method.round(t, state, task, network)
        network.end_round()
        watch(t + 1)
    stated = PrivacyMeter(task, method, delta).spent(method.rounds)
    guaranteed = None if stated.guaranteed is None else float(stated.per_node[node])
    told = guessed(totals(network.heard()), coins, confidence, epsilon_to_mu(min(guaranteed or _USUAL, _USUAL), delta))
    return OneRun(
        algorithm=method.title,
        lower=told.lower(delta, confidence),
        guaranteed=guaranteed,
        claimed=stated.claimed,
        claimed_for=stated.claimed_for,
        delta=delta,
        confidence=confidence,
        rounds=method.rounds,
        node=node,
        canaries=canaries,
        guesses=told.guesses,
        correct=told.correct,
    )


class Guesses(NamedTuple):
    """Of `coins` fair and independent coins so many were guessed, and rightly."""

    coins: int
    guesses: int
    correct: int

    def chance(self, epsilon: float, delta: float) -> float:
        """The largest probability of so many right guesses, or more, that (ε, δ)-privacy of each coin allows.

        Of m coins r are guessed, v of them rightly. Without δ no mechanism is better than randomised response, of
        which W ~ Binomial(r, e^ε/(1 + e^ε)) answers are true: P[W ≥ v] = β (Steinke, Nasr, Jagielski). With δ it is

            β + mδ β (1 − β)/(v P[W = v]).

        Which coins are guessed may depend on all that is heard; how many, may not. Coins and their two sides being
        alike, some best mechanism has probabilities h(k) of guesses that depend on the number k of right ones only.
        One coin turned, k is one less, so h(k) ≤ e^ε h(k − 1) + J_k with Σ_k J_k C(r − 1, k − 1) r/m ≤ δ in units
        in which Σ_k C(r, k) h(k) = 1. A J_k is carried on to all that is above k; the most comes of J_v. (Their own
        Theorem 5.2 adds 2mδ max_i P[v − i ≤ W < v]/i, which is more than needed where v is large and too little where
        it is small.)
        """
        if not self.correct:
            return 1.0
        r, v, k = self.guesses, self.correct, np.arange(self.guesses + 1)
        ways = gammaln(r + 1) - gammaln(k + 1) - gammaln(r - k + 1)
        logs = ways + k * epsilon - r * np.logaddexp(0.0, epsilon)  # log P[W = k], which may be very small
        beta, rest = np.logaddexp.reduce(logs[v:]), np.logaddexp.reduce(logs[:v])
        more = self.coins * delta / v * np.exp(min(beta + rest - logs[v], _BEYOND))
        return min(1.0, float(np.exp(beta) + more))

    def lower(self, delta: float, confidence: float) -> float:
        """The largest ε at which so many right guesses are too unlikely.

        >>> round(Guesses(1000, 100, 75).lower(1e-4, 0.95), 3)
        0.695
        """
        low, high = 0.0, _BEYOND
        while high - low > 1e-7:
            middle = (low + high) / 2
            low, high = (middle, high) if self.chance(middle, delta) < 1 - confidence else (low, middle)
        return low


def totals(heard: Array) -> Array:
    """What (rounds, messages, columns) tells of each column, in few numbers (columns, numbers).

    Some methods send a sum of all noised gradients so far, some their change, some a sum of sums. At the end of the
    run, its messages and their running totals, totals of these, and once more, are enough to take out of it all
    gradients with about the same weight, whatever the neighbours added.
    """
    orders = [heard]
    while len(orders) < min(_ORDERS, len(heard)):
        orders.append(orders[-1].cumsum(0))
    numbers: Array = np.concatenate([order[-1] for order in orders]).T
    return numbers


def guessed(numbers: Array, coins: Flags, confidence: float, mu: float) -> Guesses:
    """Guesses of what (coins, numbers) tells: one coin in four is to learn from, the others are to be guessed.

    How many are guessed is settled before anything is looked at, as is best for Gaussian worlds `mu` apart: so many of
    the highest scores as there, so many of the lowest as not.
    """
    learn = np.arange(len(coins)) % 4 == 0
    scores = linear(innovations(numbers, coins, learn), coins, learn)
    counts = _surest(int((~learn).sum()), mu, confidence)
    there, absent = _right(scores[~learn], coins[~learn], counts)
    return Guesses(int((~learn).sum()), int(counts.sum()), int(there[0] + absent[1]))


def _surest(count: int, mu: float, confidence: float) -> Counts:
    """How many of so many highest and lowest scores are best guessed: right most surely, where Gaussian noise hides
    coins `mu` apart. Tried on coins of our own."""
    rng = np.random.default_rng(0)
    coins = rng.random(count) < 0.5
    counts = np.unique(np.rint(np.append(np.geomspace(1, count / 2, _SHARES), 0)).astype(np.int64))
    there, absent = _right(rng.normal(mu * coins), coins, counts)
    correct, made = there[:, None] + absent, counts[:, None] + counts
    often = np.where(correct > 0, stats.beta.ppf(1 - confidence, np.maximum(correct, 1), made - correct + 1), 0.0)
    return counts[list(np.unravel_index(often.argmax(), often.shape))]


def _right(scores: Array, coins: Flags, counts: Counts) -> tuple[Counts, Counts]:
    """How many of so many highest scores are of records that are there, and of so many lowest of such as are not."""
    order = np.argsort(scores)
    there, absent = (np.concatenate([[0], fell.cumsum()])[counts] for fell in (coins[order[::-1]], ~coins[order]))
    return there, absent
