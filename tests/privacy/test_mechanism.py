import numpy as np
import pytest
import torch
from scipy import stats

from tacit.errors import TacitError
from tacit.privacy import Bounded, Exact, Gaussian, Laplace, Ledger, Noise, ReleaseContext, Sampling


def bounded(n=3, d=5000, *, sensitivity=(0.5, 1.0, 2.0), norm="l1", step=0, purpose="gradient", seed=0, ledger=None):
    context = ReleaseContext(np.arange(n), Ledger() if ledger is None else ledger, Noise.from_seed(seed))
    sampling = Sampling("poisson", np.full(n, 0.1), "add-remove")
    sense = None if sensitivity is None else np.array(sensitivity[:n])
    context.ledger.open(step, purpose)
    return Bounded(torch.zeros(n, d), sense, norm, sampling, step, purpose, context)


@pytest.mark.parametrize(("mechanism", "law"), [(Gaussian, "norm"), (Laplace, "laplace")])
def test_noise_has_scale_multiplier_times_sensitivity(mechanism, law):
    multiplier = np.array([1.0, 3.0, 0.5])
    value = bounded()
    released = mechanism(multiplier).release(value)
    for row, scale in zip(released, multiplier * [0.5, 1.0, 2.0], strict=True):
        assert stats.kstest(row.double().numpy() / scale, law).pvalue > 1e-3
    (line,) = value.context.ledger.releases()
    assert (type(line.mechanism), line.multipliers.tolist()) == (mechanism, multiplier.tolist())
    assert value.context.ledger.unreleased == []


def test_the_release_is_recorded_before_the_noise_is_drawn(monkeypatch):
    value = bounded()

    def fail(*args, **options):
        assert len(value.context.ledger) == 1
        raise RuntimeError("power cut")

    monkeypatch.setattr(value.context.noise, "gaussian_", fail)
    with pytest.raises(RuntimeError, match="power cut"):
        Gaussian(1.0).release(value)
    assert len(value.context.ledger) == 1


def test_two_values_of_one_step_need_two_purposes_and_get_two_noises():
    ledger = Ledger()
    first = Gaussian(1.0).release(bounded(purpose="a", ledger=ledger))
    second = Gaussian(1.0).release(bounded(purpose="b", ledger=ledger))
    assert not torch.equal(first, second)
    with pytest.raises(TacitError, match="already"):
        Gaussian(1.0).release(bounded(purpose="a", ledger=ledger))


def test_exact_adds_no_noise_and_is_recorded():
    value = bounded(sensitivity=None)
    assert Exact().release(value).abs().max() == 0
    assert next(value.context.ledger.releases()).mechanism == Exact()


def test_values_used_locally_are_not_released():
    value = bounded()
    assert torch.equal(value.use_locally(), value._value)
    assert value.context.ledger.unreleased == []
    assert len(value.context.ledger) == 0


def test_refusals():
    with pytest.raises(TacitError, match="known sensitivity"):
        Gaussian(1.0).release(bounded(sensitivity=None))
    with pytest.raises(TacitError, match="bounded in L1"):
        Laplace(1.0).release(bounded(norm="l2"))
    with pytest.raises(TacitError, match="positive"):
        Gaussian(-1.0).release(bounded())
    with pytest.raises(TacitError, match="positive"):
        Gaussian(np.array([1.0, np.nan, 1.0])).release(bounded())


def test_a_refused_value_cannot_be_sent():
    ledger = Ledger()
    Gaussian(1.0).release(bounded(ledger=ledger))
    second = bounded(ledger=ledger)
    with pytest.raises(TacitError, match="already"):
        Gaussian(1.0).release(second)
    assert second.value.isnan().all()


def test_two_values_of_one_purpose_are_refused_before_either_leaves():
    ledger = Ledger()
    bounded(ledger=ledger)
    with pytest.raises(TacitError, match='Step 0 has already computed "gradient"'):
        bounded(ledger=ledger)
