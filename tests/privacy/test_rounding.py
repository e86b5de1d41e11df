"""Released values lie on a grid that does not depend on the data, and the last bits of floats reveal nothing."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tacit.errors import TacitError
from tacit.privacy import Bounded, Gaussian, Laplace, Ledger, ReleaseContext, Sampling, Unproven
from tacit.privacy.noise import Noise, _rounded
from tacit.privacy.noise_grid import grid

LAWS = {"gaussian": (Gaussian, stats.norm), "laplace": (Laplace, stats.laplace)}
SCALES = np.array([1e-3, 1.0, 3.7, 2.0**-20, 1e6])


def to_release(value, scale, *, seed=0, nodes=None):
    """Released with a multiplier of 1, it gets noise of this scale."""
    nodes = np.arange(len(value)) if nodes is None else nodes
    context = ReleaseContext(nodes, Ledger(), Noise.from_seed(seed))
    context.ledger.open(0, "value")
    return Bounded(value, scale, "l1", Sampling("none", np.ones(len(value)), "replace-one"), 0, "value", context)


def released(law, value, scale, **more):
    return LAWS[law][0](1.0).release(to_release(value.clone(), np.broadcast_to(scale, len(value)), **more))


def rounded(x, scale):
    """What rounding makes of x by itself."""
    x = x.clone()
    for _ in _rounded(x, np.broadcast_to(scale, len(x)), np.arange(len(x))):
        pass
    return x


def naive(x, scale):
    """The same in exact arithmetic, one number at a time; Python rounds halves to even."""
    step = Fraction(2)
    while step * 64 > Fraction(scale):
        step /= 2
    while step * 128 <= Fraction(scale):
        step *= 2
    return float(round(Fraction(x) / step) * step)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("law", LAWS)
def test_released_values_lie_on_the_grid_of_their_node(law, dtype):
    rng = np.random.default_rng(0)
    value = torch.from_numpy(rng.normal(size=(5, 3000)) * 100.0 ** rng.uniform(-2, 2, (5, 3000)) * SCALES[:, None])
    found = released(law, value.to(dtype), SCALES).double().numpy() / grid(SCALES)[:, None]  # exact: a power of two
    assert (found == np.round(found)).all()
    assert all(len(np.unique(row)) > 500 for row in found)
    assert ((SCALES / grid(SCALES) >= 64) & (SCALES / grid(SCALES) < 128)).all()


@given(data=st.data(), dtype=st.sampled_from([torch.float32, torch.float64]), scale=st.floats(1e-12, 1e12))
def test_rounding_is_that_of_exact_arithmetic_bit_for_bit(data, dtype, scale):
    step, width = float(grid(np.array([scale]))[0]), 32 if dtype == torch.float32 else 64
    most = data.draw(st.sampled_from([2.0**-10, 1, 4])) * (0.5 / torch.finfo(dtype).eps - 1) * step
    halves = st.integers(-(2**20), 2**20).map(lambda k: (k + 0.5) * step)  # ties
    x = data.draw(st.lists(st.floats(-most, most, width=width) | halves, min_size=1, max_size=20))
    found = rounded(torch.tensor([x], dtype=dtype), scale)
    expected = [naive(float(v), scale) for v in torch.tensor(x, dtype=dtype)]
    assert found[0].tolist() == expected
    assert not found[found == 0].signbit().any()  # -0 would tell the sign of what was rounded


def test_last_bits_reveal_unrounded_sums_but_not_released_values():
    """Mironov's attack: 1 + N near 0 has the resolution of an N near −1; 0 + N near 0 has a finer one."""

    def says_one(x):
        near = x[x.abs() < 2.0**-3].double() * 2.0**24
        return float((near == near.round()).double().mean())

    rng, count = np.random.default_rng(0), 200_000
    plain = torch.from_numpy(rng.normal(size=(2, count)).astype(np.float32))
    plain[1] += 1.0
    assert says_one(plain[1]) > 0.99
    assert says_one(plain[0]) < 0.3
    worlds = torch.tensor([[0.0], [1.0]]).repeat(1, count)
    for law in LAWS:
        x = released(law, worlds, 1.0)
        assert says_one(x[0]) == says_one(x[1]) == 1.0
        # Where both worlds are likely to end, both reach every point of the grid.
        points = [set((row[(row > -0.5) & (row < 1.5)] * 64).tolist()) for row in x]
        assert points[0] == points[1]
        assert len(points[0]) == 127


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("value", [0.0, 1.0, 1 / 3, -1e-5])
def test_grid_points_have_the_probabilities_of_the_exact_law(law, value):
    """So no test of what was released, by last bits or otherwise, does better than one against ideal noise."""
    x = released(law, torch.full((4, 500_000), value), 1.0, seed=1).double().numpy().ravel()
    edges = (np.arange(-256, 257) + 0.5) / 64
    counts = np.histogram(x, edges)[0]
    expected = len(x) * np.diff(LAWS[law][1].cdf(edges - np.float32(value)))
    inside = stats.chisquare(np.append(counts, len(x) - counts.sum()), np.append(expected, len(x) - expected.sum()))
    assert inside.pvalue > 1e-3
    even = np.arange(512) % 2 == 0  # ties go to even: that must not show
    assert abs(counts[even].sum() - expected[even].sum()) < 4 * np.sqrt(len(x)) / 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("law", LAWS)
def test_rounding_keeps_the_law_and_its_variance(law, dtype):
    for scale in (0.7, 1.0, 1.99):
        x = released(law, torch.zeros(1, 400_000, dtype=dtype), scale)[0].double().numpy() / scale
        jitter = np.random.default_rng(0).uniform(-0.5, 0.5, len(x)) * grid(np.array([scale])) / scale
        assert stats.kstest(x + jitter, LAWS[law][1].cdf).pvalue > 1e-3
        assert x.var() == pytest.approx(LAWS[law][1].var(), rel=0.02)


@pytest.mark.parametrize("law", LAWS)
def test_released_values_do_not_depend_on_other_hosted_nodes(law, monkeypatch):
    monkeypatch.setattr("tacit.privacy.noise._CHUNK_SAMPLES", 70)
    monkeypatch.setattr("tacit.privacy.noise._NODE_SAMPLES", 32)
    value = torch.from_numpy(np.random.default_rng(0).normal(size=(5, 77)) * SCALES[:, None]).float()
    together = released(law, value, SCALES)
    for i in range(5):
        alone = released(law, value[i : i + 1], SCALES[i], nodes=np.array([i]))
        assert torch.equal(together[i], alone[0])


def test_values_too_large_for_their_noise_are_clamped():
    """A refusal would reveal that the value was so large."""
    value = torch.zeros(3, 10)
    value[1, 4] = 2.0**19
    scale, nodes = np.array([1.0, 1.0, 2.0]), np.array([4, 7, 9])
    limit = 2.0**18
    assert Gaussian(1.0).release(to_release(value.clone(), scale, nodes=nodes))[1, 4] == limit
    for large in (1e38, math.inf, -1e38, -math.inf):
        value[1, 4] = large
        assert Gaussian(1.0).release(to_release(value.clone(), scale, nodes=nodes))[1, 4] == math.copysign(limit, large)
    value[1, 4] = 2.0**17
    assert released("gaussian", value, scale, nodes=nodes).isfinite().all()


def test_unproven_releases_accept_values_of_any_size():
    value = torch.tensor([[1e12, 1e6 / 3, 0.3]])
    found = Unproven(Laplace(1.0)).release(to_release(value.clone(), np.ones(1)))[0].double()
    assert found[0] == value[0, 0]
    assert ((found * 64) == (found * 64).round()).all()


def test_floats_separate_all_grid_points_up_to_the_limit():
    for dtype in (torch.float32, torch.float64):
        most = 2 / torch.finfo(dtype).eps / 64
        below = torch.tensor([[most - 1 / 64, 1 / 64 - most, most / 8 - 7 / 256, 0.3, -0.001]], dtype=dtype)
        assert rounded(below, 1.0).tolist() == [[most - 1 / 64, 1 / 64 - most, most / 8 - 1 / 32, 19 / 64, 0.0]]
        for x in (most, -most, most + 1 / 64, 100 * most):
            assert rounded(torch.tensor([[x]], dtype=dtype), 1.0).item() == math.copysign(most, x)


def test_a_value_that_is_not_a_number_is_released_as_zero_with_noise():
    """Its absence, or a zero without noise, would reveal it."""
    value = torch.zeros(2, 5)
    expected = released("gaussian", value, 1.0)
    value[1, 3] = math.nan
    assert torch.equal(released("gaussian", value, 1.0), expected)


@pytest.mark.parametrize("scale", [1e-38, 1e-16, 1e30, np.inf, np.nan, -1.0])
def test_noise_scales_outside_single_precision_are_refused(scale):
    with pytest.raises(TacitError, match=r"noise of node 1 has scale .* between 9e-16 and 1e\+15"):
        released("gaussian", torch.zeros(2, 3), np.array([1.0, scale]))


@pytest.mark.parametrize("scale", [1e-15, 1e15])
@pytest.mark.parametrize("law", LAWS)
def test_noise_at_the_smallest_and_largest_scale(law, scale):
    x = released(law, torch.zeros(1, 100_000), scale)[0].double().numpy() / scale
    assert stats.kstest(x, LAWS[law][1].cdf).pvalue > 1e-3


def test_values_with_sensitivity_0_stay_exact():
    value = torch.tensor([[0.1, 1e9], [0.1, 0.2]])
    found = released("laplace", value, np.array([0.0, 1.0]))
    assert torch.equal(found[0], value[0])
    assert not torch.equal(found[1], value[1])
