"""`Network.diameter`: a measurement that only a simulation can make."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.graphs import ring
from tacit.networks import Network, Simulated, run_on_threads


@given(st.integers(1, 7), st.integers(1, 30), st.sampled_from([torch.float32, torch.float64]), st.integers(0, 99))
def test_diameter_is_the_largest_distance_of_two_nodes(nodes, d, dtype, seed):
    x = torch.from_numpy(np.random.default_rng(seed).normal(size=(nodes, d))).to(dtype)
    naive = max(float((u - v).abs().sum()) for u in x.double() for v in x.double())
    assert Simulated(ring(nodes)).diameter(x) == pytest.approx(naive, rel=1e-5)


def test_diameter_on_threads_equals_simulation_and_is_not_counted():
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 9)))
    whole = Simulated(ring(4))
    found = run_on_threads(ring(4), lambda network: (network.diameter(x[network.nodes]), network.traffic.messages))
    assert found == [(whole.diameter(x), 0)] * 4
    assert whole.traffic.messages == 0


def test_diameter_of_long_vectors_is_precise():
    # A sum that runs in single precision stops growing: it would hide that an estimate is violated.
    x = torch.full((2, 11_000_000), 0.01)
    x[1] = -0.01
    assert Simulated(ring(2)).diameter(x) == pytest.approx(0.02 * 11e6, rel=1e-4)


def test_diameter_needs_a_simulation():
    class Real(Network):
        _mix = _swap = _max = _mean = None

    with pytest.raises(TacitError, match="measured in a simulation only"):
        Real(ring(3)).diameter(torch.zeros(3, 1))
    assert not Real.omniscient
