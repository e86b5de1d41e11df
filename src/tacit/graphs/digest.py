"""A digest of a graph, to find out whether two graphs are the same."""

from __future__ import annotations

import hashlib

import numpy as np

from tacit.graphs.base import Graph

_ROUNDS_COMPARED = 32  # of a graph sequence that does not repeat


def weights_digest(graph: Graph) -> str:
    """Digest of the mixing weights of one period, or of the first rounds of a sequence that does not repeat."""
    digest = hashlib.sha256()
    for t in range(graph.period or _ROUNDS_COMPARED):
        weights = graph.at(t).sorted_indices()
        for part in (weights.indptr, weights.indices):
            digest.update(part.astype("<i8").tobytes())
        digest.update((np.round(weights.data, 12) + 0.0).astype("<f8").tobytes())
    return digest.hexdigest()
