"""Calibration: the noise gives an ε just below the target."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.algorithms.d2p_privacy import paper_mu0
from tacit.errors import TacitError
from tacit.privacy import Gaussian, calibrate, epsilon, epsilon_to_mu
from tests.privacy.streams import poisson, repeated, sampling, stream


def once(noise):
    return stream([Gaussian(noise)])


@settings(max_examples=15, deadline=None)
@given(
    log_target=st.floats(min_value=-1.5, max_value=1.5),
    rate=st.sampled_from([1e-3, 0.02, 0.3, 1.0]),
    count=st.integers(min_value=1, max_value=2000),
    law=st.sampled_from(["gaussian", "laplace"]),
    relation=st.sampled_from(["add-remove", "replace-one"]),
)
def test_calibrated_noise_meets_the_target(log_target, rate, count, law, relation):
    target = 10**log_target

    def releases_at(s):
        return poisson(s, rate, count, law, relation)

    scale = calibrate(releases_at, target, 1e-5)
    assert epsilon(releases_at(scale), 1e-5) <= target
    assert epsilon(releases_at(0.99 * scale), 1e-5) > 0.985 * target


def test_calibration_matches_the_closed_form_of_gaussians():
    scale = calibrate(lambda s: repeated(Gaussian(s), 50), 2.0, 1e-5)
    exact = math.sqrt(50) / epsilon_to_mu(2.0, 1e-5)
    assert exact <= scale <= 1.005 * exact


def test_dynamic_schedule():
    mus = paper_mu0(1.0, 1e-4, 1 / 2500, 3500, 3.0) * 3.0 ** (np.arange(3500) / 3500)

    def releases_at(s):
        return stream([Gaussian(s / mu) for mu in mus], sampling("poisson", 1 / 2500))

    scale = calibrate(releases_at, 1.0, 1e-4)
    assert 0.99 <= epsilon(releases_at(scale), 1e-4) <= 1.0


def test_calibration_from_any_start_and_with_fixed_parts():
    for start in (1e-4, 1e5):
        assert calibrate(once, 1.0, 1e-5, start=start) == pytest.approx(3.7384, rel=0.005)
    past = [Gaussian(20.0)] * 5
    scale = calibrate(lambda s: stream([*past, Gaussian(s)]), 1.0, 1e-5)
    assert 0.99 <= epsilon(stream([*past, Gaussian(scale)]), 1e-5) <= 1.0


@pytest.mark.parametrize(
    ("target", "delta"),
    [(0, 1e-5), (-1, 1e-5), (math.inf, 1e-5), (math.nan, 1e-5), (1, 0), (1, 1), (1, -1), (1, math.nan)],
)
def test_impossible_targets(target, delta):
    with pytest.raises(TacitError):
        calibrate(once, target, delta)


def test_unreachable_targets():
    with pytest.raises(TacitError, match="No amount of noise"):
        calibrate(lambda s: once(1.0), 0.5, 1e-5)
    with pytest.raises(TacitError, match="nothing to calibrate"):
        calibrate(lambda s: [], 0.5, 1e-5)
