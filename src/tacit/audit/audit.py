"""Audits in many trials: the algorithm of a config attacked by the adversary of its privacy statement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from tacit.algorithms import Algorithm, Stepper
from tacit.audit.attack import AttackScores, score_transcripts
from tacit.audit.bounds import Array
from tacit.audit.canary_statistics import attack_statistics, with_private_columns
from tacit.audit.canary_task import CANARY_SCALE, canary_task
from tacit.audit.paired_trials import with_paired_trials
from tacit.audit.recording import RecordingNetwork, ReplicatedGraph
from tacit.audit.results import ProfilePoint, TrialsAudit
from tacit.errors import TacitError
from tacit.graphs import Graph, graphs
from tacit.privacy import Ledger, Noise, guarantee
from tacit.runs import (
    Batch,
    Config,
    PrivacyMeter,
    PrivacyTarget,
    apply_privacy_target,
    batch_relation,
    build_algorithm,
    build_data,
    from_config,
)
from tacit.tasks import Task
from tacit.tasks.gradients import Engine

MIN_TRIALS = 40  # ten of them for training
_NODES = 3  # per trial: the attacked node needs neighbours on both sides, and no more
_MAX_RECORDS = 12  # per node; sampling rates are rounded to fractions with at most this denominator
_PROFILE_DELTAS = (1e-3, 0.01, 0.03, 0.1, 0.3, 0.7)  # at these δ, few trials reveal much


def audit(
    config: Config,
    *,
    trials: int = 20_000,
    rounds: int = 4,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> TrialsAudit:
    """Attack the algorithm of a config over its first `rounds` rounds, with noise for the config's ε in these rounds.

    A trial is a ring of three nodes with or without a canary, the worst-case record, and an eavesdropper on every
    link. Sampling rate, clip bound, algorithm and the statistics before round 0 are the config's. Model and data have
    no influence: the adversary knows all data except the canary. The noise comes from the same code as in any run. In
    half as many further trials the gradients of all other records oppose the canary's; these add to the profile. With
    paired noise, one node of each trial colludes, unless the config has no colluders.

    Args:
        config: The config of a run.
        trials: Number of small networks, half of them with the canary.
        rounds: Number of rounds to attack.
        confidence: Confidence of the lower bounds.
        seed: Seed of the noise.
        progress: Called after every round with the number of rounds done.

    Example:
        >>> config = Config.parse({"algorithm": "const-d2p", "privacy": {"epsilon": 2.0}})
        >>> result = audit(config, trials=400, rounds=2)
        >>> result.holds, result.lower <= result.guaranteed <= 2.0
        (True, True)
    """
    algorithm = build_algorithm(config.algorithm).with_rounds(min(config.rounds, rounds))
    if algorithm.share is not None:
        algorithm = replace(algorithm, share=("shared",))
    records, batch_size = _small_sizes(config)
    batch = config.batch.model_copy(update={"size": batch_size})
    common: dict[str, Any] = {"privacy": config.privacy, "confidence": confidence, "seed": seed}
    common["ranges"] = _has_private_ranges(config)
    result = audit_algorithm(algorithm, batch, records, trials=trials, **common, progress=progress)
    opposed_trials = max(trials // 2, MIN_TRIALS)
    opposed = audit_algorithm(algorithm, batch, records, trials=opposed_trials, **common, other_gradient=-CANARY_SCALE)
    return replace(result, profile=result.profile + opposed.profile)


def audit_algorithm(
    algorithm: Algorithm[Any],
    batch: Batch,
    records: int,
    *,
    trials: int,
    privacy: PrivacyTarget,
    confidence: float = 0.95,
    seed: int = 0,
    other_gradient: float = 0.0,
    engine: Engine = "auto",
    ranges: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> TrialsAudit:
    """Attack all rounds of an algorithm at nodes with this number of records (see `canary_task`).

    Statistics of `privacy.shares`, and `ranges` of columns, are attacked as well (see `canary_statistics`).
    """
    require_trials(trials)
    task, included = canary_task(
        algorithm,
        batch,
        Noise.from_seed(seed),
        trials=trials,
        nodes=_NODES,
        records=records,
        other_gradient=other_gradient,
        engine=engine,
    )
    if ranges:
        task._records = task._records.with_data(with_private_columns(task.data))
    graph = ReplicatedGraph(graphs.build("ring", {"nodes": _NODES}), trials)
    independent = privacy.model_copy(update={"noise": "independent"})  # the keys of trials are not those of a network
    algorithm, task.ledger.budget = apply_privacy_target(algorithm, task, graph, independent)
    algorithm, known = with_paired_trials(algorithm, task, privacy, _NODES, trials)
    before = attack_statistics(algorithm, task, graph, trials, known)
    messages = _messages_of_rounds(algorithm, task, graph, trials, progress)
    rate = float(algorithm.privacy.sampling(task).rate[0])
    scores = score_transcripts(known.beside(messages), included, rate, algorithm.rounds, before)
    spent = PrivacyMeter(task, algorithm, privacy.delta, colluders=False).spent(algorithm.rounds)
    return TrialsAudit(
        algorithm=algorithm.title,
        lower=scores.lower(privacy.delta, confidence),
        guaranteed=spent.guaranteed,
        claimed=spent.claimed,
        delta=privacy.delta,
        confidence=confidence,
        trials=trials,
        rounds=algorithm.rounds,
        separation=scores.separation,
        profile=() if spent.guaranteed is None else privacy_profile(scores, task.ledger, confidence),
        claimed_for=spent.claimed_for,
    )


def _messages_of_rounds(
    algorithm: Algorithm[Any], task: Task, graph: Graph, trials: int, progress: Callable[[int], None]
) -> Array:
    """Run all rounds, and return every message of each trial (trials, numbers)."""
    network, stepper = RecordingNetwork(graph, trials), Stepper(algorithm)
    state = stepper.start(task, graph)
    for t in range(algorithm.rounds):
        state = stepper.step(t, state, task, network, last=t + 1 == algorithm.rounds)
        progress(t + 1)
    return network.transcripts()


def require_trials(trials: int) -> None:
    """Raise TacitError if there are too few trials for any result."""
    if trials < MIN_TRIALS:
        raise TacitError(f"An audit needs at least {MIN_TRIALS} trials, got {trials}")


def privacy_profile(scores: AttackScores, ledger: Ledger, confidence: float) -> tuple[ProfilePoint, ...]:
    """Test the guarantee of a ledger at several δ, which share half of 1 − confidence equally."""
    confidence_each = 1 - (1 - confidence) / (2 * len(_PROFILE_DELTAS))
    releases = list(ledger.releases())
    assert all((values == values[0]).all() for release in releases for values in (release.multipliers, release.rates))
    at_first_node = [release.for_rows(np.zeros(1, np.int64)) for release in releases]
    return tuple(
        ProfilePoint(delta, scores.lower(delta, confidence_each), float(guarantee(at_first_node, delta).max()))
        for delta in _PROFILE_DELTAS
    )


def _has_private_ranges(config: Config) -> bool:
    """Whether the run of a config releases ranges of columns."""
    if "columns" not in config.data.parameters:
        return False
    return build_data(config.data, batch_relation(config.batch)).private is not None


def _small_sizes(config: Config) -> tuple[int, int | None]:
    """Small numbers of records per node and per batch, with about the sampling rate of the config."""
    if config.batch.size is None:
        return 2, None
    rate = float(from_config(config).task.sampler.sampling.rate.max())
    fraction = Fraction(rate).limit_denominator(_MAX_RECORDS) or Fraction(1, _MAX_RECORDS)
    return fraction.denominator, fraction.numerator
