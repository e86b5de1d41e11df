"""Adding a mechanism takes one class; names in a ledger are never read as another mechanism."""

import math
import sqlite3
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.privacy import (
    AdditiveNoise,
    Gaussian,
    Ledger,
    PrivacyLoss,
    Release,
    Unproven,
    epsilon,
    mechanisms,
    outside_parts,
)
from tests.privacy.oracles_accounting import randomised_response_epsilon
from tests.privacy.streams import repeated, sampling, stream


class RandomisedResponseLoss(PrivacyLoss):
    """The loss is +μ or −μ: P takes +μ with probability e^μ / (1 + e^μ)."""

    name = "randomised response"

    def cdf(self, y, mu):
        truthful = 1 / (1 + math.exp(-mu))
        below = np.where(y < -mu, 0.0, np.where(y < mu, truthful, 1.0))
        return below, np.where(y < -mu, 1.0, np.where(y < mu, 1 - truthful, 0.0))

    def shifted_cdf(self, y, mu):
        truthful = 1 / (1 + math.exp(-mu))
        below = np.where(y < -mu, 0.0, np.where(y < mu, 1 - truthful, 1.0))
        return below, np.where(y < -mu, 1.0, np.where(y < mu, truthful, 0.0))

    def reach(self, mu, tail):
        return mu

    def total_variation(self, mu):
        return np.tanh(mu / 2)

    def max_loss(self, mu):
        return mu


@dataclass(frozen=True, eq=False)
class RandomisedResponse(AdditiveNoise):
    """Flips the sign of each row with probability 1 / (1 + e^(1 / noise_multiplier))."""

    name: ClassVar[str] = "randomised-response"
    loss: ClassVar[PrivacyLoss] = RandomisedResponseLoss()

    def add_noise(self, value, scale, bounded, *, strict=True):
        value.neg_()


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(mechanisms._makers, "randomised-response", RandomisedResponse)


@dataclass(frozen=True, eq=False)
class HalfGaussian(Gaussian):
    """Inherits the name and the loss of Gaussian noise, but adds half of it."""

    def add_noise(self, value, scale, bounded, *, strict=True):
        super().add_noise(value, scale / 2, bounded, strict=strict)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("count", [1, 7])
def test_a_new_mechanism_is_accounted_by_its_own_class(count):
    releases = repeated(RandomisedResponse(2.0), count)
    exact = randomised_response_epsilon(0.5, count, 1e-5)
    assert exact * (1 - 1e-9) <= epsilon(releases, 1e-5) <= 1.01 * exact
    assert epsilon(releases, 0.0) == pytest.approx(0.5 * count)


@pytest.mark.usefixtures("registered")
def test_a_new_mechanism_is_amplified_by_sampling():
    sampled = epsilon(repeated(RandomisedResponse(2.0), 1, sampling("poisson", 0.1)), 0.0)
    assert sampled == pytest.approx(math.log1p(0.1 * math.expm1(0.5)))


@pytest.mark.usefixtures("registered")
def test_many_different_strengths_are_composed_without_a_convexity_proof():
    releases = stream([RandomisedResponse(2.0 + k / 100) for k in range(100)])
    weakest, strongest = (epsilon(repeated(RandomisedResponse(m), 100), 1e-5) for m in (3.0, 2.0))
    assert weakest < epsilon(releases, 1e-5) < strongest


@pytest.mark.usefixtures("registered")
def test_the_ledger_stores_and_reads_a_new_mechanism(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", durable=True)
    ledger.record(Release(0, "vote", RandomisedResponse(np.array([2.0, 3.0])), _two_nodes()))
    ledger.record(Release(1, "vote", Unproven(RandomisedResponse(4.0)), _two_nodes()))
    first, second = Ledger(tmp_path / "ledger.sqlite").releases()
    assert isinstance(first.mechanism, RandomisedResponse)
    assert first.multipliers.tolist() == [2.0, 3.0]
    assert isinstance(second.mechanism, Unproven)
    assert isinstance(second.mechanism.noise, RandomisedResponse)
    assert second.multipliers.tolist() == [4.0, 4.0]


@pytest.mark.parametrize("name", ["staircase", "Gaussian", "", "tests/privacy/test_mechanism_registry.py:HalfGaussian"])
def test_an_unknown_mechanism_in_a_ledger_is_refused(tmp_path, name):
    path = tmp_path / "ledger.sqlite"
    Ledger(path, durable=True).record(Release(0, "gradient", Gaussian(2.0), sampling()))
    with sqlite3.connect(path) as file:
        file.execute("UPDATE release SET mechanism = ?", (name,))
    file.close()
    with pytest.raises(TacitError, match=f'unknown mechanism "{name}"'):
        list(Ledger(path).releases())


def test_an_unregistered_subclass_does_not_pass_as_its_parent():
    releases = stream([HalfGaussian(2.0)])
    with pytest.raises(TacitError, match='HalfGaussian is not the class registered as mechanism "gaussian"'):
        epsilon(releases, 1e-5)
    ledger = Ledger()
    for mechanism in (HalfGaussian(2.0), Unproven(HalfGaussian(2.0))):
        with pytest.raises(TacitError, match="HalfGaussian is not the class registered"):
            ledger.record(Release(0, "gradient", mechanism, sampling()))
    assert len(ledger) == 0


def _two_nodes():
    return Release(0, "", Gaussian(1.0), sampling()).with_values(rates=np.ones(2)).sampling


@pytest.mark.usefixtures("registered")
def test_a_mechanism_that_is_not_part_of_the_package_is_named_in_the_statement():
    (sentence,) = outside_parts(repeated(RandomisedResponse(2.0), 3))
    assert sentence.startswith('The mechanism "randomised-response" is not part of Tacit.')
