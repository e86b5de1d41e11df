"""The tests that every registered mechanism must pass. They find the mechanisms through the registry."""

import copy
import math

import numpy as np
import pytest
import torch

from tacit.errors import TacitError
from tacit.privacy import (
    NO_PRIVACY,
    AdditiveNoise,
    Bounded,
    Exact,
    Gaussian,
    Ledger,
    Noise,
    Paired,
    PairPlan,
    Release,
    ReleaseContext,
    Sampling,
    Unproven,
    epsilon,
    mechanisms,
)

MULTIPLIERS = np.array([1.0, 3.0, 0.5])
SENSITIVITY = np.array([0.5, 1.0, 2.0])
# Mechanisms that are not created from noise multipliers alone. A new one needs an entry here.
EXAMPLES = {
    "exact": lambda m, s: Exact(),
    "unproven": lambda m, s: Unproven(Gaussian(m)),
    # Without pairs, every node has its own noise only. tests/privacy/test_paired.py tests pairs.
    "paired": lambda m, s: Paired(PairPlan(m * s / (1 - 1e-8), 1.0, s, np.zeros((0, 2), int), 0), np.arange(len(m))),
}
MECHANISMS = list(mechanisms)


def example(name, multipliers=MULTIPLIERS, sensitivity=SENSITIVITY):
    maker = mechanisms.registered(name)
    if name in EXAMPLES:
        return EXAMPLES[name](multipliers, np.resize(sensitivity, len(multipliers)))
    assert issubclass(maker, AdditiveNoise), f"add an example of {name} to EXAMPLES"
    return maker(multipliers)


def bounded(value, *, sensitivity=SENSITIVITY, ledger=None, noise=None, seed=0):
    ledger, noise = Ledger() if ledger is None else ledger, Noise.from_seed(seed) if noise is None else noise
    context = ReleaseContext(np.arange(len(value)), ledger, noise)
    drawn = Sampling("poisson", np.full(len(value), 0.1), "add-remove")
    context.ledger.open(0, "value")
    return Bounded(value, sensitivity, "l1", drawn, 0, "value", context)


def noise_of(name, multiplier, sensitivity, count=100_000, seed=0):
    """What the mechanism adds to a value of zero."""
    value = bounded(torch.zeros(1, count, dtype=torch.float64), sensitivity=np.array([sensitivity]), seed=seed)
    return example(name, np.array([multiplier]), np.array([sensitivity])).release(value)[0].numpy()


class WatchedNoise:
    """Noise that notes how many releases the ledger has whenever it is used."""

    def __init__(self, ledger, *, failing=False):
        self._noise, self._ledger, self._failing = Noise.from_seed(0), ledger, failing
        self.recorded = []
        self.simulated = self._noise.simulated  # not a draw

    def __getattr__(self, name):
        self.recorded.append(len(self._ledger))
        if self._failing:
            raise RuntimeError("power cut")
        return getattr(self._noise, name)


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_ledger_returns_the_same_mechanism(tmp_path, name):
    mechanism = example(name)
    drawn = Sampling("poisson", np.array([0.1, 0.2, 0.3]), "add-remove")
    Ledger(tmp_path / "ledger.sqlite", durable=True).record(Release(7, "value", mechanism, drawn))
    (found,) = Ledger(tmp_path / "ledger.sqlite").releases()
    assert type(found.mechanism) is type(mechanism)
    assert found.mechanism.name == name
    assert found.multipliers.tolist() == mechanism.multipliers(3).tolist()
    assert found.rates.tolist() == [0.1, 0.2, 0.3]
    stored, again = mechanism.to_ledger(3), found.mechanism.to_ledger(3)
    assert {key: np.asarray(entry).tolist() for key, entry in stored.items()} == {
        key: np.asarray(entry).tolist() for key, entry in again.items()
    }
    assert epsilon([found], 1e-5) == epsilon([Release(7, "value", mechanism, drawn)], 1e-5)


@pytest.mark.parametrize("name", MECHANISMS)
def test_other_multipliers_give_a_mechanism_with_the_same_loss_and_other_noise(name):
    changed = example(name).with_multipliers(2 * MULTIPLIERS)
    assert changed.loss is example(name).loss
    assert type(changed) is (Gaussian if name == "paired" else mechanisms.registered(name))
    if example(name).multipliers(3).any():
        assert changed.multipliers(3).tolist() == (2 * MULTIPLIERS).tolist()


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_release_is_recorded_before_the_noise_is_drawn(name):
    ledger = Ledger()
    noise = WatchedNoise(ledger)
    example(name).release(bounded(torch.zeros(3, 40), ledger=ledger, noise=noise))
    assert bool(noise.recorded) == bool(example(name).multipliers(3).any())
    assert set(noise.recorded) <= {1}
    assert ledger.unreleased == []


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_release_that_fails_stays_recorded_and_leaves_no_value(name):
    if not example(name).multipliers(3).any():
        pytest.skip("draws no noise")
    ledger = Ledger()
    value = torch.zeros(3, 40)
    with pytest.raises(RuntimeError, match="power cut"):
        example(name).release(bounded(value, ledger=ledger, noise=WatchedNoise(ledger, failing=True)))
    assert len(ledger) == 1
    assert value.isnan().all()


@pytest.mark.parametrize("name", MECHANISMS)
def test_noise_needs_a_sensitivity(name):
    value = bounded(torch.ones(3, 40), sensitivity=None)
    if example(name).multipliers(3).any():
        with pytest.raises(TacitError, match="sensitivity"):
            example(name).release(value)
        assert len(value.context.ledger) == 0
    else:  # no noise, no guarantee
        assert (example(name).release(value) == 1).all()
        assert example(name).loss is NO_PRIVACY


@pytest.mark.parametrize("name", MECHANISMS)
def test_noise_is_proportional_to_multiplier_and_sensitivity(name):
    """Rows with other multipliers and sensitivities have the same quantiles after division by their scale."""
    mechanism = example(name)
    value = bounded(torch.zeros(3, 100_000, dtype=torch.float64))
    scale = mechanism.noise_scale(value)
    released = mechanism.release(value).numpy()
    if not mechanism.multipliers(3).any():
        assert (released == 0).all()
        return
    assert scale == pytest.approx(MULTIPLIERS * SENSITIVITY, rel=2e-8)
    quantiles = np.quantile(released, [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99], axis=1).T / scale[:, None]
    unit = np.quantile(noise_of(name, 1.0, 1.0, seed=1), [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99])
    assert quantiles == pytest.approx(np.tile(unit, (3, 1)), abs=0.1)
    assert quantiles[:, 1:-1] == pytest.approx(np.tile(unit[1:-1], (3, 1)), abs=0.025)


@pytest.mark.parametrize("name", [name for name in MECHANISMS if example(name).loss is not NO_PRIVACY])
@pytest.mark.parametrize("multiplier", [0.5, 1.0, 2.0])
def test_the_drawn_noise_has_the_accounted_privacy_loss(name, multiplier):
    """δ(ε) of a threshold on noised values: a record that moves the value by the sensitivity shifts the noise by it."""
    noise, law = np.sort(noise_of(name, multiplier, 2.0, count=200_000)), example(name).loss
    thresholds = np.linspace(-20 * multiplier, 20 * multiplier, 4001)
    without = 1 - np.searchsorted(noise, thresholds) / len(noise)
    with_record = 1 - np.searchsorted(noise, thresholds - 2.0) / len(noise)
    for at in (0.0, 0.3 / multiplier, 0.7 / multiplier):
        at_once = np.array([at])
        q_above, p_above = (f(at_once, 1 / multiplier)[1][0] for f in (law.cdf, law.shifted_cdf))
        accounted = float(p_above - math.exp(at) * q_above)
        found = float((with_record - math.exp(at) * without).max())
        assert found <= accounted + 0.008
        if law.is_attained:
            assert found >= accounted - 0.008


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_node_and_coordinate_has_its_own_noise(name):
    value = bounded(torch.zeros(3, 20_000, dtype=torch.float64), sensitivity=1 / MULTIPLIERS)
    released = example(name, sensitivity=1 / MULTIPLIERS).release(value)
    if example(name).multipliers(3).any():
        assert abs(np.corrcoef(released.numpy()) - np.eye(3)).max() < 0.04
        assert abs(np.corrcoef(released[0, :-1], released[0, 1:])[0, 1]) < 0.04


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_without_a_proven_loss_guarantees_nothing(name):
    mechanism = example(name, np.array([2.0]))
    spent = epsilon([Release(0, "value", mechanism, Sampling("none", np.ones(1), "add-remove"))], 1e-5)
    assert math.isinf(spent) == (mechanism.loss is NO_PRIVACY)
    if mechanism.loss is NO_PRIVACY:
        assert mechanism.no_guarantee_because != type(mechanism).__mro__[1].no_guarantee_because


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_subclass_does_not_pass_as_its_parent(name):
    parent = example(name)
    child = copy.copy(parent)
    object.__setattr__(child, "__class__", type("Weaker", (type(parent),), {}))
    release = Release(0, "value", child, Sampling("none", np.ones(3), "add-remove"))
    ledger = Ledger()
    for refused in (lambda: ledger.record(release), lambda: epsilon([release], 1e-5)):
        with pytest.raises(TacitError, match=f'Weaker is not the class registered as mechanism "{name}"'):
            refused()
    assert len(ledger) == 0


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_class_has_its_registered_name(name):
    assert mechanisms.registered(name).name == name
