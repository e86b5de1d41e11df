import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.tasks.clip import Clip

NORMS = {"l2": lambda g: g.norm(dim=1), "l1": lambda g: g.abs().sum(dim=1), "smooth": lambda g: g.norm(dim=1)}


@pytest.mark.parametrize("norm", ["l2", "l1", "smooth"])
@given(bound=st.floats(1e-3, 1e3), scale=st.floats(0, 1e6), seed=st.integers(0, 99))
def test_rows_stay_within_the_bound_and_keep_their_direction(norm, bound, scale, seed):
    g = scale * torch.randn(4, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    clipped = Clip(bound, norm).rows(g)
    assert (NORMS[norm](clipped) <= bound * (1 + 1e-12)).all()
    factor = Clip(bound, norm).factor(NORMS[norm](g))
    assert ((factor > 0) & (factor <= 1)).all()
    torch.testing.assert_close(clipped, g * factor[:, None])


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_small_gradients_are_left_alone(norm):
    g = torch.rand(3, 5)
    assert torch.equal(Clip(100.0, norm).rows(g), g)


@pytest.mark.parametrize("norm", ["l2", "l1", "smooth"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [1, 7, 64, 129, 1000, 300_000])
def test_no_rounding_takes_a_row_beyond_its_bound(norm, dtype, d):
    random, n = torch.Generator().manual_seed(d), max(3, 10_000 // d)
    bound = torch.rand(n, generator=random, dtype=dtype) + 0.01
    # A sum of equal numbers, taken one by one, errs most.
    for g in (torch.randn(n, d, generator=random), torch.rand(n, 1, generator=random).repeat(1, d)):
        for row, most in zip(Clip(bound, norm).rows(1e9 * g.to(dtype)).double(), bound.tolist(), strict=True):
            size = math.fsum(row.abs().tolist()) if norm == "l1" else math.sqrt(math.fsum(row.square().tolist()))
            assert (1 - (1e-2 if norm == "smooth" else 1e-5)) * most <= size <= most


def test_smooth_formula():
    torch.testing.assert_close(Clip(2.0, "smooth").factor(torch.tensor([0.0, 2.0, 6.0])), torch.tensor([1, 0.5, 0.25]))


@pytest.mark.parametrize("norm", ["l2", "l1", "smooth"])
def test_zero_nan_and_infinity(norm):
    factor = Clip(1.0, norm).factor(torch.tensor([0.0, math.nan, math.inf]))
    assert factor[0] == 1
    assert factor[1].isnan()
    assert factor[2] == 0
    assert torch.equal(Clip(1.0, norm).rows(torch.zeros(2, 3)), torch.zeros(2, 3))
    assert Clip(1.0, norm).rows(torch.tensor([[math.inf, 1.0]])).isnan().any()


def test_a_bound_for_each_node():
    clip = Clip(torch.tensor([1.0, 2.0]))
    torch.testing.assert_close(clip.factor(torch.full((2, 3), 4.0)), torch.tensor([[0.25] * 3, [0.5] * 3]))
    torch.testing.assert_close(clip.at(slice(1, 2)).factor(torch.tensor([4.0])), torch.tensor([0.5]))
    assert Clip(1.0).at(slice(0, 1)) == Clip(1.0)
    assert clip.factor(torch.ones(2, dtype=torch.float64)).dtype == torch.float64


def test_order():
    assert [Clip(1.0, norm).order for norm in ("l1", "l2", "smooth")] == ["l1", "l2", "l2"]


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan, torch.tensor([1.0, 0.0]), torch.tensor(1.0)])
def test_bad_bounds(bound):
    with pytest.raises(TacitError, match="positive and finite"):
        Clip(bound)


def test_bad_names():
    with pytest.raises(TacitError, match='not "l3"'):
        Clip(1.0, "l3")
    with pytest.raises(TacitError, match='not "epoch"'):
        Clip(1.0, per="epoch")
