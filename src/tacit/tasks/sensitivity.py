"""How far one record moves a mean of clipped gradients."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tacit.tasks.clip import Clip
from tacit.tasks.sampling import Sampler


def mean_gradient_sensitivity(
    clip: Clip, sampler: Sampler, sizes: npt.NDArray[np.int64], *, exact_parameters: bool
) -> npt.NDArray[np.float64]:
    """Return the sensitivity (n,) of each node's mean gradient to one record.

    It is C / B if a record is added or removed and 2C / B if it is replaced. A clipped *batch* can change by 2C.
    If some parameters are trained without noise, a record influences them and through them the gradients of all
    other records. Each of these can then change by 2C.

    Args:
        clip: The bound C, per record or per batch.
        sampler: Draws the batches. The mean is the sum divided by the expected batch size B.
        sizes: (n,) number of records per node.
        exact_parameters: Whether some parameters of a node are trained without noise.
    """
    bound = np.broadcast_to(np.asarray(clip.bound, np.float64), (len(sizes),))
    if clip.per == "batch":
        return 2.0 * bound
    added = sampler.sampling.relation == "add-remove"
    if not exact_parameters:
        return (1.0 if added else 2.0) * bound / sampler.batch
    return (2.0 * sampler.max_batch + (1.0 if added else 0.0)) * bound / sampler.batch
