"""The clipped mean of squared differences against exact arithmetic, for all finite floats."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.graph_learning import Signals
from tacit.graph_learning.differences import mean_differences, mean_rounding_error
from tests.graph_learning.adversarial import MAX, TINY, rows

D = 4
EXTREME = [0.0, -0.0, MAX, -MAX, TINY, 1e154, -1e154, 1e-154, 1.0, 1 + 2**-52]
ROW = st.one_of(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=D, max_size=D),
    st.lists(st.sampled_from(EXTREME), min_size=D, max_size=D),
    st.sampled_from([row.tolist() for row in rows(D).values()]),
)
CLIP = st.sampled_from([1e-100, 1e-3, 1.0, 7.3, 1e6, 1e100])


def square_root(x):
    """√x of a fraction, to a relative precision of 2⁻²⁰⁰."""
    shift = max(0, 400 - x.numerator.bit_length() + x.denominator.bit_length())
    shift += shift % 2
    return Fraction(math.isqrt((x.numerator << shift) // x.denominator), 1 << shift // 2)


def exact_mean(table, clip):
    """The clipped mean in rational arithmetic; only the norm is rounded, beyond any float."""
    total = [Fraction(0)] * (D * (D - 1) // 2)
    for row in table:
        x = [Fraction(value) for value in row]
        z = [(x[i] - x[j]) ** 2 for i in range(D) for j in range(i + 1, D)]
        norm = square_root(sum(value**2 for value in z))
        share = min(Fraction(1), Fraction(clip) / norm) if norm else Fraction(1)
        total = [a + share * b for a, b in zip(total, z, strict=True)]
    return [value / len(table) for value in total]


def mean_of(table, clip):
    task = Signals([table], clip=clip)
    return task.mean(0).use_locally()[0].tolist(), Fraction(float(task.sensitivity[0]))


@settings(max_examples=200)
@given(table=st.lists(ROW, min_size=2, max_size=4), other=ROW, clip=CLIP)
@example(table=[[MAX] * D, [1.0] * D], other=[-MAX, MAX, -MAX, MAX], clip=1.0)
@example(table=[[1e16, 1e16 + 2, 1e16, 1e16]] * 2, other=[TINY, 0.0, 0.0, 0.0], clip=1e-100)
def test_replacing_any_row_moves_the_mean_by_at_most_the_sensitivity(table, other, clip):
    """Norms are computed without rounding. The sensitivity is larger than √2 C/N by rounding errors only."""
    a, sensitivity = mean_of(table, clip)
    b, _ = mean_of([other, *table[1:]], clip)
    assert sum((Fraction(x) - Fraction(y)) ** 2 for x, y in zip(a, b, strict=True)) <= sensitivity**2
    assert sensitivity < Fraction(math.sqrt(2) * clip / len(table)) * (1 + Fraction(1, 10**12))
    for found, row in ((a, table), (b, [other, *table[1:]])):
        exact = exact_mean(row, clip)
        assert max(abs(Fraction(x) - y) for x, y in zip(found, exact, strict=True)) <= Fraction(clip) / 10**12


@settings(max_examples=200)
@given(row=ROW, clip=CLIP)
def test_no_clipped_row_is_longer_than_the_clip(row, clip):
    z = mean_differences(np.array([row]), clip)
    norm = square_root(sum(Fraction(value) ** 2 for value in z.tolist()))
    assert norm <= Fraction(clip) * (1 + Fraction(mean_rounding_error(1)))


@pytest.mark.parametrize("n", [10, 1000, 40_000])
def test_rounding_error_of_the_mean_is_below_its_bound(n):
    """Against 64-bit mantissas, with all rows clipped."""
    x = np.random.default_rng(n).integers(-1000, 1000, size=(n, 8)).astype(np.longdouble)
    x[:, 4:] = -x[:, :4]  # the mean is 0, so that centring changes nothing
    clip = 1.0
    z = mean_differences(np.ldexp(x, 500).astype(np.float64), clip).astype(np.longdouble)
    first, second = np.triu_indices(8, 1)
    exact = (x[:, first] - x[:, second]) ** 2
    exact /= np.sqrt((exact**2).sum(1, keepdims=True))
    margin = 64 * np.finfo(float).eps * clip  # by which rows are shorter than the clip
    assert np.linalg.norm(z - exact.mean(0)) <= mean_rounding_error(n) * clip + margin
    assert mean_rounding_error(n) < 1e-13 * math.sqrt(n)


def test_without_a_clip_signals_that_overflow_are_refused():
    """Only without a clip, where nothing is private."""
    huge = np.array([[1e200, 0.0, 0.0], [1.0, 2.0, 3.0]])
    with pytest.raises(TacitError, match="their squares overflow"):
        Signals([huge]).mean(0)
    assert np.isfinite(Signals([huge], clip=1.0).mean(0).use_locally().numpy()).all()
    assert Signals([huge], clip=1.0).clipped_share.tolist() == [1.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 10**400, "1e400"])
def test_values_that_are_not_finite_are_refused_without_being_printed(bad):
    with pytest.raises(TacitError) as error:
        Signals([[[1.0, 2.0], [3.0, bad]]], clip=1.0)
    assert not {"nan", "inf", "1e400"} & set(str(error.value).lower().split())
    assert "0000" not in str(error.value)
