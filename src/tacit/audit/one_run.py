"""The audit of a whole run in one execution, with many canaries at one node."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit.algorithms import Stepper
from tacit.audit.bounds import Array, Flags
from tacit.audit.canary_model import CanaryModel, plant_canaries
from tacit.audit.membership import cumulative_sums, guess_membership
from tacit.audit.recording import NodeRecordingNetwork
from tacit.audit.results import OneRunAudit
from tacit.errors import TacitError
from tacit.privacy import Noise, epsilon_to_mu
from tacit.runs import Config, PrivacyMeter, Run, from_config, release_statistics

_MIN_CANARIES = 100  # a quarter of them for training
_USUAL_EPSILON = 8.0  # the number of guesses is chosen for the guaranteed ε, but at most for this one


def audit_one_run(
    config: Config,
    *,
    canaries: int = 1000,
    node: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> OneRunAudit:
    """Attack the run of a config as a whole: its model, data, graph, batches and rounds, with canaries at one node.

    Each canary is included in the node's records with probability ½; otherwise it is absent, or its opposite
    replaces it. An adversary records what the node sends and receives, learns from a quarter of the canaries how they
    appear in the messages, and guesses the most certain of the others (Steinke, Nasr, Jagielski: Privacy auditing
    with one (1) training run, NeurIPS 2023). Canaries replace as many of the node's records, so that sampling rate
    and noise are the config's. If there are more canaries than records, the node grows, its sampling rate falls, and
    the noise is calibrated for that.

    Args:
        config: The config of a run. Its seed determines the noise.
        canaries: Number of canaries.
        node: The node with the canaries.
        confidence: Confidence of the lower bound.
        seed: Seed of the random inclusion of canaries.
        progress: Called after every round with the number of rounds done.

    Example:
        >>> settings = {"algorithm": "const-d2p", "rounds": 3, "batch": {"size": None}, "privacy": {"epsilon": 8.0}}
        >>> result = audit_one_run(Config.parse(settings), canaries=400)
        >>> result.holds, 0.0 < result.lower <= result.guaranteed <= 8.0
        (True, True)
    """
    original = from_config(config)
    _check(original, canaries, node)
    plan, task = original.algorithm.privacy, original.task
    included: Flags = Noise.from_seed(seed).words("coins", np.array([node]), 0, canaries)[0].numpy() < 0
    run = from_config(config, plant_canaries(task, included, node, plan.sampling(task).relation))
    algorithm, task, delta = run.algorithm, run.task, config.privacy.delta
    assert isinstance(task.model, CanaryModel)
    recorded = _record_rounds(run, node, task.model.canary_columns, progress)
    spent = PrivacyMeter(task, algorithm, delta).spent(algorithm.rounds)
    guaranteed = None if spent.guaranteed is None else float(spent.per_node[node])
    mu = epsilon_to_mu(min(guaranteed or _USUAL_EPSILON, _USUAL_EPSILON), delta)
    made = guess_membership(cumulative_sums(recorded), included, confidence, mu)
    return OneRunAudit(
        algorithm=algorithm.title,
        lower=made.lower(delta, confidence),
        guaranteed=guaranteed,
        claimed=spent.claimed,
        claimed_for=spent.claimed_for,
        delta=delta,
        confidence=confidence,
        rounds=algorithm.rounds,
        node=node,
        canaries=canaries,
        guesses=made.guesses,
        correct=made.correct,
    )


def _check(run: Run, canaries: int, node: int) -> None:
    """Raise TacitError if the run has no records to protect, or canaries or node are invalid."""
    if run.algorithm.privacy.unit != "record":
        raise TacitError(
            f"{run.algorithm.title} protects whole nodes, but an audit in one run needs records as canaries"
        )
    if run.algorithm.fits_linear_classifiers_only:
        raise TacitError(
            f"{run.algorithm.title} computes no gradients, which are the canaries of an audit in one run: audit it "
            "with trials"
        )
    if canaries < _MIN_CANARIES:
        raise TacitError(f"An audit in one run needs at least {_MIN_CANARIES} canaries, got {canaries}")
    if not 0 <= node < run.task.n:
        raise TacitError(f"Node {node} does not exist: the nodes of this network are 0 to {run.task.n - 1}")


def _record_rounds(run: Run, node: int, columns: slice, progress: Callable[[int], None]) -> Array:
    """Run all rounds and return what the node sent and received in these columns."""
    network = NodeRecordingNetwork(run.network.graph, node, columns)
    release_statistics(run.task, run.algorithm, run.network)  # the gradient of a canary does not depend on them
    task = run.task.without_records()
    stepper = Stepper(run.algorithm)
    state = stepper.start(task, network.graph)
    for t in range(run.algorithm.rounds):
        state = stepper.step(t, state, task, network, last=t + 1 == run.algorithm.rounds)
        network.end_round()
        progress(t + 1)
    return network.recorded()
