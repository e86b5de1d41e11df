"""The weight of each node in the mean over the network."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError

Weighting = Literal["equal", "records"]


def node_weights(
    weighting: Weighting, nodes: npt.NDArray[np.int64], network_sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return the weights (n,) of the given nodes: 1, or n m_i / Σ_j m_j, with m_j the records of node j of all n nodes.

    Args:
        weighting: "equal", or "records": each node counts as much as its share of the records of the network.
        nodes: The global ids of the nodes.
        network_sizes: The public number of records of every node of the network.

    >>> node_weights("records", np.array([0, 2]), np.array([100, 100, 400]))
    array([0.5, 2. ])
    """
    if weighting == "equal":
        return np.ones(len(nodes))
    if nodes.max(initial=0) >= len(network_sizes):
        raise TacitError('weights = "records" needs the public number of records of every node of the network')
    weights = np.float32(len(network_sizes) * network_sizes[nodes] / network_sizes.sum())
    return np.asarray(weights, np.float64)  # gradients in single precision are multiplied by exactly these numbers
