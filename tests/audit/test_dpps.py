"""Audits of DPPS and the algorithms that use it, with each kind of sensitivity."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

from tacit.algorithms import DPPS, SGPDP, CertifiedSensitivity, EstimatedSensitivity, ReplacementSensitivity
from tacit.audit import RecordingNetwork, ReplicatedGraph, audit, audit_algorithm, canary_task, lower_bound
from tacit.audit.attack import AttackScores, score_transcripts, whiten
from tacit.audit.scores import laplace_scores
from tacit.graphs import ring
from tacit.privacy import Bounded, Ledger, Noise, ReleaseContext, Sampling
from tacit.runs import Batch, Config, PrivacyTarget
from tacit.tasks import Clip

DELTA = 1e-5


def config(name, mode, **rest):
    algorithm = {"name": name, "sensitivity": mode, **({"share": ["0.weight"]} if name == "partpsp" else {}), **rest}
    biases = {"name": "logistic", "biases": name == "partpsp"}
    privacy = {"delta": DELTA} if "noise_rate" in rest else {"delta": DELTA, "epsilon": 2.0}
    return Config.parse({"model": biases, "algorithm": algorithm, "batch": {"size": None}, "privacy": privacy})


@pytest.mark.parametrize("mode", ["replacement", "certified"])
@pytest.mark.parametrize("name", ["partpsp", "sgpdp", "pedfl"])
def test_the_guarantee_holds_and_the_lower_bound_is_substantial(name, mode):
    found = audit(config(name, mode), trials=4000, rounds=3)
    assert found.holds
    assert 0.15 * found.guaranteed < found.lower <= found.guaranteed <= 2.0
    assert found.claimed_for == "round"
    assert not found.refuted


def test_one_round_is_found_almost_completely():
    """The canary shifts the only round of SGPDP by the whole bound."""
    found = audit(config("sgpdp", "replacement"), trials=8000, rounds=1)
    assert 0.8 * found.guaranteed < found.lower <= found.guaranteed


@pytest.mark.parametrize("mode", ["replacement", "certified"])
def test_the_canary_shifts_the_gradient_by_the_sensitivity(mode):
    algorithm = SGPDP(sensitivity=mode, noise_rate=1.0)
    task, included = canary_task(algorithm, Batch(size=None), Noise.from_seed(0), trials=2, nodes=3, records=4)
    g = task.gradient(task.initial(), 0, Clip(algorithm.clip, "l1", "batch"))
    assert included.tolist() == [False, True]
    assert (g.value[3] - g.value[0]).abs().sum() == pytest.approx(g.sensitivity[0])
    assert (g.value[[1, 2, 4, 5]] == 0).all()


@pytest.mark.parametrize("mode", ["replacement", "certified", "estimated", "real"])
def test_trials_do_not_affect_each_other(mode):
    """If the noise of a trial depended on other trials, it would hide the canary."""
    trials, nodes = 4, 3
    algorithm = SGPDP(sensitivity=mode, noise_rate=0.5, sync_every=3).with_rounds(5)
    sizes = {"trials": trials, "nodes": nodes, "records": 2}
    task, _ = canary_task(algorithm, Batch(size=None), Noise.from_seed(3), **sizes, other_gradient=0.1)
    together = transcripts(algorithm, task, ReplicatedGraph(ring(nodes), trials), trials)
    rows = [range(nodes * k, nodes * (k + 1)) for k in range(trials)]
    single = [transcripts(algorithm, task.host(row), ring(nodes), 1) for row in rows]
    np.testing.assert_allclose(together, np.concatenate(single), rtol=1e-12)


def transcripts(algorithm, task, graph, trials):
    network = RecordingNetwork(graph, trials)
    state = algorithm.start(task, graph)
    for t in range(algorithm.rounds):
        state = algorithm.round(t, state, task, network)
    return network.transcripts()


@pytest.mark.parametrize("mode", ["estimated", "real"])
def test_noise_that_depends_on_the_data_reveals_them(mode):
    found = audit(config("sgpdp", mode, noise_rate=1.0, b=0.5), trials=1000, rounds=2)
    assert found.guaranteed is None
    assert found.claimed == 0.5
    assert found.refuted
    assert found.lower > 4.0
    assert "no guarantee; claimed ε = 0.5 per round" in found.summary()
    assert "The claim is refuted." in found.summary()


def one_round(modes, e, bound, s=None, seed=0, noise=1.0):
    """The transcripts of one round of DPPS with these perturbations (trials, 3)."""
    trials = len(e)
    graph = ReplicatedGraph(ring(3), trials)
    network = RecordingNetwork(graph, trials)
    context = ReleaseContext(np.arange(3 * trials), Ledger(), Noise.from_seed(seed))
    drawn = Sampling("none", np.ones(3 * trials), "replace-one")
    value = torch.from_numpy(np.asarray(e, np.float64)).reshape(-1, 1)
    perturbation = Bounded(value, np.full(3 * trials, bound), "l1", drawn, 0, "value", context)
    dpps = DPPS(noise, modes)
    state = dpps.start(torch.zeros_like(value) if s is None else torch.from_numpy(s).reshape(-1, 1))
    dpps.round(0, state, perturbation, network)
    return network.transcripts()


def two_values(trials, one, other):
    """Node 0 has one of two values, its neighbours have 0."""
    included = np.arange(trials) % 2 == 1
    return np.stack([np.where(included, one, other), np.zeros(trials), np.zeros(trials)], 1), included


def test_the_estimate_is_too_small_even_if_it_reveals_nothing():
    """e and −e have the same norm, so the estimate is the same. They are 2‖e‖ apart, not 2C′‖e‖ with C′ = 0.78."""
    e, included = two_values(40_000, 1.0, -1.0)
    messages = one_round((EstimatedSensitivity(),), e, 2.0)
    claimed, true = 1.0, 1 / 0.78
    found = score_transcripts(messages, included).lower(DELTA, 0.95)
    assert 1.1 * claimed < found <= true


def test_private_initial_vectors_need_the_certified_sensitivity():
    """`replacement` covers perturbations only; private initial vectors need `certified` with their diameter."""
    s, included = two_values(4000, 5.0, -5.0)
    e = np.zeros_like(s)
    known = one_round((CertifiedSensitivity.for_graph(ring(3), 1, diameter=10.0),), e, 1.0, s)
    assert 0.5 < score_transcripts(known, included).lower(DELTA, 0.95) <= 1.0
    unknown = one_round((ReplacementSensitivity(),), e, 1.0, s)
    assert score_transcripts(unknown, included).lower(DELTA, 0.95) > 4.0


@dataclass(frozen=True)
class HalfReplacement(ReplacementSensitivity):
    """Half of the sensitivity."""

    def bound(self, carry, half, e, network):
        return super().bound(carry, half, e, network) / 2


@dataclass(frozen=True, kw_only=True)
class HalfNoise(SGPDP):
    exact_values_stay_local: ClassVar[bool] = True

    def protocol(self, t, nodes, graph):
        return DPPS(self.noise(t, nodes), (HalfReplacement(),), self.sync_every)


@pytest.mark.parametrize(("kind", "correct"), [(SGPDP, True), (HalfNoise, False)])
def test_half_of_the_noise_is_found(kind, correct):
    target = PrivacyTarget(epsilon=2.0, delta=DELTA)
    found = audit_algorithm(kind().with_rounds(2), Batch(size=None), 2, trials=4000, privacy=target)
    assert found.holds == correct


def test_laplace_scores_find_more_than_linear_ones():
    """Five numbers with Laplace noise, all shifted: pure ε = 5 · 0.4 = 2."""
    rng = np.random.default_rng(0)
    included = np.arange(40_000) % 2 == 1
    numbers = rng.laplace(0.4 * included[:, None], 1.0, (40_000, 5))
    all_scores = score_transcripts(numbers, included)
    training = all_scores.training
    whitened = whiten(numbers, included, training)
    linear, ratio = (
        AttackScores((scores,), included, training).lower(DELTA, 0.95)
        for scores in (all_scores.scores[0], laplace_scores(whitened, included, training))
    )
    assert linear + 0.1 < ratio <= 2.0
    # The same by hand for one number: positive if it lies beyond both centres.
    positive = numbers[~training, 0] > 0.4
    present = included[~training]
    counts = positive[present].sum(), present.sum(), positive[~present].sum(), (~present).sum()
    assert 0.3 < lower_bound(*map(int, counts), DELTA, 0.95) <= 0.4
