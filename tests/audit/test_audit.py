"""Every method attacked, and methods that are broken on purpose found out."""

import math
from dataclasses import dataclass
from typing import get_args

import numpy as np
import pytest
import torch
from scipy import stats

import tacit as package
from tacit.algorithms import algorithms
from tacit.audit import attack, audit, lower_bound
from tacit.errors import TacitError
from tacit.privacy import Release
from tacit.privacy.bounded import SamplingKind
from tacit.privacy.gdp import epsilon_to_mu, mu_to_epsilon
from tacit.runs import Config

BARE = ("ecl", "lt-admm", "non-private", "sgp", "single-node")  # of which nothing is promised; all others are attacked
PRIVATE = [name for name in algorithms if name not in BARE]
PARAMETERS = {
    "d2p": {"clip": [1.0] * 200, "noise_multiplier": [6.0] * 200},
    "partpsp": {"share": ["0.weight"]},
    "dp-norm": {"smoothness": 0.5},
}


def config(name, epsilon=2.0, parameters=None, **batch):
    return Config.parse(
        {
            "data": {"name": "digits", "normalise": "unit"},
            "model": {"name": "logistic", "biases": name == "partpsp"},
            "graph": {"name": "ring", "nodes": 6},
            "algorithm": {"name": name, **PARAMETERS.get(name, {}), **(parameters or {})},
            "batch": batch,
            "privacy": {"delta": 1e-5} | ({} if name == "d2p" else {"epsilon": epsilon}),
        }
    )


@pytest.mark.parametrize("sampling", get_args(SamplingKind))
@pytest.mark.parametrize("name", PRIVATE)
def test_no_guarantee_is_broken(name, sampling):
    drawn = {} if sampling == "none" else {"size": 60, "sampling": sampling}
    found = audit(config(name, **drawn), trials=1200 if sampling == "none" else 600, rounds=2)
    assert found.holds
    assert found.guaranteed <= 2.0
    if "noise_rate" not in algorithms.parameters(name):  # Laplace noise has no μ
        # What the attack separates, the accountant allows: 450 trials tell μ to about 0.1.
        assert found.separation <= epsilon_to_mu(found.guaranteed, 1e-5) + 0.4


@pytest.mark.parametrize("name", ["const-d2p", "porter", "dp-sgd", "dp-admm", "lt-admm-dp"])
def test_without_sampling_the_attack_finds_all_there_is(name):
    """Gaussian noise on sums that a canary moves by the whole bound: the attack's μ is the accountant's."""
    found = audit(config(name, epsilon=3.0), trials=4000, rounds=3)
    least = 0.6 if name == "dp-admm" else 0.85  # it sends a mean of what it has noised, which tells less
    mu = epsilon_to_mu(found.guaranteed, 1e-5)
    assert least * mu <= found.separation <= 1.15 * mu
    assert 0.0 <= found.lower <= found.guaranteed


def test_the_bound_is_one_with_the_confidence_it_states():
    """Gaussian worlds of known ε: in 200 audits with 90 % confidence about 20 at most may exceed it."""
    rng, mu, delta = np.random.default_rng(0), 1.0, 1e-5
    epsilon = mu_to_epsilon(mu, delta)
    there = np.arange(800) % 2 == 1
    found = [attack(rng.normal(mu * there)[:, None], there, delta, 0.9).lower for _ in range(200)]
    assert sum(lower > epsilon for lower in found) <= stats.binom.ppf(0.999, 200, 0.1)
    assert np.mean(found) > 0.15 * epsilon


def test_counts_and_what_they_say():
    assert lower_bound(0, 100, 0, 100, 1e-5, 0.95) == 0.0
    assert lower_bound(100, 100, 0, 100, 1e-5, 0.95) == pytest.approx(
        math.log((0.025**0.01 - 1e-5) / (1 - 0.025**0.01))
    )
    assert lower_bound(90, 100, 10, 100, 0.5, 0.95) < lower_bound(90, 100, 10, 100, 1e-5, 0.95)


@dataclass(frozen=True)
class State:
    x: torch.Tensor


@dataclass(frozen=True)
class Gossip(package.Algorithm):
    """Plain gossip, as sound as its noise: `forgotten` leaves that share of it out after it was booked."""

    noise_multiplier: float = 4.0
    forgotten: float = 0.0
    title = "gossip"
    needs = ("doubly-stochastic", "connected")

    def start(self, task, graph):
        return State(task.initial())

    def round(self, t, state, task, network):
        exact = task.gradient(state.x, t, package.Clip(1.0))
        value = exact.value.clone()
        g = package.Gaussian(self.noise_multiplier).release(exact)
        (x,) = network.mix(t, state.x - 0.1 * (g + self.forgotten * (value - g)))
        return State(x)

    def models(self, state):
        return state.x

    def releases(self, t, nodes, sampling):
        return [Release(t, "gradient", package.Gaussian(self.noise_multiplier), sampling)]


@pytest.mark.parametrize(("forgotten", "sound"), [(0.0, True), (0.9, False), (1.0, False)])
def test_noise_that_is_booked_and_not_added_is_found_out(forgotten, sound):
    algorithms.register("gossip-under-test")(lambda: Gossip(forgotten=forgotten))
    try:
        found = audit(
            Config.parse({"algorithm": "gossip-under-test", "privacy": {"delta": 1e-5}, "batch": {}}), rounds=2
        )
    finally:
        algorithms._makers.pop("gossip-under-test")
    assert found.holds == sound
    assert (found.lower > 3 * found.guaranteed) == (not sound)


def test_too_few_trials_are_refused():
    with pytest.raises(TacitError, match="at least 40 trials"):
        audit(config("const-d2p"), trials=10)
