"""Random graphs that do not change between rounds. The same seed gives the same graph at every site."""

from collections.abc import Callable
from math import log

import numpy as np
from scipy import sparse

from tacit.errors import TacitError
from tacit.graphs.analysis import components
from tacit.graphs.base import Graph, graphs
from tacit.graphs.families import MAX_WEIGHTS, check_node_count
from tacit.graphs.periodic import Periodic
from tacit.graphs.weights import Rule, undirected_adjacency, weigh

MAX_ATTEMPTS = 100


def check_seed(name: str, seed: int) -> None:
    """Raise a `TacitError` if the seed is negative."""
    if seed < 0:
        raise TacitError(f"{name}: seed must be at least 0, got {seed}")


@graphs.register("erdos-renyi")
def erdos_renyi(
    nodes: int,
    p: float | None = None,
    seed: int = 0,
    connected: bool = True,
    weights: Rule = "metropolis",
    lazy: bool = False,
) -> Graph:
    """Each pair of nodes is linked with probability p, by default 2 ln(N)/N; redrawn until connected.

    Args:
        p: Probability of each link; by default 2 ln(N)/N, at most 1.

    >>> erdos_renyi(20, p=0.3, seed=1)
    <erdos-renyi p=0.3: 20 nodes, static>
    """
    check_node_count("erdos-renyi", nodes)
    check_seed("erdos-renyi", seed)
    threshold = log(nodes) / nodes
    p = min(1.0, 2 * threshold) if p is None else p
    if not 0 <= p <= 1:
        raise TacitError(f"erdos-renyi: p must be a probability in [0, 1], got {p:g}")
    if p * nodes * nodes > MAX_WEIGHTS:
        raise TacitError(f"erdos-renyi: p = {p:g} on {nodes} nodes does not fit in memory: use a smaller p")
    name = f"erdos-renyi p={p:.3g}"
    advice = f"use p well above ln(N)/N = {threshold:.2g}, or connected=False"
    links = _draw(lambda k: _pairs(nodes, p, np.random.default_rng([seed, k])), name, nodes, connected, advice)
    return Periodic([weigh(links, weights, lazy)], name)


def _pairs(nodes: int, p: float, rng: np.random.Generator) -> sparse.csr_array:
    """Draw each of the N(N−1)/2 pairs with probability p by skipping from link to link (Batagelj and Brandes)."""
    pairs = nodes * (nodes - 1) // 2
    if p == 0 or pairs == 0:
        return sparse.csr_array((nodes, nodes))
    chosen = np.empty(0, dtype=np.int64)
    while not len(chosen) or chosen[-1] < pairs:
        jumps = rng.geometric(p, size=int(1.1 * p * pairs) + 10)
        # For a tiny p a jump can exceed all pairs, and the sum of jumps the largest integer, so jumps are limited.
        last = chosen[-1] if len(chosen) else -1
        chosen = np.concatenate([chosen, last + np.cumsum(np.minimum(jumps, pairs + 1))])
    chosen = chosen[chosen < pairs]
    ends_at = np.cumsum(np.arange(nodes - 1, 0, -1))  # pairs (i, j > i) numbered row by row
    i = np.searchsorted(ends_at, chosen, side="right")
    j = chosen - ends_at[i] + nodes
    return undirected_adjacency(nodes, i, j)


@graphs.register("random-regular")
def random_regular(nodes: int, degree: int = 3, seed: int = 0, connected: bool = True, lazy: bool = False) -> Graph:
    """Each node exchanges values with `degree` random others; redrawn until connected.

    Args:
        degree: Number of neighbours of every node.

    >>> random_regular(10, degree=4, seed=1).out_degrees(0)
    array([4, 4, 4, 4, 4, 4, 4, 4, 4, 4])
    """
    check_node_count("random-regular", nodes)
    check_seed("random-regular", seed)
    if not 0 <= degree < nodes or degree * nodes % 2:
        fit = [d for d in range(max(1, degree - 2), degree + 3) if d < nodes and d * nodes % 2 == 0]
        use = f"degree {' or '.join(map(str, fit))}" if fit else f"a degree of at most {nodes - 1}"
        raise TacitError(
            f"random-regular: degree must be below the number of nodes and degree × nodes even, got degree {degree} "
            f"for {nodes} nodes: use {use}"
        )
    name = f"random-regular degree={degree}"

    def draw(k: int) -> sparse.csr_array:
        import networkx as nx  # slow to import

        # networkx accepts one number as a seed, not a sequence.
        number = int(np.random.SeedSequence([seed, k]).generate_state(1)[0])
        drawn = nx.random_regular_graph(degree, nodes, seed=number)
        ends = np.array(list(drawn.edges), dtype=np.int64).reshape(-1, 2)
        return undirected_adjacency(nodes, ends[:, 0], ends[:, 1])

    links = _draw(draw, name, nodes, connected, "use degree 3 or more, or connected=False")
    return Periodic([weigh(links, "metropolis", lazy)], name)


def _draw(
    draw: Callable[[int], sparse.csr_array], name: str, nodes: int, connected: bool, advice: str
) -> sparse.csr_array:
    for k in range(MAX_ATTEMPTS):
        links = draw(k)
        if not connected or components(links) == 1:
            return links
    raise TacitError(f"{name} on {nodes} nodes was not connected in {MAX_ATTEMPTS} attempts: {advice}")
