"""Audits of graph learners: the attack reaches the guarantee, does not exceed it, and finds broken learners."""

import json
import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy import optimize

from tacit.audit import audit_graph_learner
from tacit.audit.graph_learners import canary_signals
from tacit.errors import TacitError
from tacit.graph_learning import IGL, PPGL, FedAvg, Signals, pair_vertices
from tacit.privacy import epsilon_to_mu

TIGHT = [
    PPGL(),
    PPGL(K=2),
    PPGL(release="rounds", K=1),
    IGL(),
    FedAvg(),
    FedAvg(K=1, release="rounds"),
    PPGL(statistic="gram"),
    IGL(statistic="gram"),
    FedAvg(statistic="gram", K=2),
]


def name(learner):
    return f"{learner.title}-{learner.release}-{learner.K}-{learner.statistic}"


@pytest.mark.parametrize("learner", TIGHT, ids=name)
def test_the_attack_reaches_the_accountants_mu(learner):
    found = audit_graph_learner(learner, epsilon=5.0, trials=4000, rounds=3)
    mu = epsilon_to_mu(found.guaranteed, 1e-5)
    assert 0.85 * mu <= found.separation <= 1.1 * mu
    assert found.holds
    assert 1.0 < found.lower <= found.guaranteed <= 5.0


@pytest.mark.parametrize(("K", "least"), [(3, 0.8), (None, 0.6)])
def test_looser_bounds_hold(K, least):
    found = audit_graph_learner(PPGL(release="rounds", K=K), epsilon=5.0, trials=4000, rounds=3)
    mu = epsilon_to_mu(found.guaranteed, 1e-5)
    assert least * mu <= found.separation <= 1.1 * mu
    assert found.holds


def test_the_result_contains_the_papers_claim():
    found = audit_graph_learner(PPGL(release="rounds", K=1), epsilon=2.0, trials=400, rounds=2)
    assert found.claimed > found.guaranteed
    assert not found.refuted
    assert "This attack does not break the guarantee." in found.summary()


def distance(pair):
    """‖z − z′‖/(√2 C) of two signals after the code has clipped them to C."""
    task = Signals([[1e3 * one, np.zeros_like(one)] for one in pair], clip=1.0)
    z = 2 * task.mean(0).use_locally()
    return float((z[0] - z[1]).norm()) / math.sqrt(2)


def test_no_two_signals_are_further_apart():
    """Optimisation from many starting points, including the signals in use."""
    pair = canary_signals(PPGL())
    d = pair.shape[1]
    first, second = pair_vertices(d)

    def cosine_similarity(flat):
        x = torch.tensor(flat.reshape(2, d), requires_grad=True)
        z = torch.nn.functional.normalize((x[:, first] - x[:, second]).square(), dim=1)
        cosine = (z[0] * z[1]).sum()
        cosine.backward()
        return cosine.item(), x.grad.numpy().ravel()

    rng = np.random.default_rng(0)
    starts = [pair.ravel() + 0.01 * rng.normal(size=2 * d), *rng.normal(size=(4, 2 * d)) ** 3]
    least = min(optimize.minimize(cosine_similarity, x, jac=True, options={"maxiter": 100}).fun for x in starts)
    assert distance(pair) == pytest.approx(math.sqrt(1 - 1 / (d - 1)), rel=1e-6)
    assert 0.995 * math.sqrt(1 - least) < distance(pair) <= 1.0


def test_the_half_signals_have_equal_degrees():
    pair = canary_signals(PPGL(release="rounds", K=None))
    apart = np.stack([one[:, None] != one for one in pair])
    assert len(set(apart.sum(2).ravel())) == 1
    assert distance(pair) == pytest.approx(math.sqrt(1 / 2), rel=1e-6)


@dataclass(frozen=True, kw_only=True)
class HalvedNoise(PPGL):
    """PPGL with noise for half of the sensitivity in every round."""

    exact_values_stay_local: ClassVar[bool] = True

    def release_graphs(self, t, w, problem, task, past):
        half = replace_sensitivity(task, 0.5)
        return super().release_graphs(t, w, problem, half, past)


def replace_sensitivity(task, share):
    other = task.with_new_ledger()
    other.ledger, other.clip = task.ledger, share * task.clip
    return other


@dataclass(frozen=True, kw_only=True)
class ExactLearning(PPGL):
    """PPGL that releases z̄ once with noise but learns from the exact z̄."""

    exact_values_stay_local: ClassVar[bool] = True

    def start(self, task, graph, z=None):
        state = super().start(task, graph, z)
        return replace(state, z=task.with_new_ledger().mean(0).use_locally())


@dataclass(frozen=True, kw_only=True)
class HalvedGramNoise(IGL):
    """IGL that states half of the sensitivity of the Gram matrix."""

    exact_values_stay_local: ClassVar[bool] = True

    def _statistic(self, task):
        value = super()._statistic(task)
        return replace(value, sensitivity=value.sensitivity / 2)


BROKEN = {
    "halved": HalvedNoise(release="rounds", K=1),
    "exact": ExactLearning(K=2),
    "halved gram": HalvedGramNoise(statistic="gram"),
}


@pytest.mark.parametrize("learner", BROKEN.values(), ids=BROKEN)
def test_broken_learners_are_found(learner):
    found = audit_graph_learner(learner, epsilon=3.0, trials=4000, rounds=3)
    assert not found.holds
    assert found.separation > 1.6 * epsilon_to_mu(found.guaranteed, 1e-5)
    assert "THE GUARANTEE IS BROKEN" in found.summary()


def test_invalid_settings_are_refused():
    with pytest.raises(TacitError, match="set epsilon"):
        audit_graph_learner(PPGL())
    with pytest.raises(TacitError, match="leave one of them out"):
        audit_graph_learner(PPGL(noise=2.0), epsilon=1.0)
    with pytest.raises(TacitError, match="at least 40 trials"):
        audit_graph_learner(PPGL(), epsilon=1.0, trials=10)


def test_the_command(tacit):
    arguments = ("audit", "ppgl", "--trials", "400", "--rounds", "2", "--set", "epsilon=2")
    ended = tacit(*arguments, "--set", "release=rounds", "--set", "K=1", "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert found["algorithm"] == "PPGL"
    assert found["rounds"] == 2
    assert found["lower"] <= found["guaranteed"] <= 2.0
    assert "This attack does not break the guarantee." in tacit(*arguments).out
    for wrong, message in (
        ("speed=1", "no parameter speed"),
        ("beta=much", "must be a number"),
        ("release=daily", "release"),
    ):
        ended = tacit(*arguments, "--set", wrong)
        assert ended.code == 2
        assert message in " ".join(ended.err.split())
    assert tacit(*arguments, "--one-run").code == 2
