"""Values with a bound: what keeps the bound correct, and what the ledger records."""

import numpy as np
import pytest
import torch

from tacit.errors import TacitError
from tacit.privacy import (
    Bounded,
    Exact,
    Gaussian,
    Ledger,
    Noise,
    ReleaseContext,
    Sampling,
    ledger_guarantee,
    outside_parts,
)

ALL = Sampling("none", np.ones(2), "add-remove")


def bounded(value=1.0, sensitivity=0.5, step=0, purpose="gradient", ledger=None, **other):
    context = ReleaseContext(np.arange(2), Ledger() if ledger is None else ledger, Noise.from_seed(0))
    bound = None if sensitivity is None else np.full(2, sensitivity)
    return Bounded(torch.full((2, 3), value), bound, "l2", ALL, step, purpose, context, **other)


def test_scaling_and_adding_keep_the_sensitivity():
    g = bounded(1.0, 0.5)
    scaled = g.scaled(-4.0)
    assert scaled.sensitivity.tolist() == [2.0, 2.0]
    both = scaled.plus(bounded(3.0, 0.25, purpose="difference", ledger=g.context.ledger))
    assert both.sensitivity.tolist() == [2.25, 2.25]
    shifted = both.plus(torch.ones(2, 3))
    assert shifted.sensitivity.tolist() == [2.25, 2.25]
    assert torch.equal(Exact().release(shifted), torch.full((2, 3), -4.0 + 3.0 + 1.0))
    assert g.plus(bounded(sensitivity=None, purpose="unknown", ledger=g.context.ledger)).sensitivity is None
    assert bounded(sensitivity=None).scaled(2.0).sensitivity is None


@pytest.mark.parametrize("other", [{"step": 1}, {"unit": "node"}])
def test_values_of_other_draws_or_units_are_not_added(other):
    with pytest.raises(TacitError, match="can be added only if step, norm, unit and sampling are the same"):
        bounded().plus(bounded(purpose="other", **other))


def test_an_added_value_needs_no_release_of_its_own():
    ledger = Ledger()
    ledger.open(0, "gradient")
    ledger.open(0, "difference")
    Gaussian(2.0).release(bounded(ledger=ledger).plus(bounded(purpose="difference", ledger=ledger)))
    assert ledger.unreleased == []
    assert ledger_guarantee(ledger, 1e-5)[1] is None


def test_reading_a_value_before_its_release_ends_the_guarantee():
    g = bounded()
    assert g.value is not None
    Gaussian(2.0).release(g)
    spent, reason = ledger_guarantee(g.context.ledger, 1e-5, exact_values_stay_local=True)
    assert np.isinf(spent).all()
    assert reason == ('"gradient" of step 0 was read before its release, so it may have left the node without noise')


def test_reading_a_released_value_is_harmless():
    g = bounded()
    noised = Gaussian(2.0).release(g)
    assert torch.equal(g.value, noised)
    assert ledger_guarantee(g.context.ledger, 1e-5)[1] is None


def test_a_value_used_locally_needs_a_declaration():
    g = bounded()
    g.use_locally()
    Gaussian(2.0).release(bounded(purpose="model", ledger=g.context.ledger))
    assert "exact_values_stay_local" in ledger_guarantee(g.context.ledger, 1e-5)[1]
    assert ledger_guarantee(g.context.ledger, 1e-5, exact_values_stay_local=True)[1] is None


def test_whoever_states_the_sensitivity_states_the_unit():
    ledger = Ledger()
    Gaussian(2.0).release(bounded(ledger=ledger, unit="node"))
    assert [release.unit for release in ledger.releases()] == ["node"]


def test_mechanisms_of_the_package_are_not_named_as_outside():
    ledger = Ledger()
    Gaussian(2.0).release(bounded(ledger=ledger))
    assert outside_parts(ledger.releases()) == []
