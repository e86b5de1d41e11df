"""What a client computes from its signals, and releases if there is noise: one of two statistics.

- `differences`, as in the paper: z̄, the mean squared differences of signals clipped to norm C (`Signals.mean`).
- `gram`: Σ x̂ x̂ᵀ over the signals x, each centred and scaled to norm 1. It needs no clip (`Signals.gram`).

Let G be the Gram matrix of N unit signals on d vertices. Its squared differences

    z_ij = (G_ii + G_jj − 2 G_ij) d/N

are those of signals with mean square 1. They are 2d/(d − 1) on average, whatever the units of the signals, and so do
β, ρ and λ not depend on these units. The weights of the learned graphs do not show how large the signals are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.graph_learning.differences import centred_signals
from tacit.graph_learning.triangle import to_triangle
from tacit.privacy import Array, Bounded, Relation, ReleaseContext
from tacit.tasks import Dataset, Gram, Target, gram_matrix
from tacit.tasks.statistics import MAX_RECORDS, bounded_total

StatisticName = Literal["gram", "differences"]
PURPOSES: dict[StatisticName, str] = {"differences": "mean of squared differences", "gram": "Gram matrix of signals"}
RELEASED: dict[StatisticName, str] = {
    "differences": "the mean of its signals' squared differences, clipped",
    "gram": "the Gram matrix of its signals, each centred and scaled to norm 1",
}


def default_statistic(*, private: bool, release: str, clip: float | None) -> StatisticName:
    """Return the statistic of a run for which none was chosen.

    The Gram matrix has less noise, so it is used if noise is added once. A clip has a meaning for squared differences
    only, so who gives one gets these. Without noise the statistic is that of the paper.

    >>> default_statistic(private=True, release="once", clip=None)
    'gram'
    >>> default_statistic(private=True, release="once", clip=20.0)
    'differences'
    """
    return "gram" if private and release == "once" and clip is None else "differences"


def bounded_gram(clients: Sequence[Array], relation: Relation, step: int, context: ReleaseContext) -> Bounded:
    """Return the triangle (n, d (d + 1) / 2) of every client's Σ x̂ x̂ᵀ as `Gram` arranges it, with its sensitivity.

    Privacy:
        x̂ is computed from x alone. It has norm at most 1 for all finite x, and is 0 if x is constant. The sum, its
        rounding and its sensitivity are those of `tacit.tasks.statistics.Gram`: √2 if a signal is replaced. N_i is
        public, so the division by it is post-processing.
    """
    unit = torch.from_numpy(np.concatenate([unit_signals(x) for x in clients]))
    target = torch.zeros(len(unit))
    data = Dataset("signals", unit, target, unit[:0], target[:0], Target("number", range=(0.0, 1.0)))
    ends = np.cumsum([len(x) for x in clients])
    shards = np.split(np.arange(len(unit)), ends[:-1])
    return bounded_total(Gram(), data, shards, step, PURPOSES["gram"], relation, context)


def unit_signals(x: Array) -> npt.NDArray[np.float32]:
    """Return signals (N, d) minus their mean over the vertices, times a power of two that makes them longer than 1.

    The statistic scales every record that is longer than 1 to norm 1. Constant signals are 0.

    >>> unit_signals(np.array([[0.0, 2.0**-999], [7.0, 7.0]]))
    array([[-1.,  1.],
           [ 0.,  0.]], dtype=float32)
    """
    return (2 * centred_signals(x)[0]).astype(np.float32)


def gram_differences(triangle: Tensor, sizes: npt.NDArray[np.int64]) -> Tensor:
    """Return z (n, p) of Gram matrices in the form of `bounded_gram`, for the numbers of signals N_i (n,).

    Noise can make entries negative.
    """
    gram = gram_matrix(triangle)
    own = gram.diagonal(dim1=1, dim2=2)
    z = to_triangle(own[:, :, None] + own[:, None, :] - 2 * gram)
    return z * (gram.shape[1] / torch.from_numpy(sizes).to(z.dtype))[:, None]


def check_statistic(statistic: StatisticName, private: bool, clip: float | None, sizes: npt.NDArray[np.int64]) -> None:
    """Raise a `TacitError` if the statistic does not fit the clip or the numbers of signals. All of them are public."""
    if statistic == "differences":
        if private and clip is None:
            raise TacitError(
                "Noise on squared differences needs a clip: set clip, a bound on their norm for one signal. "
                'Choose it without looking at the signals. Or set statistic = "gram" and release = "once", without clip'
            )
        return
    if clip is not None:
        raise TacitError(
            f'clip = {clip:g} has no effect with statistic = "gram", which scales every signal to norm 1: '
            'remove clip, or set statistic = "differences"'
        )
    if (most := int(sizes.max())) > MAX_RECORDS:
        raise TacitError(
            f'statistic = "gram" is for at most {MAX_RECORDS:,} signals per client, got {most:,}: '
            'set statistic = "differences" and a clip'
        )
