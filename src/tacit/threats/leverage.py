"""How much of a node's noised gradient a view shows, never understated by rounding."""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr

from tacit.privacy.ledger import Array

_NEAR = 1e-9  # of the largest singular value: what is below is tried as a direction that the view does not contain
_MULTIPLES = 12  # of a vector, tried for one of whole numbers
_GRID = 1 / 64  # of its noise: released values are this far apart at most, see `tacit.privacy.noise.grid`
_SHORT = 0.5  # deviations of the hidden noise: on a grid so fine it is Gaussian to 30 digits
_MARGIN = 1e-7  # added to every leverage, more than rounding takes off it
_STEPS = 1e6  # leverages are rounded up to multiples of one over this, so that equal ones are found equal


def leverage(view: Array, noise: Array) -> Array:
    """c_i = s_i² e_iᵀ Bᵀ (B S² Bᵀ)⁺ B e_i for each node i, between 0 and 1: what the view B M shows of M_i.

    `view` is B (r, n), and `noise` has the deviations s of the nodes (n,). A value with noise multiplier m that only
    B M tells of is as well protected as one with multiplier m / √c that is told as it is.

    c_i is the i-th diagonal entry of the projection on the rows of B S, so 1 less that on what is orthogonal to them:
    S⁻¹ v for all v with B v = 0, the noise that the view does not contain. Values are released on a grid, so only v of
    small whole numbers hide anything; each is tried, and what is doubtful counts as shown.

    >>> leverage(np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]), np.ones(3)).round(5)
    array([0.5, 0.5, 1. ])
    >>> leverage(np.array([[1.0, 1.0, 0.0]]), np.array([1.0, 3.0, 1.0])).round(5)
    array([0.1, 0.9, 0. ])
    """
    unseen = _unseen(view)
    longest = _SHORT / (_GRID * noise.max())  # the grids are powers of two: all have the coarsest one's points
    with np.errstate(divide="ignore", invalid="ignore"):  # next to no noise hides nothing
        unseen = unseen[np.linalg.norm(unseen / noise, axis=1) <= longest]
    hidden, _ = np.linalg.qr((unseen / noise).T)
    shown: Array = np.ceil((1 - np.square(hidden).sum(axis=1) + _MARGIN) * _STEPS) / _STEPS
    return np.where((view == 0).all(axis=0), 0.0, np.minimum(shown, 1.0))


def _unseen(view: Array) -> Array:
    """Independent vectors v of whole numbers, as rows, with B v = 0: all there are, or some."""
    nodes = view.shape[1]
    _, values, right = np.linalg.svd(view)
    found = right[np.pad(values, (0, nodes - len(values))) <= _NEAR * values[0]]
    if not len(found):
        return np.empty((0, nodes))
    _, pivots = qr(found, mode="r", pivoting=True)
    basis = np.linalg.solve(found[:, pivots[: len(found)]], found)
    for multiple in range(_MULTIPLES, 0, -1):  # the least that fits is taken last
        fits = (abs(multiple * basis - np.round(multiple * basis)) < 1e-6).all(axis=1)
        found[fits] = np.round(multiple * basis[fits])
    left = abs(view @ found.T).max(axis=0)
    sure = left <= nodes * np.finfo(np.float64).eps * abs(view).max() * abs(found).sum(axis=1)
    unseen: Array = found[sure & (found == np.round(found)).all(axis=1)]
    return unseen
