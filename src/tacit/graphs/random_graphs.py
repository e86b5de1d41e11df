"""Graphs drawn at random, once: the same seed gives the same graph at every site."""

from collections.abc import Callable
from math import log

import networkx as nx
import numpy as np
from scipy import sparse

from tacit.errors import TacitError
from tacit.graphs.analysis import components
from tacit.graphs.base import Graph, graphs
from tacit.graphs.families import MAX_WEIGHTS, at_least_one
from tacit.graphs.periodic import Periodic
from tacit.graphs.weights import Rule, both_ways, weigh

TRIES = 100


def check_seed(name: str, seed: int) -> None:
    if seed < 0:
        raise TacitError(f"{name}: seed must be at least 0, not {seed}")


@graphs.register("erdos-renyi")
def erdos_renyi(
    nodes: int,
    p: float | None = None,
    seed: int = 0,
    connected: bool = True,
    weights: Rule = "metropolis",
    lazy: bool = False,
) -> Graph:
    """Each pair of nodes is linked with probability p, by default 2 ln(N)/N; drawn again until connected.

    >>> erdos_renyi(20, p=0.3, seed=1)
    <erdos-renyi p=0.3: 20 nodes, static>
    """
    at_least_one("erdos-renyi", nodes)
    check_seed("erdos-renyi", seed)
    threshold = log(nodes) / nodes
    p = min(1.0, 2 * threshold) if p is None else p
    if not 0 <= p <= 1:
        raise TacitError(f"erdos-renyi: p is a probability, from 0 to 1, not {p:g}")
    if p * nodes * nodes > MAX_WEIGHTS:
        raise TacitError(f"erdos-renyi with p = {p:g} on {nodes} nodes does not fit in memory: use a smaller p")
    name = f"erdos-renyi p={p:.3g}"
    advice = f"use p well above ln(N)/N = {threshold:.2g}, or connected=False"
    links = _draw(lambda k: _pairs(nodes, p, np.random.default_rng([seed, k])), name, nodes, connected, advice)
    return Periodic([weigh(links, weights, lazy)], name)


def _pairs(nodes: int, p: float, rng: np.random.Generator) -> sparse.csr_array:
    """Each of the N(N−1)/2 pairs with probability p, jumping from link to link (Batagelj and Brandes)."""
    pairs = nodes * (nodes - 1) // 2
    if p == 0 or pairs == 0:
        return sparse.csr_array((nodes, nodes))
    chosen = np.empty(0, dtype=np.int64)
    while not len(chosen) or chosen[-1] < pairs:
        jumps = rng.geometric(p, size=int(1.1 * p * pairs) + 10)
        # A tiny p can jump past any pair, and the sum of such jumps past the largest integer.
        last = chosen[-1] if len(chosen) else -1
        chosen = np.concatenate([chosen, last + np.cumsum(np.minimum(jumps, pairs + 1))])
    chosen = chosen[chosen < pairs]
    ends_at = np.cumsum(np.arange(nodes - 1, 0, -1))  # pairs (i, j > i) numbered row by row
    i = np.searchsorted(ends_at, chosen, side="right")
    j = chosen - ends_at[i] + nodes
    return both_ways(nodes, i, j)


@graphs.register("random-regular")
def random_regular(nodes: int, degree: int = 3, seed: int = 0, connected: bool = True, lazy: bool = False) -> Graph:
    """Each node exchanges with `degree` others, drawn at random; drawn again until connected.

    >>> random_regular(10, degree=4, seed=1).out_degrees(0)
    array([4, 4, 4, 4, 4, 4, 4, 4, 4, 4])
    """
    at_least_one("random-regular", nodes)
    check_seed("random-regular", seed)
    if not 0 <= degree < nodes or degree * nodes % 2:
        fit = [d for d in range(max(1, degree - 2), degree + 3) if d < nodes and d * nodes % 2 == 0]
        use = f"degree {' or '.join(map(str, fit))}" if fit else f"a degree of at most {nodes - 1}"
        raise TacitError(
            f"random-regular: {nodes} nodes cannot all have {degree} neighbours "
            f"(the degree must be below the number of nodes and their product even): use {use}"
        )
    name = f"random-regular degree={degree}"

    def draw(k: int) -> sparse.csr_array:
        # networkx takes one number where numpy takes a key.
        number = int(np.random.SeedSequence([seed, k]).generate_state(1)[0])
        drawn = nx.random_regular_graph(degree, nodes, seed=number)
        ends = np.array(list(drawn.edges), dtype=np.int64).reshape(-1, 2)
        return both_ways(nodes, ends[:, 0], ends[:, 1])

    links = _draw(draw, name, nodes, connected, "use degree 3 or more, or connected=False")
    return Periodic([weigh(links, "metropolis", lazy)], name)


def _draw(
    draw: Callable[[int], sparse.csr_array], name: str, nodes: int, connected: bool, advice: str
) -> sparse.csr_array:
    for k in range(TRIES):
        links = draw(k)
        if not connected or components(links) == 1:
            return links
    raise TacitError(f"{name} on {nodes} nodes was not connected in {TRIES} tries: {advice}")
