"""The export to dp_accounting, and both accountants on the same random ledgers."""

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

from tacit.errors import TacitError
from tacit.privacy import Exact, Gaussian, Laplace, Ledger, Release, Sampling, Unproven, guarantee


def a_ledger(*releases):
    ledger = Ledger()
    for release in releases:
        ledger.record(release)
    return ledger


def random_ledger(seed):
    """Two nodes, up to 25 draws, one or two releases per draw, and one sampling kind."""
    rng = np.random.default_rng(seed)
    kind, relation = [("none", "add-remove"), ("poisson", "add-remove"), ("permutation", "replace-one")][seed % 3]
    rates = np.ones(2) if kind == "none" else 1 / rng.integers(2, 40, 2)
    sampling = Sampling(kind, rates, relation)
    laplace = kind != "permutation" and seed % 2 == 1
    ledger = Ledger()
    for step in range(rng.integers(2, 25)):
        noise = rng.uniform(2.0, 6.0, 2)
        if laplace and rng.random() < 0.3:
            ledger.record(Release(step, "gradient", Laplace(3 * noise), sampling))
            continue
        ledger.record(Release(step, "gradient", Gaussian(noise), sampling))
        if rng.random() < 0.3:
            ledger.record(Release(step, "second", Gaussian(2 * noise), sampling))
    return ledger


@pytest.mark.parametrize("seed", range(6))
def test_both_accountants_agree_on_random_ledgers(seed):
    ledger = random_ledger(seed)
    ours = guarantee(ledger.releases(), 1e-5)
    for event, epsilon in zip(ledger.to_dp_events(), ours, strict=True):
        # A permutation is accounted without amplification, where both relations have the same loss.
        other = PLDAccountant(value_discretization_interval=1e-3)
        other.compose(event)
        assert epsilon == pytest.approx(other.get_epsilon(1e-5), rel=0.01)


def test_releases_of_one_draw_are_combined_before_they_are_sampled():
    sampling = Sampling("poisson", np.array([0.1, 0.2]), "add-remove")
    ledger = a_ledger(Release(0, "a", Gaussian(2.0), sampling), Release(0, "b", Gaussian(2.0), sampling))
    for event, rate in zip(ledger.to_dp_events(), (0.1, 0.2), strict=True):
        (only,) = event.events
        assert only.sampling_probability == rate
        assert only.event.noise_multiplier == pytest.approx(2 / np.sqrt(2))


def test_equal_events_are_counted():
    sampling = Sampling("poisson", np.array([0.2]), "add-remove")
    noise = [2.0] * 7 + [1.0] * 3
    (event,) = a_ledger(*(Release(t, "a", Gaussian(m), sampling) for t, m in enumerate(noise))).to_dp_events()
    assert [each.count for each in event.events] == [7, 3]


def test_an_epoch_of_a_permutation_is_its_worst_draw():
    sampling = Sampling("permutation", np.array([0.25]), "replace-one")
    noise = [5.0, 3.0, 4.0, 6.0, 2.0, 7.0]
    (event,) = a_ledger(*(Release(t, "a", Gaussian(m), sampling) for t, m in enumerate(noise))).to_dp_events()
    assert event == dp.ComposedDpEvent([dp.GaussianDpEvent(3.0), dp.GaussianDpEvent(2.0)])


def test_sampling_without_replacement_keeps_its_ratio():
    sampling = Sampling("without-replacement", np.array([8 / 1000]), "replace-one")
    (event,) = a_ledger(Release(0, "a", Laplace(2.0), sampling)).to_dp_events()
    (only,) = event.events
    assert (only.sample_size, only.source_dataset_size) == (1, 125)


@pytest.mark.parametrize("mechanism", [Exact(), Unproven(Gaussian(2.0))])
def test_releases_without_a_guarantee_are_not_private(mechanism):
    sampling = Sampling("poisson", np.array([0.1]), "add-remove")
    (event,) = a_ledger(Release(0, "a", mechanism, sampling)).to_dp_events()
    assert event == dp.ComposedDpEvent([dp.NonPrivateDpEvent()])


def test_an_empty_ledger_has_no_events():
    assert Ledger().to_dp_events() == []


def test_a_missing_dp_accounting_is_reported_with_its_remedy(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "dp_accounting", None)
    with pytest.raises(TacitError, match=r"dp_accounting is not installed: run pip install"):
        Ledger().to_dp_events()
