"""Adding a record can be worse than removing one: the accountant must take the worse direction."""

import math

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

from tacit.privacy import epsilon
from tacit.privacy.accounting.composition import compose_losses
from tacit.privacy.accounting.losses import LossCounts, SampledLoss
from tacit.privacy.accounting.pld import loss_distribution
from tacit.privacy.mechanisms.laplace import LaplaceLoss
from tests.privacy.oracles_accounting import pair, sampled
from tests.privacy.streams import poisson

# Two releases with Laplace noise: noise multiplier, sampling rate, and an ε at which `add` has the larger δ.
CASES = [(4.0, 0.9, 0.01), (2.0, 0.5, 0.05), (1.0, 0.5, 0.3), (0.5, 0.9, 0.5), (4.0, 0.01, 0.00108)]


def delta_of_two(multiplier, rate, at, direction):
    """[lower, upper] around δ(ε) of two releases: the plane of both outcomes, cut into rectangles."""
    mass, low, high = sampled(pair("laplace", multiplier, 1501), rate, direction)
    return tuple(
        float(np.multiply.outer(mass, mass).ravel() @ np.maximum(-np.expm1(at - np.add.outer(loss, loss).ravel()), 0))
        for loss in (low, high)
    )


@pytest.mark.parametrize(("multiplier", "rate", "at"), CASES)
def test_two_releases_can_need_the_add_direction(multiplier, rate, at):
    delta, _ = delta_of_two(multiplier, rate, at, "add")
    _, by_removing = delta_of_two(multiplier, rate, 0.9 * at, "remove")
    assert by_removing < delta  # without `add`, ε would be more than a tenth too small
    found = epsilon(poisson(multiplier, rate, 2, "laplace"), delta)
    assert at * (1 - 1e-9) <= found <= 1.02 * at + 2e-3 * rate / multiplier


@pytest.mark.parametrize(("multiplier", "rate", "at"), CASES[:4])
def test_the_worse_direction_agrees_with_dp_accounting(multiplier, rate, at):
    delta, _ = delta_of_two(multiplier, rate, at, "add")
    other = PLDAccountant(value_discretization_interval=1e-4)
    other.compose(dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.LaplaceDpEvent(multiplier)), 2))
    exact = other.get_epsilon(delta)
    assert epsilon(poisson(multiplier, rate, 2, "laplace"), delta) == pytest.approx(exact, rel=0.02, abs=1e-3)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_of_one_release_removing_is_the_worse_direction(law):
    for multiplier in (0.5, 1.0, 3.0):
        for rate in (0.05, 0.5, 0.95):
            for at in np.linspace(0.01, 3, 40):
                below = {}
                for direction in ("remove", "add"):
                    mass, low, high = sampled(pair(law, multiplier, 20_001), rate, direction)
                    below[direction] = [np.maximum(-np.expm1(at - loss), 0) @ mass for loss in (low, high)]
                assert below["add"][0] <= below["remove"][1]


def test_the_maximum_of_both_directions_is_taken(monkeypatch):
    """Of each direction by itself, at a δ where they differ."""
    counts, delta = LossCounts({SampledLoss(LaplaceLoss(), 0.5, 0.5): 2}), 0.11
    each = {}
    for direction in ("remove", "add"):

        def only(loss, asked, h, tail, direction=direction):
            return loss_distribution(loss, direction, h, tail)

        monkeypatch.setattr("tacit.privacy.accounting.composition.loss_distribution", only)
        each[direction] = compose_losses(counts, delta, "add-remove", 0.006)
    monkeypatch.undo()
    assert each["add"] > 1.3 * each["remove"]
    assert compose_losses(counts, delta, "add-remove", 0.006) == max(each.values())


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("rate", "mu"), [(0.1, 0.5), (0.5, 2.0), (0.9, 1.0), (1.0, 1.0)])
def test_the_profile_of_each_direction_is_exact_on_the_grid(direction, rate, mu):
    """δ(ε) at multiples of h against amplification of 1 − e^((ε − μ)/2). The atom of the least loss is on an edge."""
    h = -math.log1p(rate * math.expm1(-mu)) / 64

    def removed(at):
        inner = math.log1p(math.expm1(at) / rate) if math.expm1(at) > -rate else -math.inf
        return rate * -math.expm1((inner - mu) / 2) if abs(inner) < mu else max(-math.expm1(at), 0.0)

    found = loss_distribution(SampledLoss(LaplaceLoss(), rate, mu), direction, h, 1e-12)
    for at in h * np.arange(-40, 41):
        exact = removed(at) if direction == "remove" else -math.expm1(at) + math.exp(at) * removed(-at)
        profile = found.infinite + float(np.maximum(-np.expm1(at - found.multiples * h), 0) @ found.mass)
        assert profile == pytest.approx(exact, rel=1e-9, abs=1e-12)
