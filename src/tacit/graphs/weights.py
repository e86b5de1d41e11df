"""Rules that assign weights to links: the share of its value that a node sends along each link.

An adjacency matrix has an entry at [i, j] if j sends to i. Its diagonal is ignored.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tacit.errors import TacitError, unknown
from tacit.graphs.analysis import identity, links, pattern

Rule = Literal["metropolis", "uniform-out"]
GivenOrRule = Literal["given", "metropolis", "uniform-out"]


def adjacency(nodes: int, sources: NDArray[np.integer], targets: NDArray[np.integer]) -> sparse.csr_array:
    """Return a directed link from each source to its target. Repeated links count once; self-loops are left out.

    >>> adjacency(3, np.array([0, 0, 2]), np.array([1, 1, 2])).toarray()
    array([[0., 0., 0.],
           [1., 0., 0.],
           [0., 0., 0.]])
    """
    other = sources != targets
    entries = (np.ones(np.count_nonzero(other)), (targets[other], sources[other]))
    matrix = sparse.csr_array(entries, shape=(nodes, nodes))
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


def undirected_adjacency(nodes: int, ends: NDArray[np.integer], others: NDArray[np.integer]) -> sparse.csr_array:
    """Return an undirected link between each of `ends` and its counterpart in `others`."""
    return adjacency(nodes, np.concatenate([ends, others]), np.concatenate([others, ends]))


def one_way_link(matrix: sparse.csr_array) -> tuple[int, int] | None:
    """Return (source, target) of the first link without a link back; None if the graph is undirected."""
    links_there = pattern(matrix)
    sources, targets = links(sparse.csr_array((links_there - links_there.T) > 0))
    return (int(sources[0]), int(targets[0])) if len(sources) else None


def metropolis(links_between: sparse.csr_array) -> sparse.csr_array:
    """Return Metropolis weights: W_ij = 1 / (1 + max(d_i, d_j)), with the remainder on the diagonal.

    They are symmetric and doubly stochastic on every undirected graph. A node needs only its neighbours' degrees.

    >>> metropolis(sparse.csr_array([[0, 1, 1], [1, 0, 0], [1, 0, 0]])).toarray().round(2)
    array([[0.33, 0.33, 0.33],
           [0.33, 0.67, 0.  ],
           [0.33, 0.  , 0.67]])
    """
    one_way = one_way_link(links_between)
    if one_way is not None:
        raise TacitError(
            f"Metropolis weights need an undirected graph, but link {one_way[0]} → {one_way[1]} has no link "
            'back: use weights="uniform-out"'
        )
    nodes = links_between.shape[0]
    sources, targets = links(links_between)
    degrees = np.bincount(sources, minlength=nodes)
    shares = 1 / (1 + np.maximum(degrees[sources], degrees[targets]))
    sent = sparse.csr_array((shares, (targets, sources)), shape=(nodes, nodes))
    return sparse.csr_array(sent + sparse.diags_array(1 - sent.sum(axis=0)))


def uniform_out(links_between: sparse.csr_array) -> sparse.csr_array:
    """Return uniform-out weights: j splits its value equally among its receivers and itself, W_ij = 1 / (1 + d_j).

    They are column-stochastic on every graph. A node needs only its own out-degree.

    >>> uniform_out(sparse.csr_array([[0, 0], [1, 0]])).toarray()
    array([[0.5, 0. ],
           [0.5, 1. ]])
    """
    nodes = links_between.shape[0]
    sources, targets = links(links_between)
    shares = 1 / (1 + np.bincount(sources, minlength=nodes))
    sent = sparse.csr_array((shares[sources], (targets, sources)), shape=(nodes, nodes))
    return sparse.csr_array(sent + sparse.diags_array(shares))


def lazy(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return (I + W) / 2: every node keeps half, so a symmetric W has no negative eigenvalue."""
    return sparse.csr_array((identity(matrix.shape[0]) + matrix) / 2)


def weigh(matrix: sparse.csr_array, weights: GivenOrRule, lazily: bool = False) -> sparse.csr_array:
    """Return weights by name: "metropolis" or "uniform-out" for the links in `matrix`, or "given" for its entries."""
    rules = {"metropolis": metropolis, "uniform-out": uniform_out, "given": sparse.csr_array}
    if weights not in rules:
        raise unknown("weights", weights, rules)
    weighed = rules[weights](matrix)
    return lazy(weighed) if lazily else weighed
