"""The grid to which noised values are rounded, and the scales of noise for which it is fine enough."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from tacit.errors import TacitError

_GRID_BITS = 6  # by which the grid of released values is finer than the noise; 2^17 floats share a cell in float32


def grid(scale: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the step of the grid for values with noise of this scale: a power of two, 64 to 128 times smaller.

    Rounding adds step²/12 to the variance, at most 0.00002 of that of Gaussian noise. Without noise there is no grid.

    >>> grid(np.array([1.0, 3.0, 0.01, 0.0])).tolist()
    [0.015625, 0.03125, 0.0001220703125, 0.0]
    """
    return np.where(scale > 0, np.ldexp(1.0, np.frexp(scale)[1] - 1 - _GRID_BITS), 0.0)


def check_scale(scale: npt.NDArray[np.float64], dtype: torch.dtype, nodes: npt.NDArray[np.int64]) -> None:
    """Refuse scales at which squares of the noise underflow or overflow."""
    most = 2.0 ** (50 if dtype == torch.float32 else 400)
    wrong = np.flatnonzero(~((scale >= 1 / most) & (scale <= most) | (scale == 0)))
    if len(wrong):
        raise TacitError(
            f"The noise of node {nodes[wrong[0]]} has scale {scale[wrong[0]]:.3g}, which must be between "
            f"{1 / most:.1g} and {most:.1g}: use other units for the data or the clip bound"
        )
