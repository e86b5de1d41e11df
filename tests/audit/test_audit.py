"""Audits of every algorithm, and of algorithms that are broken on purpose."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import stats

import tacit as package
from tacit.algorithms import algorithms
from tacit.audit import attack, audit, lower_bound
from tacit.audit.results import AuditResult, ProfilePoint
from tacit.errors import TacitError
from tacit.privacy import epsilon_to_mu, mu_to_epsilon, sampling_kinds
from tacit.runs import Config
from tests.helpers import adds_noise, required_parameters

PRIVATE = [name for name in algorithms if adds_noise(name)]


def config(name, epsilon=2.0, parameters=None, **batch):
    """A small config for any private algorithm: its required parameters, and noise for `epsilon` unless it has its own.

    An algorithm that shares some layers only needs a model with two. Logistic regression on unit vectors is ½-smooth.
    """
    required = required_parameters(name)
    smoothness = {"smoothness": 0.5} if "smoothness" in algorithms.parameters(name) else {}
    return Config.parse(
        {
            "data": {"name": "digits", "normalise": "unit"},
            "model": {"name": "logistic", "biases": "share" in required},
            "graph": {"name": "ring", "nodes": 6},
            "algorithm": {"name": name, **required, **smoothness, **(parameters or {})},
            "batch": {"size": "all", **batch},
            "privacy": {"delta": 1e-5} | ({} if "noise_multiplier" in required else {"epsilon": epsilon}),
        }
    )


@pytest.mark.parametrize("sampling", list(sampling_kinds))
@pytest.mark.parametrize("name", PRIVATE)
def test_no_guarantee_is_broken(name, sampling):
    batch = {} if sampling == "none" else {"size": 60, "sampling": sampling}
    found = audit(config(name, **batch), trials=1200 if sampling == "none" else 600, rounds=2)
    assert found.holds
    assert found.guaranteed <= 2.0
    if "noise_rate" not in algorithms.parameters(name):  # Laplace noise has no μ
        # The accountant allows this separation: 450 trials estimate μ with an error of about 0.1.
        assert found.separation <= epsilon_to_mu(found.guaranteed, 1e-5) + 0.4


@pytest.mark.parametrize("name", ["const-d2p", "porter", "dp-sgd", "dp-admm", "lt-admm-dp"])
def test_without_sampling_the_attack_reaches_the_accountants_mu(name):
    """Gaussian noise on sums that a canary shifts by the whole bound."""
    found = audit(config(name, epsilon=3.0), trials=4000, rounds=3)
    least = 0.6 if name == "dp-admm" else 0.85  # DP-ADMM sends a mean of noised values, which reveals less
    mu = epsilon_to_mu(found.guaranteed, 1e-5)
    assert least * mu <= found.separation <= 1.15 * mu
    assert 0.0 <= found.lower <= found.guaranteed


def test_the_lower_bound_has_its_stated_confidence():
    """Gaussian noise with a known ε: of 200 audits with 90 % confidence, about 20 may exceed it."""
    rng, mu, delta = np.random.default_rng(0), 1.0, 1e-5
    epsilon = mu_to_epsilon(mu, delta)
    included = np.arange(800) % 2 == 1
    found = [attack(rng.normal(mu * included)[:, None], included, delta, 0.9).lower for _ in range(200)]
    assert sum(lower > epsilon for lower in found) <= stats.binom.ppf(0.999, 200, 0.1)
    assert np.mean(found) > 0.15 * epsilon


def test_lower_bounds_from_counts():
    assert lower_bound(0, 100, 0, 100, 1e-5, 0.95) == 0.0
    assert lower_bound(100, 100, 0, 100, 1e-5, 0.95) == pytest.approx(
        math.log((0.025**0.01 - 1e-5) / (1 - 0.025**0.01))
    )
    assert lower_bound(90, 100, 10, 100, 0.5, 0.95) < lower_bound(90, 100, 10, 100, 1e-5, 0.95)


def test_one_broken_point_of_the_profile_breaks_the_guarantee():
    facts = {"algorithm": "gossip", "claimed": None, "delta": 1e-5, "confidence": 0.95, "rounds": 1}
    points = (ProfilePoint(0.01, 0.2, 0.9), ProfilePoint(0.1, 0.6, 0.5), ProfilePoint(0.3, 0.0, 0.1))
    broken = AuditResult(lower=0.5, guaranteed=1.0, profile=points, **facts)
    assert broken.worst_point == points[1]
    assert not broken.holds
    assert "THE GUARANTEE IS BROKEN: at δ = 0.1, ε = 0.5 is guaranteed" in broken.summary()
    assert AuditResult(lower=0.5, guaranteed=1.0, profile=points[::2], **facts).holds


@dataclass(frozen=True)
class State:
    x: torch.Tensor


@dataclass(frozen=True)
class Gossip(package.Algorithm):
    """Gossip that removes the share `forgotten` of its noise after the release was recorded."""

    noise_multiplier: float = 4.0
    forgotten: float = 0.0
    title = "gossip"
    needs = ("doubly-stochastic", "connected")

    def start(self, task, graph):
        return State(task.initial())

    def round(self, t, state, task, network):
        exact = task.gradient(state.x, t, package.Clip(1.0))
        value = exact._value.clone()  # not noticed by the ledger
        g = package.Gaussian(self.noise_multiplier).release(exact)
        (x,) = network.mix(t, state.x - 0.1 * (g + self.forgotten * (value - g)))
        return State(x)

    def models(self, state):
        return state.x


@pytest.mark.parametrize(("forgotten", "correct"), [(0.0, True), (0.9, False), (1.0, False)])
def test_noise_that_is_recorded_but_missing_is_found(forgotten, correct):
    algorithms.register("gossip-under-test")(lambda: Gossip(forgotten=forgotten))
    try:
        found = audit(
            Config.parse({"algorithm": "gossip-under-test", "privacy": {"delta": 1e-5}, "batch": {"size": "all"}}),
            rounds=2,
        )
    finally:
        algorithms._makers.pop("gossip-under-test")
    assert found.holds == correct
    assert (found.lower > 3 * found.guaranteed) == (not correct)


def test_too_few_trials_are_refused():
    with pytest.raises(TacitError, match="at least 40 trials"):
        audit(config("const-d2p"), trials=10)
