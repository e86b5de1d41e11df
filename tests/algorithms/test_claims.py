"""Dyn-D²P's formulas for ε, and the guarantee for comparison."""

import math

import numpy as np
import pytest

from tacit.algorithms.d2p_privacy import clt_mu, dyn_d2p_claim, paper_mu0
from tacit.errors import TacitError
from tacit.privacy import epsilon, epsilon_to_mu
from tests.privacy.streams import poisson


@pytest.mark.parametrize(("claimed", "really"), [(0.3, 0.67), (0.7, 2.2), (1.0, 3.02), (3.0, 5.76)])
def test_claim_is_smaller_than_the_guarantee(claimed, really):
    mu = paper_mu0(claimed, 1e-4, 1 / 2500, 3500)
    assert dyn_d2p_claim(1 / 2500, [mu] * 3500, 1e-4) == pytest.approx(claimed)
    assert epsilon(poisson(1 / mu, 1 / 2500, 3500), 1e-4) == pytest.approx(really, rel=0.02)


def test_equation_6_is_the_sum_of_its_terms():
    mus = [0.5, 1.0, 1.5]
    assert clt_mu(0.2, mus) == pytest.approx(0.2 * math.sqrt(sum(math.exp(m * m) - 1 for m in mus)))
    assert clt_mu(0.1, [1000.0]) == math.inf
    assert clt_mu(0.1, []) == 0


@pytest.mark.parametrize("rho", [0.5, 1.0, 1.0001, 2.0, 30.0])
def test_calibration_solves_equation_8(rho):
    mu0 = paper_mu0(0.7, 1e-4, 1 / 3000, 500, rho)
    total = sum(math.exp((mu0 * rho ** (k / 500)) ** 2) - 1 for k in range(500))
    assert total == pytest.approx((3000 * epsilon_to_mu(0.7, 1e-4)) ** 2, rel=1e-8)


def test_wrong_parameters_are_refused():
    for wrong in (
        {"epsilon": 0.0},
        {"epsilon": np.nan},
        {"delta": 0.0},
        {"rate": 0.0},
        {"rate": 1.5},
        {"rounds": 0},
        {"rho_mu": 0.0},
    ):
        with pytest.raises(TacitError):
            paper_mu0(**({"epsilon": 1.0, "delta": 1e-4, "rate": 0.01, "rounds": 10, "rho_mu": 1.5} | wrong))
