"""How much of a node's noised gradient a view shows, never understated by rounding errors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr

Array = npt.NDArray[np.float64]

_NULL_TOLERANCE = (
    1e-9  # relative to the largest singular value: below it, a direction is a candidate for v with B v = 0
)
_MAX_DENOMINATOR = 12  # factors up to this one are tested for making a candidate whole
_GRID = 1 / 64  # released values lie on a grid with at most this step, relative to the noise (docs/floating-point.md)
_MAX_LENGTH = 0.5  # standard deviations of the hidden noise: on so fine a grid it is Gaussian to 30 digits
_MARGIN = 1e-7  # added to every leverage: more than rounding errors take away
_RESOLUTION = 1e6  # leverages are rounded up to multiples of 1/_RESOLUTION, so that equal ones compare equal


def leverage(view: Array, noise: Array, covariance: Array | None = None) -> Array:
    """Return c_i = s_i² e_iᵀ Bᵀ (B S² Bᵀ)⁺ B e_i in [0, 1] for every node i: how much B M shows of M_i.

    A value with noise multiplier m that is seen only through B M is protected as well as a value with noise
    multiplier m / √c_i that is seen directly (theorem in docs/threat-models.md).

    c_i is the i-th diagonal entry of the projection on the row space of B S. That is 1 minus the diagonal of
    the projection on its orthogonal complement: S⁻¹ v for all v with B v = 0, the noise that the view does
    not contain. Released values lie on a grid, so only vectors v of small whole numbers hide anything. Each
    candidate is checked; a doubtful one counts as visible.

    Formal guarantee: the result is never below c_i, if every entry of B is known to a few units in its last
    place. The vectors v span a part of the complement, so that the projection on them can only be too small.
    They are independent: each has a whole number in a column in which all others are 0. If the greatest
    noise is 1, that entry of S⁻¹ v is at least 1, and no S⁻¹ v is longer than 32. So the condition number of k such
    vectors is at most 32 √k, and the projection is accurate to far more digits than the margin allows for.

    If the noise of nodes is correlated, its covariance Σ takes the place of S²: c_i is e_iᵀ Bᵀ (B Σ Bᵀ)⁺ B e_i relative
    to [Σ⁻¹]_ii, which is what a view of all messages shows. The vectors F v with Σ⁻¹ = Fᵀ F then take the place of
    S⁻¹ v. Since Σ is at least the own noise of each node, F v is no longer than S⁻¹ v, and the condition number grows
    by at most √(λ_max(Σ)) / min s.

    Args:
        view: B (rows, n).
        noise: The standard deviations s (n,) of the nodes' own noise.
        covariance: Σ (n, n) of the nodes' noise, if it is correlated.

    >>> leverage(np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]), np.ones(3)).round(5)
    array([0.5, 0.5, 1. ])
    >>> leverage(np.array([[1.0, 1.0, 0.0]]), np.array([1.0, 3.0, 1.0])).round(5)
    array([0.1, 0.9, 0. ])
    """
    null, unit = _whole_null_vectors(view), np.eye(len(noise))
    if covariance is None:
        with np.errstate(divide="ignore", invalid="ignore"):  # a node with almost no noise hides nothing
            noised = np.where(null == 0, 0.0, null / (noise / noise.max()))
    else:  # all nodes round to the grid of the least noise
        whitening = np.linalg.inv(np.linalg.cholesky(covariance / noise.min() ** 2))
        noised, unit = null @ whitening.T, whitening / np.linalg.norm(whitening, axis=0)
    # Steps of grids are powers of two, so that each grid contains the coarsest.
    hiding = noised[np.linalg.norm(noised, axis=1) <= _MAX_LENGTH / _GRID]
    hidden, _ = np.linalg.qr(hiding.T)
    visible: Array = np.ceil((1 - np.square(hidden.T @ unit).sum(axis=0) + _MARGIN) * _RESOLUTION) / _RESOLUTION
    return np.where((view == 0).all(axis=0), 0.0, np.minimum(visible, 1.0))


def _whole_null_vectors(view: Array) -> Array:
    """Independent vectors v of whole numbers with B v = 0, one per row: as many as are found.

    Candidates are the rows of the reduced basis of the null space, which is the identity in the columns `pivots`, times
    the least factor that makes them whole. A row without such a factor is left out.
    """
    nodes = view.shape[1]
    rows = view[(view != 0).any(axis=1)]
    rows = np.ldexp(rows, -np.frexp(abs(rows).max(axis=1, initial=0.0, keepdims=True))[1])  # a small row shows as much
    _, values, right = np.linalg.svd(rows)
    null = right[np.pad(values, (0, nodes - len(values))) <= _NULL_TOLERANCE * values.max(initial=0.0)]
    if not len(null):
        return np.empty((0, nodes))
    _, pivots = qr(null, mode="r", pivoting=True)
    basis = np.linalg.solve(null[:, pivots[: len(null)]], null)
    whole = np.full_like(basis, np.nan)
    for factor in range(_MAX_DENOMINATOR, 0, -1):  # descending, so that the smallest that fits is kept
        fits = (abs(factor * basis - np.round(factor * basis)) < 1e-6).all(axis=1)
        whole[fits] = np.round(factor * basis[fits])
    whole = whole[np.isfinite(whole).all(axis=1)]
    # Relative to the entries that v selects: rounding changes each of them by a share of itself.
    is_null = abs(rows @ whole.T) <= nodes * np.finfo(np.float64).eps * (abs(rows) @ abs(whole).T)
    checked: Array = whole[is_null.all(axis=0)]
    return checked
