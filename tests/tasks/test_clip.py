"""Clip norms: rows stay within their bound, exactly, for every registered norm."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.tasks import Clip, clip_norms

NORMS = list(clip_norms)


def row_norms(g, norm):
    return g.norm(p=Clip(1.0, norm).degree, dim=1)


@pytest.mark.parametrize("norm", NORMS)
@given(bound=st.floats(1e-3, 1e3), scale=st.floats(0, 1e6), seed=st.integers(0, 99))
def test_rows_stay_within_the_bound_and_keep_their_direction(norm, bound, scale, seed):
    g = scale * torch.randn(4, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    clipped = Clip(bound, norm).clip_rows(g)
    assert (row_norms(clipped, norm) <= bound * (1 + 1e-12)).all()
    factor = Clip(bound, norm).factor(row_norms(g, norm))
    largest = 100 * bound if norm.startswith("automatic") else 1  # automatic clipping lengthens short gradients
    assert ((factor > 0) & (factor <= largest)).all()
    torch.testing.assert_close(clipped, g * factor[:, None])


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_small_gradients_are_not_changed(norm):
    g = torch.rand(3, 5)
    assert torch.equal(Clip(100.0, norm).clip_rows(g), g)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [1, 7, 64, 129, 1000, 300_000])
def test_rounding_never_exceeds_the_bound(norm, dtype, d):
    random, n = torch.Generator().manual_seed(d), max(3, 10_000 // d)
    bound = torch.rand(n, generator=random, dtype=dtype) + 0.01
    # A sequential sum of equal numbers has the largest rounding error.
    for g in (torch.randn(n, d, generator=random), torch.rand(n, 1, generator=random).repeat(1, d)):
        for row, most in zip(Clip(bound, norm).clip_rows(1e9 * g.to(dtype)).double(), bound.tolist(), strict=True):
            degree = Clip(1.0, norm).degree
            size = math.fsum(row.abs().pow(degree).tolist()) ** (1 / degree)
            assert (1 - (1e-5 if norm in ("l1", "l2") else 1e-2)) * most <= size <= most


def test_smooth_clip_formula():
    torch.testing.assert_close(Clip(2.0, "smooth").factor(torch.tensor([0.0, 2.0, 6.0])), torch.tensor([1, 0.5, 0.25]))


@pytest.mark.parametrize("norm", ["automatic", "automatic-l1"])
def test_automatic_clip_formula(norm):
    factor = Clip(2.0, norm).factor(torch.tensor([0.0, 0.01, 0.99, 199.99], dtype=torch.float64))
    torch.testing.assert_close(factor, torch.tensor([200, 100, 2, 0.01], dtype=torch.float64))


@given(
    bound=st.floats(1e-3, 1e3), scales=st.lists(st.floats(1e-12, 1e9), min_size=2, max_size=8), seed=st.integers(0, 99)
)
def test_a_record_moves_an_automatically_clipped_sum_by_at_most_the_bound(bound, scales, seed):
    g = torch.randn(len(scales), 9, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    g *= torch.tensor(scales, dtype=torch.float64)[:, None]
    for norm in ("automatic", "automatic-l1"):
        clip = Clip(bound, norm)
        clipped = clip.clip_rows(g)
        moved = (clipped.sum(0) - clipped[1:].sum(0)).norm(p=clip.degree)
        replaced = (clipped.sum(0) - clipped[1:].sum(0) + clipped[1]).norm(p=clip.degree)
        assert moved <= bound * (1 + 1e-9)
        assert replaced <= 2 * bound * (1 + 1e-9)


def test_the_automatic_clip_has_the_same_bound_norm_and_unit():
    for name, automatic in {"l2": "automatic", "smooth": "automatic", "l1": "automatic-l1"}.items():
        clip = Clip(3.0, name, "batch")
        assert clip.automatic() == Clip(3.0, automatic, "batch")
        assert clip.automatic().order == clip.order


@pytest.mark.parametrize("norm", NORMS)
def test_factors_of_zero_nan_and_infinity(norm):
    factor = Clip(1.0, norm).factor(torch.tensor([0.0, math.nan, math.inf]))
    assert factor[0] == (pytest.approx(100, rel=1e-4) if norm.startswith("automatic") else 1)
    assert factor[1].isnan()
    assert factor[2] == 0
    assert torch.equal(Clip(1.0, norm).clip_rows(torch.zeros(2, 3)), torch.zeros(2, 3))
    assert Clip(1.0, norm).clip_rows(torch.tensor([[math.inf, 1.0]])).isnan().any()


def test_one_bound_per_node():
    clip = Clip(torch.tensor([1.0, 2.0]))
    torch.testing.assert_close(clip.factor(torch.full((2, 3), 4.0)), torch.tensor([[0.25] * 3, [0.5] * 3]))
    torch.testing.assert_close(clip.for_nodes(slice(1, 2)).factor(torch.tensor([4.0])), torch.tensor([0.5]))
    assert Clip(1.0).for_nodes(slice(0, 1)) == Clip(1.0)
    assert clip.factor(torch.ones(2, dtype=torch.float64)).dtype == torch.float64


def test_norm_of_the_sensitivity():
    assert [Clip(1.0, norm).order for norm in ("l1", "l2", "smooth")] == ["l1", "l2", "l2"]


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan, torch.tensor([1.0, 0.0]), torch.tensor(1.0)])
def test_invalid_bounds_are_refused(bound):
    with pytest.raises(TacitError, match="positive and finite"):
        Clip(bound)


def test_unknown_names_are_refused():
    with pytest.raises(TacitError, match='unknown clip norm "l3"'):
        Clip(1.0, "l3")
    with pytest.raises(TacitError, match='got "epoch"'):
        Clip(1.0, per="epoch")
